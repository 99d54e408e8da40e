"""What can be told of a source before it is paid for: that it is there, and which columns of which types it has.

Names and types of columns are public: they are compared with what is asked for, from the first line or the type
information of every file, or from what a frame or a database calls them. No value is looked at.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quietfield.curator.counting import lines
from quietfield.curator.counting.cleaning import cleaned
from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.curator.counting.kinds import check_kind
from quietfield.curator.counting.sources import UNREADABLE, declared
from quietfield.curator.counting.statfiles import StatFile
from quietfield.curator.sequences import Log


def check_there(source: Any) -> None:
    """Refuse a path or a pattern that names no file; the file is not opened."""
    data = source.data if isinstance(source, Log) else source
    if isinstance(data, StatFile | CsvFile):
        data = data.path
    if isinstance(data, str | Path):
        lines.files(data)


def check_columns(source: Any, wanted: Iterable[str]) -> frozenset[str]:
    """Refuse a source of another kind, or without the columns asked for in types that are read; which hold codes.

    What cannot name its columns without being opened (some streams, a lazy frame) is looked at when it is paid. Arrays
    of codes have no names: ``ArrayEngine.check`` is for them.
    """
    data = source.data if isinstance(source, Log) else source
    asked = list(dict.fromkeys(wanted))
    check_kind(data)
    found = cleaned(lambda: declared(data), UNREADABLE)
    if found is None:
        return frozenset()
    cleaned(lambda: found.typed(asked), UNREADABLE)
    return found.coded
