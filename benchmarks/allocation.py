"""The default allocation of the budget, and weights by size, against equal weights, on structures of real tables::

    python -m benchmarks.allocation            # rows that docs/results/allocation.csv lacks
    python -m benchmarks.allocation --summary  # what they say, in a few lines

For each data set, structure, kind of noise and epsilon (delta 1e-9), the same tables are released with equal weights,
with ``weights="by_size"`` and, where that is something else than equal weights, by default, and learned from. ``tv`` is
the mean total variation of 3-way marginals (40 triples), ``loglik`` the mean log-probability of records. Noise has no
seed, so that rows differ from run to run.
"""

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise, product

import quietfield as qf
from benchmarks.real_tables import EPSILONS, ROOT, ROWS, available, problem, score, structures
from quietfield.cliques import Structure
from quietfield.privacy.calibration import Weights
from quietfield.privacy.planning import allocate_budget

RESULTS = ROOT / "docs" / "results" / "allocation.csv"
WEIGHTS: dict[str, Weights] = {"equal": "equal", "default": None, "by_size": "by_size"}
FIELDS = ["data", "tables", "noise", "epsilon", "weights", "repeat", "tv", "loglik"]


def measure(repeats: int, data: Sequence[str], weighed: Sequence[str]) -> None:
    """Write the rows that are not there yet."""
    done = {row[:6] for row in _rows()}
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for name in (name for name in ROWS if name in available() and name in data):
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
            for (tables, cliques), noise, epsilon, weights, repeat in product(
                given.items(), ("gaussian", "laplace"), EPSILONS, weighed, range(repeats)
            ):
                given_as = Structure.of(cliques)
                same = allocate_budget(given_as, domain, qf.Rows(1), "add_remove", None, noise)[0] == given_as
                key = (name, tables, noise, str(epsilon), weights, str(repeat))
                if key in done or (weights == "default" and same):
                    continue
                release = qf.release(
                    found.codes, schema, cliques, epsilon=epsilon, noise=noise, unit=qf.Rows(1), ledger=None,
                    delta=1e-9 if noise == "gaussian" else None, weights=WEIGHTS[weights],
                )  # fmt: skip
                try:
                    figures = [f"{figure:.5f}" for figure in score(qf.fit(release), found)]
                except qf.CannotLearn:  # the noise is larger than the data
                    figures = ["", ""]
                writer.writerow((*key, *figures))
                file.flush()


def _rows() -> list[tuple[str, ...]]:
    with RESULTS.open() as file:
        return [tuple(row[field] for field in FIELDS) for row in csv.DictReader(file)]


def summarize(weights: str, data: Sequence[str] = ROWS) -> str:
    """The ratios of errors to those with equal weights, on some data sets, in one paragraph of numbers.

    By default, interactions are measured in place of tables of nltcs, and one-way tables beside those of the others.
    """
    cells: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for *key, which, _, tv, _ in _rows():
        if tv and key[0] in data:
            cells[tuple(key)][which].append(float(tv))
    ratios = {
        key: (sum(found[weights]) / len(found[weights])) / (sum(found["equal"]) / len(found["equal"]))
        for key, found in cells.items()
        if found[weights] and found["equal"]
    }
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst, best = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    named = {
        "by_size": "weights by size",
        "default": "interactions for tables" if tuple(data) == ("nltcs",) else "one-way tables beside the others",
    }[weights]
    return (
        f"In {len(ratios)} cells the error with {named} was {mean:.3f} times that with equal weights (geometric mean), "
        f"more than 1.01 times in {sum(ratio > 1.01 for ratio in ratios.values())} of them and less than 0.99 "
        f"times in {sum(ratio < 0.99 for ratio in ratios.values())}; at worst {ratios[worst]:.2f} "
        f"({', '.join(worst)}), at best {ratios[best]:.2f} ({', '.join(best)})."
    )


def tell_likelihood(data: Sequence[str]) -> str:
    """How the log-probability of a record changes by default, on some data sets, in a sentence."""
    cells: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for *key, which, _, _, loglik in _rows():
        if loglik and key[0] in data:
            cells[tuple(key)][which].append(float(loglik))
    gains = {
        key: sum(found["default"]) / len(found["default"]) - sum(found["equal"]) / len(found["equal"])
        for key, found in cells.items()
        if found["default"] and found["equal"]
    }
    worst, best = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    return (
        f"The mean log-probability of a record falls by more than 0.01 in {sum(g < -0.01 for g in gains.values())} of "
        f"{len(gains)} cells and rises by more in {sum(g > 0.01 for g in gains.values())}: from "
        f"{gains[worst]:+.3f} ({', '.join(worst)}) to {gains[best]:+.3f} ({', '.join(best)})."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", nargs="*", choices=ROWS, default=ROWS)
    parser.add_argument("--weights", nargs="*", choices=WEIGHTS, default=list(WEIGHTS))
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if asked.summary:
        print(summarize("default", [name for name in ROWS if name != "nltcs"]))
        print(summarize("default", ("nltcs",)))
        print(summarize("by_size"))
    else:
        measure(asked.repeats, asked.data, asked.weights)
