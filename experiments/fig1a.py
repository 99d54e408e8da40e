"""Figure 1a: mean squared error of marginals against N, with the slopes and the formula that Proposition 4 predicts.

Two errors are measured on the paper's chain: of the noisy tables themselves, y / N, which the proposition is about, and
of the marginals of the model that the naive estimate learns, which the paper plots. The proposition is judged by the
former; slopes of both are checks, since the figure draws those of the proposition's terms as reference lines and says
nothing of the curves'. The paper does not say how large its regularisation is. Both readings are run: 1 beside the
likelihood of N records (1/N per record), which vanishes, and 1e-3 per record, with which the error of learned marginals
has a floor. The fit runs until it has converged: ended earlier, its marginals may be worse than y / N.

    MSE = mu (1 - mu) / N  +  2 |C|^2 / (N^2 epsilon^2)
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, starmap
from math import inf, log, nan
from pathlib import Path
from typing import Any

from experiments.claims import Claim, lead_claim, share, verdict
from experiments.fig2 import named
from experiments.plotting import canvas, finish, legend, line, save
from experiments.running import learned, missing, unconverged
from experiments.trials import Plan, Row, Trial, curve, pick, true_model

TITLE = "Mean squared error of marginals against population size"
MEASURE = "mse"
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
#: The regularisation: 1 beside the likelihood of N records, and 1e-3 per record.
READINGS = ("lambda=1/N", "")
#: N is large enough for the asymptotic error where sampling makes so many times the error of noise.
PAST = 10
#: The settings of non-private MLE that have the same.
PLAIN = {"lambda=1/N": "lambda=1/N", "": "lambda=1e-3"}


def trials(plan: Plan) -> list[Trial]:
    """All of the plan, and both methods with the other reading of their regularisation."""
    found = plan.trials("fig1a")
    if plan.settings == READINGS[:1]:
        for method, setting in (("naive", "plain"), ("nonprivate", PLAIN[""])):
            if method in plan.methods:
                found += plan.chosen(methods=(method,), settings=(setting,)).trials("fig1a")
    return found


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
        rows += missing(trial, model, seconds) or [
            Row(trial, "mse", error(model.marginals()), seconds),
            *unconverged(trial, model, seconds),
        ]
    return rows


def predicted(trial: Trial) -> tuple[float, float]:
    """The two terms of Proposition 4, averaged over all cells: sampling and noise."""
    import numpy as np

    model = true_model(trial.structure, trial.states, trial.model)
    mu = np.concatenate([table.ravel() for table in model.marginals().values()])
    scale = len(model.cliques) / trial.epsilon
    return float(np.mean(mu * (1 - mu))) / trial.records, 2 * scale**2 / trial.records**2


def noise_by_count(trial: Trial, epsilon: float, records: int) -> float:
    """The scale of the noise beside the mean count of a cell."""
    import numpy as np

    model = true_model(trial.structure, trial.states, trial.model)
    share = float(np.mean(np.concatenate([table.ravel() for table in model.marginals().values()])))
    return len(model.cliques) / epsilon / (records * share)


def draw(rows: list[Row], path: Path) -> list[Path]:
    """Error against N; points are measured, thin lines the formula."""
    # The noisy tables of both readings are the same.
    panels = [("raw", READINGS[0], "noisy tables, y / N")]
    panels += [("mse", one, f"marginals learned by {named(('naive', one))}") for one in READINGS]
    panels = [panel for panel in panels if pick(rows, method="naive", setting=panel[1])]
    figure, axes = canvas(1, max(len(panels), 1), 3.6, 3.0, sharey=True)
    epsilons = sorted({row.trial.epsilon for row in pick(rows, method="naive")})
    for ax, (measure, setting, title) in zip(axes[0], panels, strict=False):
        there = pick(rows, measure, method="naive", setting=setting)
        plain = without_privacy(rows, setting)
        for epsilon in epsilons:
            mine = pick(there, epsilon=epsilon)
            line(ax, curve(mine, "records"), color=COLOURS.get(epsilon, "#555555"), marker="o", markersize=4,
                 linestyle="" if measure == "raw" else "-", label=f"ε = {epsilon:g}")  # fmt: skip
            formula = {row.trial.records: sum(predicted(row.trial)) for row in mine}
            ax.plot(sorted(formula), [formula[n] for n in sorted(formula)], color=COLOURS.get(epsilon, "#555555"),
                    linewidth=0.8, linestyle="--", label="Proposition 4")  # fmt: skip
        line(ax, curve(plain, "records"), color="#000000", marker="s", markersize=4, label="without privacy")
        _slope(ax, plain, 1, 0.35)
        _slope(ax, pick(there, epsilon=min(epsilons, default=0.0)), 2, 3.0)
        finish(ax, title, "N", "mean squared error" if measure == "raw" else "")
    legend(figure, axes)
    return save(figure, path)


def without_privacy(rows: list[Row], setting: str = READINGS[0]) -> list[Row]:
    """The errors of non-private MLE with the regularisation of a reading of the naive estimate: like for like."""
    return pick(rows, "mse", method="nonprivate", setting=PLAIN[setting])


def _slope(ax: Any, rows: list[Row], slope: int, factor: float) -> None:
    """A reference line of a slope, a little below or above what it is compared with."""
    points = curve(rows, "records")
    if not points:
        return
    first, last = min(points), max(points)
    start = points[first].mean * factor
    ax.plot([first, last], [start, start * (first / last) ** slope], color="#888888", linewidth=1,
            linestyle=(0, (1, 1)), label=f"slope −{slope}")  # fmt: skip


def slope(rows: list[Row], least: int = 0) -> float:
    """The slope on a log-log plot between the smallest N (or the smallest of at least so many) and the largest."""
    points = {n: point for n, point in curve(rows, "records").items() if n >= least}
    first, last = min(points, default=1), max(points, default=1)
    if first == last:
        return nan
    return log(points[last].mean / points[first].mean) / log(last / first)


def ratios(rows: list[Row], measure: str, setting: str = READINGS[0]) -> dict[tuple[float, int], float]:
    """Measured over predicted by epsilon and N, with one reading of the regularisation."""
    found = {}
    naive = pick(rows, measure, method="naive", setting=setting)
    for epsilon in sorted({row.trial.epsilon for row in naive}):
        mine = pick(naive, epsilon=epsilon)
        for records, point in curve(mine, "records").items():
            found[epsilon, records] = point.mean / sum(predicted(pick(mine, records=records)[0].trial))
    return found


def equal_terms(trial: Trial) -> float:
    """The N at which the two terms of Proposition 4 are equal."""
    sampling, noise = predicted(trial)
    return trial.records * noise / sampling


def _asymptotic(rows: list[Row]) -> list[Claim]:
    """How far learned marginals are from those without privacy where N is large enough; a cell is an epsilon and an N.

    By Proposition 4 the error of y / N is 1 + M / N times that of n / N, with M where its two terms are equal: at most
    1.1 times from N = 10 M on. A lambda per record that does not vanish cannot speak: both errors then rest on the same
    bias.
    """
    setting = READINGS[0]
    plain = curve(without_privacy(rows, setting), "records")
    naive = pick(rows, "mse", method="naive", setting=setting)
    judged, near, far = {}, {}, []
    for epsilon in sorted({row.trial.epsilon for row in naive}):
        there = pick(naive, epsilon=epsilon)
        mine = curve(there, "records")
        meet = equal_terms(there[0].trial)
        ratios = {n: mine[n].mean / plain[n].mean for n in mine if n in plain}
        past = {(epsilon, n): ratio for n, ratio in ratios.items() if n >= PAST * meet}
        judged |= past
        if ratios and not past:
            top = max(ratios)
            far.append(f"{ratios[top]:.3g} at ε = {epsilon:g}, N = {top:,} (the terms are equal at {meet:.2g})")
    if not judged and not far:
        return []
    near = {key: ratio for key, ratio in judged.items() if ratio < 1 + 1 / PAST}
    listed = ", ".join(f"{ratio:.3g} at ε = {epsilon:g}, N = {n:,}" for (epsilon, n), ratio in judged.items())
    found = (
        f"error of learned marginals over that without privacy, λ = 1/N, where N is at least {PAST} times the N at "
        f"which the two terms are equal: {listed or 'nowhere'}; below {1 + 1 / PAST:g} in "
        f"{share(len(near), len(judged))}" + f". N is not large enough: {'; '.join(far)}" * bool(far)
    )
    return [
        Claim(
            "Naive MLE achieves the asymptotic mean squared error of non-private MLE",
            found,
            verdict(len(near), len(judged)),
            f"the proposition gives 1 + 1/{PAST} there{_bias(rows)}",
            lead=True,
            brief=", ".join(f"{ratio:.3g} (ε = {e:g}, N = {n:,})" for (e, n), ratio in judged.items())
            + " times its error",
            reason=f"for {len(far)} smaller ε, N is not large enough" if far else "",
        )
    ]


def _bias(rows: list[Row]) -> str:
    """Why the reading with a lambda that does not vanish says nothing of privacy at large N."""
    fixed, vanishing = (curve(without_privacy(rows, setting), "records") for setting in (READINGS[1], READINGS[0]))
    both = [n for n in fixed if n in vanishing]
    if not both:
        return ""
    top = max(both)
    return (
        f". {_strength(READINGS[1])} is not judged: at N = {top:,} it makes the error without privacy "
        f"{fixed[top].mean / vanishing[top].mean:,.0f} times that of λ = 1/N, a bias that both sides have"
    )


def _strength(setting: str) -> str:
    return named(("naive", setting)).rpartition(", ")[2]


def _followed(rows: list[Row], one: Trial) -> list[Claim]:
    """Whether the error of learned marginals is what the proposition says of y / N, by reading."""
    found, why = [], []
    pooled = _pooled(rows)
    for setting in READINGS:
        measured = ratios(rows, "mse", setting)
        if not measured:
            continue
        twice = [key for key, ratio in measured.items() if 0.5 < ratio < 2]
        below = [key for key, ratio in measured.items() if ratio <= 0.5]
        above = [key for key, ratio in measured.items() if ratio >= 2]
        worst = max(above, key=lambda key: measured[key], default=None)
        found.append(
            Claim(
                _strength(setting),
                f"measured / predicted within a factor 2 in {share(len(twice), len(measured))}, less than half in "
                f"{len(below)}, more than twice in {len(above)}"
                + (f" (up to {measured[worst]:.3g}, at ε = {worst[0]:g}, N = {worst[1]:,})" if worst else ""),
                verdict(len(twice), len(measured)),
            )
        )
        beside = partial(noise_by_count, one)
        least, most = min(starmap(beside, below), default=inf), max(starmap(beside, twice), default=0.0)
        if below and twice and not above and least > most:
            why.append(
                f"{_strength(setting)}: where noise is large beside the counts (its scale is at least {least:.2g} "
                f"times the mean count in the cells below half, at most {most:.2g} times in the others), projection "
                "onto the simplex bounds what it can do"
                + (f". As Nε grows the ratio levels off at {pooled:.2f}, which is that of non-private MLE: a model "
                   "pools what its tables share" if pooled else "")
            )  # fmt: skip
        elif above and not setting:
            other = ratios(rows, "mse", READINGS[0])
            small = [key for key in below if other.get(key, 0) > 0.5]
            why.append(
                f"With {_strength(setting)}, {len(below)} cells have less than half the predicted error: in "
                f"{len(below) - len(small)} because of the simplex"
                + f", in {len(small)} because λ shrinks the noise" * bool(small)
                + ". Where noise is small, a λ per record that does not vanish leaves a bias, whatever N"
            )
    if not found:
        return []
    statement = "(check) the error of learned marginals is what Proposition 4 says of y/N"
    return [lead_claim(statement, found, ". ".join(why), "")._replace(lead=False)]


def _pooled(rows: list[Row]) -> float:
    """The error of non-private MLE over the sampling term of the proposition, at the largest N; 0 where it is unknown.

    A model of fewer parameters than its tables have cells pools what these share.
    """
    there = without_privacy(rows)
    plain = curve(there, "records")
    if not plain:
        return 0.0
    top = max(plain)
    return plain[top].mean / predicted(pick(there, records=top)[0].trial)[0]


def decades(rows: list[Row]) -> list[float]:
    """The slope from each N to the next."""
    points = curve(rows, "records")
    sizes = list(points)
    return [log(points[b].mean / points[a].mean) / log(b / a) for a, b in pairwise(sizes)]


def _slopes(rows: list[Row], low: float) -> list[Claim]:
    """The slopes of the learned marginals' errors, which the figure shows; those of y / N as a check."""
    plain, readings, why = slope(without_privacy(rows)), [], []
    for setting in READINGS:
        mine = pick(rows, "mse", method="naive", setting=setting, epsilon=low)
        if not mine:
            continue
        wanted = {f"at ε = {low:g}": (slope(mine), -2)}
        if same := without_privacy(rows, setting):
            wanted = {"without privacy": (slope(same), -1), **wanted}
        ends = sum(abs(one - goal) < 0.15 for one, goal in wanted.values())
        told = ", ".join(f"{one:.2f} {where}" for where, (one, _) in wanted.items())
        text = f"{told}; within 0.15 in {ends} of {len(wanted)}"
        readings.append(Claim(_strength(setting), text, verdict(ends, len(wanted))))
        why.append(f"{', '.join(f'{one:.2f}' for one in decades(mine))} ({_strength(setting)})")
    noisy = slope(pick(rows, "raw", method="naive", setting=READINGS[0], epsilon=low))
    ends = sum(abs(one - wanted) < 0.15 for one, wanted in ((plain, -1), (noisy, -2)))
    check = Claim(
        "(check) the slopes of figure 1a's reference lines, −1 from sampling and −2 from privacy: noisy tables y/N",
        f"{plain:.2f} without privacy, {noisy:.2f} at ε = {low:g}; within 0.15 in {ends} of 2",
        verdict(ends, 2),
    )
    if not readings:
        return [check]
    learned_slopes = lead_claim(
        "(check) the same slopes with learned marginals, which the figure shows",
        readings,
        "the caption calls these the predicted slopes of the two terms, and draws them as reference lines: it does not "
        f"say that learned marginals have them. From each N to the next at ε = {low:g}: {'; '.join(why)}. Where noise "
        "is large, the simplex bounds the error of learned marginals; a λ that does not vanish leaves a floor",
        "",
        end="\n",
    )
    return [check, learned_slopes._replace(lead=False)]


