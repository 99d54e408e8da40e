"""Private synthesis side by side with other libraries, each run in a process of its own::

    python -m benchmarks.synthesis                               # titanic at epsilon 1, once: a look in minutes
    python -m benchmarks.synthesis --full --workers 2            # everything: adds rows to docs/results/synthesis.csv
    python -m benchmarks.synthesis --full --python PEERS/bin/python --methods opendp-aim opendp-mst
    python -m benchmarks.synthesis --page                        # docs/results/synthesis.md and .svg from the rows

Data: adult, nltcs, titanic and msnbc, where ``QUIETFIELD_DATA`` has them; epsilon 0.1, 1 and 10, delta 1e-9;
neighbours differ in one record that is added or removed. Runs whose row is in the file, from a machine of the same
name, are not run again; methods whose packages ``--python`` (this interpreter unless given) lacks are left out with a
word. Methods are functions in benchmarks/_synthesis_methods.py; a new one takes a few lines there.

``tv1``, ``tv2`` and ``tv3`` are mean total variations of the 1-, 2- and 3-way marginals of the synthetic records from
those of the records that were given; ``model1`` to ``model3`` the same for the model itself, where a method has one. Of
triples there are 40, the same for all and for benchmarks/real_tables.py. ``--hold-out`` gives a method four fifths of
the records; the rest score the model (``loglik``, the mean log-probability of a record) and a classifier learned from
the synthetic records (``auc``). Seconds and memory are the method's alone, imports and compilation included, in a
process that has done nothing before but read the records; every run has one thread.
"""

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))  # runs are started as a script, where quietfield may be absent
from _pages import name_machine
from _synthesis_methods import METHODS, Synthesis, count

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("QUIETFIELD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "docs" / "results" / "synthesis.csv"
KEY = ["data", "epsilon", "held_out", "seed", "method"]
FIGURES = ["tv1", "tv2", "tv3", "model1", "model2", "model3", "loglik", "auc"]
FIELDS = [*KEY, *FIGURES, "records", "wall_s", "cpu_s", "peak_mb", "status", "version", "machine"]
NAMES = ("titanic", "nltcs", "adult", "msnbc")
EPSILONS = (0.1, 1.0, 10.0)
SEEDS = (0, 1, 2)
DELTA = 1e-9
HELD_OUT = 0.2
TARGETS = {"adult": "income>50K", "titanic": "Survived", "nltcs": "getting about outside"}
ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
}


def tables(folder: Path) -> list[str]:
    """Lay the data sets out as arrays, which any interpreter with numpy reads; those that are absent are left out."""
    for name in NAMES:
        path = folder / f"{name}.npz"
        if path.exists() or not (DATA / f"{name}.parquet").exists():
            continue
        import pyarrow.parquet as pq

        domain = json.loads((DATA / f"{name}-domain.json").read_text())
        table = pq.read_table(DATA / f"{name}.parquet")
        codes = np.stack([table.column(column).to_numpy() for column in domain], 1)
        np.savez(path, codes=codes, sizes=list(domain.values()), names=list(domain))
    return [name for name in NAMES if (folder / f"{name}.npz").exists()]


def cliques(sizes: list[int], length: int, most: int = 40) -> list[tuple[int, ...]]:
    """The columns whose marginals are compared: all, but for triples the 40 of benchmarks/real_tables.py."""
    small = [c for c in combinations(range(len(sizes)), length) if math.prod(sizes[i] for i in c) <= 2_000_000]
    if length < 3:
        return small
    order = np.random.default_rng(1).permutation(len(small))
    return [small[i] for i in order[:most]]


def judge(
    found: Synthesis, given: np.ndarray, kept: np.ndarray, sizes: list[int], target: int | None
) -> dict[str, Any]:
    """All figures of one run but its costs."""
    row: dict[str, Any] = {"records": len(found.codes)}
    for length in (1, 2, 3):
        chosen = cliques(sizes, length)
        truth = [count(given, sizes, c) / len(given) for c in chosen]
        shares = [count(found.codes, sizes, c) / len(found.codes) for c in chosen]
        row[f"tv{length}"] = _distance(truth, shares)
        if found.marginal is not None:
            row[f"model{length}"] = _distance(truth, [found.marginal(c) for c in chosen])
    if len(kept):
        if found.log_prob is not None:
            row["loglik"] = float(np.mean(found.log_prob(kept)))
        if target is not None:
            row["auc"] = area(found.codes, kept, target)
    return row


def _distance(truth: list[np.ndarray], shares: list[np.ndarray]) -> float:
    return float(np.mean([0.5 * np.abs(a - b).sum() for a, b in zip(truth, shares, strict=True)]))


