"""Sequences: from a long log of who was where when to short sequences of slots, in the database that holds the log.

Time is cut into slots; a slot takes the last place seen in it (of places seen in the same second, the first in the
list), or ``null`` if none was. Segments of several slots are the records; a segment without any observation is no
record. With the weights of ``Person(normalise=True)`` a person then adds at most 1 to the tied edge table and at most
1 to the table of the first slot, whatever the log says: sensitivity 2 in all, where the paper's recipe has the number
of edges.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from quietfield.cliques import Structure
from quietfield.domain import Label
from quietfield.errors import Error
from quietfield.privacy.units import Kind, Person, Unit
from quietfield.schema import DROP, Labels, Schema
from quietfield.structures import chain

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
#: From the year 1 to 1970, in seconds: a whole number of days, added so that no moment is negative.
EPOCH = 719_162 * 86_400


@dataclass(frozen=True)
class Sequences:
    """How a log of persons, times and values becomes sequences.

    ``labels`` are the values (places) that count; others are ignored, or become ``unknown`` if that is a label.
    ``unit`` says whom to protect: ``"person"``, all that a person ever did, or ``"person-day"``, one day (UTC) of a
    person, as in the paper. ``kind="integer"`` reads persons as whole numbers, as in :class:`Person`.

    >>> visits = Sequences("user", "seen", "place", labels=["hall", "lab"], segment="1h", unit="person-day")
    >>> visits.schema.domain.shape
    (3, 3, 3, 3, 3, 3)
    >>> visits.unit.describe()
    "any one combination of 'user' and 'day of seen', all of whose rows are counted with a weight of 1/K in all"

    To count or release: ``qf.release(visits.log("log.parquet"), visits.schema, visits.structure, unit=visits.unit,
    ...)``.
    """

    person: str
    time: str
    value: str
    labels: tuple[Label, ...] = field(kw_only=True)
    slot: str = field(default="10min", kw_only=True)
    segment: str = field(default="1h", kw_only=True)
    unit_of: Literal["person", "person-day"] = field(default="person", kw_only=True)
    null: Label = field(default="absent", kw_only=True)
    unknown: Label = field(default=DROP, kw_only=True)
    kind: Kind = field(default=None, kw_only=True)

    def __init__(
        self,
        person: str,
        time: str,
        value: str,
        *,
        labels: Sequence[Label],
        slot: str = "10min",
        segment: str = "1h",
        unit: Literal["person", "person-day"] = "person",
        null: Label = "absent",
        unknown: Label = DROP,
        kind: Kind = None,
    ) -> None:
        labels = Labels(labels).values  # type: ignore[arg-type]
        given = {"person": person, "time": time, "value": value, "slot": slot, "segment": segment}
        settings = {**given, "labels": labels, "unit_of": unit, "null": null, "unknown": unknown, "kind": kind}
        for name, setting in settings.items():
            object.__setattr__(self, name, setting)
        if len({person, time, value}) != 3:
            raise Error("person, time and value are three different columns; name each once.")
        if unit not in ("person", "person-day"):
            raise Error(f"unit is 'person' or 'person-day', not {unit!r}.")
        if kind not in (None, "integer"):
            raise Error(f"the kind of a person is 'integer' or None, not {kind!r}.")
        if null == DROP:
            raise Error("a slot in which nothing was seen needs a label; choose one with null=.")
        if null in labels:
            raise Error(f"{null!r} is one of the labels, so a slot in which nothing was seen needs another null=.")
        if self.segment_seconds % self.slot_seconds or self.slots < 2:
            raise Error(f"a segment is two or more whole slots; {segment!r} is not, with slots of {slot!r}.")
        if self.slots > 1000:
            raise Error(f"a segment of {segment!r} has {self.slots} slots of {slot!r}; at most 1,000 can be counted.")
        if unit == "person-day" and 86_400 % self.segment_seconds:
            raise Error(
                f"a day is to be cut into segments, but {segment!r} does not divide it; take for instance '1h'."
            )

    @property
    def slot_seconds(self) -> int:
        """The length of a slot."""
        return _seconds(self.slot)

    @property
    def segment_seconds(self) -> int:
        """The length of a segment."""
        return _seconds(self.segment)

    @property
    def slots(self) -> int:
        """The number of slots in a segment."""
        return self.segment_seconds // self.slot_seconds

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns of the log that are read."""
        return self.person, self.time, self.value

    @cached_property
    def rule(self) -> Labels:
        """How the value of a slot is coded."""
        return Labels(self.labels, null=self.null, unknown=self.unknown)

    @cached_property
    def schema(self) -> Schema:
        """The slots as attributes."""
        return Schema({f"slot {i + 1}": self.rule for i in range(self.slots)})

    @cached_property
    def structure(self) -> Structure:
        """The time-homogeneous chain: one table for all steps, and one for the first slot."""
        return chain(self.schema.domain, homogeneous=True)

    @property
    def unit(self) -> Person:
        """Whom to protect, with weights of 1/K."""
        kind = self.kind if self.unit_of == "person" else (self.kind, None)
        return Person(self.identity, normalise=True, null=self.null, kind=kind)

    @property
    def identity(self) -> str | tuple[str, ...]:
        """What makes up a unit."""
        return self.person if self.unit_of == "person" else (self.person, f"day of {self.time}")

    def log(self, data: Any) -> "Log":
        """A log to be counted in this way: whatever else can be counted in, with one row for each observation.

        Args:
            data: A file, a frame or a table in a database, as :func:`quietfield.release` takes it.

        Returns:
            The log, which is a source for :func:`quietfield.release`.
        """
        return Log(data, self)

    def check_unit(self, unit: Unit) -> "Sequences":
        """Refuse a unit that these sequences do not have.

        Args:
            unit: The unit of a release.

        Returns:
            These sequences.

        Raises:
            Error: It protects others, or takes another label for a slot in which nothing was seen.
        """
        if not isinstance(unit, Person) or (unit.columns, unit.kinds) != (self.unit.columns, self.unit.kinds):
            raise Error(f"these sequences are made for {self.unit.describe()}; use unit={self.unit!r}.")
        if unit.normalise and unit.null != self.null:
            raise Error(f"these sequences have {self.null!r} where nothing was seen; use unit={self.unit!r}.")
        return self


@dataclass(frozen=True)
class Log:
    """A log and how it is to be read."""

    data: Any
    sequences: Sequences


def log_data(source: Any) -> Any:
    """The data of a log, or whatever else a source is."""
    return source.data if isinstance(source, Log) else source


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,8}) ?(s|min|h|d)", text) if isinstance(text, str) else None
    if not match:
        raise Error(f"{text!r} is not a length of time; write for instance '30s', '10min', '1h' or '1d'.")
    return int(match[1]) * UNITS[match[2]]
