"""docs/results/real-tables.md from the rows that ``python -m benchmarks.real_tables`` wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks._pages import draw_table, fill, geometric_mean, read_rows, tell_range, tell_where
from benchmarks._real_tables_commands import tell_commands
from benchmarks._real_tables_coverage import OF, SHARES
from benchmarks._real_tables_times import MADE_UP

#: Strata of intervals that hold the truth less often than this are named.
LEAST = 0.87


class Cell(NamedTuple):
    """Means over releases of total variation and log-likelihood; of mbi also the former at its best stop and at 700."""

    data: str
    tables: str
    noise: str
    epsilon: str
    tv: float
    loglik: float
    mbi_tv: float
    mbi_loglik: float
    best_tv: float
    before_tv: float
    releases: int = 1
    error: float = 0.0  # standard error of ``tv - mbi_tv``; 0 for one release

    @property
    def ratio(self) -> float:
        """Total variation of map over that of mbi at its default."""
        return self.tv / self.mbi_tv

    def __str__(self) -> str:
        return f"{self.data}, {self.tables}, {self.noise}, {float(self.epsilon):g}"


def read_cells(path: Path, only: str | None = None) -> list[Cell]:
    """Means over the releases that both methods were measured on; over ``only`` one of them, where it is named."""
    found: dict[tuple[str, ...], dict[str, dict[tuple[str, str], tuple[float, float]]]] = {}
    for row in read_rows(path):
        if only in (None, row["release"]):
            key = (row["data"], row["tables"], row["noise"], row["epsilon"])
            figures = found.setdefault(key, {}).setdefault(row["release"], {})
            figures[row["method"], row["setting"]] = float(row["tv"]), float(row["loglik"])
    cells = []
    for key, releases in sorted(found.items(), key=lambda item: (item[0][:3], float(item[0][3]))):
        lines = []
        for figures in releases.values():
            stops = {stop: tv for (method, stop), (tv, _) in figures.items() if method == "mbi"}
            if ("map", "") in figures and "1000" in stops:
                before = stops.get("700", stops["1000"])
                lines.append((*figures["map", ""], *figures["mbi", "1000"], min(stops.values()), before))
        if lines:
            many = len(lines) > 1
            error = stdev(line[0] - line[2] for line in lines) / len(lines) ** 0.5 if many else 0.0
            cells.append(Cell(*key, *map(fmean, zip(*lines, strict=True)), len(lines), error))
    return cells


def contents(folder: Path) -> str:
    """The page as text."""
    cells = read_cells(folder / "real-tables.csv")
    first = read_cells(folder / "real-tables.csv", "0")
    times = read_rows(folder / "real-tables-times.csv")
    trees = [row for row in times if row["structure"].startswith("random tree")]
    tables = [row for row in times if row not in trees and row["data"] != MADE_UP]
    structures = [row for row in times if row["data"] == MADE_UP]
    parts = {
        "lead": f"Means over releases. {summarize(cells)}",
        "first": f"Of the first release of each cell alone. {summarize(first)} {_behind(first)}",
        "draws": tell_range([cell.releases for cell in cells], 0),
        "by_data": draw_table("data|cells|map / mbi|above 1|worst|log-likelihood above mbi's", _by_data(cells)),
        "behind": _behind(cells),
        "of_records": _of_records(cells, folder / "real-tables.csv"),
        "unfinished": _unfinished(cells),
        "where": tell_where(times),
        "times": _times(tables, "data|tables|cells"),
        "ratios": _ratios([*tables, *structures]),
        "trees": _trees(trees),
        "structures": _times(structures, "structure|tables|cells"),
        "commands": tell_commands(commands := read_rows(folder / "real-tables-commands.csv")),
        "where_commands": tell_where(commands),
        **_coverage(read_rows(folder / "real-tables-coverage.csv")),
        "cells": draw_table(
            "data|tables|noise|epsilon|releases|tv: map|mbi|mbi*|map / mbi|loglik: map|mbi",
            [
                [*cell[:4], cell.releases, f"{cell.tv:.4f}", f"{cell.mbi_tv:.4f}", f"{cell.best_tv:.4f}",
                 f"{cell.ratio:.3f}", f"{cell.loglik:.3f}", f"{cell.mbi_loglik:.3f}"]
                for cell in cells
            ],
        ),
    }  # fmt: skip
    return fill(Path(__file__).with_suffix(".md"), parts)


def summarize(cells: Sequence[Cell]) -> str:
    """All cells in one sentence."""
    ratios = [cell.ratio for cell in cells]
    return (
        f"Geometric mean of map / mbi: {geometric_mean(ratios):.3f}; above 1 in {sum(r > 1 for r in ratios)} of "
        f"{len(ratios)} (worst {max(ratios):.3f}); at most 1.02 of mbi* in "
        f"{sum(cell.tv <= 1.02 * cell.best_tv for cell in cells)}; log-likelihood above mbi's in "
        f"{sum(cell.loglik > cell.mbi_loglik for cell in cells)}."
    )


def _by_data(cells: Sequence[Cell]) -> list[list[object]]:
    """One line a data set."""
    lines: list[list[object]] = []
    for name in dict.fromkeys(cell.data for cell in cells):
        mine = [cell for cell in cells if cell.data == name]
        ratios = [cell.ratio for cell in mine]
        above = sum(ratio > 1 for ratio in ratios)
        better = sum(cell.loglik > cell.mbi_loglik for cell in mine)
        lines.append([name, len(mine), f"{geometric_mean(ratios):.3f}", above, f"{max(ratios):.3f}", better])
    return lines


def _behind(cells: Sequence[Cell]) -> str:
    """Where mbi comes nearer, and by how much."""
    behind = sorted((cell for cell in cells if cell.ratio > 1), key=lambda cell: -cell.ratio)
    far = [cell for cell in behind if cell.ratio > 1.02]
    told = f"mbi comes nearer in {len(behind)} cells, in {sum(c.ratio <= 1.01 for c in behind)} of them by at most 1%"
    if any(cell.releases > 1 for cell in behind):
        clear = sum(cell.tv - cell.mbi_tv > 2 * cell.error for cell in behind)
        told += f", and by more than two standard errors over releases in {clear}"
    if not far:
        return f"{told}, nowhere by more than 2%."
    named = "; ".join(f"{cell} ({cell.ratio:.3f})" for cell in far)
    better = sum(cell.loglik > cell.mbi_loglik for cell in far)
    return f"{told}. By more than 2%: {named}. Our log-likelihood is better in {better} of these {len(far)}."


def _of_records(cells: Sequence[Cell], path: Path) -> str:
    """What it brings to ask for the records, where errors are against them."""
    every: dict[tuple[str, ...], list[float]] = {}
    for row in read_rows(path):
        if (row["method"], row["setting"]) == ("map", "records"):
            key = tuple(row[field] for field in ("data", "tables", "noise", "epsilon"))
            every.setdefault(key, []).append(float(row["tv"]))
    found = {key: fmean(values) for key, values in every.items()}
    asked = [(cell, found[cell[:4]]) for cell in cells if cell[:4] in found]
    large = [(cell, tv) for cell, tv in asked if float(cell.epsilon) == 10]
    most, least = (pick(large, key=lambda one: one[1] / one[0].tv) for pick in (max, min))
    return (
        f'In {len(asked)} cells errors are against the records. Asked for these (`of="records"`), map / mbi is '
        f"{geometric_mean([tv / cell.mbi_tv for cell, tv in asked]):.3f} in the geometric mean "
        f"({geometric_mean([cell.ratio for cell, _ in asked]):.3f} without) and above 1 in "
        f"{sum(tv > cell.mbi_tv for cell, tv in asked)} ({sum(cell.ratio > 1 for cell, _ in asked)} without); at "
        f"epsilon 10 the error is {least[1] / least[0].tv:.3f} ({least[0].data}) to {most[1] / most[0].tv:.3f} "
        f"({most[0].data}) times that without."
    )


def _unfinished(cells: Sequence[Cell]) -> str:
    """In how many cells of which data sets mbi still comes nearer when it ends."""
    late = {name: [c.mbi_tv < 0.99 * c.before_tv for c in cells if c.data == name] for name in {c.data for c in cells}}
    return ", ".join(f"{name} ({sum(found)} of {len(found)})" for name, found in sorted(late.items()) if any(found))


def _times(rows: Sequence[Mapping[str, str]], names: str) -> str:
    """Times and memory, the smallest tables first."""
    first = names.split("|")[0]
    lines = []
    for row in sorted(rows, key=lambda row: (float(row["cells"]), row[first], row["method"])):

        def seconds(field: str, row: Mapping[str, str] = row) -> str:
            return f"{float(row[field]):.2f}" if row[field] else ""

        name = f"{row['data']}, {row['structure']}" if first == "data" else row["structure"]
        fits = [seconds(field) for field in ("first_s", "first_cpu_s", "again_s", "again_cpu_s")]
        bars = [seconds(field) for field in ("first_bar_s", "all_bars_s")]
        rounds = row["rounds"] + ("" if row["settled"] in ("", "True") else ", not settled")
        size = [row["tables"], f"{int(row['cells']):,}", row["method"]]
        lines.append([name, *size, *fits, *bars, seconds("peak_gb"), rounds, row["status"]])
    return draw_table(
        f"{names}|method|first fit, s|CPU, s|again, s|CPU, s|first error bar, s|all bars, s|memory, GB|rounds|note",
        lines,
    )


def _pairs(rows: Sequence[Mapping[str, str]], field: str) -> list[float]:
    """Ratios of map to mbi where both have the figure."""
    both = {(row["data"], row["structure"], row["method"]): row[field] for row in rows if row[field]}
    return [
        float(value) / float(both[data, structure, "mbi"])
        for (data, structure, method), value in both.items()
        if method == "map" and (data, structure, "mbi") in both
    ]


def _ratios(rows: Sequence[Mapping[str, str]]) -> str:
    """How the CPU seconds of both methods compare."""
    told = []
    for field, words in (("first_cpu_s", "a first fit"), ("again_cpu_s", "a fit of the same tables again")):
        if ratios := _pairs(rows, field):
            mean = geometric_mean(ratios)
            told.append(f"for {words} {mean:.2f} times those of mbi ({tell_range(ratios, 2)} in {len(ratios)} rows)")
    return f"CPU seconds of map are, in the geometric mean, {' and '.join(told)}." if told else ""


def _trees(rows: Sequence[Mapping[str, str]]) -> str:
    """Seconds of trees that are fitted one after the other."""
    told = []
    for name, method in dict.fromkeys((row["data"], row["method"]) for row in rows):
        taken = [float(row["again_s"]) for row in rows if (row["data"], row["method"]) == (name, method)]
        told.append(
            f"{len(taken)} different trees of {name}, one after the other in one process, take {method} "
            f"{sum(taken) / len(taken):.2f} s each in the mean, {max(taken):.2f} s at most."
        )
    return " ".join(told)


def _combined(rows: Sequence[Mapping[str, str]]) -> str:
    """The part of the cells that combined intervals hold: the mean over settings, and the least."""
    parts = [int(row["combined"]) / int(row["cells"]) for row in rows if int(row["cells"])]
    return f"{sum(parts) / len(parts):.2f} ({min(parts):.2f})" if parts else ""


def _coverage(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The table of coverage, and what lies low."""
    found: dict[tuple[str, float, str, float], dict[tuple[str, str], Mapping[str, str]]] = {}
    for row in rows:
        setting = (row["data"], float(row["truth"]), row["noise"], float(row["epsilon"]))
        found.setdefault(setting, {})[row["of"], row["share"]] = row
    columns = [(of, share) for of in reversed(OF.values()) for share in SHARES]
    lines, low, strata = [], [], 0
    for (data, truth, noise, epsilon), figures in sorted(found.items()):
        line = [data, f"{truth:g}", noise, f"{epsilon:g}"]
        name = f"{data}, truth {truth:g}, {noise}, {epsilon:g}"
        for column in columns:
            cells = int(figures[column]["cells"])
            share = int(figures[column]["held"]) / cells if cells else 1.0
            strata += cells > 0
            line.append((f"**{share:.2f}**" if share < LEAST else f"{share:.2f}") if cells else "")
            if share < LEAST:
                low.append(f"{name}, {' '.join(column)} ({share:.3f} of {cells:,} cells)")
        lines.append(line)
    together = [
        [name, *(_combined([row for row in rows if row["data"] == name and (row["of"], row["share"]) == column])
                 for column in columns)]
        for name in sorted({row["data"] for row in rows})
    ]  # fmt: skip
    titles = [f"{of}, {share}" for of, share in columns]
    header = "|".join(["data", "truth", "noise", "epsilon", *titles])
    records = dict.fromkeys(f"{int(row['records']):,} of {row['data']}" for row in rows)
    return {
        "coverage": draw_table(header, lines),
        "combined": draw_table("|".join(["data", *titles]), together),
        "low": f"{len(low)} of {strata} strata lie below {LEAST}{': ' if low else ''}{'; '.join(low)}.",
        "releases": " or ".join(sorted({row["releases"] for row in rows})),
        "records": ", ".join(records),
    }
