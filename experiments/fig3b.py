"""Figure 3b: holdout log-likelihood against epsilon for a time-homogeneous chain of places.

On a simulated building (from its raw log), on the MSNBC sequences and on GeoLife's user-days, each with three
sensitivities (see ``mobility.py``), with 25% of the individuals held out. In ``map`` with the setting ``pipeline`` the
raw log goes through ``qf.Sequences`` and ``qf.release`` with exact noise; elsewhere noise is simulated, so that methods
see the same releases. GeoLife's places are ranks that use all days of a user, and it has 45 users: its noise protects
user-days only in form, and nothing is claimed for it.
"""

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from experiments import mobility
from experiments.claims import Claim, share, verdict
from experiments.estimators import NAIVE_LAMBDA, get, shown
from experiments.methods import REFERENCE_PRIOR
from experiments.plotting import canvas, finish, legend, line, save, style
from experiments.running import called, missing
from experiments.trials import NO_NOISE, Plan, Row, Trial, curve, pick
from quietfield.learning import fit
from quietfield.models.model import Model

TITLE = "Holdout log-likelihood of a chain of places against epsilon"
NAMED = (*mobility.BUILDINGS, *mobility.FILES)
SIMULATES = False  # data sets alone
_FULL = Plan(
    structures=("building", "msnbc", "geolife"),
    states=(0,),  # the data's own
    sizes=(1000, 10_000, 1_000_000),  # training units, at most
    epsilons=(0.01, 0.05, 0.1, 0.5, 1.0),
    methods=("nonprivate", "naive", "cgm", "map", "psgd"),
    settings=mobility.WEIGHTINGS,
)
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(
        structures=("building-small", "msnbc"),
        sizes=(1000, 1_000_000),
        epsilons=(0.1, 1.0),
        methods=("nonprivate", "naive", "cgm", "map", "psgd-small"),
        populations=1,
        replications=2,
    ),
    "tiny": _FULL.chosen(
        structures=("building-tiny",),
        sizes=(1000,),
        epsilons=(1.0,),
        methods=("nonprivate", "naive", "map"),
        settings=("ours",),
        populations=1,
        replications=1,
    ),
}
NAMES = {"msnbc": "MSNBC", "geolife": "GeoLife (no claim)", "building": "building", "building-small": "small building",
         "building-tiny": "tiny building"}  # fmt: skip
_GRADIENT = (
    "PSGD learns from one segment of each unit with equal weights, so the bias of 1/K does not touch it; it is tuned "
    "on what it learns from and promises only (ε, 1/N)"
)
_PERSISTENT = (
    "people stay where they are, so nearly all is in the tables' diagonals: a prior that is centred on no interaction, "
    "as the default's, holds back longer than EM that is stopped, or than a small λ"
)
_EQUAL = (
    "unnormalised, a unit counts with all its edges instead of once, so that its noise is larger only by a small "
    "factor beside the counts; and equal weights have no bias"
)
LOOKS = {"ours": "-", "paper": "--", "unnormalised": ":"}


def trials(plan: Plan) -> list[Trial]:
    """Methods on all weightings; gradients, which have none; and the whole pipeline where there is a raw log.

    Data sets whose file is not there are left out.
    """
    found = []
    for trial in plan.chosen(structures=mobility.available(plan.structures)).trials("fig3b"):
        sees = get(trial.method).sees
        if sees == "records":
            if trial.setting == plan.settings[0]:
                found.append(trial._replace(setting=""))
        elif sees == "tables":
            # Without noise the paper's weighting is ours.
            if trial.setting != "paper" or "ours" not in plan.settings:
                found.append(trial)
        else:
            found.append(trial)
            if trial.method == "map" and trial.setting == "ours" and trial.structure in mobility.BUILDINGS:
                if trial.population == trial.replication == 0 and trial.records == max(plan.sizes):
                    found.append(trial._replace(setting="pipeline"))
    return found


