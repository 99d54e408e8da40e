"""Figure 3a: true against learned edge marginals of one random graph, s = 20, method by method."""

from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from experiments.claims import Claim, lead_claim, verdict
from experiments.estimators import NAIVE_LAMBDA, shown
from experiments.methods import lambda_of
from experiments.plotting import STYLES, both_readings, canvas, finish, ordered, save
from experiments.running import learned, missing
from experiments.trials import Plan, Row, Trial, pick, true_model

TITLE = "True against learned edge marginals"
MEASURE = ""  # each cell of each edge is one
_FULL = Plan(
    structures=("random",),
    states=(20,),
    sizes=(100_000,),
    epsilons=(0.5,),
    methods=("nonprivate", "naive", "cgm-letter", "cgm", "map", "psgd"),
    populations=1,
    replications=1,
)
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(states=(5,), methods=("nonprivate", "naive", "cgm-letter", "cgm", "map", "psgd-small")),
    "tiny": _FULL.chosen(structures=("chain-4",), states=(3,), sizes=(10_000,), methods=("nonprivate", "naive", "map")),
}
#: The naive estimate with other regularisations: the statement depends on it.
OTHER_LAMBDAS = ("lambda=1e-5", "lambda=3e-5", "lambda=1e-4", "lambda=3e-4", "lambda=1e-2", "lambda=1/N")
FLOOR = 1e-9  # marginals below are drawn here


def trials(plan: Plan) -> list[Trial]:
    """All of the plan, and the naive estimate with other lambdas."""
    found = plan.trials("fig3a")
    if "naive" in plan.methods and plan.settings == ("",):
        found += plan.chosen(methods=("naive",), settings=OTHER_LAMBDAS).trials("fig3a")
    return found


def run(trials: Sequence[Trial]) -> list[Row]:
    """Every cell of every edge: its number is the measure, its learned marginal the value."""
    rows = []
    for trial, study, model, seconds in learned(trials):
        if without := missing(trial, model, seconds):
            rows += without
            continue
        found = [model.marginal(c).ravel() for c in study.model.cliques]
        values = [float(value) for table in found for value in table]
        rows += [Row(trial, f"{i}", float(f"{value:.6g}"), seconds) for i, value in enumerate(values)]
    return rows


def truth(trial: Trial) -> list[float]:
    """The true marginals, cell by cell."""
    model = true_model(trial.structure, trial.states, trial.model)
    return [float(value) for c in model.cliques for value in model.marginal(c).ravel()]


def pairs(rows: list[Row], method: str, setting: str = "") -> tuple[list[float], list[float]]:
    """True and learned marginals of a method's cells."""
    mine = sorted(pick(rows, method=method, setting=setting), key=lambda row: int(row.measure))
    true = truth(mine[0].trial)
    return [true[int(row.measure)] for row in mine], [row.value for row in mine]


def largest(rows: list[Row]) -> list[Row]:
    """The rows of the largest problem that is there."""
    top = max((row.trial.states, row.trial.records) for row in rows)
    return [row for row in rows if (row.trial.states, row.trial.records) == top and row.measure.isdigit()]


def draw(rows: list[Row], path: Path) -> list[Path]:
    """One panel a method."""
    rows = both_readings(largest(rows))
    if not rows:
        return []
    methods = ordered(rows)
    figure, axes = canvas(1, len(methods), 2.5, 2.5, sharey=True, sharex=True)
    for ax, method in zip(axes[0], methods, strict=True):
        true, found = pairs(rows, method)
        ends = [min(true) / 2, max(true) * 2]
        ax.plot(ends, ends, color="#888888", linewidth=0.8)
        ax.scatter(true, [max(value, FLOOR) for value in found], s=2, linewidths=0, alpha=0.6,
                   color=STYLES.get(method, ("#882255",))[0], rasterized=True)  # fmt: skip
        finish(ax, f"{shown(method).label}\nerror factor {spread(true, found):.3g}", "true marginal",
               "learned marginal" if ax is axes[0][0] else "")  # fmt: skip
    trial = rows[0].trial
    epsilon = min(row.trial.epsilon for row in rows)
    figure.suptitle(f"{trial.structure}, s = {trial.states}, N = {trial.records:,}, ε = {epsilon:g}", fontsize=9)
    return save(figure, path)