def claims(rows: list[Row]) -> list[Claim]:
    """Whether the errors follow the proposition: those of the noisy tables, and those of learned marginals."""
    naive = pick(rows, "raw", method="naive", setting=READINGS[0])  # the noisy tables of both readings are the same
    if not naive:
        return []
    raw = ratios(rows, "raw")
    low = min(row.trial.epsilon for row in naive)
    reached = {}
    for epsilon in sorted({row.trial.epsilon for row in naive}):
        reached[epsilon] = equal_terms(pick(naive, "raw", epsilon=epsilon)[0].trial)
    where = "; ".join(f"N = {n:.2g} at ε = {epsilon:g}" for epsilon, n in reached.items())
    near = sum(0.85 < ratio < 1.15 for ratio in raw.values())
    return [
        Claim(
            "Proposition 4: MSE(y/N) = μ(1−μ)/N + 2|C|²/(N²ε²)",
            f"noisy tables: measured / predicted between {min(raw.values()):.3f} and {max(raw.values()):.3f}; "
            f"within 15% in {share(near, len(raw))}",
            verdict(near, len(raw)),
            lead=True,
            brief=f"noisy tables: within 15% of the formula in {near} of {len(raw)} cells",
        ),
        *_slopes(rows, low),
        *_followed(rows, naive[0].trial),
        Claim(
            "For practical ε the O(1/N²) term is dominant until N becomes very large",
            f"the two terms are equal at {where}; above 10^5 in {sum(n > 1e5 for n in reached.values())} of "
            f"{len(reached)}",
            verdict(sum(n > 1e5 for n in reached.values()), len(reached)),
            "computed from the proposition, whose formula the noisy tables follow",
            lead=True,
            brief=f"the two terms are equal at N = {min(reached.values()):.2g} to {max(reached.values()):.2g}, by ε",
        ),
        *_asymptotic(rows),
    ]
