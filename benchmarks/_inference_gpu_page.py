"""docs/results/inference-gpu.md from the file that ``python -m benchmarks.gpu`` wrote."""

import json
from pathlib import Path
from typing import Any

from benchmarks._pages import draw_table, fill, tell_where

LINES = {
    "quietfield_ms": "quietfield, one call, ms",
    "quietfield_batch_of_8_ms_each": "quietfield, in a batch of 8, ms each",
    "mbi_message_passing_fast_ms": "mbi `message_passing_fast`, ms",
    "mbi_message_passing_implicit_ms": "mbi `message_passing_implicit`, ms",
    "difference": "largest difference of a marginal",
    "first_call_s": "first call, with compilation, s",
    "arithmetic_floor_ms": "floor by arithmetic (measured rate of a large matrix product), ms",
    "bandwidth_floor_ms": "floor by bandwidth (measured rate of a copy, each message moved once), ms",
}


def contents(folder: Path) -> str:
    """The page as text."""
    found = json.loads((folder / "inference-gpu.json").read_text(encoding="utf-8"))
    results = found["results"]
    beside = [
        f"{one['quietfield_batch_of_8_ms_each'] / one['bandwidth_floor_ms']:.1f} ({one['dtype']})" for one in results
    ]
    parts = {
        "where": tell_where([found]),
        **{name: str(found[name]) for name in ("jax", "mbi", "T", "S", "calls")},
        "table": draw_table(
            "|".join(["figure", *(one["dtype"] for one in results)]),
            [[words, *(_figure(one, name) for one in results)] for name, words in LINES.items()],
        ),
        "beside": " and ".join(beside),
    }
    return fill(Path(__file__).with_suffix(".md"), parts)


def _figure(found: dict[str, Any], name: str) -> str:
    """A figure to two or three digits, that of a peer with its ratio to one call of ours."""
    if name == "difference":
        return f"{max(value for key, value in found.items() if key.endswith('_difference')):.1g}"
    value = found.get(name)
    if value is None:
        return ""
    ratio = f" ({value / found['quietfield_ms']:.2g} x)" if name.startswith("mbi") else ""
    return f"{value:.{3 if name.startswith('mbi') else 2}g}{ratio}"
