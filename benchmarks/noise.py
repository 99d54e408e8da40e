"""Exact noise for a million cells, planned and drawn as a release does it, beside inexact noise from numpy::

python -m benchmarks.noise                     # rows of docs/results/noise.csv
python -m benchmarks.noise --cells 100000
python -m benchmarks.counting --page           # docs/results/curator.md from these rows and those of counting
"""

import argparse
import statistics as stats
import time
from pathlib import Path

from benchmarks._pages import RESULTS, WHERE, replace_rows, where
from quietfield.curator import mechanism
from quietfield.domain import Domain
from quietfield.privacy.units import Person, Rows, Unit, statistics
from quietfield.structures import chain

KEY = ["cells", "noise", "unit"]
FIELDS = [*KEY, "epsilon", "plan_s", "draw_s", "cpu_s", "numpy_float_s", *WHERE]
KINDS = {"laplace": {}, "gaussian": {"delta": 1e-6}}
UNITS: dict[str, Unit] = {"whole counts": Rows(1), "grid of 2**-20": Person("who", normalise=True)}


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and replace the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows")
    asked = parser.parse_args(arguments)

    import numpy as np

    side = round((asked.cells / 10) ** 0.5)  # ten pair tables
    domain = Domain({f"x{i}": side for i in range(11)})
    tables = [np.zeros((side, side), dtype=np.int64) for _ in range(10)]
    for unit_name, unit in UNITS.items():
        counted = statistics(chain(domain), domain, unit, "add_remove", False)
        for kind, extra in KINDS.items():
            start = time.perf_counter()
            plan = mechanism.plan_noise(counted, epsilon=asked.epsilon, noise=kind, **extra)  # type: ignore[arg-type]
            planning = time.perf_counter() - start
            times, cpu = [], []
            for _ in range(asked.repeats):
                start, used = time.perf_counter(), time.process_time()
                mechanism.draw_noise(plan, tables)
                times.append(time.perf_counter() - start)
                cpu.append(time.process_time() - used)
            start = time.perf_counter()
            np.random.default_rng().laplace(0, plan.scales[0], 10 * side * side)
            inexact = time.perf_counter() - start
            row = {
                "cells": 10 * side * side,
                "noise": kind,
                "unit": unit_name,
                "epsilon": asked.epsilon,
                "plan_s": round(planning, 4),
                "draw_s": round(stats.median(times), 3),
                "cpu_s": round(stats.median(cpu), 3),
                "numpy_float_s": round(inexact, 4),
                **where(),
            }
            print(*row.values(), flush=True)
            replace_rows(asked.out / "noise.csv", FIELDS, [row], KEY)


if __name__ == "__main__":
    main()
