"""docs/results/curator.md from the rows of counting and noise, and from what ``make test-heavy`` printed."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks._pages import draw_table, fill, read_rows, tell_where

WAYS = {"quietfield": "quietfield", "duckdb": "DuckDB, one GROUP BY a clique", "bincount": "numpy bincount"}
DRAWN = ("plan_s", "draw_s", "cpu_s", "numpy_float_s")


def contents(folder: Path) -> str:
    """The page as text."""
    counting, noise, audit, crashes = (
        read_rows(folder / f"{name}.csv") for name in ("counting", "noise", "audit", "crashes")
    )
    counted: dict[int, dict[str, Mapping[str, str]]] = {}
    for row in counting:
        counted.setdefault(int(row["rows"]), {})[row["way"]] = row
    (crash,) = crashes
    honest = next(row for row in audit if not row["bug"])
    bugs = [f"{float(row['proven']):.2f} ({row['bug']})" for row in audit if row["bug"]]
    parts = {
        "counting": draw_table(
            "rows|" + "|".join(WAYS.values()),
            [
                [f"{rows:,}", *(f"{ways[way]['cpu_s']} CPU s / {ways[way]['peak_mb']} MB" for way in WAYS)]
                for rows, ways in sorted(counted.items())
            ],
        ),
        "lead": _lead(counted),
        "runs": " or ".join(sorted({row["runs"] for row in counting})),
        "counting_where": tell_where(counting),
        "noise": draw_table(
            "noise|unit|cells|planned, s|drawn, s|CPU, s|inexact, by numpy, s",
            [[row["noise"], row["unit"], f"{int(row['cells']):,}", *(row[field] for field in DRAWN)] for row in noise],
        ),
        "noise_where": tell_where(noise),
        "releases": f"{int(honest['releases']):,}",
        "claimed": honest["claimed"],
        "proven": honest["proven"],
        "bugs": ", ".join(bugs),
        "audit_where": tell_where(audit),
        **{
            name: f"{int(crash[name]):,}"
            for name in ("kills", "injected", "random", "charges", "readable", "uncharged")
        },
        "crashes_where": tell_where(crashes),
    }
    return fill(Path(__file__).with_suffix(".md"), parts)


def _lead(counted: Mapping[int, Mapping[str, Mapping[str, str]]]) -> str:
    """CPU seconds of the largest file beside the better of the others, and memory from the smallest to the largest."""
    most, least = (end(counted) for end in (max, min))
    best = min(float(counted[most][way]["cpu_s"]) for way in WAYS if way != "quietfield")
    ratio = float(counted[most]["quietfield"]["cpu_s"]) / best
    grown = float(counted[most]["quietfield"]["peak_mb"]) / float(counted[least]["quietfield"]["peak_mb"])
    return (
        f"At {most:,} rows quietfield takes {ratio:.2f} times the CPU seconds of the better of the other two, and "
        f"{grown:.2f} times its own memory at {least:,}."
    )
