"""What the pages of docs/results have in common: rows in CSV files beside them, and templates that the rows fill."""

import csv
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
#: Pages without a picture of their own, and the modules whose ``contents(folder)`` is their text.
PAGES = {
    "coverage": "benchmarks.coverage",
    "curator": "benchmarks._curator_page",
    "inference": "benchmarks._inference_page",
    "inference-gpu": "benchmarks._inference_gpu_page",
    "real-tables": "benchmarks._real_tables_page",
    "setup": "benchmarks._setup_page",
}
#: Where and when a row was measured, and how many processes wanted a processor then: the last fields of such rows.
WHERE = ["machine", "date", "load"]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def replace_rows(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, Any]], key: Sequence[str]) -> None:
    """Add rows to a file, in place of those with the same key, and sort all by it."""
    kept = {tuple(row[field] for field in key): row for row in read_rows(path)}
    for row in rows:
        kept[tuple(str(row[field]) for field in key)] = {field: str(row.get(field, "")) for field in fields}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept[name] for name in sorted(kept))


def fill(template: Path, parts: Mapping[str, str]) -> str:
    """A template's text with each ``{name}`` replaced by the part of that name."""
    return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], template.read_text(encoding="utf-8"))


def draw_table(header: str, rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; its header has a bar between columns."""
    names = header.split("|")
    lines = [f"| {' | '.join(map(str, line))} |" for line in (names, *rows)]
    return "\n".join([lines[0], "|---" * len(names) + "|", *lines[1:]])


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of at least one number."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))


def name_machine() -> str:
    """What this machine's processor calls itself, with the number of cores."""
    kind = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        named = [line for line in described.read_text().splitlines() if line.startswith("model name")]
        kind = named[0].split(":", 1)[1].strip() if named else kind
    return f"{kind}, {os.cpu_count()} cores"


def where() -> dict[str, str]:
    """This machine, today and the load of the last minute, as fields of a row."""
    return {"machine": name_machine(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "load": f"{os.getloadavg()[0]:.1f}"}


def tell_where(rows: Iterable[Mapping[str, str]]) -> str:
    """Where and when rows were measured, each machine with its dates and its load."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(row["machine"], []).append(row)
    told = []
    for name, mine in sorted(found.items()):
        loads = tell_range([float(row["load"]) for row in mine if row.get("load")], 1)
        days = [row["date"] for row in mine]
        told.append(f"{name} ({' to '.join(sorted({min(days), max(days)}))}{f'; load {loads}' if loads else ''})")
    return "; ".join(told) or "nothing was measured"


def tell_range(values: Sequence[float], digits: int) -> str:
    """The least and the largest number, or one where they read the same; nothing where there is none."""
    ends = dict.fromkeys(f"{end:.{digits}f}" for end in (min(values), max(values))) if values else {}
    return " to ".join(ends)


def write_page(name: str, folder: Path = RESULTS) -> None:
    """Write a page from the rows that lie in its folder."""
    (folder / f"{name}.md").write_text(import_module(PAGES[name]).contents(folder), encoding="utf-8")
