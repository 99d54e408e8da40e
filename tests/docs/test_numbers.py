"""The README's comparison: every number follows from a file in docs/results."""

import csv
import re
from math import exp, log
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


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
    with open(RESULTS / "learning.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["suite"] in ("chain", "random"):
                cell = found.setdefault((line["suite"], line["records"], line["epsilon"]), {})
                release = line["population"], line["replication"]
                cell.setdefault(line["method"], {})[release] = float(line["kl"]), float(line["setting"] or 0)
    return list(found.values())


def ratio(cells, peer) -> float:
    logs = []
    for cell in cells:
        mine = sum(kl for kl, _ in cell["map"].values()) / len(cell["map"])
        theirs = sum(peer(cell, release) for release in cell["map"]) / len(cell["map"])
        logs.append(log(mine / theirs))
    return exp(sum(logs) / len(logs))


def test_divergence_beside_mbi(table, cells) -> None:
    assert table[0][1] == f"{ratio(cells, lambda cell, release: cell['mbi'][release][0]):.2f} times"

    def within_a_thousand(cell, release) -> float:
        best, iteration = cell["mbi*"][release]
        return best if iteration <= 1000 else cell["mbi"][release][0]

    assert table[1][1] == f"{ratio(cells, within_a_thousand):.2f} times"
    assert table[2][1] == f"{ratio(cells, lambda cell, release: cell['mbi*'][release][0]):.2f} times"
    assert max(setting for cell in cells for _, setting in cell["mbi*"].values()) <= 3000
    with open(RESULTS / "learning-long.csv", encoding="utf-8", newline="") as file:
        kl = {(line["suite"], line["epsilon"], line["method"]): float(line["kl"]) for line in csv.DictReader(file)}
    ratios = [kl[suite, epsilon, "map"] / kl[suite, epsilon, "mbi*"] for suite, epsilon, _ in kl]
    assert len(set(ratios)) == 4  # chains and random graphs, two epsilons
    assert {epsilon for _, epsilon, _ in kl} == {"0.5", "1.0"}
    assert "epsilon 0.5 and 1, " in table[3][0]
    assert table[3][1] == f"{min(ratios):.2f} to {max(ratios):.2f} times"


def test_the_page_of_learners_follows_from_its_rows() -> None:
    from benchmarks._learning_page import contents

    text, _ = contents(RESULTS / "learning.csv")
    assert text == (RESULTS / "learning.md").read_text(encoding="utf-8")


def test_real_tables_beside_mbi(table) -> None:
    errors: dict[str, dict[tuple[str, ...], float]] = {"map": {}, "mbi": {}}
    with open(RESULTS / "real-tables.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["setting"] in ("", "1000"):
                key = line["data"], line["tables"], line["noise"], line["epsilon"]
                errors[line["method"]][key] = float(line["tv"])
    ratios = [errors["map"][key] / errors["mbi"][key] for key in errors["mbi"]]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    assert table[4][1] == f"{mean:.2f} times; {min(ratios):.2f} to {max(ratios):.2f} in single cells"


def test_speed_beside_mbi(table) -> None:
    text = (RESULTS / "inference.md").read_text(encoding="utf-8")
    least = {}
    for states in (10, 20):
        lines = [line for line in text.splitlines() if f"T=10, s={states} | mbi " in line and "chain" in line]
        least[states] = min(float(line.split("|")[4]) for line in lines)
    assert table[5][1] == f"{least[10]:.1f} and {least[20]:.0f} times as fast"
    (samples,) = re.findall(r"([\d.]+) times faster", text)
    assert table[6][1] == f"{float(samples) // 10 * 10:.0f} times as fast"


def test_numbers_stand_nowhere_else_in_the_table(table) -> None:
    for line in table[7:]:
        assert not re.search(r"\d", line[1])
