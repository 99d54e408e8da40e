"""Coverage of ``python -m benchmarks.real_tables``: how often intervals hold a truth that looks like a real table.

The truth is the model that is learned from a data set's tree of strongest pairs with little noise. As many records as
the data set has are drawn from it and released with all one-way tables and the same tree; a model is learned from each
release and asked for the 90% interval of every cell of its tables.
"""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

import quietfield as qf
from benchmarks._pages import replace_rows
from benchmarks.real_tables import EPSILONS, problem, release, structures
from quietfield.models.intervals import MOST_CELLS, intervals

KEY = ["data", "noise", "epsilon", "of", "share"]
FIELDS = [*KEY, "records", "releases", "cells", "held"]
OF = {1: "single attributes", 2: "pairs"}
#: The epsilon of the release that the truth is learned from.
LITTLE = 10.0
ENDS = (1e-4, 1e-2)
SHARES = ("below 1e-4", "1e-4 to 1e-2", "above 1e-2")


def measure_coverage(name: str, path: Path, releases: int = 2) -> None:
    """Count the cells of all tables, and those inside of their intervals, by the size of their true share."""
    found = problem(name)
    cliques = [clique for clique in structures(found)["mst"] if found.domain.cells(clique) <= MOST_CELLS]
    # Noise of its own: the truth must know nothing of the draws below.
    truth = qf.fit(release(found, cliques, "gaussian", LITTLE, seed=1000))
    shares = {clique: truth.marginal(clique) for clique in cliques}
    for noise, epsilon in product(("gaussian", "laplace"), EPSILONS):
        cells: Counter[tuple[str, str]] = Counter()
        held: Counter[tuple[str, str]] = Counter()
        for seed in range(releases):
            drawn = found._replace(codes=np.asarray(truth.sample(len(found.codes), seed=seed).codes))
            model = qf.fit(release(drawn, cliques, noise, epsilon, seed))
            for clique, (low, high) in zip(cliques, intervals(model, cliques), strict=True):
                size = np.digitize(shares[clique], ENDS)
                inside = (low <= shares[clique]) & (shares[clique] <= high)
                for i, share in enumerate(SHARES):
                    cells[OF[len(clique)], share] += int((size == i).sum())
                    held[OF[len(clique)], share] += int(inside[size == i].sum())
        common = {
            "data": name, "noise": noise, "epsilon": epsilon, "records": len(found.codes), "releases": releases
        }  # fmt: skip
        rows = [
            {**common, "of": of, "share": share, "cells": n, "held": held[of, share]}
            for (of, share), n in cells.items()
        ]
        print(name, noise, epsilon, {key: f"{held[key]} of {n}" for key, n in cells.items()}, flush=True)
        replace_rows(path, FIELDS, rows, KEY)
