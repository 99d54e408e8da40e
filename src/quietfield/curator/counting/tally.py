"""Tally: codes in, integer tables out, in batches and in one pass; and arrays of codes, which need nothing else.

Cliques are gathered into a few covering tables, each small enough to stay in the processor's cache; every clique's
table is a marginal of one of them. For 24 pairs of 10 values that means 5 tables of 4 attributes instead of 24 of
two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from quietfield.curator.request import Counts, check_size
from quietfield.domain import MOST_AXES, Clique, Domain
from quietfield.errors import Error
from quietfield.privacy.units import CountedTable, Person, Statistics, Unit
from quietfield.releases.parts import interaction_of
from quietfield.schema import Schema

#: The most cells of a covering table that joins several cliques.
COVER_CELLS = 2**14
#: Above this many cells a batch is added cell by cell instead of making a whole table for each batch.
DENSE_CELLS = 2**18
BATCH = 2**17


def cover_cliques(cliques: Sequence[Clique], domain: Domain, cells: int = COVER_CELLS) -> list[Clique]:
    """A few sets of attributes such that every clique lies in one, none with more cells than allowed, if it can be.

    >>> cover_cliques([("a", "b"), ("b", "c"), ("a", "c")], Domain({"a": 2, "b": 2, "c": 2}))
    [('a', 'b', 'c')]
    """
    found: list[Clique] = []
    for clique in cliques:
        if any(set(clique) <= set(cover) for cover in found):
            continue
        joined = [(i, tuple(dict.fromkeys((*cover, *clique)))) for i, cover in enumerate(found)]
        # Attributes of one value add no cells, but axes all the same.
        small = [(i, cover) for i, cover in joined if len(cover) <= MOST_AXES]
        fitting = [(domain.cells(cover), i, cover) for i, cover in small if domain.cells(cover) <= cells]
        if fitting:
            _, i, cover = min(fitting)
            found[i] = cover
        else:
            found.append(clique)
    return found


@dataclass
class Tally:
    """Running counts of the covering tables, and the total."""

    statistics: Statistics
    domain: Domain
    covers: list[Clique] = field(init=False)
    _flat: list[np.ndarray] = field(init=False)
    _total: int = 0

    def __post_init__(self) -> None:
        check_size(self.statistics)
        cliques = [clique for table in self.statistics.tables for clique in table.cliques]
        self.covers = cover_cliques(cliques, self.domain)
        self._flat = [np.zeros(self.domain.cells(cover), dtype=np.int64) for cover in self.covers]

    def add(self, codes: Mapping[str, np.ndarray], rows: int, weights: np.ndarray | None = None) -> None:
        """Add one batch: an array of codes for each attribute, and integer weights (1 unless given)."""
        self._total += rows if weights is None else int(weights.sum(dtype=np.int64))
        for cover, flat in zip(self.covers, self._flat, strict=True):
            kind: Any = np.uint16 if flat.size <= 2**16 else np.uint32 if flat.size <= 2**32 else np.int64
            key: Any = codes[cover[0]].astype(kind)
            for name in cover[1:]:
                key *= kind(self.domain.size(name))
                np.add(key, codes[name], out=key, casting="unsafe")  # codes are within the domain: nothing is cut off
            if flat.size > DENSE_CELLS:
                np.add.at(flat, key, 1 if weights is None else weights)
            elif weights is None:
                flat += np.bincount(key, minlength=flat.size)
            else:  # float64 sums of integers below 2**53 are exact: a batch has 2**17 rows of at most 2**20 each
                flat += np.bincount(key, weights, flat.size).astype(np.int64)

    @property
    def starts(self) -> list[int]:
        """Where the cells of each covering table begin, if all are numbered one after the other."""
        return list(accumulate((flat.size for flat in self._flat[:-1]), initial=0))[: len(self._flat)]

    def add_cells(self, cells: Sequence[int], counts: Sequence[int]) -> None:
        """Add counts by cell, for all covering tables at once: what a GROUP BY gives. Each record is in all tables."""
        where, many = np.array(cells, dtype=np.int64), np.array(counts, dtype=np.int64)
        order = np.argsort(where)
        where, many = where[order], many[order]
        ends = np.searchsorted(where, [*self.starts[1:], np.iinfo(np.int64).max])
        for start, flat, begin, end in zip(self.starts, self._flat, [0, *ends], ends, strict=False):
            np.add.at(flat, where[begin:end] - start, many[begin:end])
        self._total += int(many[: ends[0]].sum())

    def counts(self) -> Counts:
        """The tables that were asked for, and the total where one is wanted."""
        wanted = self.statistics.total or self.statistics.known_total
        return Counts([self._table(table) for table in self.statistics.tables], self._total if wanted else None)

    def _table(self, table: CountedTable) -> np.ndarray:
        summed = np.zeros(self.domain.table_shape(table.clique), dtype=np.int64)
        for clique in table.cliques:
            i = next(i for i, cover in enumerate(self.covers) if set(clique) <= set(cover))
            full = self._flat[i].reshape(self.domain.table_shape(self.covers[i]))
            kept = [name for name in self.covers[i] if name in clique]
            out = tuple(axis for axis, name in enumerate(self.covers[i]) if name not in clique)
            summed += full.sum(axis=out).transpose([kept.index(name) for name in clique])
        if table.excluded is not None:
            summed[table.excluded] = 0
        return interaction_of(summed) if table.interaction else summed


class ArrayEngine:
    """Counts in an array with a column of codes for each attribute of the schema, in its order.

    A code is a position in the attribute's values. Anything else is an unknown value.
    """

    def __init__(self, source: np.ndarray) -> None:
        if source.ndim != 2 or source.dtype.kind not in "iub":
            raise Error(
                f"an array of codes has two dimensions and whole numbers, not {source.ndim} and {source.dtype}; "
                "for raw values use a frame, a file or a dictionary of columns."
            )
        if isinstance(source, np.ma.MaskedArray):
            raise Error("a masked array hides some codes; fill them with a code of their own: array.filled(-1).")
        self.source = np.asarray(source)  # a matrix, for one, would keep two dimensions in each of its columns

    def columns(self) -> Mapping[str, str]:
        """Columns of an array have no names; their numbers stand for them."""
        return {str(i): "integer" for i in range(self.source.shape[1])}

    def check(self, schema: Schema, unit: Unit) -> None:
        """Refuse an array that does not fit the request, by its shape alone."""
        if isinstance(unit, Person):
            raise Error("an array of codes has no column that names persons; use a frame or a dictionary of columns.")
        if self.source.shape[1] != len(schema):
            raise Error(
                f"the array has {self.source.shape[1]} columns and the schema {len(schema)} attributes; "
                "give one column of codes for each attribute, in the schema's order."
            )

    def count(self, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
        """The true tables."""
        self.check(schema, unit)
        tally = Tally(statistics, schema.domain)
        for start in range(0, self.source.shape[0], BATCH):
            batch = self.source[start : start + BATCH]
            codes: dict[str, Any] = {}
            keep = np.ones(len(batch), dtype=bool)
            for name in statistics.attributes:
                column, size = batch[:, schema.domain.position(name)], schema.domain.size(name)
                known = (column >= 0) & (column < size)
                unknown = schema[name].unknown_code
                if unknown is None:
                    keep &= known
                # Widened first: an unknown value's own code may be more than the array's type holds.
                codes[name] = np.where(known, column.astype(np.int64), 0 if unknown is None else unknown)
            if not keep.all():
                codes = {name: column[keep] for name, column in codes.items()}
            tally.add(codes, int(keep.sum()))
        return tally.counts()
