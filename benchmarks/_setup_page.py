"""docs/results/setup.md from times and sizes that were taken by hand and noted in setup.csv."""

from pathlib import Path

from benchmarks._pages import draw_table, fill, read_rows, tell_where


def contents(folder: Path) -> str:
    """The page as text."""
    rows = read_rows(folder / "setup.csv")
    lines = [[row["what"], row["first"], row["again"], row["on_disk"]] for row in rows]
    parts = {"table": draw_table("what|first time|again|on disk", lines), "where": tell_where(rows)}
    return fill(Path(__file__).with_suffix(".md"), parts)
