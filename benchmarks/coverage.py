"""How often intervals hold the truth, and how wide they are: ``python -m benchmarks coverage``.

Each repetition draws a model (Dirichlet potentials), a population and a release; learns from the release; and asks for
the 90% interval of every cell of every clique. Of the source: does it hold the model's true share? Of the records: the
population's share? Per stratum of the true expected count N mu: below b, to 10 b, above. Widths are in units of the 90%
interval that the one noisy cell gives by itself: of the records, 2 b ln 10 / N; of the source, that of the
normal-Laplace, whose normal part is the sampling of the cell. Writes ``docs/results/coverage.md``, one row after
the other.
"""

import argparse
import time
from math import log
from pathlib import Path

import numpy as np

import quietfield as qf
from quietfield import structures

TARGET = Path(__file__).resolve().parent.parent / "docs" / "results" / "coverage.md"
LEVEL = 0.9
HEADER = """# Coverage of the intervals

`python -m benchmarks coverage`: nominal 90% intervals of every cell of every clique, over repeated populations and
releases of random models (ten attributes; chain of order 3 with 24 cliques, or a connected random graph of treewidth
at most 3; Dirichlet(1) potentials; Laplace noise of scale b = |C|/epsilon; N known). An entry is the coverage in
percent and, in brackets, the mean width over the mean width of the 90% intervals that single noisy cells give by
themselves, and the number of cells. Strata are by the true expected count N mu. *source*: intervals of the distribution
that the records came from, against the true model's marginals; a single cell's allows for noise and sampling, that is,
it has the quantiles of Laplace noise plus a normal of variance N mu (1 - mu). *records*: intervals of the counted
records' shares, against these; a single cell's is 2 b ln 10 / N. Cells of one release err together, so a stratum with
few cells varies from run to run.

| graph | states | N | epsilon | models | of | all cells | N mu < b | to 10 b | above |
|---|---|---|---|---|---|---|---|---|---|
"""


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


def study(kind: str, states: int, records: int, epsilon: float, models: int) -> list[str]:
    """The rows of the table for one setting."""
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
        entries = [
            f"{100 * held[s].mean():.1f} ({width[s].mean() / single[s].mean():.2f}; {s.sum():,})" if s.any() else "-"
            for s in strata
        ]
        rows.append(
            f"| {kind} | {states} | {records:,} | {epsilon:g} | {models} | {of} | " + " | ".join(entries) + " |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=12, help="repetitions with 5 states; a third of it with 10")
    parser.add_argument("--states", type=int, nargs="*", default=[5, 10])
    chosen = parser.parse_args()
    rows: list[str] = []
    for kind in ("chain", "random"):
        for states in chosen.states:
            for records in (10_000, 100_000):
                for epsilon in (0.1, 1.0):
                    started = time.perf_counter()
                    models = chosen.models if states == 5 else max(chosen.models // 3, 1)
                    # Few cells expect more than 10 b people here: more models, to say something about them.
                    models *= 4 if records * epsilon <= 1000 and states == 5 else 1
                    rows += study(kind, states, records, epsilon, models)
                    print(*rows[-2:], f"{time.perf_counter() - started:.0f} s", sep="\n", flush=True)
                    TARGET.write_text(HEADER + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
