"""Timing: how long naive MLE, CGM and PSGD take beside each other, on chains, random graphs and the chain of places.

Each method learns a release once to be compiled, and then up to three times to be timed; the least time counts. Seconds
are of processor time, in one process whatever ``--jobs`` says, so that other work on the machine does not count.
PSGD is one run of 1,000 steps with batches of about 1,000 records; its grid search is not counted, nor is the
accountant.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments import fig3b, mobility
from experiments.claims import Claim, verdict
from experiments.estimators import NAIVE_LAMBDA, get, shown
from experiments.plotting import STYLES, bar, canvas, finish, ordered, save
from experiments.trials import Plan, Row, Trial, curve, pick, simulation_of
from quietfield.learning import fit

TITLE = "Seconds to learn, and their ratios"
MEASURE = ""
ALONE = True  # one process
NAMED = tuple(mobility.BUILDINGS)
ENOUGH = 10.0  # seconds of timing, after which no other run is begun
_FULL = Plan(
    structures=("chain", "random", "building"),
    states=(10,),
    sizes=(100_000,),
    epsilons=(0.5,),
    methods=("naive", "cgm-letter", "cgm", "map", "psgd"),
    populations=3,
    replications=1,
)
PLANS: dict[Any, Plan] = {
    "full": _FULL,
    "quick": _FULL.chosen(
        structures=("chain", "random", "building-small"), states=(5,), sizes=(10_000,), populations=2
    ),
    "tiny": _FULL.chosen(
        structures=("chain-4",), states=(3,), sizes=(1000,), methods=("naive", "map", "psgd"), populations=1
    ),
}
#: What the paper reports, relative to naive MLE.
PAPER = {"chain": (4, 27), "random": (8, 40), "building": (15, 46)}


def run(trials: Sequence[Trial]) -> list[Row]:
    """Seconds of processor time of each trial alone."""
    rows = []
    for trial in trials:
        learn = _task(trial)
        learn()
        times: list[float] = []
        while len(times) < 3 and sum(times) < ENOUGH:
            started = time.process_time()
            learn()
            times.append(time.process_time() - started)
        rows.append(Row(trial, "seconds", min(times), sum(times)))
    return rows


def _task(trial: Trial) -> Callable[[], Any]:
    """The work to be timed, with all data at hand."""
    gradient = get(trial.method).sees == "records"
    if trial.structure in mobility.BUILDINGS:
        part = fig3b.part_of(trial)
        if gradient:
            return _descent(mobility.one_each(part, trial.population), part.walks, trial)
        release = mobility.release(part, "ours", trial.epsilon, trial.population)
    else:
        study = simulation_of(trial)
        if gradient:
            return _descent(study.population.codes, study.model, trial)
        release = study.release
    if trial.method == "naive":
        return partial(fit, release, "naive", regularisation=NAIVE_LAMBDA)
    return partial(get(trial.method).learn, [release])


def _descent(codes: Any, field: Any, trial: Trial) -> Callable[[], Any]:
    from experiments.psgd import Settings, psgd

    settings = Settings(learning_rate=4.0, clip=2.0, rate=min(1000 / len(codes), 0.5), steps=1000)
    return partial(
        psgd, codes, field.domain, field.structure, settings, epsilon=trial.epsilon, ledger=None, paper=True,
        seed=trial.population,
    )  # fmt: skip


def draw(rows: list[Row], path: Path) -> list[Path]:
    """Seconds by structure and method."""
    rows = pick(rows, "seconds")
    structures = list(dict.fromkeys(row.trial.structure for row in sorted(rows)))
    methods = ordered(rows)
    if not rows:
        return []
    figure, axes = canvas(1, 1, 5.2, 2.9)
    ax = axes[0][0]
    for i, method in enumerate(methods):
        found = curve(pick(rows, "seconds", method=method), "structure")
        places = [structures.index(name) + (i - (len(methods) - 1) / 2) * 0.8 / len(methods) for name in found]
        means, bars = zip(*((point.mean, bar(point)) for point in found.values()), strict=True)
        colour = STYLES.get(method, ("#882255",))[0]
        ax.bar(places, means, 0.75 / len(methods), label=shown(method).label, yerr=bars, capsize=2, color=colour)
    ax.set_xticks(range(len(structures)), structures)
    finish(ax, "one fit, compiled before", "", "seconds", log="y")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return save(figure, path)


_HOW = "other implementations; PSGD has 1,000 steps by our choice, and its factor is in proportion; λ = 1e-3 only"
_WEIGHTS = "; 1/K weights with sensitivity 2"


def _span(times: Mapping[int, float], base: Mapping[int, float]) -> str:
    """Ratios to naive MLE population by population, from the least to the largest, in two digits."""
    ratios = [times[population] / base[population] for population in times if population in base]
    low, high = (f"{float(f'{value:.2g}'):g}" for value in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"


def claims(rows: list[Row]) -> list[Claim]:
    """The ratios beside the paper's, with their range over populations."""
    rows = pick(rows, "seconds")
    found, fastest = [], {}
    for structure in dict.fromkeys(row.trial.structure for row in sorted(rows)):
        by_method = {
            method: {row.trial.population: row.value for row in pick(rows, method=method, structure=structure)}
            for method in ordered(pick(rows, structure=structure))
        }
        here = {method: sum(times.values()) / len(times) for method, times in by_method.items()}
        kind = structure.split("-")[0]
        if kind not in PAPER or not {"naive", "psgd"} <= set(here) or not {"cgm", "cgm-letter"} & set(here):
            continue
        base, which = here["naive"], "cgm-letter" if "cgm-letter" in here else "cgm"
        fastest[kind] = base < min(here[which], here["psgd"])
        ratios = here[which] / base, here["psgd"] / base
        near = sum(0.5 < ratio / theirs < 2 for ratio, theirs in zip(ratios, PAPER[kind], strict=True))
        span = {method: _span(times, by_method["naive"]) for method, times in by_method.items()}
        values = mobility.shape_of(structure)[1] if structure in mobility.BUILDINGS else rows[0].trial.states
        found.append(
            Claim(
                f"{kind}: CGM takes {PAPER[kind][0]} times as long as naive MLE, and PSGD {PAPER[kind][1]} times",
                f"{structure}, {values} values: {span[which]} and {span['psgd']} times"
                + (" with exact EM for CGM" if which == "cgm" else "")
                + f" (naive {base:.1g} s"
                + (f", quietfield {span['map']} times that)" if "map" in here else ")")
                + f"; on average within a factor 2 in {near} of 2",
                verdict(near, 2),
                _HOW
                + (_WEIGHTS if structure in mobility.BUILDINGS else "")
                + ("; the paper's CGM was not timed" if which == "cgm" else ""),
                lead=True,
            )
        )
    if found:
        good = sum(fastest.values())
        told = f"faster than both others in {good} of {len(fastest)}: {', '.join(fastest)}"
        found.insert(
            0, Claim("Naive MLE is the fastest method", told, verdict(good, len(fastest)), "λ = 1e-3 only", lead=True)
        )
    return found
