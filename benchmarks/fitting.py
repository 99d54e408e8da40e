"""Time of a fit after compilation, side by side with mbi's 1,000 iterations of mirror descent::

    python -m benchmarks.fitting --rounds 5      # rows of docs/results/fitting.csv

Chain of order 3, ten attributes of 10 values, N = 100,000, epsilon 0.3 and 1. Contenders take turns; figures are
medians of the rounds, and medians of the ratios within a round. The compilation is the first call less the second.
``python -m benchmarks.learning --page`` writes them into the page of learners.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import quietfield as qf
from benchmarks._pages import RESULTS, WHERE, replace_rows, where

KEY = ["method", "epsilon"]
FIELDS = [*KEY, "rounds", "seconds", "to_mbi", "to_naive", "compilation_s", *WHERE]


def mbi_fit(release: qf.Release) -> Any:
    import jax
    import mbi
    from mbi import estimation

    domain = mbi.Domain(tuple(release.domain), release.domain.shape)
    measurements = [
        mbi.LinearMeasurement(np.asarray(table, float).ravel(), clique, stddev=release.noise[clique].variance ** 0.5)
        for clique, table in release.tables.items()
    ]
    found = estimation.MirrorDescent().estimate(domain, measurements, known_total=float(release.total), iters=1000)
    return jax.block_until_ready(found.potentials)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and replace the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows")
    asked = parser.parse_args(arguments)
    contenders = {
        "map": lambda release: qf.fit(release),
        "cgm": lambda release: qf.fit(release, "cgm"),
        "naive": lambda release: qf.fit(release, "naive"),
        "mbi": mbi_fit,
    }
    compiled: dict[str, float] = {}
    for epsilon in (0.3, 1.0):
        study = qf.simulate("chain", records=asked.records, epsilon=epsilon)
        found = list(study.releases(asked.rounds))
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for name, fit in contenders.items():
            firsts = []
            for _ in range(2):
                started = time.perf_counter()
                fit(study.release)
                firsts.append(time.perf_counter() - started)
            compiled.setdefault(name, firsts[0] - firsts[1])
        for release in found:
            for name, fit in contenders.items():
                started = time.perf_counter()
                fit(release)
                times[name].append(time.perf_counter() - started)
        for name in contenders:
            row = {"method": name, "epsilon": epsilon, "rounds": asked.rounds, "seconds": f"{median(times[name]):.3f}"}
            for peer in ("mbi", "naive"):
                row[f"to_{peer}"] = f"{median(a / b for a, b in zip(times[name], times[peer], strict=True)):.2f}"
            row |= {"compilation_s": f"{compiled[name]:.1f}", **where()}
            print(*row.values(), flush=True)
            replace_rows(asked.out / "fitting.csv", FIELDS, [row], KEY)


if __name__ == "__main__":
    main()
