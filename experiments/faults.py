"""What goes wrong in a method: of an estimator that someone added it is told as theirs, with the file and the line.

A :class:`~quietfield.errors.CannotLearn` that such a function raises is something else: a release that it could not
learn from. That trial counts as failed, and the others go on.
"""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from quietfield.errors import CannotLearn, Error
from quietfield.releases.checks import check_same
from quietfield.text import type_name

#: The most characters of somebody else's message that are shown.
MOST = 500
T = TypeVar("T")


class EstimatorError(Error):
    """An error in an estimator that was added, a result of another kind than it should have, or what ends a method."""


def guarded(name: str, function: Callable[[Any], Any], argument: Any) -> Any:
    """What a function that was added under a name makes of its argument; an error in it is told as the function's own.

    >>> guarded("mine", lambda release: release["a"], {})
    Traceback (most recent call last):
        ...
    experiments.faults.EstimatorError: your estimator 'mine' in ..., line 1, raised KeyError: 'a'
    """
    try:
        return function(argument)
    except CannotLearn:
        raise
    except (Exception, SystemExit) as error:
        code = getattr(function, "__code__", None)
        raise EstimatorError(
            f"your estimator {name!r}{_in(error, getattr(code, 'co_filename', None))} raised {told(error)}"
        ) from error


def in_method(method: str, structure: str, work: Callable[[], T]) -> T:
    """What work for a method gives. An error of ours, such as too large a table, is told with the method's name.

    >>> def work():
    ...     raise Error("10^12 cells do not fit.")
    >>> in_method("map", "chain", work)
    Traceback (most recent call last):
        ...
    experiments.faults.EstimatorError: the method 'map' ended on 'chain': 10^12 cells do not fit.
    """
    try:
        return work()
    except EstimatorError:
        raise
    except Error as error:
        raise EstimatorError(f"the method {method!r} ended on {structure!r}: {error}") from error


def checked(name: str, found: Any, release: Any) -> Any:
    """A model that an estimator made of a release; anything else is refused."""
    from quietfield.models.model import Model

    if not isinstance(found, Model):
        what = "nothing" if found is None else type_name(found)
        raise EstimatorError(f"your estimator {name!r} returned {what}; an estimator returns a qf.Model.")
    try:
        check_same(release.domain, found.domain, f"the release and the model that your estimator {name!r} returned")
    except Error as error:
        raise EstimatorError(f"{error} Make the model of release.domain.") from None
    return found


def loading(what: str, load: Callable[[], Any], file: str | None = None) -> Any:
    """Load what adds estimators; an error in it is told as its own."""
    try:
        return load()
    except Error:
        raise
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        where = f" ({_short(error.filename)}{line})" if error.filename else ""
        raise EstimatorError(
            f"your estimators in {what} cannot be loaded{where}: {type(error).__name__}: {error.msg}"
        ) from error
    except (Exception, SystemExit) as error:
        raise EstimatorError(f"your estimators in {what} cannot be loaded{_at(error, file)}: {told(error)}") from error


def told(error: BaseException) -> str:
    """The kind of an error and what it says, in one line; its traceback has the rest.

    >>> told(ValueError("no good,\\n  really"))
    'ValueError: no good, really'
    """
    text = " ".join(str(error).split())
    text = text if len(text) <= MOST else text[: MOST - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _in(error: BaseException, file: str | None) -> str:
    frame = _frame(error, file)
    return "" if frame is None else f" in {_short(frame.filename)}, line {frame.lineno},"


def _at(error: BaseException, file: str | None) -> str:
    frame = _frame(error, file)
    return "" if frame is None else f" ({_short(frame.filename)}, line {frame.lineno})"


def _frame(error: BaseException, file: str | None) -> traceback.FrameSummary | None:
    """Where an error came from: the last line of the file at fault that was being run, or the last line of all."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    theirs = [frame for frame in frames if frame.filename == file]
    return next(reversed(theirs or frames), None)


def _short(file: str) -> str:
    """A path as it is seen from here, where that is shorter."""
    try:
        near = os.path.relpath(file)
    except ValueError:  # on another drive
        return file
    return near if Path(file).is_absolute() and not near.startswith("..") else file
