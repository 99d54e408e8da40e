"""Coverage of ``python -m benchmarks.real_tables``: how often intervals hold a truth that looks like a real table.

Truths are models that are learned from a data set's one-way tables and tree of strongest pairs. As many records as the
data set has are drawn from each and released with the same tables; a model is learned from each release and asked for
the 90% interval of every cell of its tables (``held``). ``combined`` are the cells in the 90% intervals that
``qf.combine_estimates`` makes of ten models drawn from it, as if each were asked through records without end.
"""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

import quietfield as qf
from benchmarks._pages import replace_rows
from benchmarks.real_tables import EPSILONS, problem, release, structures
from quietfield.models.intervals import MOST_CELLS, intervals

KEY = ["data", "truth", "noise", "epsilon", "of", "share"]
FIELDS = [*KEY, "records", "releases", "cells", "held", "combined"]
DRAWN = 10
OF = {1: "single attributes", 2: "pairs"}
#: Epsilons of the releases that truths are learned from: the smaller, the more such a truth is as the prior expects it.
TRUTHS = (1.0, 10.0)
ENDS = (1e-4, 1e-2)
SHARES = ("below 1e-4", "1e-4 to 1e-2", "above 1e-2")


def measure_coverage(name: str, path: Path, releases: int = 10) -> None:
    """Count the cells of all tables, and those inside of their intervals, by the size of their true share."""
    found = problem(name)
    cliques = [clique for clique in structures(found)["mst"] if found.domain.cells(clique) <= MOST_CELLS]
    for given in TRUTHS:
        # Noise of its own: the truth must know nothing of the draws below.
        truth = qf.fit(release(found, cliques, "gaussian", given, seed=1000))
        for noise, epsilon in product(("gaussian", "laplace"), EPSILONS):
            cells: Counter[tuple[str, str]] = Counter()
            held: Counter[tuple[str, str]] = Counter()
            combined: Counter[tuple[str, str]] = Counter()
            for seed in range(releases):
                drawn = found._replace(codes=np.asarray(truth.sample(len(found.codes), seed=seed).codes))
                model = qf.fit(release(drawn, cliques, noise, epsilon, seed))
                sets = model.draws(DRAWN, seed=seed)
                for clique, (low, high) in zip(cliques, intervals(model, cliques), strict=True):
                    shares = truth.marginal(clique)
                    size, inside = np.digitize(shares, ENDS), (low <= shares) & (shares <= high)
                    estimates = np.stack([one.marginal(clique) for one in sets])
                    several = qf.combine_estimates(estimates, np.zeros_like(estimates), level=0.9)
                    among = (several.low <= shares) & (shares <= several.high)
                    for i, share in enumerate(SHARES):
                        cells[OF[len(clique)], share] += int((size == i).sum())
                        held[OF[len(clique)], share] += int(inside[size == i].sum())
                        combined[OF[len(clique)], share] += int(among[size == i].sum())
            setting = {"data": name, "truth": given, "noise": noise, "epsilon": epsilon}
            sizes = {"records": len(found.codes), "releases": releases}
            rows = [
                {**setting, "of": of, "share": share, **sizes, "cells": number}
                | {"held": held[of, share], "combined": combined[of, share]}
                for (of, share), number in cells.items()
            ]
            print(*setting.values(), {key: f"{held[key]} of {number}" for key, number in cells.items()}, flush=True)
            replace_rows(path, FIELDS, rows, KEY)
