"""The errors that quietfield raises: every one says what was wrong, what was expected and what to do next."""

from collections.abc import Iterable


class Error(Exception):
    """The base of every error that quietfield raises on purpose."""

    #: What the command ends with; docs/how-to/command-line.md lists them all.
    exit_code = 1


class TooLarge(Error):
    """A model whose exact inference would not fit in memory; the message gives its figures and the way out."""

    exit_code = 4


class FileError(Error):
    """A file that is missing, truncated, altered, foreign or of another version."""


def names(items: Iterable[object], most: int = 8) -> str:
    """Public names, quoted and cut to a readable length, for use in messages."""
    listed = [repr(item) for item in items]
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f", ... ({more} more)" if more > 0 else "")