@lru_cache(maxsize=16)
def _part(structure: str, seed: int, population: int, records: int) -> mobility.Split:
    return mobility.split(mobility.walks(structure, seed), population, records)


def part_of(trial: Trial) -> mobility.Split:
    """The split that a trial learns from and is scored on."""
    return _part(trial.structure, trial.model, trial.population, trial.records)


def run(trials: Sequence[Trial]) -> list[Row]:
    """The holdout score of each trial, and how many units it learned from."""
    parts = [part_of(trial) for trial in trials]
    started = time.perf_counter()
    models = called(_models, list(zip(trials, parts, strict=True)), f"{trials[0].method}, {trials[0].structure}")
    seconds = (time.perf_counter() - started) / len(trials)
    rows = []
    for trial, part, model in zip(trials, parts, models, strict=True):
        if without := missing(trial, model, seconds):
            rows += without
            continue
        rows.append(Row(trial, "holdout", mobility.score(part, model), seconds))
        rows.append(Row(trial, "units", float(len(part.train)), seconds))
    return rows


def _models(asked: Sequence[tuple[Trial, mobility.Split]]) -> Sequence[Model | None]:
    trials, parts = zip(*asked, strict=True)
    one, sees = trials[0], get(trials[0].method).sees
    if one.setting == "pipeline":
        return [_pipeline(trial, part) for trial, part in zip(trials, parts, strict=True)]
    if sees == "records":
        return _gradients(trials, parts)
    weighting: Any = one.setting
    releases = [
        mobility.release(part, weighting, None if sees == "tables" else trial.epsilon, _seed(trial))
        for trial, part in zip(trials, parts, strict=True)
    ]
    if sees == "tables" or one.method == "naive":
        releases = [mobility.filled(made) for made in releases]
    if sees == "tables":
        units = min(len(part.train) for part in parts)
        return fit(releases, "naive", regularisation=REFERENCE_PRIOR / units)
    if one.method == "naive":
        return fit(releases, "naive", regularisation=NAIVE_LAMBDA)
    return get(one.method).learn(releases)


def _seed(trial: Trial) -> int:
    return 100 * trial.population + trial.replication


def _pipeline(trial: Trial, part: mobility.Split) -> Model:
    """From the raw log: the training units' rows, cut and counted by the curator's own code, with exact noise."""
    import numpy as np

    from quietfield.curator.release import release

    building, log = mobility.BUILDINGS[trial.structure], part.walks.log
    day = (log["seen"].cast("int64").to_numpy() - mobility.START) // 86_400
    _, unit = np.unique(log["user"].to_numpy() * building.days + day, return_inverse=True)
    how = mobility.sequences(building)
    made = release(
        how.log(log.filter(np.isin(unit, part.train))), how.schema, how.structure, epsilon=trial.epsilon,
        unit=how.unit, ledger=None,
    )  # fmt: skip
    learned = fit(made)
    # The same field over attributes whose labels are codes, as the segments to score are.
    return Model(part.walks.domain, dict(learned.potentials))


def _gradients(trials: Sequence[Trial], parts: Sequence[mobility.Split]) -> list[Model]:
    """PSGD on one segment of each unit, with the settings of its cell; replications of a split side by side.

    One row a unit is what it can protect: a unit's other segments would each cost as much again.
    """
    found: dict[Trial, Model] = {}
    for key in dict.fromkeys(trial._replace(replication=0) for trial in trials):
        some = [trial for trial in trials if trial._replace(replication=0) == key]
        part = parts[trials.index(some[0])]
        best = _tuned(key._replace(population=0))
        found.update(zip(some, (run.model for run in _descents(part, some[0], [best] * len(some), 1)), strict=True))
    return [found[trial] for trial in trials]


@lru_cache(maxsize=256)
def _tuned(trial: Trial) -> Any:
    """The settings of a cell: those that fit the segments of the first split best that they learned from. That flatters
    PSGD: no curator could choose so without paying for every run."""
    from experiments.gradient import grid

    part = part_of(trial)
    rows = mobility.one_each(part, trial.population)
    runs = _descents(part, trial, grid(len(rows), trial.method.endswith("small")), 0)
    return max(runs, key=lambda found: float(found.model.log_prob(rows).mean())).settings


