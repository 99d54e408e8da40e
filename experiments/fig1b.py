"""Figure 1b: what projecting the noisy tables onto the simplex does for the naive estimate (random graph, s = 20)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import Claim, lead_claim
from experiments.comparing import compare
from experiments.fig2 import cell, counted, readings
from experiments.plotting import canvas, divergences, finish, legend, ordered, save
from experiments.running import divergence, measured
from experiments.trials import Plan, Row, Trial, pick

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
#: How much projection helps depends on the regularisation, which the paper does not state.
OTHER_LAMBDAS = ("lambda=1e-5", "lambda=1e-6", "lambda=1/N")
TABLE = "By regularisation"


def trials(plan: Plan) -> list[Trial]:
    """All of the plan, and both estimates with other lambdas."""
    found = plan.trials("fig1b")
    both = tuple(method for method in plan.methods if method.startswith("naive"))
    if both and plan.settings == ("",):
        found += plan.chosen(methods=both, settings=OTHER_LAMBDAS).trials("fig1b")
    return found


def run(trials: Sequence[Trial]) -> list[Row]:
    """KL of each trial."""
    return measured(trials, divergence)


def draw(rows: list[Row], path: Path) -> list[Path]:
    """KL against N."""
    panels = sorted({row.trial.states for row in rows})
    figure, axes = canvas(1, len(panels), 3.9, 3.0, sharey=True)
    for ax, states in zip(axes[0], panels, strict=True):
        mine = pick(rows, states=states, setting="") or pick(rows, states=states)
        divergences(ax, mine, ordered(mine))
        epsilon = min(row.trial.epsilon for row in mine)
        finish(ax, f"random graph, s = {states}, ε = {epsilon:g}", "N", "KL(true ‖ learned)")
    legend(figure, axes, 2)
    return save(figure, path)


def _ended(rows: list[Row]) -> str:
    """Ratios of fits none of which had converged."""
    told = []
    for method in ("naive", "naive-unprojected"):
        for setting in OTHER_LAMBDAS:
            mine = {row.trial for row in pick(rows, "kl", method=method, setting=setting)}
            ended = {row.trial for row in pick(rows, "unconverged", method=method, setting=setting)}
            for n in sorted({trial.records for trial in ended}):
                count, of = (sum(trial.records == n for trial in some) for some in (ended, mine))
                told.append(f"{count} of {of} at {setting.replace('lambda=', 'λ = ')}, N = {n:,} ({named(method)})")
    return f". Fits that ended before they had converged: {'; '.join(told)}" if told else ""


def named(method: str) -> str:
    """With or without projection."""
    return "with projection" if method == "naive" else "without"


def claims(rows: list[Row]) -> list[Claim]:
    """Whether projection helps in every cell, by regularisation."""
    rows = readings(counted(rows))
    found = []
    for setting in ("", *OTHER_LAMBDAS):
        result = compare(rows, "kl", ("naive", setting), ("naive-unprojected", setting), cell)
        if result.cells:
            listed = ", ".join(f"{1 / result.loss(key):.2g} at N = {key[3]:.0e}" for key in result.cells)
            name = setting.removeprefix("lambda=") or "1e-3"
            found.append(
                Claim(
                    f"with projection below without, λ = {name}",
                    f"{result}; KL without projection divided by KL with it: {listed}",
                    result.verdict,
                    table=TABLE,
                )
            )
    if not found:
        return []
    lead = lead_claim(
        "Figure 1b: projecting the pseudo-marginals onto the simplex is very helpful",
        found,
        "it helps where noise is large beside the counts, and where λ N is small; the paper does not state λ. With "
        "λ N = 1 the gain falls as N grows; with a fixed λ it is gone at the largest N" + _ended(rows),
        TABLE,
        lambda claim: claim.statement.partition(", ")[2],
        end=",",
        reason="it hangs on λ, which the paper does not state",
    )
    lead = lead._replace(brief=f"lower KL at so many N: {lead.brief}")
    return [lead, *found]
