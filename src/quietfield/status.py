"""A sign of life during long work: one line on the error stream, with a spinner."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

_current: "Status | None" = None  # a terminal has room for one: work within other work says its words on that line


@contextmanager
def show_status(text: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """Show a line while some work goes on, and take it away at the end.

    Args:
        text: What is being done. Nothing that depends on a record: no length, no speed.
        shown: False shows nothing; the command line says :func:`is_terminal`.

    Yields:
        A function that shows another text in its place.

    >>> with show_status("counting", shown=False) as update:
    ...     update("still counting")
    """
    global _current
    if not shown:
        yield lambda text: None
        return
    if _current is not None:
        outer = _current.status
        _current.update(text)
        try:
            yield _current.update
        finally:
            _current.update(outer)
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as _current:
        try:
            yield _current.update
        finally:
            _current = None


def is_terminal() -> bool:
    """Whether the error stream is a terminal, with somebody before it who waits.

    Returns:
        False also where there is no error stream.
    """
    return sys.stderr is not None and sys.stderr.isatty()
