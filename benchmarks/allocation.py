"""Weights by size against equal weights, on given structures of real tables::

    python -m benchmarks.allocation            # rows of docs/results/allocation.csv
    python -m benchmarks.allocation --summary  # what they say, in a few lines

For each data set, structure, kind of noise and epsilon (delta 1e-9), the same tables are released with equal weights
and with ``weights="by_size"``, and learned from by default. ``tv`` is the mean total variation of 3-way marginals (40
triples), ``loglik`` the mean log-probability of records. Noise has no seed, so that rows differ from run to run.
"""

import argparse
import csv
import math
from collections import defaultdict
from itertools import pairwise

import quietfield as qf
from benchmarks.real_tables import EPSILONS, ROOT, ROWS, available, problem, score, structures

RESULTS = ROOT / "docs" / "results" / "allocation.csv"
FIELDS = ["data", "tables", "noise", "epsilon", "weights", "repeat", "tv", "loglik"]


def measure(repeats: int) -> None:
    """Write the rows."""
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name in (name for name in ROWS if name in available()):
            found = problem(name)
            domain = found.domain
            schema = qf.Schema({attribute: list(range(domain.size(attribute))) for attribute in domain})
            names = list(domain)
            trees = structures(found)
            given = {
                "tree": [clique for clique in trees["mst"] if len(clique) > 1],
                **trees,
                "star": [(names[-1], other) for other in names[:-1]],
                "chain": list(pairwise(names)),
            }
            for tables, cliques in given.items():
                for noise in ("gaussian", "laplace"):
                    for epsilon in EPSILONS:
                        for weights in ("equal", "by_size"):
                            for repeat in range(repeats if len(found.codes) < 10**5 else 1):
                                release = qf.release(
                                    found.codes, schema, cliques, epsilon=epsilon, noise=noise, unit=qf.Rows(1),
                                    delta=1e-9 if noise == "gaussian" else None, total=False, ledger=None,
                                    weights=None if weights == "equal" else "by_size",
                                )  # fmt: skip
                                try:
                                    figures = [f"{figure:.5f}" for figure in score(qf.fit(release), found)]
                                except qf.CannotLearn:  # the noise is larger than the data
                                    figures = ["", ""]
                                row = (name, tables, noise, epsilon, weights, repeat, *figures)
                                writer.writerow(row)
                                file.flush()


def summarize() -> str:
    """The ratios of errors, by size to equal, in one paragraph of numbers."""
    cells: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with RESULTS.open() as file:
        for row in csv.DictReader(file):
            if row["tv"]:
                key = (row["data"], row["tables"], row["noise"], row["epsilon"])
                cells[key][row["weights"]].append(float(row["tv"]))
    ratios = {
        key: (sum(found["by_size"]) / len(found["by_size"])) / (sum(found["equal"]) / len(found["equal"]))
        for key, found in cells.items()
        if found["by_size"] and found["equal"]
    }
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst, best = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    return (
        f"In {len(ratios)} cells the error with weights by size was {mean:.3f} times that with equal ones (geometric "
        f"mean), more than 1.01 times in {sum(ratio > 1.01 for ratio in ratios.values())} of them and less than 0.99 "
        f"times in {sum(ratio < 0.99 for ratio in ratios.values())}; at worst {ratios[worst]:.2f} "
        f"({', '.join(worst)}), at best {ratios[best]:.2f} ({', '.join(best)})."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if asked.summary:
        print(summarize())
    else:
        measure(asked.repeats)
