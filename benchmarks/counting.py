"""Counting 24 pair tables of a chain of order 3 (10 attributes, 10 values) from Parquet, side by side.

Each way runs in a process of its own, so that CPU seconds (all threads) and peak memory are its own, start-up
included::

    python -m benchmarks.counting                  # 10 million rows: rows of docs/results/counting.csv
    python -m benchmarks.counting --rows 1e6
    python -m benchmarks.counting --page           # docs/results/curator.md from these rows and those of noise
"""

import argparse
import json
import os
import resource
import statistics as stats
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._pages import RESULTS, WHERE, replace_rows, where, write_page

KEY = ["rows", "way"]
FIELDS = [*KEY, "runs", "cpu_s", "peak_mb", *WHERE]
ATTRIBUTES, VALUES, ORDER = 10, 10, 3
WAYS = ("quietfield", "duckdb", "bincount")


def make(path: Path, rows: int) -> None:
    """A Parquet file of codes, written in pieces."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.int64()) for i in range(ATTRIBUTES)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 10**6):
            size = min(10**6, rows - start)
            columns = [draw.integers(0, VALUES, size) for _ in range(ATTRIBUTES)]
            writer.write_table(pa.table(columns, schema=schema))


def pairs() -> list[tuple[str, str]]:
    """The edges of the chain."""
    reach = range(ATTRIBUTES)
    return [(f"x{i}", f"x{j}") for i in reach for j in range(i + 1, min(i + ORDER + 1, ATTRIBUTES))]


def with_quietfield(path: str) -> int:
    """One pass, covering tables, marginals."""
    from quietfield.cliques import Structure
    from quietfield.curator.counting import count
    from quietfield.privacy.units import Rows, statistics
    from quietfield.schema import Schema

    schema = Schema({f"x{i}": VALUES for i in range(ATTRIBUTES)})
    wanted = statistics(Structure(tuple(pairs())), schema.domain, Rows(1), "add_remove", True)
    return sum(int(table[0, 1]) for table in count(path, schema, wanted, Rows(1)).tables)


def with_duckdb(path: str) -> int:
    """One GROUP BY a clique."""
    import duckdb

    con, found = duckdb.connect(), 0
    for a, b in pairs():
        rows = con.execute(f"SELECT {a}, {b}, count(*) FROM read_parquet($1) GROUP BY 1, 2", [path]).fetchall()
        found += next(n for i, j, n in rows if (i, j) == (0, 1))
    return found


def with_bincount(path: str) -> int:
    """numpy, batch by batch."""
    import numpy as np
    import pyarrow.parquet as pq

    tables = {pair: np.zeros(VALUES**2, dtype=np.int64) for pair in pairs()}
    for batch in pq.ParquetFile(path).iter_batches(2**17):
        codes = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for a, b in pairs():
            tables[a, b] += np.bincount(codes[a] * VALUES + codes[b], minlength=VALUES**2)
    return sum(int(table[1]) for table in tables.values())


def run(way: str, path: Path) -> dict[str, float]:
    """One way, measured from outside."""
    command = [sys.executable, "-m", "benchmarks.counting", "--child", way, "--file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=RESULTS.parents[1])
    return json.loads(done.stdout)


def child(way: str, path: str) -> None:
    """Count, and print what it took."""
    checksum = {"quietfield": with_quietfield, "duckdb": with_duckdb, "bincount": with_bincount}[way](path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak_mb": peak_mb(), "checksum": checksum}))


def peak_mb() -> float:
    """The most memory that this program had; rusage would also count what its parent had when it was forked."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and replace the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7, help="rows of the made-up file")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each way; the median is shown")
    parser.add_argument("--only", choices=WAYS, help="one way alone")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--file", help="an existing Parquet file, instead of a new one")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows and of the page")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    asked = parser.parse_args(arguments)
    if asked.child:
        child(asked.child, asked.file)
        return
    if asked.page:
        write_page("curator", asked.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(asked.file or os.path.join(folder, "rows.parquet"))
        if not asked.file:
            make(path, int(asked.rows))
        results = {w: [run(w, path) for _ in range(asked.repeat)] for w in WAYS if asked.only in (None, w)}
    if len({r["checksum"] for runs in results.values() for r in runs}) != 1:
        raise SystemExit("the ways disagree")
    print(f"{len(pairs())} pair tables of {int(asked.rows):,} rows x {ATTRIBUTES} columns")
    rows = []
    for way, runs in results.items():
        cpu, peak = (stats.median(r[key] for r in runs) for key in ("cpu_s", "peak_mb"))
        print(f"  {way:<11} {cpu:7.2f} CPU s   {peak:6.0f} MB at most")
        row = {"rows": int(asked.rows), "way": way, "runs": len(runs), "cpu_s": f"{cpu:.2f}", "peak_mb": f"{peak:.0f}"}
        rows.append(row | where())
    if not asked.file:
        replace_rows(asked.out / "counting.csv", FIELDS, rows, KEY)


if __name__ == "__main__":
    main()
