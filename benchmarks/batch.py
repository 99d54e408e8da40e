"""Many releases of one structure in one batched call, as on a GPU::

python -m benchmarks.batch --releases 1000
"""

import argparse
import json
import time

import jax

import quietfield as qf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--method", default="cgm")
    asked = parser.parse_args()
    studies = [
        qf.simulate("chain", states=asked.states, records=10_000, epsilon=1.0, seed=seed)
        for seed in range(min(asked.releases, 20))
    ]
    each = -(-asked.releases // len(studies))
    releases = [release for study in studies for release in study.releases(each)][: asked.releases]
    for name in ("first call, with compilation", "again"):
        started = time.perf_counter()
        models = qf.fit(releases, asked.method)
        seconds = time.perf_counter() - started
        print(
            json.dumps(
                {
                    "what": name,
                    "device": str(jax.devices()[0]),
                    "releases": len(releases),
                    "states": asked.states,
                    "method": asked.method,
                    "seconds": round(seconds, 2),
                    "ms_a_model": round(1000 * seconds / len(releases), 2),
                    "settled": sum(model.report.converged for model in models),
                    "kl_mean": round(sum(studies[0].model.kl(m) for m in models[:20]) / 20, 4),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
