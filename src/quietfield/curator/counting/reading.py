"""What is read of a source: columns by name and type, and the batches that bring them before DuckDB."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quietfield.curator.counting.mapping import Column
from quietfield.curator.counting.values import column, handed, handed_type
from quietfield.errors import Error
from quietfield.text import join_names


@dataclass(frozen=True)
class Read:
    """How to read some columns: their Arrow types, and what gives them in batches.

    ``table`` is a FROM clause with which DuckDB itself reads them as c0, c1, ..., where it can be trusted with them.
    """

    kinds: Sequence[Any]
    batches: Callable[[], Iterable[Any]]
    table: str | None = None


@dataclass(frozen=True)
class Source:
    """Columns in order, and how to read some of them: ``read`` takes the names wanted and looks at no value.

    ``once`` says that the records flow past a single time: what reads them twice must keep them first.
    ``checks_names`` says that ``read`` refuses names that are not there itself, and says more about them. ``coded``
    names columns of numbers that stand for categories, as the file's own dictionary says.
    """

    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Read]
    once: bool = False
    checks_names: bool = False
    coded: frozenset[str] = frozenset()

    def typed(self, wanted: Sequence[str]) -> tuple[Read, list[Any]]:
        """How to read some columns, and the types in which DuckDB is given them. No value is looked at."""
        if not self.checks_names:
            check_names(wanted, self.columns)
        read = self.read(wanted)
        types = [handed_type(kind) for kind in read.kinds]
        for name, kind, given in zip(wanted, read.kinds, types, strict=True):
            if given is None:
                raise unread(name, kind)
        return read, types

    def attach(self, con: Any, wanted: Sequence[str]) -> tuple[str, dict[str, Column]]:
        """Bring columns before a DuckDB connection: a FROM clause, and each column as that clause calls it."""
        import pyarrow as pa

        read, types = self.typed(wanted)
        kinds = read.kinds
        columns = {name: column(i, kind) for i, (name, kind) in enumerate(zip(wanted, kinds, strict=True))}
        if read.table is not None:
            return read.table, columns
        # Where no column is wanted, the records still count.
        schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(types)] or [("none", pa.null())])

        def given_out() -> Iterator[Any]:
            for batch in read.batches():
                arrays = [handed(array) for array in batch.columns] or [pa.nulls(batch.num_rows)]
                yield pa.record_batch(arrays, schema=schema)

        stream = Stream(schema, given_out)
        con.register("records", stream.reader() if self.once else stream)
        return f"records AS t({', '.join(schema.names)})", columns


@dataclass(frozen=True)
class Stream:
    """Batches that can be read again: DuckDB asks for a new stream at each scan, and some plans scan twice."""

    schema: Any
    batches: Callable[[], Iterable[Any]]

    def reader(self) -> Any:
        """The batches, to be read once."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)


def unread(name: str, kind: Any) -> Error:
    """What to say of a column of a type that no rule reads."""
    return Error(f"column {name!r} holds {kind}, which no rule reads; make texts, numbers or times of it.")


def check_names(wanted: Iterable[str], columns: Iterable[str], where: str = "the data", advice: str = "") -> None:
    """Refuse columns that are not there, and say what to do.

    Those that are there are not listed: in data that came from a file without a line of names, they are somebody's
    record. One that is spelled otherwise is named, since the schema has said as much.

    >>> check_names(["Age", "ward"], ["AGE ", "Smith"])
    Traceback (most recent call last):
    quietfield.errors.Error: the data has no column 'Age', 'ward'; ... It has 'AGE ', ...
    """
    columns = list(columns)
    missing = [name for name in wanted if name not in columns]
    if missing:
        spelled = {_plain(name) for name in missing}
        close = [name for name in columns if _plain(name) in spelled]
        raise Error(
            f"{where} has no column {join_names(missing)}; check the schema and the unit (capital letters and spaces "
            f"count). {f'It has {join_names(close)}, which is spelled otherwise. ' if close else ''}"
            f"{advice or 'Its other columns are not shown: where a line of names was missing, they are a record.'}"
        )


def _plain(name: str) -> str:
    """A name without capital letters and whatever stands between words."""
    return re.sub(r"[\W_]", "", name).lower()


def shown(path: str) -> str:
    """A path as messages may call it: folders that a pattern found may be named by values of records.

    >>> shown("visits/name=Jones/day=3/1.parquet")
    'visits/name=.../day=.../1.parquet'
    """
    return re.sub(r"=[^/\\]*(?=[/\\])", "=...", path)


def unique(columns: Iterable[Any]) -> tuple[str, ...]:
    """The names of columns, refused if two are one."""
    found = tuple(str(name) for name in columns)
    if len(set(found)) < len(found):
        raise Error("the data has several columns of one name; give each column its own name.")
    return found
