"""Time of a fit after compilation, side by side with mbi's 1,000 iterations of mirror descent::

python -m benchmarks.fitting

Chain of order 3, ten attributes of 10 values, N = 100,000, epsilon 0.3 and 1. Contenders take turns; figures are
medians of the rounds, and medians of the ratios within a round. The compilation is the first call less the second.
"""

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np

import quietfield as qf


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=100_000)
    asked = parser.parse_args()
    contenders = {
        "map": lambda release: qf.fit(release),
        "cgm": lambda release: qf.fit(release, "cgm"),
        "naive": lambda release: qf.fit(release, "naive"),
        "mbi": mbi_fit,
    }
    compiled = set()
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
            if name not in compiled:
                compiled.add(name)
                print(json.dumps({"method": name, "compilation_s": round(firsts[0] - firsts[1], 2)}), flush=True)
        for release in found:
            for name, fit in contenders.items():
                started = time.perf_counter()
                fit(release)
                times[name].append(time.perf_counter() - started)
        for name in contenders:
            against = {
                peer: round(median(a / b for a, b in zip(times[name], times[peer], strict=True)), 2)
                for peer in ("mbi", "naive")
            }
            print(
                json.dumps(
                    {"epsilon": epsilon, "method": name, "seconds": round(median(times[name]), 3), "ratio_to": against}
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