def _descents(part: mobility.Split, trial: Trial, settings: Sequence[Any], stream: int) -> list[Any]:
    from experiments.psgd import psgd_grid

    # By the replication too: those that are learned later, or one by one, have noise of their own.
    seed = 2 * (trial.population + 1000 * trial.replication) + stream
    return psgd_grid(
        mobility.one_each(part, trial.population), part.walks.domain, part.walks.structure, settings,
        epsilon=trial.epsilon, ledger=None, paper=True, seed=seed,
    )  # fmt: skip


def draw(rows: list[Row], path: Path) -> list[Path]:
    """Score against epsilon (all units) and against the number of units (the largest epsilon), a row a data set."""
    sets = sorted({row.trial.structure for row in pick(rows, "holdout")})
    if not sets:
        return []
    figure, axes = canvas(len(sets), 2, 3.8, 2.7, sharey="row")
    for (left, right), name in zip(axes, sets, strict=True):
        here = pick(rows, "holdout", structure=name)
        top = max(row.trial.records for row in here)
        largest = max((row.trial.epsilon for row in here if row.trial.epsilon != NO_NOISE), default=NO_NOISE)
        units = {row.trial.records: row.value for row in pick(rows, "units", structure=name)}
        _lines(left, pick(here, records=top), "epsilon")
        at_largest = [row for row in here if row.trial.epsilon in (largest, NO_NOISE)]
        _lines(right, at_largest, lambda trial, units=units: units.get(trial.records, trial.records))
        title = NAMES.get(name, name)
        finish(left, f"{title}: {units.get(top, top):,.0f} units", "ε", "log-likelihood a segment", log="x")
        finish(right, f"{title}: ε = {largest:g}", "units learned from", "", log="x")
        # Naive estimates that follow the noise lie thousands of nats below and would flatten the rest: the axis ends
        # below the worst of those that do not.
        there = [row for row in here if row.trial.method != "naive"] or here
        shown_here = [row.value for row in there if row.trial.records == top or row.trial.epsilon == largest]
        best, worst = max(shown_here), min(shown_here)
        left.set_ylim(worst - 0.1 * (best - worst) - 0.1, best + 0.1 * (best - worst) + 0.1)
    legend(figure, axes, 3)
    return save(figure, path)


def _lines(ax: Any, rows: list[Row], along: Any) -> None:
    kinds = {(row.trial.method, row.trial.setting) for row in rows}
    for method, setting in sorted(
        kinds, key=lambda kind: (kind[0], list(LOOKS).index(kind[1]) if kind[1] in LOOKS else 9)
    ):
        mine = pick(rows, method=method, setting=setting)
        look = {**style(method), "linestyle": LOOKS.get(setting, "-")}
        if setting == "pipeline":
            look |= {"linestyle": "", "marker": "o", "markerfacecolor": "none", "markersize": 9}
        label = f"{shown(method).label}{f', {setting}' if setting else ''}"
        points = curve(mine, along)
        if shown(method).sees == "tables" and along == "epsilon":
            ax.axhline(next(iter(points.values())).mean, label=label, **{**look, "marker": None})
        else:
            line(ax, points, label=label, **look)


def _cells(rows: list[Row], method: str, setting: str) -> dict[Any, float]:
    mine = pick(rows, "holdout", method=method, setting=setting)
    return {key: point.mean for key, point in curve(mine, lambda t: (t.structure, t.records, t.epsilon)).items()}


def _above(rows: list[Row], one: tuple[str, str], other: tuple[str, str]) -> tuple[int, int, float]:
    a, b = _cells(rows, *one), _cells(rows, *other)
    both = [key for key in a if key in b]
    gain = median(a[key] - b[key] for key in both) if both else float("nan")
    return sum(a[key] > b[key] for key in both), len(both), gain


