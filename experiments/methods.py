"""The built-in estimators: the paper's, our default, and references that see more than a release.

``naive`` has one lambda for all cells. The paper writes lambda |theta|^2 beside the likelihood of N records and does
not say how large it is: the settings ``lambda=1e-3`` (per record, whatever N) and ``lambda=1/N`` (1 beside the
likelihood of N records) are its two readings. ``naive-tuned`` has the best of a list in each cell, chosen with the
truth, which no user could do.

``cgm-letter`` is the paper's CGM: Algorithm 1 (NLBP, alpha = 0.1, 50 iterations) inside Algorithm 2 (EM), without
regularisation, and with exact inference where the paper has loopy BP. The paper does not say when EM has converged: it
ends by the rule of :mod:`quietfield.learning.nlbp`, or with the setting ``rounds=100`` after so many iterations.
``cgm`` is ours: EM with its exact E-step, stopped by a rule that uses our default.

``map`` is the default of :func:`quietfield.fit`, without settings. ``psgd`` promises only (epsilon, 1/N), as
``map-gaussian`` does, which is therefore shown apart. ``psgd`` was tuned with the truth on a grid that turned out too
narrow; ``psgd-wide`` is tuned by a wider search, and ``psgd-fixed`` has one setting for all cells.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
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
#: Rounds of 20 Newton steps for the naive estimate. Where noise is large and lambda small it takes a thousand steps;
#: after the learner's 10 rounds it is still on its way, with learned marginals that are worse than at the end.
ROUNDS = 100
#: What the tuned naive estimate chooses from: up to where it is a model that knows nothing.
LAMBDAS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 0.3, 1.0, 3.0, 10.0)


def _fitted(method: str, **options: Any) -> Callable[[Sequence[Release]], list[Model]]:
    """All releases in one call: those of one structure are learned side by side."""

    def learn(releases: Sequence[Release]) -> list[Model]:
        return fit(list(releases), method, **options)

    return learn


def _naive(requests: Sequence[Request], project: bool = True) -> list[Model]:
    """Side by side those of one lambda; with the setting ``lambda=1/N``, those of one N."""
    found: dict[Trial, Model] = {}
    options: dict[str, Any] = {"project": project, "rounds": ROUNDS}
    for weight in dict.fromkeys(_lambda(request, NAIVE_LAMBDA) for request in requests):
        some = [request for request in requests if _lambda(request, NAIVE_LAMBDA) == weight]
        models = fit([request.release for request in some], "naive", regularisation=weight, **options)
        found.update(zip((request.trial for request in some), models, strict=True))
    return [found[request.trial] for request in requests]


def _letter(requests: Sequence[Request]) -> list[Model]:
    """NLBP inside EM to the letter; all requests of a call have one setting."""
    return fit([request.release for request in requests], "cgm-nlbp", **letter_options(requests[0].trial.setting))


def letter_options(setting: str) -> dict[str, Any]:
    """What a setting such as ``alpha=0.02`` or ``rounds=100`` asks of the paper's CGM.

    Every E-step has all its 50 iterations: the learner's own tolerance is in units of noise, and would end it at once
    where noise is large.

    >>> letter_options("rounds=100")["settled"]
    0.0
    """
    options: dict[str, Any] = {"smooth": 0.0, "damping": 0.1, "iterations": 50, "tolerance": 0.0}
    if setting.startswith("rounds="):
        options |= {"rounds": int(setting.removeprefix("rounds=")), "settled": 0.0}
    elif setting.startswith("alpha="):
        options["damping"] = float(setting.removeprefix("alpha="))
    return options


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


def _psgd(requests: Sequence[Request]) -> Sequence[Model | None]:
    from experiments.gradient import learn

    return learn(requests)


def _lambda(request: Request, default: float) -> float:
    """lambda per record, from the setting, such as ``lambda=0.01`` or ``lambda=1/N``."""
    return lambda_of(request.trial.setting, request.simulation.records, default)


def lambda_of(setting: str, records: int, default: float) -> float:
    """lambda per record; ``10/N`` is 10 beside the likelihood of all N records.

    >>> lambda_of("lambda=10/N", 1000, 0.5), lambda_of("", 1000, 0.5)
    (0.01, 0.5)
    """
    if not setting.startswith("lambda="):
        return default
    value = setting.removeprefix("lambda=")
    return float(value.removesuffix("/N")) / records if value.endswith("/N") else float(value)


BUILT_IN = (
    Estimator("random", "random estimator", "nothing", _random),
    Estimator("nonprivate", "non-private MLE", "tables", _reference),
    Estimator("naive", "naive MLE", "release", _naive),
    Estimator("naive-tuned", "naive MLE, λ tuned with the truth", "release", _naive_tuned, by_cell=True, apart=True),
    Estimator("naive-unprojected", "naive MLE, not projected", "release", partial(_naive, project=False)),
    Estimator(
        "cgm-letter",
        "CGM",
        "release",
        _letter,
        from_releases=_fitted("cgm-nlbp", **letter_options("")),
    ),
    of_releases("cgm", "exact EM (ours)", _fitted("cgm")),
    of_releases("cgm-nlbp", "CGM, NLBP smoothed (ours)", _fitted("cgm-nlbp")),
    of_releases("map", "quietfield", _fitted("map")),
    Estimator("map-gaussian", "quietfield, Gaussian noise, δ = 1/N", "release", _gaussian, apart=True),
    *(
        Estimator(name, f"{label}, δ = 1/N", "records", _psgd, by_cell=True)
        for name, label in {
            "psgd": "PSGD",
            "psgd-wide": "PSGD, wide search",
            "psgd-wide-moments": "PSGD (moments accountant), wide search",
            "psgd-fixed": "PSGD, one setting",
            "psgd-small": "PSGD (small grid)",
            "psgd-moments": "PSGD (moments accountant)",
        }.items()
    ),
)
