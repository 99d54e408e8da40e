"""The built-in estimators: the paper's, our default, and references that see more than a release.

``naive`` has one lambda per record for all cells (the paper regularises too, and does not say how much);
``naive-tuned`` has the best of a list in each cell, chosen with the truth, which no user could do. ``map`` is the
default of :func:`quietfield.fit`, without settings. ``psgd`` promises only (epsilon, 1/N), as ``map-gaussian`` does,
which is therefore shown apart.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from experiments.estimators import NAIVE_LAMBDA, Estimator, Request, of_releases
from experiments.trials import Trial, simulation_of
from quietfield.errors import CannotLearn
from quietfield.learning import fit
from quietfield.models.model import Model
from quietfield.releases.release import Release

#: lambda of the non-private estimate, divided by N: a weak prior, since without any it exists only where no cell is
#: empty. (As a Gaussian prior of log-potentials its variance is 5, whatever N.)
REFERENCE_PRIOR = 0.1
#: What the tuned naive estimate chooses from.
LAMBDAS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def _fitted(method: str, **options: Any) -> Callable[[Sequence[Release]], list[Model]]:
    """All releases in one call: those of one structure are learned side by side."""

    def learn(releases: Sequence[Release]) -> list[Model]:
        return fit(list(releases), method, **options)

    return learn


def _naive(requests: Sequence[Request]) -> list[Model]:
    """Side by side those of one lambda; with the setting ``lambda=1/N``, those of one N."""
    found: dict[Trial, Model] = {}
    for weight in dict.fromkeys(_lambda(request, NAIVE_LAMBDA) for request in requests):
        some = [request for request in requests if _lambda(request, NAIVE_LAMBDA) == weight]
        models = fit([request.release for request in some], "naive", regularisation=weight)
        found.update(zip((request.trial for request in some), models, strict=True))
    return [found[request.trial] for request in requests]


def _naive_tuned(requests: Sequence[Request]) -> list[Model]:
    """The naive estimate at the lambda that comes closest to the truth on a population of its own, cell by cell."""
    from experiments.gradient import TUNING

    best = best_lambda(requests[0].trial._replace(population=TUNING, replication=0))
    return fit([request.release for request in requests], "naive", regularisation=best)


@lru_cache(maxsize=256)
def best_lambda(trial: Trial) -> float:
    """The lambda of a list with the least KL; one at which the fit breaks down is out."""
    study = simulation_of(trial)
    found = {}
    for weight in LAMBDAS:
        try:
            found[weight] = study.model.kl(fit(study.release, "naive", regularisation=weight))
        except CannotLearn:
            found[weight] = inf
    return min(LAMBDAS, key=lambda weight: found[weight])


def _gaussian(requests: Sequence[Request]) -> list[Model]:
    releases = [
        request.simulation.with_epsilon(request.trial.epsilon, 1 / max(request.trial.records, 2)).releases(
            1, start=request.trial.replication
        )[0]
        for request in requests
    ]
    return fit(releases)


def _reference(requests: Sequence[Request]) -> list[Model]:
    from quietfield.learning.references import fit_true_tables

    return [
        fit_true_tables(
            request.simulation.model.domain,
            request.simulation.tables,
            regularisation=_lambda(request, REFERENCE_PRIOR / request.simulation.records),
        )
        for request in requests
    ]


def _random(requests: Sequence[Request]) -> list[Model]:
    from quietfield.learning.references import fit_random_tables

    return [
        fit_random_tables(
            request.simulation.model.domain,
            request.simulation.model.structure,
            seed=1000 * request.trial.population + request.trial.replication,
            regularisation=NAIVE_LAMBDA,
        )
        for request in requests
    ]


def _psgd(**options: Any) -> Callable[[Sequence[Request]], Sequence[Model | None]]:
    def call(requests: Sequence[Request]) -> Sequence[Model | None]:
        from experiments.gradient import learn

        return learn(requests, **options)

    return call


def _lambda(request: Request, default: float) -> float:
    """lambda from the setting, such as ``lambda=0.01`` or ``lambda=1/N``."""
    setting = request.trial.setting
    if setting == "lambda=1/N":
        return 1 / request.simulation.records
    return float(setting.removeprefix("lambda=")) if setting.startswith("lambda=") else default


BUILT_IN = (
    Estimator("random", "random", "nothing", _random),
    Estimator("nonprivate", "non-private MLE", "tables", _reference),
    Estimator("naive", "naive MLE", "release", _naive),
    Estimator("naive-tuned", "naive MLE, λ tuned with the truth", "release", _naive_tuned, by_cell=True, apart=True),
    of_releases(
        "naive-unprojected",
        "naive MLE, not projected",
        _fitted("naive", regularisation=NAIVE_LAMBDA, project=False),
    ),
    of_releases("cgm", "CGM", _fitted("cgm")),
    of_releases("cgm-nlbp", "CGM by NLBP, as published", _fitted("cgm-nlbp")),
    of_releases("map", "quietfield", _fitted("map")),
    Estimator("map-gaussian", "quietfield, Gaussian noise, δ = 1/N", "release", _gaussian, apart=True),
    Estimator("psgd", "PSGD, δ = 1/N", "records", _psgd(), by_cell=True),
    Estimator("psgd-small", "PSGD (small grid), δ = 1/N", "records", _psgd(small=True), by_cell=True),
    Estimator(
        "psgd-moments", "PSGD (moments accountant), δ = 1/N", "records", _psgd(accountant="moments"), by_cell=True
    ),
)
