"""Figure 2: KL against N for chains of order 3 and connected random graphs, at four epsilons, method by method.

One graph and one set of potentials a structure and number of states, as the paper's "n_i ~ p(n)" says: populations
differ, the model does not (``--models 1,2`` runs others). Random graphs have 10 attributes, each pair an edge with
probability 0.3, drawn until connected and of treewidth at most 3, so that inference is exact; the paper gives no
probability.
"""

from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from quietfield.experiments.claims import Claim, Verdict, share
from quietfield.experiments.estimators import get
from quietfield.experiments.plotting import canvas, divergences, finish, legend, ordered, save
from quietfield.experiments.running import divergence, measured
from quietfield.experiments.trials import NO_NOISE, Plan, Row, Summary, Trial, curve, pick

TITLE = "KL divergence against population size, by method and epsilon"
_METHODS = ("random", "nonprivate", "naive", "cgm", "map", "map-gaussian")
_FULL = Plan(
    structures=("chain", "random"),
    states=(10, 20),
    sizes=(100, 1000, 10_000, 100_000, 1_000_000),
    epsilons=(0.01, 0.1, 0.5, 1.0),
    methods=(*_METHODS, "naive-tuned", "psgd", "psgd-moments"),
)
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(
        states=(10,),
        sizes=(1000, 10_000, 100_000),
        epsilons=(0.1, 1.0),
        methods=(*_METHODS, "psgd-small"),
        populations=2,
        replications=1,
    ),
    "tiny": _FULL.chosen(
        structures=("chain-4",),
        states=(3,),
        sizes=(1000,),
        epsilons=(1.0,),
        methods=(*_METHODS, "psgd-small"),
        populations=2,
        replications=1,
    ),
}
NAMES = {"chain": "chain of order 3", "random": "random graph"}


def run(trials: Sequence[Trial]) -> list[Row]:
    """KL of each trial."""
    return measured(trials, divergence)


def panels(rows: list[Row]) -> list[tuple[str, int]]:
    """The structures and numbers of states that are there."""
    return sorted({(row.trial.structure, row.trial.states) for row in rows})


def draw(rows: list[Row], path: Path) -> list[Path]:
    """One row of panels a structure, one column an epsilon."""
    epsilons = sorted({row.trial.epsilon for row in rows if row.trial.epsilon != NO_NOISE}) or [NO_NOISE]
    kinds = panels(rows)
    figure, axes = canvas(len(kinds), len(epsilons), 2.9, 2.5, sharey="row", sharex=True)
    for line_of_axes, (structure, states) in zip(axes, kinds, strict=True):
        there = pick(rows, "kl", structure=structure, states=states)
        for ax, epsilon in zip(line_of_axes, epsilons, strict=True):
            mine = [row for row in there if row.trial.epsilon in (epsilon, NO_NOISE)]
            divergences(ax, mine, ordered(mine))
            last = line_of_axes is axes[-1]
            finish(ax, f"{NAMES.get(structure, structure)}, s = {states}, ε = {epsilon:g}", "N" if last else "",
                   "KL(true ‖ learned)" if ax is line_of_axes[0] else "")  # fmt: skip
    legend(figure, axes, 4)
    return save(figure, path)


def cells(rows: list[Row], method: str) -> dict[tuple[Any, ...], Summary]:
    """KL by cell: structure, states, epsilon, size."""
    return curve(pick(rows, "kl", method=method), lambda t: (t.structure, t.states, t.model, t.epsilon, t.records))


def compared(rows: list[Row], one: str, other: str) -> tuple[int, int, float, str]:
    """In how many cells the first is below the second, of how many, the mean ratio, and where it is worst."""
    a, b = cells(rows, one), cells(rows, other)
    both = [key for key in a if key in b]
    if not both:
        return 0, 0, float("nan"), ""
    ratios = {key: a[key].mean / b[key].mean for key in both}
    worst = max(ratios, key=lambda key: ratios[key])
    where = f"{ratios[worst]:.3g} ({worst[0]}, s = {worst[1]}, ε = {worst[3]:g}, N = {worst[4]:,})"
    mean = exp(sum(log(ratio) for ratio in ratios.values()) / len(ratios))
    return sum(ratio < 1 for ratio in ratios.values()), len(both), mean, where


def claims(rows: list[Row]) -> list[Claim]:
    """Who is below whom, cell by cell."""
    found = []
    statements = {
        ("cgm", "naive"): "CGM improves upon naive MLE for all models, privacy levels and population sizes",
        ("cgm", "naive-tuned"): "The same beside naive MLE with its best λ in each cell, chosen with the truth",
        ("naive", "psgd"): "Naive MLE is competitive with or better than PSGD in most scenarios",
        ("cgm", "psgd"): "CGM is superior to competing approaches (PSGD) in nearly all scenarios",
        ("map", "naive"): "(ours) the default is below naive MLE",
        ("map", "naive-tuned"): "(ours) the default is below naive MLE with its best λ in each cell",
        ("map", "cgm"): "(ours) the default is below CGM",
        ("map", "psgd"): "(ours) the default is below PSGD, which promises less",
        ("map-gaussian", "map"): "(ours) with Gaussian noise and δ = 1/N, a weaker promise",
    }
    there = {row.trial.method for row in rows}
    for (one, other), statement in statements.items():
        if other == "psgd" and other not in there:
            other = "psgd-small"
        good, count, mean, worst = compared(rows, one, other)
        verdict = _verdict(good, count)
        labels = f"{get(one).label} below {get(other).label}"
        text = f"{labels} in {share(good, count)}; ratio of KLs {mean:.3g} (geometric mean), at most {worst}"
        found.append(Claim(statement, text if count else "not run", verdict))
    found.append(_absent(rows))
    return found


def _verdict(good: int, count: int) -> Verdict:
    if not count:
        return "not run"
    return "agrees" if good >= 0.9 * count else "partly" if 2 * good > count else "differs"


def _absent(rows: list[Row]) -> Claim:
    """Where the moments accountant has no answer."""
    missing = sorted({(row.trial.epsilon, row.trial.records) for row in pick(rows, "absent", method="psgd-moments")})
    tried = {(row.trial.epsilon, row.trial.records) for row in pick(rows, method="psgd-moments")}
    listed = "; ".join(f"ε = {epsilon:g}, N = {n:,}" for epsilon, n in missing)
    return Claim(
        "Even with δ = 1/N some of the smaller values of ε are not attainable by PSGD",
        f"absent in {share(len(missing), len(tried))} with the moments accountant: {listed}" if tried else "not run",
        "not run" if not tried else "agrees" if missing else "differs",
        "that accountant stays above log(1/δ)/32; the loss distribution reaches every ε" if tried else "",
    )
