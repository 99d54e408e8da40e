"""From a release to a model: one call, several methods, one loop that drives them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quietfield.errors import Error, names

if TYPE_CHECKING:
    from quietfield.learning.reports import FitReport
    from quietfield.model import Model
    from quietfield.releases import Release


def _map(**options: Any) -> Any:
    from quietfield.learning.map import Map

    return Map(**options)


def _naive(**options: Any) -> Any:
    from quietfield.learning.naive import Naive

    return Naive(**options)


#: Every learner, by the name that users type.
METHODS: dict[str, Callable[..., Any]] = {"map": _map, "naive": _naive}


def fit(
    release: "Release",
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: "Callable[[FitReport], None] | None" = None,
    **options: Any,
) -> "Model":
    """Learn a model from a release alone.

    The default needs no tuning. ``model.report`` says how the fit went. Interrupted from the keyboard, it returns the
    best so far, marked as not converged.

    >>> import numpy as np, quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
    >>> release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000)
    >>> fit(release).marginal("a").round(1).tolist()
    [0.6, 0.4]
    """
    if method not in METHODS:
        raise Error(f"{method!r} is not a learning method; expected one of {names(METHODS)}.")
    from quietfield.learning.loop import drive

    try:
        learner = METHODS[method](**options)
    except TypeError:
        learner = None
    if learner is None:
        raise Error(f"{names(options)}: not all of these are options of the method {method!r}; see its documentation.")
    return drive(release, learner, inference, progress, callback)
