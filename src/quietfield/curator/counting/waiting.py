"""A sign of life during long counts, which says nothing about how many records there are."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def waiting(shown: bool, what: str = "Counting") -> Iterator[None]:
    """A spinner on the error stream, without a length, a speed or a time."""
    if not shown:
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
