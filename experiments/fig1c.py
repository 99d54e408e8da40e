"""Figure 1c: the effect of the regularisation lambda on learning with and without privacy (chain, epsilon 0.1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import Claim, share, verdict
from experiments.fig2 import counted, know_nothing
from experiments.plotting import canvas, finish, legend, line, save, style
from experiments.running import divergence, measured
from experiments.trials import Plan, Row, Summary, Trial, curve, pick

TITLE = "The effect of regularisation with and without privacy"
#: A model has underfitted that has learned next to nothing: its KL is at least this share of knowing nothing.
POOR = 0.9
_FULL = Plan(
    sizes=(10_000, 100_000),
    epsilons=(0.1,),
    methods=("nonprivate", "naive"),
    settings=tuple(f"lambda={value:g}" for value in (1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)),
)
_SHORT = tuple(f"lambda={value:g}" for value in (1e-6, 1e-4, 1e-3, 1e-2, 1e-1))
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(sizes=(100_000,), settings=_SHORT, populations=2, replications=1),
    "tiny": _FULL.chosen(
        structures=("chain-4",), states=(3,), sizes=(1000,), settings=_SHORT[1:4], populations=2, replications=1
    ),
}


def trials(plan: Plan) -> list[Trial]:
    """All of the plan, and our default, which has no lambda, on the same releases."""
    default = plan.chosen(methods=("map",), settings=("",))
    return [*plan.trials("fig1c"), *default.trials("fig1c")]


def run(trials: Sequence[Trial]) -> list[Row]:
    """KL of each trial."""
    return measured(trials, divergence)


def weight(trial: Trial) -> float:
    """lambda of a trial."""
    return float(trial.setting.removeprefix("lambda="))


def curves(rows: list[Row], method: str, records: int) -> dict[float, Summary]:
    """KL against lambda."""
    return curve(pick(rows, "kl", method=method, records=records), weight)


def draw(rows: list[Row], path: Path) -> list[Path]:
    """KL against lambda, one panel a size."""
    sizes = sorted({row.trial.records for row in rows})
    figure, axes = canvas(1, len(sizes), 3.9, 3.0, sharey=True)
    for ax, records in zip(axes[0], sizes, strict=True):
        for method, label in (("nonprivate", "true tables"), ("naive", "noisy tables (naive MLE)")):
            line(ax, curves(rows, method, records), label=label, **style(method))
        for level in curve(pick(rows, "kl", method="map", records=records), "records").values():
            ax.axhline(level.mean, label="quietfield, which has no λ", **{**style("map"), "marker": None})
        finish(ax, f"chain, s = {rows[0].trial.states}, ε = {_epsilon(rows):g}, N = {records:,}", "λ (per record)",
               "KL(true ‖ learned)")  # fmt: skip
    legend(figure, axes, 3)
    return save(figure, path)


def _epsilon(rows: list[Row]) -> float:
    return min(row.trial.epsilon for row in rows)


def _unconverged(rows: list[Row], method: str) -> str:
    """At which lambdas fits ended before they had converged."""
    mine = [row.trial for row in pick(rows, "kl", method=method)]
    ended = {row.trial for row in pick(rows, "unconverged", method=method)}
    told = []
    for setting in sorted({trial.setting for trial in ended}, key=lambda setting: float(setting.partition("=")[2])):
        there = sum(trial.setting == setting for trial in mine)
        count = sum(trial.setting == setting for trial in ended)
        told.append(f"{count} of {there} at {setting.replace('lambda=', 'λ = ')}")
    return f"fits that ended before they had converged: {', '.join(told)}" if told else ""


def claims(rows: list[Row]) -> list[Claim]:
    """Overfitting at small lambda with noise, none without; a cell is a size."""
    rows = counted(rows)
    over, flat, under, told = {}, {}, {}, {}
    for records in sorted({row.trial.records for row in rows}):
        noisy, plain = (curves(rows, method, records) for method in ("naive", "nonprivate"))
        levels = curve(pick(rows, "kl", method="map", records=records), "records")
        if not (noisy and plain and levels):
            continue
        best, least = min(noisy, key=lambda x: noisy[x].mean), min(noisy)
        (level,) = levels.values()
        top = min(point.mean for point in plain.values())
        near = [x for x in plain if plain[x].mean < 2 * top]
        over[records], flat[records] = noisy[least].mean / noisy[best].mean, plain[least].mean / top
        strong = max(noisy)
        under[records, "naive MLE"] = noisy[strong].mean, noisy[strong].mean / noisy[best].mean
        under[records, "non-private MLE"] = plain[strong].mean, plain[strong].mean / top
        told[records] = (
            f"N = {records:,}: KL {noisy[least].mean:.3g} at λ = {least:g} per record, {noisy[best].mean:.3g} at the "
            f"best, λ = {best:g} (λN = {best * records:,.0f}); quietfield, which has no λ: {level.mean:.3g}",
            f"N = {records:,}: KL at λ = {least:g} is {flat[records]:.2g} times the best; within a factor 2 of it "
            f"for λ from {min(near):g} to {max(near):g}",
        )
    if not over:
        return []
    one = rows[0].trial
    nothing = know_nothing(one.structure, one.states, one.model)
    poor = "; ".join(
        f"{name} at N = {records:,} {ratio:.3g} ({value / nothing:.0%})"
        for (records, name), (value, ratio) in under.items()
    )
    strongly = sum(ratio > 2 or value > POOR * nothing for value, ratio in under.values())
    hidden = _unconverged(rows, "nonprivate")
    judged = [row for row in pick(rows, method="nonprivate") if weight(row.trial) == least]
    unsettled = len(pick(judged, "unconverged")) / len(pick(judged, "kl"))
    bad, good = sum(ratio > 2 for ratio in over.values()), sum(ratio < 2 for ratio in flat.values())
    return [
        Claim(
            "Figure 1c: naive MLE overfits badly (to zeros) for small λ and must be tuned “just right”",
            "; ".join(text for text, _ in told.values()) + f". More than twice the best in {share(bad, len(over))}",
            verdict(bad, len(over)),
            _unconverged(rows, "naive"),
            lead=True,
            brief="KL at the least λ over the best: "
            + ", ".join(f"{ratio:.3g} (N = {n:,})" for n, ratio in over.items()),
        ),
        Claim(
            "Figure 1c: with true tables there is no tendency to overfit: good for a broad range of λ approaching zero",
            "; ".join(text for _, text in told.values()) + f". Less than twice the best in {share(good, len(flat))}",
            verdict(good, len(flat)),
            f"{hidden}: a fit that ends early hides how far it would overfit" if hidden else "",
            lead=True,
            brief="KL at the least λ over the best: "
            + ", ".join(f"{ratio:.2g} (N = {n:,})" for n, ratio in flat.items()),
            reason="most of these fits had not converged" if unsettled > 0.5 else "",
        ),
        Claim(
            "Figure 1c: at high λ both methods underfit and yield poor KL divergence",
            f"KL at the largest λ ({strong:g}) divided by the least (as a share of that of a model that knows nothing)"
            f": {poor}. More than twice the best, or at least {POOR:.0%} of knowing nothing, in "
            f"{share(strongly, len(under))}",
            verdict(strongly, len(under)),
            "as λ grows the model comes to know nothing: where noise leaves little to learn, the best is more than "
            "half of that, and twice the best cannot be reached",
            lead=True,
            brief=f"KL at λ = {strong:g} is at least {min(v for v, _ in under.values()) / nothing:.0%} of knowing "
            "nothing",
        ),
    ]
