"""Figure 1b: what projecting the noisy tables onto the simplex does for the naive estimate (random graph, s = 20)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import Claim, share
from experiments.plotting import canvas, divergences, finish, legend, ordered, save
from experiments.running import divergence, measured
from experiments.trials import Plan, Row, Trial, curve, pick

TITLE = "Naive MLE with and without projection"
_METHODS = ("nonprivate", "naive", "naive-unprojected")
_FULL = Plan(
    structures=("random",),
    states=(20,),
    sizes=(1000, 10_000, 100_000, 1_000_000, 10_000_000),
    epsilons=(0.5,),
    methods=_METHODS,
)
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(states=(10,), sizes=(1000, 10_000, 100_000, 1_000_000), populations=2, replications=1),
    "tiny": _FULL.chosen(structures=("chain-4",), states=(3,), sizes=(100, 10_000), populations=2, replications=1),
}


def run(trials: Sequence[Trial]) -> list[Row]:
    """KL of each trial."""
    return measured(trials, divergence)


def draw(rows: list[Row], path: Path) -> list[Path]:
    """KL against N."""
    panels = sorted({row.trial.states for row in rows})
    figure, axes = canvas(1, len(panels), 3.9, 3.0, sharey=True)
    for ax, states in zip(axes[0], panels, strict=True):
        mine = pick(rows, states=states)
        divergences(ax, mine, ordered(mine))
        epsilon = min(row.trial.epsilon for row in mine)
        finish(ax, f"random graph, s = {states}, ε = {epsilon:g}", "N", "KL(true ‖ learned)")
    legend(figure, axes, 2)
    return save(figure, path)


def claims(rows: list[Row]) -> list[Claim]:
    """Whether projection helps in every cell."""
    better, cells, factors = 0, 0, []
    for states in sorted({row.trial.states for row in rows}):
        on, off = (curve(pick(rows, "kl", method=m, states=states), "records") for m in ("naive", "naive-unprojected"))
        for n in (n for n in on if n in off):
            cells += 1
            better += on[n].mean < off[n].mean
            factors.append(f"{off[n].mean / on[n].mean:.2g} at N = {n:.0e}")
    if not cells:
        return []
    return [
        Claim(
            "Figure 1b: projecting the pseudo-marginals onto the simplex is very helpful",
            f"better in {share(better, cells)}; KL without projection divided by KL with it: {', '.join(factors)}",
            "agrees" if better == cells else "partly" if better else "differs",
            "" if better == cells else "where noise is small beside the counts there is next to nothing to project",
        )
    ]
