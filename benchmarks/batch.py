"""Many releases of one structure in one batched call, as on a GPU::

    python -m benchmarks.batch --releases 1000    # rows of docs/results/batch.csv

``python -m benchmarks.learning --page`` writes them into the page of learners.
"""

import argparse
import time
from pathlib import Path

import jax

import quietfield as qf
from benchmarks._pages import RESULTS, WHERE, replace_rows, where

KEY = ["method", "releases", "states"]
FIELDS = [*KEY, "first_s", "again_s", "settled", "kl_mean", *WHERE]


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and replace the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--method", default="cgm")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows")
    asked = parser.parse_args(arguments)
    studies = [
        qf.simulate("chain", states=asked.states, records=10_000, epsilon=1.0, seed=seed)
        for seed in range(min(asked.releases, 20))
    ]
    each = -(-asked.releases // len(studies))
    releases = [release for study in studies for release in study.releases(each)][: asked.releases]
    row = {"method": asked.method, "releases": len(releases), "states": asked.states, **where()}
    device = jax.devices()[0]
    row |= {} if device.platform == "cpu" else {"machine": device.device_kind}
    for name in ("first_s", "again_s"):
        started = time.perf_counter()
        models = qf.fit(releases, asked.method)
        row[name] = f"{time.perf_counter() - started:.2f}"
    row["settled"] = sum(model.report.converged for model in models)
    row["kl_mean"] = f"{sum(studies[0].model.kl(model) for model in models[:20]) / min(len(models), 20):.4f}"
    print(*row.values(), flush=True)
    replace_rows(asked.out / "batch.csv", FIELDS, [row], KEY)


if __name__ == "__main__":
    main()
