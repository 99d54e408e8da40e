"""Errors without values: engines quote records in their messages, so none of those messages may leave the curator."""

from collections.abc import Callable
from typing import TypeVar

from quietfield.errors import Error, Unreadable

Result = TypeVar("Result")


def cleaned(work: Callable[[], Result], message: str) -> Result:
    """Do some work; if an engine fails, say ``message`` and nothing of what the engine said.

    The new error is raised outside the handler: an error raised within one carries the old one along as its context,
    and a debugger or a log would print that, record values and all.
    """
    failure: Error
    try:
        return work()
    except Error as error:
        failure = type(error)(*error.args)
    except Exception:  # noqa: BLE001  # whatever it is, it may quote a record
        failure = Unreadable(message)
    raise failure
