"""Counting in a two-dimensional array of codes: a column for each attribute of the schema, in its order.

A code is a position in the attribute's values. Anything else is an unknown value.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from quietfield.curator.counting.tally import BATCH, Counts, Tally
from quietfield.errors import Error
from quietfield.privacy.units import Person, Statistics, Unit
from quietfield.schema import Schema


class ArrayEngine:
    """Counts with numpy, in place and batch by batch."""

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
