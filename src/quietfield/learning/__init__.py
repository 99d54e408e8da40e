"""From a release to a model: one call, several methods, one loop that drives them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from importlib import import_module
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, overload

from quietfield.errors import Error
from quietfield.inference import check_options
from quietfield.inference.plan import plan_elimination
from quietfield.releases.release import Release
from quietfield.text import join_names

if TYPE_CHECKING:
    from quietfield.learning.learner import Learner
    from quietfield.models.fit_report import FitReport
    from quietfield.models.model import Model


#: Every learner, by the name that users type: its module here, and its class.
METHODS = {"map": ("map", "Map"), "cgm": ("cgm", "Cgm"), "naive": ("naive", "Naive"), "cgm-nlbp": ("nlbp", "Nlbp")}


def check_methods(methods: Iterable[str], inference: str) -> None:
    """Refuse an unknown method of learning or inference: at once, and not when its turn comes after long fits.

    >>> check_methods(["mpa"], "exact")
    Traceback (most recent call last):
    quietfield.errors.Error: 'mpa' is not a learning method; expected one of 'map', 'cgm', 'naive', 'cgm-nlbp'.
    """
    for method in methods:
        if method not in METHODS:
            raise Error(f"{method!r} is not a learning method; expected one of {join_names(METHODS)}.")
    check_options(inference, {})


def _learner(method: str, options: dict[str, Any]) -> "Learner":
    """The learner of this name with these settings, each checked against its own kind."""
    module, name = METHODS[method]
    made: type[Learner] = getattr(import_module(f"quietfield.learning.{module}"), name)
    defaults = {field.name: field.default for field in fields(made)}
    if strange := [option for option in options if option not in defaults]:
        raise Error(
            f"the method {method!r} has no option {join_names(strange)}; expected some of {join_names(defaults)}."
        )
    for option, value in options.items():
        default = defaults[option]
        if isinstance(default, str):  # the learner itself knows which words there are
            continue
        kind = type(default) if isinstance(default, bool | int) else float
        allowed = bool if kind is bool else Integral if kind is int else Real
        wrong = not isinstance(value, allowed) or (kind is not bool and isinstance(value, bool))
        if wrong and not (value is None and default is None):
            expected = {bool: "True or False", int: "a whole number", float: "a number"}[kind]
            raise Error(f"the option {option} of the method {method!r} is {expected}, not {value!r}.")
        if kind is int and value < 1:
            raise Error(f"the option {option} of the method {method!r} is at least 1, not {value!r}.")
        if kind is float and value is not None and not 0 <= value < inf:
            raise Error(f"the option {option} of the method {method!r} is finite and not negative, not {value!r}.")
    return made(**options)


@overload
def fit(
    release: Release,
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: "Callable[[FitReport], None] | None" = None,
    **options: Any,
) -> "Model": ...


@overload
def fit(
    release: Sequence[Release],
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: "Callable[[list[FitReport]], None] | None" = None,
    **options: Any,
) -> "list[Model]": ...


def fit(
    release: Release | Sequence[Release],
    method: str = "map",
    *,
    inference: str = "exact",
    progress: bool = False,
    callback: Callable[[Any], None] | None = None,
    **options: Any,
) -> "Model | list[Model]":
    """Learn a model from a release alone; or, from a list of releases, a list of models.

    The default needs no tuning and compiles nothing; the other methods share what is compiled for a structure.
    Interrupted from the keyboard, a fit returns the best so far, marked as not converged; a list is given up if some of
    its releases were not begun.

    Args:
        release: A release, or a list of releases.
        method: The learner, one of :data:`METHODS`.
        inference: The kind of inference, one of :data:`quietfield.inference.KINDS`.
        progress: Whether to show a sign of life on the error stream.
        callback: Called after each round with the report (of a list, the reports of all that were begun).
        options: Settings of the method. Of the default, ``of``: what is learned, the ``"source"`` of the records, that
            is the distribution that they came from, or the ``"records"`` themselves, which matters where noise is small
            beside chance.

    Returns:
        A model, or a list of models; ``model.report`` says how the fit went.

    Raises:
        Error: The method, the inference or an option is not known or not allowed, or a release is not complete.
        CannotLearn: The tables hold nothing to learn from.
        TooLarge: Exact inference would not fit in memory.

    >>> import numpy as np, quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
    >>> release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000)
    >>> fit(release).marginal("a").round(1).tolist()
    [0.6, 0.4]
    """
    check_methods([method], inference)
    releases = [release] if isinstance(release, Release) else list(release)
    strange = next((each for each in releases if not isinstance(each, Release)), None)
    if strange is not None:
        raise Error(f"a model is learned from a Release (see qf.Release.load), not from a {type(strange).__name__}.")
    for each in releases:
        each.check_complete()
    if inference == "exact":  # before anything is traced, which takes for ever where a model is far too large
        for each in releases:  # the default lays out every bag of the elimination, the others contract them
            plan_elimination(each.domain, each.structure).check_memory(log_space=method == "map")
    from quietfield.learning.loop import drive

    learner = _learner(method, options)
    if not isinstance(release, Release):
        return drive(releases, learner, inference, progress, callback)
    alone = callback and (lambda reports: callback(reports[0]))
    return drive(releases, learner, inference, progress, alone)[0]
