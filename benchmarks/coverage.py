"""How often intervals hold the truth, and how wide they are::

    python -m benchmarks.coverage --models 6     # rows of docs/results/coverage.csv
    python -m benchmarks.coverage --page         # docs/results/coverage.md from the rows

Each repetition draws a model (Dirichlet potentials), a population and a release; learns from the release; and asks for
the 90% interval of every cell of every clique. Of the source: does it hold the model's true share? Of the records: the
population's share? Per stratum of the true expected count N mu: below b, to 10 b, above. Widths are in units of the 90%
interval that the one noisy cell gives by itself: of the records, 2 b ln 10 / N; of the source, that of the
normal-Laplace, whose normal part is the sampling of the cell. Rows of what is measured again are replaced.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

import quietfield as qf
from benchmarks._pages import RESULTS, WHERE, draw_table, fill, read_rows, replace_rows, tell_where, where, write_page
from quietfield import structures

LEVEL = 0.9
STRATA = ("all cells", "N mu < b", "to 10 b", "above")
KEY = ["graph", "states", "records", "epsilon", "of", "stratum"]
FIELDS = [*KEY, "models", "cells", "held", "width", *WHERE]
#: Strata of fewer cells vary too much from run to run to say anything.
ENOUGH = 100


def model_of(kind: str, states: int, seed: int) -> qf.Model:
    """One structure a kind, new potentials a seed."""
    domain = qf.Domain({f"x{i}": states for i in range(10)})
    if kind == "chain":
        cliques = structures.chain(domain, order=3)
    else:
        cliques = structures.erdos_renyi(domain, 0.3, seed=0, max_treewidth=3)
    random = np.random.default_rng([seed, states])
    draws = {c: np.log(np.maximum(random.dirichlet(np.ones(states**2)), 1e-300)) for c in cliques}
    return qf.Model(domain, {c: draws[c].reshape(states, states) for c in cliques})


def quantile(spread: np.ndarray) -> np.ndarray:
    """The 95% quantile of Laplace noise of scale 1 plus a normal of each standard deviation, from many draws."""
    random = np.random.default_rng(0)
    normal, laplace = random.normal(size=400_000), random.laplace(size=400_000)
    grid = np.concatenate([[0.0], np.logspace(-2, max(np.log10(max(spread.max(), 0.02)), -1.9), 60)])
    found = [np.quantile(np.abs(s * normal + laplace), LEVEL) for s in grid[1:]]
    return np.interp(spread, grid, [log(10), *found])


def study(kind: str, states: int, records: int, epsilon: float, models: int) -> list[dict[str, Any]]:
    """The rows of one setting."""
    simulations = [
        qf.simulate(model=model_of(kind, states, seed), records=records, epsilon=epsilon, seed=seed)
        for seed in range(1000, 1000 + models)
    ]
    found: dict[str, list[list[np.ndarray]]] = {"source": [], "records": []}
    for simulation in simulations:
        learned = qf.fit(simulation.release)
        for clique in learned.cliques:
            truths = {"source": simulation.model.marginal(clique), "records": simulation.tables[clique] / records}
            expected = records * truths["source"].ravel()
            for of, truth in truths.items():
                low, high = learned.interval(clique, LEVEL, of=of)
                held = (low <= truth) & (truth <= high)
                found[of].append([held.ravel(), (high - low).ravel(), expected])
    b = float(simulations[0].noise.scale)
    rows = []
    for of, parts in found.items():
        held, width, expected = (np.concatenate(column) for column in zip(*parts, strict=True))
        spread = np.sqrt(expected * (1 - expected / records)) if of == "source" else np.zeros_like(expected)
        single = 2 * quantile(spread / b) * b / records
        strata = [expected >= 0, expected < b, (expected >= b) & (expected < 10 * b), expected >= 10 * b]
        for stratum, chosen in zip(STRATA, strata, strict=True):
            key = dict(zip(KEY, (kind, states, records, epsilon, of, stratum), strict=True))
            row = {**key, "models": models, "cells": int(chosen.sum()), **where()}
            if chosen.any():
                relative = width[chosen].mean() / single[chosen].mean()
                row |= {"held": f"{held[chosen].mean():.4f}", "width": f"{relative:.3f}"}
            rows.append(row)
    return rows


def contents(folder: Path) -> str:
    """The page as text."""
    rows = read_rows(folder / "coverage.csv")
    settings: dict[tuple[Any, ...], dict[str, Mapping[str, str]]] = {}
    for row in rows:
        key = (row["graph"], int(row["states"]), int(row["records"]), float(row["epsilon"]), row["of"])
        settings.setdefault(key, {})[row["stratum"]] = row
    lines = []
    for key in sorted(settings, key=lambda key: (*key[:4], key[4] != "source")):
        graph, states, records, epsilon, of = key
        entries = [
            f"{100 * float(row['held']):.1f} ({float(row['width']):.2f}; {int(row['cells']):,})" if row["held"] else "-"
            for row in (settings[key][stratum] for stratum in STRATA)
        ]
        models = settings[key]["all cells"]["models"]
        lines.append([graph, states, f"{records:,}", f"{epsilon:g}", models, of, *entries])
    whole = [row for row in rows if row["stratum"] == "all cells"]
    held = [100 * float(row["held"]) for row in whole]
    parts = [row for row in rows if row not in whole and int(row["cells"]) >= ENOUGH]
    return fill(
        Path(__file__).with_name("_coverage_page.md"),
        {
            "where": tell_where(rows),
            "table": draw_table("graph|states|N|epsilon|models|of|" + "|".join(STRATA), lines),
            "overall": f"{min(held):.0f} to {max(held):.0f}%",
            "least": f"{min(100 * float(row['held']) for row in parts):.1f}%",
            "enough": str(ENOUGH),
            "widths": " and ".join(_widths(whole, of) for of in ("source", "records")),
        },
    )


def _widths(rows: Sequence[Mapping[str, str]], of: str) -> str:
    """The mean of the relative widths, and how many are clearly below 1."""
    widths = [float(row["width"]) for row in rows if row["of"] == of]
    narrow = sum(width < 0.8 for width in widths)
    return f"{np.mean(widths):.2f} of a single cell's for the {of} (below 0.8 in {narrow} of {len(widths)})"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=12, help="repetitions with 5 states; a third of it with 10")
    parser.add_argument("--states", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--graphs", nargs="*", choices=["chain", "random"], default=["chain", "random"])
    parser.add_argument("--records", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.1, 1.0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows and of the page")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    chosen = parser.parse_args(arguments)
    if chosen.page:
        write_page("coverage", chosen.out)
        return
    for kind, states, records, epsilon in product(chosen.graphs, chosen.states, chosen.records, chosen.epsilons):
        started = time.perf_counter()
        models = chosen.models if states == 5 else max(chosen.models // 3, 1)
        # Few cells expect more than 10 b people here: more models, to say something about them.
        models *= 4 if records * epsilon <= 1000 and states == 5 else 1
        replace_rows(chosen.out / "coverage.csv", FIELDS, study(kind, states, records, epsilon, models), KEY)
        print(kind, states, records, epsilon, f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
