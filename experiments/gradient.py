"""The gradient baseline in the figures: PSGD with delta = 1/N, its settings chosen once a cell.

Settings are tried on a population of its own, and the one that comes closest to the true model is used for all trials
of the cell. No user could choose like that (it needs the truth, and every run would cost); the paper does, "to
ensure it performs as well as possible". Where an accountant cannot reach epsilon, there is no result.

What is tried: the 64 settings of a grid (``"grid"``; too narrow: learning rates 2 and 8, at most 1,000 steps), or a
search along lines (``"wide"``): learning rates from 0.03 to 30, 10 to 10,000 steps, four clips (the largest cuts
nothing), batches of about 200 to 20,000 records, each with the last iterate and with the mean of the second half.
``"none"`` has one setting for all cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import log
from typing import Any, Literal

from experiments.estimators import Request
from experiments.trials import Row, Trial, simulation_of
from quietfield.models.model import Model

Search = Literal["grid", "wide", "small", "none"]
#: How each method chooses its settings, and its accountant.
SEARCHES: dict[str, tuple[Search, Any]] = {
    "psgd": ("grid", "pld"),
    "psgd-moments": ("grid", "moments"),
    "psgd-wide": ("wide", "pld"),
    "psgd-wide-moments": ("wide", "moments"),
    "psgd-fixed": ("none", "pld"),
    "psgd-small": ("small", "pld"),
}
TUNING = 999  # the population that settings are chosen on; trials have populations 0, 1, ...


#: What the wide search tries of each setting; batches are in records.
LEARNING_RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
STEPS = (10, 30, 100, 300, 1000, 3000, 10_000)
CLIPS = (0.3, 1.0, 2.5, 10.0)
BATCHES = (200, 1000, 5000, 20_000)
LINES = ("learning_rate", "steps", "learning_rate", "clip", "rate", "steps", "learning_rate")


def learn(requests: Sequence[Request]) -> list[Model | None]:
    """The models of all requests of one cell (structure, records, epsilon), or None for each."""
    from experiments.psgd import psgd_grid

    cell = requests[0].trial
    accountant = SEARCHES[cell.method][1]
    best = settings_of(cell)
    if best is None:
        return [None] * len(requests)
    found: dict[Trial, Model] = {}
    for population in dict.fromkeys(request.trial.population for request in requests):
        members = [request for request in requests if request.trial.population == population]
        study = members[0].simulation
        for at in range(0, len(members), 5):  # replications side by side, as memory allows
            some = members[at : at + 5]
            runs = psgd_grid(
                study.population.codes, study.model.domain, study.model.structure, [best] * len(some),
                epsilon=cell.epsilon, ledger=None, accountant=accountant, paper=True, seed=_seed(some[0].trial),
            )  # fmt: skip
            found.update(zip((request.trial for request in some), (run.model for run in runs), strict=True))
    return [found[request.trial] for request in requests]


def settings_of(trial: Trial) -> Any:
    """The settings of a trial's cell; None if there is none."""
    return tuned(trial._replace(population=TUNING, replication=0), *SEARCHES[trial.method])


def chosen(trials: Sequence[Trial]) -> list[Row]:
    """What was chosen for a cell, with its first trial: rows of their own, beside the divergence."""
    found = []
    for trial in trials:
        if trial.method in SEARCHES and trial.population == trial.replication == 0 and (one := settings_of(trial)):
            values = {
                "learning_rate": one.learning_rate,
                "clip": one.clip,
                "batch": one.rate * trial.records,
                "steps": one.steps,
                "average": one.average,
            }
            found += [Row(trial, name, float(value), 0.0) for name, value in values.items()]
    return found


@lru_cache(maxsize=256)
def tuned(trial: Trial, search: Search, accountant: Any) -> Any:
    """The best setting on the tuning population, by KL from the true model; None if none can be had."""
    from experiments.psgd import psgd_grid

    if not reachable(trial, accountant):
        return None
    if search == "none":
        return fixed(trial.records)
    study = simulation_of(trial)

    def losses(settings: Sequence[Any]) -> list[float]:
        runs = psgd_grid(
            study.population.codes, study.model.domain, study.model.structure, settings,
            epsilon=trial.epsilon, ledger=None, accountant=accountant, paper=True, seed=_seed(trial),
        )  # fmt: skip
        return [study.model.kl(run.model) for run in runs]

    return best_of(search, trial.records, losses)


def best_of(search: Search, records: int, losses: Callable[[Sequence[Any]], list[float]]) -> Any:
    """The setting of least loss that a search finds."""
    if search == "wide":
        return along_lines(records, losses)
    tried = grid(records, search == "small")
    return min(zip(losses(tried), range(len(tried)), tried, strict=True))[2]


def along_lines(records: int, losses: Callable[[Sequence[Any]], list[float]]) -> Any:
    """From the best of six runs, along one setting after the other, always from the best so far.

    >>> from math import log
    >>> found = along_lines(10_000, lambda some: [abs(log(one.learning_rate / 10)) + one.steps for one in some])
    >>> found.learning_rate, found.steps
    (10.0, 10)
    """
    from experiments.psgd import Settings

    rates = tuple(dict.fromkeys(min(batch / records, 1.0) for batch in BATCHES))
    values = {"learning_rate": LEARNING_RATES, "steps": STEPS, "clip": CLIPS, "rate": rates}
    found: dict[Any, float] = {}

    def look(settings: Sequence[Any]) -> Any:
        both = [replace(one, average=average) for one in settings for average in (False, True)]
        fresh = [one for one in dict.fromkeys(both) if one not in found]
        if fresh:
            found.update(zip(fresh, losses(fresh), strict=True))
        return min(found, key=lambda one: found[one])

    middle = min(1000 / records, 1.0)
    best = look(Settings.grid(learning_rate=[0.1, 1.0, 10.0], clip=[1.0], rate=[middle], steps=[30, 300]))
    for name in LINES:
        best = look([replace(best, **{name: value}) for value in values[name]])
    return best


def fixed(records: int) -> Any:
    """One setting for all cells, chosen before any was run: 100 steps on about 1,000 records, averaged."""
    from experiments.psgd import Settings

    return Settings(learning_rate=2.0, clip=1.0, rate=min(1000 / records, 1.0), steps=100, average=True)


def grid(records: int, small: bool) -> Any:
    """The settings of the grid: batches of about 1,000 and 5,000 records, few steps and many."""
    from experiments.psgd import Settings

    rates = [min(max(1000 / records, 5e-4), 0.1), min(max(5000 / records, 2e-3), 0.3)]
    if small:
        return Settings.grid(learning_rate=[3.0, 8.0], clip=[1.0], rate=rates[:1], steps=[60], average=[True])
    return Settings.grid(
        learning_rate=[2.0, 8.0], clip=[1.0, 2.5], rate=rates, steps=[30, 100, 300, 1000], average=[False, True]
    )


def reachable(trial: Trial, accountant: Any) -> bool:
    """Whether the accountant can promise this epsilon at delta = 1/N at all, with any noise.

    The moments accountant stays above log(1/delta) / 32; the privacy loss distribution reaches every epsilon.
    """
    from experiments.psgd_accounting import MOMENTS

    return accountant != "moments" or trial.epsilon > log(max(trial.records, 2)) / MOMENTS


def _seed(trial: Trial) -> int:
    return 10_007 * trial.population + trial.replication
