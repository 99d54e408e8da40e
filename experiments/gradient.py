"""The gradient baseline in the figures: PSGD with delta = 1/N, its settings chosen once a cell.

A grid is run on a population of its own, and the setting that comes closest to the true model is used for all trials of
the cell. No user could choose like that (it needs the truth, and every run of the grid would cost); the paper does, "to
ensure it performs as well as possible". Where an accountant cannot reach epsilon, there is no result.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import Any

from experiments.estimators import Request
from experiments.trials import Trial, simulation_of
from quietfield.models.model import Model

TUNING = 999  # the population that settings are chosen on; trials have populations 0, 1, ...


def learn(requests: Sequence[Request], *, small: bool = False, accountant: Any = "pld") -> list[Model | None]:
    """The models of all requests of one cell (structure, records, epsilon), or None for each."""
    from experiments.psgd import psgd_grid

    cell = requests[0].trial
    best = tuned(cell._replace(population=TUNING, replication=0), small, accountant)
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


@lru_cache(maxsize=256)
def tuned(trial: Trial, small: bool, accountant: Any) -> Any:
    """The best setting of the grid on the tuning population, by KL from the true model; None if none can be had."""
    from experiments.psgd import psgd_grid

    study = simulation_of(trial)
    if not reachable(trial, accountant):
        return None
    runs = psgd_grid(
        study.population.codes, study.model.domain, study.model.structure, grid(trial.records, small),
        epsilon=trial.epsilon, ledger=None, accountant=accountant, paper=True, seed=_seed(trial),
    )  # fmt: skip
    return min(runs, key=lambda run: study.model.kl(run.model)).settings


def grid(records: int, small: bool) -> Any:
    """The settings that are tried: batches of about 1,000 and 5,000 records, few steps and many."""
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
