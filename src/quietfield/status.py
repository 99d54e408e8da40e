"""A sign of life during long work: on a terminal one line with a spinner, elsewhere a plain line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

_current: "Status | PlainStatus | None" = None  # there is room for one: work within other work says its words there
#: Between two plain lines about the same work, in seconds.
PAUSE = 10.0


class PlainStatus:
    """What work says where there is no terminal: its first words on a line, and others once a while has passed.

    If something was said just now, the last words are said later, if they still hold: long work may follow them.
    """

    def __init__(self, text: str) -> None:
        self.status, self._said, self._told = "", "", -PAUSE
        self._lock = RLock()
        self._later: Timer | None = None
        self.update(text)

    def update(self, text: str) -> None:
        """Say something else, now or once a while has passed, unless it is the same."""
        with self._lock:
            self.status = text
            wait = self._told + PAUSE - time.monotonic()
            if text == self._said:
                return
            if wait <= 0:
                self._said, self._told = text, time.monotonic()
                with suppress(OSError, ValueError, AttributeError):  # nobody reads it: paid work goes on
                    sys.stderr.write(f"{text}\n")
                    sys.stderr.flush()
            elif self._later is None:
                self._later = Timer(wait, self._catch_up)
                self._later.daemon = True
                self._later.start()

    def close(self) -> None:
        """Say nothing more."""
        with self._lock:
            self.status = self._said
            if self._later is not None:
                self._later.cancel()

    def _catch_up(self) -> None:
        with self._lock:
            self._later = None
            self.update(self.status)


@contextmanager
def show_status(text: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """Show a line while some work goes on, and take it away at the end; where there is no terminal, print plain lines.

    Args:
        text: What is being done. Nothing that depends on a record: no length, no speed.
        shown: False shows nothing; most commands say :func:`is_terminal`, those that take long say True.

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
        outer = str(_current.status)
        _current.update(text)
        try:
            yield _current.update
        finally:
            _current.update(outer)
        return
    if not is_terminal():
        plain = _current = PlainStatus(text) if sys.stderr is not None else None
        try:
            yield plain.update if plain is not None else lambda text: None
        finally:
            _current = None
            if plain is not None:
                plain.close()
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
