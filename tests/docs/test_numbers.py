"""Pages of results and the README's comparison: every number follows from a file in docs/results."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks._pages import PAGES, RESULTS, geometric_mean, read_rows
from benchmarks._real_tables_page import read_cells
from experiments import fig2
from experiments.networks import ROWS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> list[list[str]]:
    lines = (
        (ROOT / "README.md").read_text(encoding="utf-8").split("## How it compares")[1].split("\n\n")[1].splitlines()
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture(scope="module")
def cells() -> list[dict[str, dict[tuple[str, str], tuple[float, float]]]]:
    """By cell of chains and random graphs: by method, KL and setting of each release."""
    found: dict[tuple[str, str, str], dict[str, dict[tuple[str, str], tuple[float, float]]]] = {}
    for row in read_rows(RESULTS / "learning.csv"):
        if row["suite"] in ("chain", "random"):
            cell = found.setdefault((row["suite"], row["records"], row["epsilon"]), {})
            release = row["population"], row["replication"]
            cell.setdefault(row["method"], {})[release] = float(row["kl"]), float(row["setting"] or 0)
    return list(found.values())


def ratio(cells, peer) -> float:
    ratios = []
    for cell in cells:
        mine = sum(kl for kl, _ in cell["map"].values()) / len(cell["map"])
        theirs = sum(peer(cell, release) for release in cell["map"]) / len(cell["map"])
        ratios.append(mine / theirs)
    return geometric_mean(ratios)


def test_divergence_beside_mbi(table, cells) -> None:
    assert table[0][1] == f"{ratio(cells, lambda cell, release: cell['mbi'][release][0]):.2f} times"

    def within_a_thousand(cell, release) -> float:
        best, iteration = cell["mbi*"][release]
        return best if iteration <= 1000 else cell["mbi"][release][0]

    assert table[1][1] == f"{ratio(cells, within_a_thousand):.2f} times"
    assert table[2][1] == f"{ratio(cells, lambda cell, release: cell['mbi*'][release][0]):.2f} times"
    assert max(setting for cell in cells for _, setting in cell["mbi*"].values()) <= 3000
    rows = read_rows(RESULTS / "learning-long.csv")
    kl = {(row["suite"], row["epsilon"], row["method"]): float(row["kl"]) for row in rows}
    ratios = [kl[suite, epsilon, "map"] / kl[suite, epsilon, "mbi*"] for suite, epsilon, _ in kl]
    assert len(set(ratios)) == 4  # chains and random graphs, two epsilons
    assert {epsilon for _, epsilon, _ in kl} == {"0.5", "1.0"}
    assert "epsilon 0.5 and 1, one release per cell, " in table[3][2]
    assert f"{min(ratios):.2f} to {max(ratios):.2f} times" in table[3][2]
    (estimate,) = (
        claim for claim in fig2.elsewhere({}) if "without a limit where it is always reached" in claim.statement
    )
    mean = float(re.search(r"ratio of KLs ([\d.]+)", estimate.found)[1])
    assert table[3][1] == f"{mean:.2f} times"
    assert f"in {len(set(ratios))} cells" in estimate.why  # the four are those in which every release ends at the limit


@pytest.mark.parametrize("name", ["learning", "synthesis"])
def test_a_page_with_a_picture_follows_from_its_rows(name) -> None:
    text, _ = import_module(f"benchmarks._{name}_page").contents(RESULTS / f"{name}.csv")
    assert text == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_follows_from_its_rows(name) -> None:
    text = import_module(PAGES[name]).contents(RESULTS)
    assert text == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def test_real_tables_beside_mbi(table) -> None:
    cells = read_cells(RESULTS / "real-tables.csv")
    ratios = [cell.ratio for cell in cells]
    elsewhere = geometric_mean([cell.ratio for cell in cells if cell.data not in ROWS])
    told = f"{geometric_mean(ratios):.2f} times; {min(ratios):.2f} to {max(ratios):.2f} in single cells; "
    assert table[4][1] == f"{told}{elsewhere:.2f} without the four real tables, on which constants were chosen"
    assert {cell.releases for cell in cells} == {1}
    assert len({cell.data for cell in cells} - set(ROWS)) == 7  # five networks and two surveys
    assert "four real tables, five published networks and two made-up surveys, one release per cell" in table[4][0]


def test_speed_beside_mbi(table) -> None:
    rows = read_rows(RESULTS / "inference.csv")
    least = {
        problem: min(
            float(row["times quietfield"]) for row in rows if row["problem"] == problem and "mbi" in row["library"]
        )
        for problem in dict.fromkeys(row["problem"] for row in rows)
    }
    *others, last = (f"{value:.1f}" for value in least.values())
    assert table[5][1] == f"{', '.join(others)} and {last} times as fast"
    assert [problem.partition(" ")[0] for problem in least] == ["chain", "chain", "Erdős–Rényi", "random"]
    samples = json.loads((RESULTS / "inference.json").read_text())["samples"]["times"]
    assert table[6][1] == f"{samples // 10 * 10:.0f} times as fast"


def test_numbers_stand_nowhere_else_in_the_table(table) -> None:
    for line in table[7:]:
        assert not re.search(r"\d", line[1])
