"""From a release to a model: one call, several methods, one loop that drives them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from quietfield.errors import Error, names

if TYPE_CHECKING:
    from quietfield.learning.reports import FitReport
    from quietfield.model import Model
    from quietfield.releases import Release


def _map(**options: Any) -> Any:
    from quietfield.learning.map import Map

    return Map(**options)


def _cgm(**options: Any) -> Any:
    from quietfield.learning.cgm import Cgm

    return Cgm(**options)


def _naive(**options: Any) -> Any:
    from quietfield.learning.naive import Naive

    return Naive(**options)


def _nlbp(**options: Any) -> Any:
    from quietfield.learning.nlbp import Nlbp

    return Nlbp(**options)


#: Every learner, by the name that users type.
METHODS: dict[str, Callable[..., Any]] = {"map": _map, "cgm": _cgm, "naive": _naive, "cgm-nlbp": _nlbp}


@overload
def fit(
    release: "Release",
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: "Callable[[FitReport], None] | None" = None,
    **options: Any,
) -> "Model": ...


@overload
def fit(
    release: "Sequence[Release]",
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: "Callable[[list[FitReport]], None] | None" = None,
    **options: Any,
) -> "list[Model]": ...


def fit(
    release: "Release | Sequence[Release]",
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: Callable[[Any], None] | None = None,
    **options: Any,
) -> "Model | list[Model]":
    """Learn a model from a release alone; or, from a list of releases, a list of models.

    The default needs no tuning. Releases of one structure are learned side by side, in one call on the device.
    ``model.report`` says how the fit went; ``callback`` gets the report (of a list, the list of reports) after each
    round. Interrupted from the keyboard, a fit returns the best so far, marked as not converged.

    >>> import numpy as np, quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
    >>> release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000)
    >>> fit(release).marginal("a").round(1).tolist()
    [0.6, 0.4]
    """
    from quietfield.releases import Release

    if method not in METHODS:
        raise Error(f"{method!r} is not a learning method; expected one of {names(METHODS)}.")
    releases = [release] if isinstance(release, Release) else list(release)
    strange = next((each for each in releases if not isinstance(each, Release)), None)
    if strange is not None:
        raise Error(f"a model is learned from a Release (see qf.Release.load), not from a {type(strange).__name__}.")
    if inference == "exact":  # before anything is traced, which takes for ever where a model is far too large
        from quietfield.inference.plan import plan_for

        for each in releases:
            plan_for(each.domain, each.structure).check_memory()
    from quietfield.learning.loop import drive

    try:
        learner = METHODS[method](**options)
    except TypeError:
        learner = None
    if learner is None:
        raise Error(f"{names(options)}: not all of these are options of the method {method!r}; see its documentation.")
    if not isinstance(release, Release):
        return drive(releases, learner, inference, progress, callback)
    alone = callback and (lambda reports: callback(reports[0]))
    return drive(releases, learner, inference, progress, alone)[0]