def claims(rows: list[Row]) -> list[Claim]:
    """Who is above whom, what the smaller sensitivity gains, what the weighting costs."""
    gradient = "psgd" if pick(rows, method="psgd") else "psgd-small"
    asked: list[tuple[str, tuple[str, str], tuple[str, str], str]] = [
        ("CGM improves upon naive MLE across all parameter regimes", ("cgm", "paper"), ("naive", "paper"), ""),
        ("Naive MLE outperforms PSGD", ("naive", "paper"), (gradient, ""), _GRADIENT),
        ("CGM outperforms PSGD", ("cgm", "paper"), (gradient, ""), _GRADIENT),
        ("(ours) the default is above naive MLE, same releases", ("map", "ours"), ("naive", "ours"), _PERSISTENT),
        ("(ours) the default is above CGM, same releases", ("map", "ours"), ("cgm", "ours"), _PERSISTENT),
        ("Normalising by 1/K beats 24 times the sensitivity", ("map", "paper"), ("map", "unnormalised"), _EQUAL),
        ("(ours) sensitivity 2 instead of the number of edges", ("map", "ours"), ("map", "paper"), ""),
    ]  # fmt: skip
    found = []
    for statement, one, other, why in asked:
        good, count, gain = _above(rows, one, other)
        told = f"above in {share(good, count)}; median gain {gain:.3g} nats a segment" if count else "not run"
        stands = verdict(good, count)
        found.append(Claim(statement, told, stands, why if stands in ("partly", "differs") else ""))
    return [*found, *_rises(rows), *_bias(rows), *_whole(rows)]


def _rises(rows: list[Row]) -> list[Claim]:
    cells = _cells(rows, "map", "ours")
    steps = [
        (cells[a, n, e], cells[b, m, f])
        for a, n, e in cells
        for b, m, f in cells
        if a == b and ((n == m and e < f) or (e == f and n < m))
    ]
    if not steps:
        return []
    good = sum(after > before for before, after in steps)
    return [
        Claim(
            "Performance improves with population size and with weaker privacy",
            f"it rises in {good} of {len(steps)} steps to a larger N or ε (quietfield)",
            "agrees" if good >= 0.9 * len(steps) else "partly",
        )
    ]


def _bias(rows: list[Row]) -> list[Claim]:
    found = []
    for name in sorted({row.trial.structure for row in rows}):
        top = max(row.trial.records for row in pick(rows, structure=name))
        key = (name, top, NO_NOISE)
        weighted, plain = (_cells(rows, "nonprivate", w).get(key) for w in ("ours", "unnormalised"))
        if weighted is not None and plain is not None:
            found.append(
                Claim(
                    "1/K weights bias the model towards individuals with fewer transitions",
                    f"{NAMES.get(name, name)}, without privacy: {weighted:.3f} nats a segment with 1/K weights, "
                    f"{plain:.3f} with equal ones: the bias costs {plain - weighted:.3f}",
                    "agrees" if plain > weighted else "differs",
                )
            )
    return found


def _whole(rows: list[Row]) -> list[Claim]:
    gaps, apart = [], 0
    for row in pick(rows, "holdout", setting="pipeline"):
        alike = pick(rows, "holdout", setting="ours", **{name: getattr(row.trial, name) for name in _SAME})
        values = [other.value for other in alike]
        mean = sum(values) / len(values)
        spread = (sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)) ** 0.5
        gaps.append(abs(row.value - mean))
        apart += gaps[-1] > max(0.1, 5 * spread)
    if not gaps:
        return []
    return [
        Claim(
            "(check) the raw log through Sequences and release, with exact noise, agrees with simulated noise",
            f"scores differ by at most {max(gaps):.3g} nats a segment over {len(gaps)} epsilons; by more than noise "
            f"explains in {apart}",
            "differs" if apart else "agrees",
        )
    ]


_SAME = ("structure", "records", "epsilon", "population", "method")
