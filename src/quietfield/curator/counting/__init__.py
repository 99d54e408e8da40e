"""Counting: true tables from records, by one protocol and several engines. Only the mechanism may see what comes back.

Records stay where they are: DuckDB streams files and frames within this process, a database counts its own tables
(through Ibis), and arrays of codes are counted in place. Each record is mapped on its own, counts are integers from
end to end, and no error, log or progress line depends on what a record says.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from quietfield.curator.counting import lines
from quietfield.curator.counting.sources import is_a
from quietfield.curator.counting.tally import ArrayEngine
from quietfield.curator.request import Counts, check_request
from quietfield.curator.sequences import log_data
from quietfield.errors import Error
from quietfield.privacy.units import Statistics, Unit
from quietfield.schema import Schema

__all__ = [
    "Engine",
    "columns",
    "count",
    "describe_spilling",
    "is_address",
    "is_in_database",
    "open_address",
    "open_engine",
]


class Engine(Protocol):
    """What every engine can do."""

    def columns(self) -> Mapping[str, str]:
        """The names of the columns and what they hold (text, integer, number, boolean, date, time or other)."""
        ...

    def count(self, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
        """The true tables. Called by :func:`count`, which checks the request first."""
        ...


def open_engine(source: Any) -> Engine:
    """The engine for a source: DuckDB for files, frames, Arrow and relations; arrays and Ibis tables have their own."""

    if isinstance(source, np.ndarray):
        return ArrayEngine(source)
    if is_in_database(source):
        from quietfield.curator.counting.databases import IbisEngine

        return IbisEngine(source)
    try:
        from quietfield.curator.counting.duckdb_engine import DuckEngine
    except ModuleNotFoundError:
        raise Error("counting needs DuckDB; install it with: pip install 'quietfield[curator]'") from None
    return DuckEngine(source)


def is_in_database(source: Any) -> bool:
    """Whether a database keeps these records."""
    return is_a(log_data(source), "ibis")


def is_address(data: Path | str) -> bool:
    """Whether records are named by the address of a database."""
    return "://" in str(data)


def open_address(address: str) -> Any:
    """The table that an address names, through Ibis: see :func:`quietfield.curator.counting.databases.open_table`."""
    try:
        from quietfield.curator.counting.databases import open_table
    except ModuleNotFoundError:
        raise Error("databases need Ibis; install it with: pip install 'quietfield[curator,ibis]'.") from None
    return open_table(address)


def columns(source: Any) -> Mapping[str, str]:
    """The names and kinds of a source's columns, from its header or type information alone."""
    return open_engine(source).columns()


def count(source: Any, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
    """Count what ``statistics`` says in some records. The result is private.

    >>> from quietfield.privacy.units import Rows, statistics
    >>> from quietfield.cliques import Structure
    >>> schema = Schema({"a": ["x", "y"], "b": 2})
    >>> wanted = statistics(Structure((("a", "b"),)), schema.domain, Rows(1), "add_remove", total=True)
    >>> counts = count({"a": ["x", "y", "x", "z"], "b": [0, 1, 1, 1]}, schema, wanted, Rows(1))
    >>> counts.tables[0].tolist(), counts.total
    ([[1, 1], [0, 1]], 3)
    """
    check_request(schema, statistics, unit)
    lines.check_neighbours(source, unit, statistics.neighbours)
    return open_engine(source).count(schema, statistics, unit, progress=progress)


def describe_spilling() -> str:
    """What a plan says about the disk where a unit is a person."""
    return (
        f"while each person's rows are gathered, some may be written to {tempfile.gettempdir()} (TMPDIR says where), "
        "encrypted with a key that is never written, where only you can read it; it is removed afterwards, or by the "
        "next count if this one is killed"
    )