def spread(true: list[float], found: list[float]) -> float:
    """The typical factor between learned and true: exp of the root mean square of their log-ratio."""
    logs = [log(max(b, FLOOR) / a) for a, b in zip(true, found, strict=True)]
    return exp((sum(value * value for value in logs) / len(logs)) ** 0.5)


def rmse(true: list[float], found: list[float]) -> float:
    """The root mean square difference, which the largest marginals decide."""
    return (sum((a - b) ** 2 for a, b in zip(true, found, strict=True)) / len(true)) ** 0.5


#: What is called close: a factor, for which all marginals count alike, and an error, which the largest decide.
MEASURES = {
    f"typical factor (exp of the root mean square log-ratio; marginals below {FLOOR:g} count as that)": spread,
    "root mean square error": rmse,
}


def claims(rows: list[Row]) -> list[Claim]:
    """Whose marginals are closest, by two measures; a cell is a regularisation of the naive estimate."""
    rows = largest(rows)
    if not rows:
        return []
    learned_by = {kind: pairs(rows, *kind) for kind in sorted({(r.trial.method, r.trial.setting) for r in rows})}
    targets = {"true": {kind: true for kind, (true, _) in learned_by.items()}}
    if ("nonprivate", "") in learned_by:
        targets["non-private"] = dict.fromkeys(learned_by, learned_by["nonprivate", ""][1])
    found: list[Claim] = []
    for method, target, statement in (
        ("cgm-letter", "true", "Figure 3a: CGM learns marginals that are much closer to the true ones than naive MLE "
         "does"),
        ("cgm-letter", "non-private", "Figure 3a: CGM's marginals are also much closer to those of the non-private "
         "estimator"),
        ("cgm", "true", "(ours) the same with exact EM: closer to the true marginals than naive MLE"),
        ("map", "true", "(ours) the default is closer to the true marginals than naive MLE"),
    ):  # fmt: skip
        if target not in targets:
            continue
        apart = {
            words: {kind: measure(targets[target][kind], values) for kind, (_, values) in learned_by.items()}
            for words, measure in MEASURES.items()
        }
        readings = [_closer(rows, method, words, values, not found) for words, values in apart.items()]
        ran = [claim for claim in readings if claim.verdict != "not run"]
        lead = lead_claim(statement, ran, "", "", end="\n")
        why = "; ".join(dict.fromkeys(claim.why for claim in ran if claim.why))
        note = f"one graph, one population, one release{f'; {why}' if why else ''}" if ran else ""
        closer = [claim.found.rpartition("Closer at ")[2] for claim in ran]
        brief = f"closer at {' and '.join(closer)} (by typical factor, by mean square)"
        found.append(
            lead._replace(found=lead.found or "not run", why=note, lead=method == "cgm-letter", brief=brief,
                          reason="it hangs on λ and on what is called close; one release")
        )  # fmt: skip
    return found


def _closer(rows: list[Row], method: str, words: str, measured: Mapping[tuple[str, str], float], whole: bool) -> Claim:
    """One method beside the naive estimate at every lambda, by one measure; ``whole``: with all other methods."""
    by_value = {  # 1/N may be one of the others: it is one regularisation
        lambda_of(setting, rows[0].trial.records, NAIVE_LAMBDA): value
        for (one, setting), value in measured.items()
        if one == "naive"
    }
    naive = {value: by_value[value] for value in sorted(by_value)}
    if (method, "") not in measured or not naive:
        return Claim(words, "not run", "not run")
    mine = measured[method, ""]
    others = [one for one in ordered(rows) if one not in ("naive", method) and (one, "") in measured]
    told = ", ".join(f"{shown(one).label} {measured[one, '']:.3g}" for one in (method, *(others if whole else ())))
    listed = ", ".join(f"{factor:.3g} at λ = {value:g}" for value, factor in naive.items())
    good = sum(mine < factor for factor in naive.values())
    near = [f"{value:g}" for value, factor in naive.items() if 0.95 < factor / mine < 1.05]
    return Claim(
        words,
        f"{told}; naive MLE {listed}. Closer at {good} of {len(naive)} λ",
        verdict(good, len(naive)),
        f"no visible difference (within 5% of the factor) at λ = {' and '.join(near)}"
        if near and words.startswith("typical")
        else "",
    )
