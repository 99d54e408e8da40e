"""Seconds of commands as a person waits for them, each in a process of its own: part of ``benchmarks.real_tables``.

``fit``, ``query`` and ``report`` are of releases with Gaussian noise at epsilon 1; ``report`` writes one HTML file, of
``size_mb``. ``inspect`` looks at a CSV file of a million rows and ten columns with its schema, and ``duckdb`` only
reads the same file, every column of it. ``seconds`` is the time on the clock from the start of the process to its end,
``cpu_s`` what its processors worked, ``peak_gb`` the most memory.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import quietfield as qf
from benchmarks._pages import WHERE, draw_table, replace_rows, where
from benchmarks.real_tables import problem, release, structures

KEY = ["data", "command"]
FIELDS = [*KEY, "seconds", "cpu_s", "peak_gb", "size_mb", *WHERE]
QUIETFIELD = [sys.executable, "-m", "quietfield"]
READ = "import duckdb, sys; duckdb.sql(f\"SELECT {sys.argv[2]} FROM read_csv('{sys.argv[1]}')\").fetchall()"
ROWS, COLUMNS = 1_000_000, 10
ORDER = ("fit", "query", "report", "inspect", "read")


def time_command(command: list[str], folder: Path) -> dict[str, Any]:
    """The figures of one command that has to succeed."""
    with (folder / "said").open("wb") as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {(folder / 'said').read_text()}")
    return {
        "seconds": f"{seconds:.2f}",
        "cpu_s": f"{used.ru_utime + used.ru_stime:.2f}",
        "peak_gb": f"{used.ru_maxrss / 2**20:.2f}",
    }


def time_models(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """What an analyst does with a release of one data set."""
    found = problem(name)
    given = release(found, structures(found)["mst"], "gaussian", 1.0)
    given.save(folder / "given.qfr")
    asked = max((clique for clique in given.tables if len(clique) == 2), key=given.domain.cells)
    commands = {
        "fit": ["fit", "given.qfr", "--out", "given.qfm"],
        "query of one attribute": ["query", "given.qfm", asked[0], "--error-bars"],
        "query of one attribute where another is known": [
            "query", "given.qfm", asked[0], "--given", f"{asked[1]}={given.domain.labels(asked[1])[0]}", "--error-bars",
        ],
        "report": ["report", "given.qfr", "--model", "given.qfm", "--out", "report.html"],
    }  # fmt: skip
    for command, arguments in commands.items():
        row = {"data": name, "command": command, **where()} | time_command([*QUIETFIELD, *arguments], folder)
        if command == "report":
            row["size_mb"] = f"{(folder / 'report.html').stat().st_size / 2**20:.2f}"
        yield row


def time_inspect(folder: Path) -> Iterator[dict[str, Any]]:
    """A look at a file of records, beside what DuckDB takes to read it."""
    random = np.random.default_rng(0)
    sizes = [2, 2, 3, 4, 5, 8, 10, 20, 50, 100]
    columns = [random.choice(size, ROWS, p=random.dirichlet(np.ones(size))) for size in sizes]
    np.savetxt(
        folder / "people.csv",
        np.column_stack(columns),
        "%d",
        ",",
        header=",".join(f"c{i}" for i in range(COLUMNS)),
        comments="",
    )
    schema = qf.Schema({f"c{i}": list(range(size)) for i, size in enumerate(sizes)})
    (folder / "schema.json").write_text(json.dumps(schema.to_json()))
    name = f"CSV of {ROWS:,} rows and {COLUMNS} columns"
    every = ", ".join(f"count(c{i})" for i in range(COLUMNS))
    commands = {
        "inspect": [*QUIETFIELD, "inspect", "people.csv", "--schema", "schema.json"],
        "read by DuckDB": [sys.executable, "-c", READ, "people.csv", every],
    }
    for command, arguments in commands.items():
        yield {"data": name, "command": command, **where()} | time_command(arguments, folder)


def time_commands(names: Iterable[str], path: Path) -> None:
    """Measure the commands on some data sets, and replace their rows."""
    for name in [*names, ""]:
        folder = Path(tempfile.mkdtemp())
        try:
            for row in time_models(name, folder) if name else time_inspect(folder):
                print(*row.values(), flush=True)
                replace_rows(path, FIELDS, [row], KEY)
        finally:
            shutil.rmtree(folder)


def tell_commands(rows: list[dict[str, str]]) -> str:
    """The rows as a table."""
    rows = sorted(rows, key=lambda row: (row["data"], ORDER.index(row["command"].split()[0]), row["command"]))
    lines = [[row["data"], row["command"], *(row[field] for field in FIELDS[2:6])] for row in rows]
    return draw_table("data|command|seconds|CPU, s|memory, GB|size, MB", lines)
