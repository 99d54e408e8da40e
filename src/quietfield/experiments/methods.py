"""The built-in estimators: the paper's, our default, and references that see more than a release.

``naive`` has one lambda per record for all cells (the paper regularises too, and does not say how much); ``map`` is the
default of :func:`quietfield.fit`, without settings. ``psgd`` promises only (epsilon, 1/N), as ``map-gaussian`` does,
which is therefore shown apart.
"""

from collections.abc import Callable, Sequence
from typing import Any

from quietfield.experiments.estimators import NAIVE_LAMBDA, Estimator, Request
from quietfield.learning import fit
from quietfield.model import Model
from quietfield.noise import Laplace
from quietfield.releases import Release

#: lambda of the non-private estimate, which exists without any only where no cell is empty.
REFERENCE_LAMBDA = 1e-6


def _fitted(method: str, **options: Any) -> Callable[[Sequence[Request]], list[Model]]:
    """All releases in one call: those of one structure are learned side by side."""

    def call(requests: Sequence[Request]) -> list[Model]:
        return fit([request.release for request in requests], method, **options)

    return call


def _naive(requests: Sequence[Request]) -> list[Model]:
    return fit([r.release for r in requests], "naive", regularisation=_lambda(requests, NAIVE_LAMBDA))


def _gaussian(requests: Sequence[Request]) -> list[Model]:
    releases = [
        request.simulation.with_epsilon(request.trial.epsilon, 1 / max(request.trial.records, 2)).releases(
            1, start=request.trial.replication
        )[0]
        for request in requests
    ]
    return fit(releases)


def without_noise(request: Request) -> Release:
    """The true tables in the form of a release."""
    study = request.simulation
    return Release.from_tables(study.model.domain, study.tables, noise=Laplace(1e-9), total=study.records)


def _reference(requests: Sequence[Request]) -> list[Model]:
    return fit([without_noise(r) for r in requests], "naive", regularisation=_lambda(requests, REFERENCE_LAMBDA))


def _random(requests: Sequence[Request]) -> list[Model]:
    """Random marginals, each table one draw from a Dirichlet distribution, and the regularised estimate from them."""
    import numpy as np

    made = []
    for request in requests:
        domain = request.simulation.model.domain
        random = np.random.default_rng([request.trial.population, request.trial.replication, 7])
        tables = {
            c: random.dirichlet(np.ones(domain.cells(c))).reshape(domain.table_shape(c))
            for c in request.simulation.model.cliques
        }
        made.append(Release.from_tables(domain, tables, noise=Laplace(1e-9), total=1))
    return fit(made, "naive", regularisation=NAIVE_LAMBDA)


def _psgd(**options: Any) -> Callable[[Sequence[Request]], Sequence[Model | None]]:
    def call(requests: Sequence[Request]) -> Sequence[Model | None]:
        from quietfield.experiments.gradient import learn

        return learn(requests, **options)

    return call


def _lambda(requests: Sequence[Request], default: float) -> float:
    """lambda from the setting that the requests share, such as ``lambda=0.01``."""
    (setting,) = {request.trial.setting for request in requests}
    return float(setting.removeprefix("lambda=")) if setting.startswith("lambda=") else default


BUILT_IN = (
    Estimator("random", "random", "nothing", _random),
    Estimator("nonprivate", "non-private MLE", "tables", _reference),
    Estimator("naive", "naive MLE", "release", _naive),
    Estimator(
        "naive-unprojected",
        "naive MLE, not projected",
        "release",
        _fitted("naive", regularisation=NAIVE_LAMBDA, project=False),
    ),
    Estimator("cgm", "CGM", "release", _fitted("cgm")),
    Estimator("cgm-nlbp", "CGM by NLBP, as published", "release", _fitted("cgm-nlbp")),
    Estimator("map", "quietfield", "release", _fitted("map")),
    Estimator("map-gaussian", "quietfield, Gaussian noise, δ = 1/N", "release", _gaussian, apart=True),
    Estimator("psgd", "PSGD, δ = 1/N", "records", _psgd(), by_cell=True),
    Estimator("psgd-small", "PSGD (small grid), δ = 1/N", "records", _psgd(small=True), by_cell=True),
    Estimator(
        "psgd-moments", "PSGD (moments accountant), δ = 1/N", "records", _psgd(accountant="moments"), by_cell=True
    ),
)
