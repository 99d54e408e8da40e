"""Figure 1a: mean squared error of marginals against N, with the slopes and the formula that Proposition 4 predicts.

Two errors are measured on the paper's chain: of the noisy tables themselves, y / N, which the proposition is about, and
of the marginals of the model that the naive estimate learns, which the paper plots. Its regularisation is 1/N per
record, which vanishes: with a fixed one the error of learned marginals does not.

    MSE = mu (1 - mu) / N  +  2 |C|^2 / (N^2 epsilon^2)
"""

from collections.abc import Sequence
from math import log, nan
from pathlib import Path
from typing import Any

from experiments.claims import Claim
from experiments.plotting import canvas, finish, legend, line, save
from experiments.running import learned, missing
from experiments.trials import Plan, Row, Trial, curve, pick, true_model

TITLE = "Mean squared error of marginals against population size"
PLANS: dict[Any, Plan] = {
    "full": Plan(
        sizes=(100, 1000, 10_000, 100_000, 1_000_000, 10_000_000),
        methods=("nonprivate", "naive"),
        settings=("lambda=1/N",),
    ),
    "quick": Plan(
        settings=("lambda=1/N",),
        sizes=(100, 1000, 10_000, 100_000, 1_000_000),
        epsilons=(0.1, 1.0),
        methods=("nonprivate", "naive"),
        populations=3,
        replications=1,
    ),
    "tiny": Plan(
        settings=("lambda=1/N",), states=(3,), sizes=(100, 10_000), epsilons=(1.0,), methods=("nonprivate", "naive"),
        populations=2, replications=1, structures=("chain-4",),
    ),
}  # fmt: skip
COLOURS = {0.01: "#D55E00", 0.1: "#E69F00", 0.5: "#009E73", 1.0: "#0072B2", float("inf"): "#000000"}


def run(trials: Sequence[Trial]) -> list[Row]:
    """The errors of the learned marginals and, where there is noise, of the noisy tables."""
    import numpy as np

    rows = []
    for trial, study, model, seconds in learned(trials):
        truth = study.model.marginals()

        def error(tables: Any, truth: Any = truth) -> float:
            return float(np.mean(np.concatenate([(tables[c] - mu).ravel() for c, mu in truth.items()]) ** 2))

        if trial.method == "naive":
            noisy = study.releases(1, start=trial.replication)[0].tables
            rows.append(Row(trial, "raw", error({c: noisy[c] / study.records for c in truth}), seconds))
        rows += missing(trial, model, seconds) or [Row(trial, "mse", error(model.marginals()), seconds)]
    return rows


def predicted(trial: Trial) -> tuple[float, float]:
    """The two terms of Proposition 4, averaged over all cells: sampling and noise."""
    import numpy as np

    model = true_model(trial.structure, trial.states, trial.model)
    mu = np.concatenate([table.ravel() for table in model.marginals().values()])
    scale = len(model.cliques) / trial.epsilon
    return float(np.mean(mu * (1 - mu))) / trial.records, 2 * scale**2 / trial.records**2


def draw(rows: list[Row], path: Path) -> list[Path]:
    """Error against N; points are measured, thin lines the formula."""
    figure, axes = canvas(1, 2, 3.6, 3.0, sharey=True)
    epsilons = sorted({row.trial.epsilon for row in pick(rows, method="naive")})
    for ax, measure, title in zip(
        axes[0], ("raw", "mse"), ("noisy tables, y / N", "marginals learned by naive MLE"), strict=True
    ):
        for epsilon in epsilons:
            mine = pick(rows, measure, method="naive", epsilon=epsilon)
            line(ax, curve(mine, "records"), color=COLOURS.get(epsilon, "#555555"), marker="o", markersize=4,
                 linestyle="" if measure == "raw" else "-", label=f"ε = {epsilon:g}")  # fmt: skip
            formula = {row.trial.records: sum(predicted(row.trial)) for row in mine}
            ax.plot(sorted(formula), [formula[n] for n in sorted(formula)], color=COLOURS.get(epsilon, "#555555"),
                    linewidth=0.8, linestyle="--", label="Proposition 4")  # fmt: skip
        plain = pick(rows, "mse", method="nonprivate")
        line(ax, curve(plain, "records"), color="#000000", marker="s", markersize=4, label="without privacy")
        _slope(ax, plain, 1, 0.35)
        _slope(ax, pick(rows, measure, method="naive", epsilon=min(epsilons, default=0.0)), 2, 3.0)
        finish(ax, title, "N", "mean squared error" if measure == "raw" else "")
    legend(figure, axes)
    return save(figure, path)


def _slope(ax: Any, rows: list[Row], slope: int, factor: float) -> None:
    """A reference line of a slope, a little below or above what it is compared with."""
    points = curve(rows, "records")
    if not points:
        return
    first, last = min(points), max(points)
    start = points[first].mean * factor
    ax.plot([first, last], [start, start * (first / last) ** slope], color="#888888", linewidth=1,
            linestyle=(0, (1, 1)), label=f"slope −{slope}")  # fmt: skip


def slope(rows: list[Row]) -> float:
    """The slope on a log-log plot between the smallest and the largest N."""
    points = curve(rows, "records")
    first, last = min(points, default=1), max(points, default=1)
    if first == last:
        return nan
    return log(points[last].mean / points[first].mean) / log(last / first)


def claims(rows: list[Row]) -> list[Claim]:
    """Whether the error follows the proposition."""
    naive = pick(rows, "raw", method="naive")
    if not naive:
        return []
    ratios = []
    for key in sorted({(row.trial.epsilon, row.trial.records) for row in naive}):
        mine = pick(naive, "raw", epsilon=key[0], records=key[1])
        (point,) = curve(mine, "records").values()
        ratios.append(point.mean / sum(predicted(mine[0].trial)))
    low = min(row.trial.epsilon for row in naive)
    noisy, plain = slope(pick(naive, "raw", epsilon=low)), slope(pick(rows, "mse", method="nonprivate"))
    least, most = min(ratios), max(ratios)
    reached = {}
    for epsilon in sorted({row.trial.epsilon for row in naive}):
        one = pick(naive, "raw", epsilon=epsilon)[0].trial
        sampling, noise = predicted(one)
        reached[epsilon] = one.records * noise / sampling
    where = "; ".join(f"N = {n:.2g} at ε = {epsilon:g}" for epsilon, n in reached.items())
    return [
        Claim(
            "Proposition 4: MSE(y/N) = μ(1−μ)/N + 2|C|²/(N²ε²)",
            f"measured / predicted between {least:.3f} and {most:.3f} over {len(ratios)} cells",
            "agrees" if least > 0.85 and most < 1.15 else "differs",
        ),
        Claim(
            "Figure 1a: slope −1 from sampling and −2 from privacy on a log-log plot",
            f"slope {plain:.2f} without privacy, {noisy:.2f} at ε = {low:g} (noisy tables)",
            "agrees" if abs(plain + 1) < 0.15 and abs(noisy + 2) < 0.15 else "partly",
        ),
        Claim(
            "For practical ε the O(1/N²) term is dominant until N becomes very large",
            f"the two terms are equal at {where}",
            "agrees",
            "computed from the proposition, whose formula the measured errors follow",
        ),
    ]
