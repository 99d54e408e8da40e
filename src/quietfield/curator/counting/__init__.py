"""Counting: true tables from records, by one protocol and several engines. Only the mechanism may see what comes back.

Records stay where they are: DuckDB streams files and frames within this process, a database counts its own tables
(through Ibis), and arrays of codes are counted in place. Each record is mapped on its own, counts are integers from
end to end, and no error, log or progress line depends on what a record says.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from quietfield.curator.counting import lines
from quietfield.curator.counting.cleaning import cleaned as cleaned
from quietfield.curator.counting.kinds import is_a
from quietfield.curator.counting.tally import Counts as Counts
from quietfield.curator.counting.tally import check_memory as check_memory
from quietfield.curator.counting.tally import check_size
from quietfield.errors import Error, TooLarge
from quietfield.privacy.units import Person, Rows, Statistics, Unit
from quietfield.schema import SECONDS, Cuts, Dates, Schema
from quietfield.text import join_names

__all__ = ["Counts", "Engine", "check", "check_memory", "columns", "count", "engine", "in_database"]

#: The most cut points of an attribute. Engines compare with each: 50,000 took DuckDB 18 seconds, 100,000 minutes.
MOST_POINTS = 2**15


class Engine(Protocol):
    """What every engine can do."""

    def columns(self) -> Mapping[str, str]:
        """The names of the columns and what they hold (text, integer, number, boolean, date, time or other)."""
        ...

    def count(self, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
        """The true tables. Called by :func:`count`, which checks the request first."""
        ...


def engine(source: Any) -> Engine:
    """The engine for a source: DuckDB for files, frames, Arrow and relations; arrays and Ibis tables have their own."""
    import numpy as np

    if isinstance(source, np.ndarray):
        from quietfield.curator.counting.arrays import ArrayEngine

        return ArrayEngine(source)
    if in_database(source):
        from quietfield.curator.counting.databases import IbisEngine

        return IbisEngine(source)
    try:
        from quietfield.curator.counting.embedded import DuckEngine
    except ModuleNotFoundError:
        raise Error("counting needs DuckDB; install it with: pip install 'quietfield[curator]'") from None
    return DuckEngine(source)


def in_database(source: Any) -> bool:
    """Whether a database keeps these records."""
    from quietfield.curator.sequences import Log

    return is_a(source.data if isinstance(source, Log) else source, "ibis")


def columns(source: Any) -> Mapping[str, str]:
    """The names and kinds of a source's columns, from its header or type information alone."""
    return engine(source).columns()


def check(schema: Schema, statistics: Statistics, unit: Unit) -> None:
    """Refuse what cannot be counted, from what is public alone: no record is read."""
    check_size(statistics)
    if not isinstance(unit, Rows | Person):
        raise Error(f"a unit is Rows(k) or Person(column, ...), not {unit!r}.")
    for name in statistics.attributes:
        rule, intervals = schema[name], schema.domain.size(name)
        if isinstance(rule, Cuts) or (isinstance(rule, Dates) and rule.period not in SECONDS):
            if intervals > MOST_POINTS:
                raise TooLarge(
                    f"{name!r} has {intervals:,} intervals, more than the {MOST_POINTS:,} that can be counted; "
                    "take longer ones."
                )
    if statistics.neighbours == "replace" and statistics.known_total:
        dropping = [name for name in statistics.attributes if name in schema.drops]
        if dropping:
            raise Error(
                "with replace neighbours the number of records is public, so none may be dropped, but "
                f"{join_names(dropping)} would drop some; give both null and unknown a label for them, or use "
                "add_remove neighbours."
            )


def count(source: Any, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
    """Count what ``statistics`` says in some records. The result is private.

    >>> from quietfield.privacy.units import statistics
    >>> from quietfield.structures import Structure
    >>> schema = Schema({"a": ["x", "y"], "b": 2})
    >>> wanted = statistics(Structure((("a", "b"),)), schema.domain, Rows(1), "add_remove", total=True)
    >>> counts = count({"a": ["x", "y", "x", "z"], "b": [0, 1, 1, 1]}, schema, wanted, Rows(1))
    >>> counts.tables[0].tolist(), counts.total
    ([[1, 1], [0, 1]], 3)
    """
    check(schema, statistics, unit)
    lines.check_neighbours(source, statistics)
    return engine(source).count(schema, statistics, unit, progress=progress)