def area(codes: np.ndarray, kept: np.ndarray, target: int) -> float:
    """Area under the ROC curve, on real records, of boosted trees learned from synthetic ones: is the target 0 or 1?

    Records with another value (titanic has a third, unknown) have no part in it.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    codes, kept = (records[records[:, target] < 2] for records in (codes, kept))
    if len(np.unique(codes[:, target])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(np.delete(codes, target, 1), codes[:, target])
    return float(roc_auc_score(kept[:, target], model.predict_proba(np.delete(kept, target, 1))[:, 1]))


def run_one(path: str, method: str, epsilon: float, held_out: float, seed: int) -> None:
    """One run, in a process of its own; prints its row as JSON."""
    with np.load(path) as stored:
        codes, sizes = stored["codes"].astype(np.int64), [int(size) for size in stored["sizes"]]
        names = [str(name) for name in stored["names"]]
    order = np.random.default_rng(seed).permutation(len(codes))
    kept, given = np.split(codes[order], [round(held_out * len(codes))])
    wall, cpu = time.perf_counter(), time.process_time()
    found = METHODS[method].run(given, sizes, epsilon, DELTA, seed)
    row = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": METHODS[method].version(),
    }
    label = TARGETS.get(Path(path).stem)
    row |= judge(found, given, kept, sizes, names.index(label) if label in names else None)
    print(json.dumps(row))


def runs(asked: argparse.Namespace, names: list[str], methods: list[str]) -> Iterator[dict[str, Any]]:
    """All runs that are asked for, what says most first and what takes longest first among these."""
    held_out = [HELD_OUT] if asked.hold_out else [0.0]
    for seed in asked.seeds:
        for held in held_out:
            for method in methods:
                for name in sorted(names, key=NAMES.index, reverse=True):
                    for epsilon in asked.epsilon:
                        yield dict(zip(KEY, (name, epsilon, held, seed, method), strict=True))


def measure(asked: argparse.Namespace) -> None:
    """Carry out the runs that have no row yet, and add each row as it comes."""
    command = [asked.python, str(Path(__file__).resolve())]
    found = subprocess.run([*command, "--missing"], capture_output=True, text=True, check=True).stdout
    missing = json.loads(found.splitlines()[-1])
    methods = [name for name in asked.methods if not missing[name]]
    for name in asked.methods:
        if missing[name]:
            print(f"{name} is left out: it needs {missing[name]}.")
    done = set()
    if asked.out.exists():
        with asked.out.open() as file:
            done = {tuple(row[field] for field in (*KEY, "machine")) for row in csv.DictReader(file)}
    lock, start = Lock(), time.monotonic()

    def carry_out(folder: Path, run: dict[str, Any]) -> None:
        left = min(asked.limit, asked.stop_after - (time.monotonic() - start))
        if left < 5:
            return
        row = {**run, "machine": asked.machine, "status": "ok"}
        arguments = [str(folder / f"{run['data']}.npz"), run["method"], run["epsilon"], run["held_out"], run["seed"]]
        try:
            out = subprocess.run(
                [*command, "--one", *map(str, arguments)],
                capture_output=True,
                text=True,
                timeout=left,
                env={**os.environ, **ONE_THREAD},
                check=False,
            )
        except subprocess.TimeoutExpired:
            if left < asked.limit:  # cut short by the end of the whole run: nothing is known of it
                return
            row["status"] = f"stopped after {left:.0f} s"
        else:
            if out.returncode:
                last = (out.stderr.strip().splitlines() or ["no message"])[-1]
                row["status"] = f"failed ({out.returncode}): {last[:200]}"
            else:
                row |= json.loads(out.stdout.strip().splitlines()[-1])
        for field, value in row.items():
            if isinstance(value, float) and field not in KEY:
                row[field] = f"{value:.5g}"
        with lock:
            fresh = not asked.out.exists()
            with asked.out.open("a", newline="") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                if fresh:
                    writer.writeheader()
                writer.writerow(row)
            print(*(row.get(field, "") for field in [*KEY, "tv3", "model3", "auc", "wall_s", "status"]), flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.tables or Path(temporary)
        present = tables(folder)
        for name in asked.data:
            if name not in present:
                print(f"{name} is left out: {DATA} does not have it.")
        names = [name for name in asked.data if name in present]
        planned = runs(asked, names, methods)
        wanted = [run for run in planned if (*(str(run[field]) for field in KEY), asked.machine) not in done]
        with ThreadPoolExecutor(asked.workers) as pool:
            list(pool.map(lambda run: carry_out(folder, run), wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all data sets, epsilons and seeds, into the results")
    parser.add_argument("--data", nargs="*", choices=NAMES)
    parser.add_argument("--epsilon", nargs="*", type=float)
    parser.add_argument("--seeds", nargs="*", type=int)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--hold-out", action="store_true", help="give methods four fifths of the records")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the runs")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which a run is stopped")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="seconds after which nothing goes on")
    parser.add_argument("--tables", type=Path, help="a folder with the data sets as NAME.npz")
    parser.add_argument("--machine", default=name_machine(), help="the machine's name in the rows")
    parser.add_argument("--out", type=Path, help="the file of rows")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--missing", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        path, method, epsilon, held_out, seed = asked.one
        run_one(path, method, float(epsilon), float(held_out), int(seed))
    elif asked.missing:
        print(json.dumps({name: method.missing() for name, method in METHODS.items()}))
    elif asked.page:
        from benchmarks._synthesis_page import page

        page(asked.out or RESULTS)
    else:
        asked.data = asked.data or (list(NAMES) if asked.full else ["titanic"])
        asked.epsilon = asked.epsilon or (list(EPSILONS) if asked.full else [1.0])
        asked.seeds = asked.seeds or (list(SEEDS) if asked.full else [0])
        with tempfile.TemporaryDirectory() as folder:
            asked.out = asked.out or (RESULTS if asked.full else Path(folder) / "rows.csv")
            measure(asked)


if __name__ == "__main__":
    main()
