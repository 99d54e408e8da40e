"""What is asked of a count and what comes back; what is public and could never be counted is refused beforehand."""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from quietfield.domain import MOST_AXES
from quietfield.errors import Error, TooLarge
from quietfield.privacy.units import Person, Rows, Statistics, Unit
from quietfield.text import join_names

if TYPE_CHECKING:
    from quietfield.schema import Schema

#: The most cells of one table, and of all tables together: 2 GiB of counts.
MOST_CELLS = 2**28
#: The most cut points of an attribute. Engines compare with each: 50,000 took DuckDB 18 seconds, 100,000 minutes.
MOST_POINTS = 2**15


@dataclass(frozen=True)
class Counts:
    """What was counted, exactly: private until noise is added. Integers in units of ``1 / denominator``."""

    tables: list[np.ndarray]
    total: int | None

    def __repr__(self) -> str:  # a count must not reach a log or a traceback by accident
        return f"Counts({len(self.tables)} tables, NOT PRIVATE)"


def check_size(statistics: Statistics) -> None:
    """Refuse tables that could not be held in memory, before any record is read."""
    for table in statistics.tables:
        cells = prod(table.counted)
        if len(table.counted) > MOST_AXES:
            raise TooLarge(
                f"the table of {join_names(table.clique)} has {len(table.counted)} attributes, more than the "
                f"{MOST_AXES} that a table can have; join fewer. Attributes of one value tell nothing and can be left "
                "out."
            )
        if cells > MOST_CELLS:
            raise TooLarge(
                f"the table of {join_names(table.clique)} has {cells:,} cells, more than the {MOST_CELLS:,} that can "
                "be counted; join fewer attributes, or give them fewer values."
            )
    if statistics.cells > MOST_CELLS:
        raise TooLarge(
            f"the tables have {statistics.cells:,} cells in all, more than {MOST_CELLS:,}; take fewer cliques."
        )


def check_request(schema: "Schema", statistics: Statistics, unit: Unit) -> None:
    """Refuse what cannot be counted, from what is public alone: no record is read."""
    check_size(statistics)
    if not isinstance(unit, Rows | Person):
        raise Error(f"a unit is Rows(k) or Person(column, ...), not {unit!r}.")
    for name in statistics.attributes:
        if schema[name].compared and (intervals := schema.domain.size(name)) > MOST_POINTS:
            raise TooLarge(
                f"{name!r} has {intervals:,} intervals, more than the {MOST_POINTS:,} that can be counted; take longer "
                "ones."
            )
    if statistics.neighbours == "replace" and statistics.known_total:
        dropping = [name for name in statistics.attributes if name in schema.drops]
        if dropping:
            raise Error(
                "with replace neighbours the number of records is public, so none may be dropped, but "
                f"{join_names(dropping)} would drop some; give both null and unknown a label for them, or use "
                "add_remove neighbours."
            )
