"""Columns brought before DuckDB, value by value: none can make the reading fail, and no error quotes one.

Python values become texts one by one. Arrow columns keep their type where DuckDB takes any value of it; times become
whole numbers, since DuckDB fails on those that it cannot convert, and texts that are not UTF-8 become ``NO_TEXT``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from quietfield.curator.counting.coding import Column
from quietfield.errors import Error, Unreadable
from quietfield.text import join_names

Result = TypeVar("Result")

UNREADABLE = (
    "the data could not be read. What the reader said about it is not shown, since it may quote records. Check that "
    "the file is whole and of the kind that its name says, and that there is room in memory and on disk."
)
#: The text of a value that has none: no label can be it, so it is an unknown value, and it names no person.
NO_TEXT = "\x00"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def hide_details(work: Callable[[], Result], message: str = UNREADABLE) -> Result:
    """Do some work; if an engine fails, say ``message`` and nothing of what the engine said.

    The new error is raised outside the handler: an error raised within one carries the old one along as its context,
    and a debugger or a log would print that, record values and all.
    """
    failure: Error
    try:
        return work()
    except Error as error:
        failure = type(error)(*error.args)
    except Exception:  # noqa: BLE001  # whatever it is, it may quote a record
        failure = Unreadable(message)
    raise failure


def attempt(work: Callable[[], Result], *errors: type[Exception]) -> Result | None:
    """What some work gives, or None where it fails (with one of ``errors``, if any are named).

    Whoever asked says so in an error of its own, which does not carry along what failed.
    """
    caught = errors or (Exception,)
    try:
        return work()
    except caught:
        return None


@dataclass(frozen=True)
class ReadPlan:
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
    names columns of numbers that stand for categories, as the file's own dictionary says; ``never_null`` those that
    hold no nulls, by their type.
    """

    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], ReadPlan]
    once: bool = False
    checks_names: bool = False
    coded: frozenset[str] = frozenset()
    never_null: frozenset[str] = frozenset()

    def plan_read(self, wanted: Sequence[str]) -> tuple[ReadPlan, list[Any]]:
        """How to read some columns, and the types in which DuckDB is given them. No value is looked at."""
        if not self.checks_names:
            check_names(wanted, self.columns)
        plan = self.read(wanted)
        types = [duckdb_type(kind) for kind in plan.kinds]
        for name, kind, given in zip(wanted, plan.kinds, types, strict=True):
            if given is None:
                raise unread_type_error(name, kind)
        return plan, types

    def attach(self, con: Any, wanted: Sequence[str]) -> tuple[str, dict[str, Column]]:
        """Bring columns before a DuckDB connection: a FROM clause, and each column as that clause calls it."""
        import pyarrow as pa

        plan, types = self.plan_read(wanted)
        columns = {name: sql_column(i, kind) for i, (name, kind) in enumerate(zip(wanted, plan.kinds, strict=True))}
        if plan.table is not None:
            return plan.table, columns
        # Where no column is wanted, the records still count.
        schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(types)] or [("none", pa.null())])

        def batches() -> Iterator[Any]:
            for batch in plan.batches():
                arrays = [to_duckdb(array) for array in batch.columns] or [pa.nulls(batch.num_rows)]
                yield pa.record_batch(arrays, schema=schema)

        stream = Stream(schema, batches)
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


def unread_type_error(name: str, kind: Any) -> Error:
    """What to raise for a column of a type that no rule reads."""
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
        spelled = {_squeeze(name) for name in missing}
        close = [name for name in columns if _squeeze(name) in spelled]
        raise Error(
            f"{where} has no column {join_names(missing)}; check the schema and the unit (capital letters and spaces "
            f"count). {f'It has {join_names(close)}, which is spelled otherwise. ' if close else ''}"
            f"{advice or 'Its other columns are not shown: where a line of names was missing, they are a record.'}"
        )


def _squeeze(name: str) -> str:
    """A name without capital letters and whatever stands between words."""
    return re.sub(r"[\W_]", "", name).lower()


def mask_path(path: str) -> str:
    """A path as messages may call it: folders that a pattern found may be named by values of records.

    >>> mask_path("visits/name=Jones/day=3/1.parquet")
    'visits/name=.../day=.../1.parquet'
    """
    return re.sub(r"=[^/\\]*(?=[/\\])", "=...", path)


def unique_names(columns: Iterable[Any]) -> tuple[str, ...]:
    """The names of columns, refused if two are one."""
    found = tuple(str(name) for name in columns)
    if len(set(found)) < len(found):
        raise Error("the data has several columns of one name; give each column its own name.")
    return found


def to_text(value: Any) -> str | None:
    """Any Python value as the text that a schema is matched with; None for a null.

    >>> to_text(2.0), to_text(True), to_text(float("nan")), to_text("\\ud800")
    ('2', 'true', None, '\\x00')
    """
    try:
        text = _write_value(value)
        return None if text is None else str.encode(text, "utf-8").decode("utf-8")
    except Exception:  # noqa: BLE001  # an object may raise anything, and so does a text that is no Unicode
        return NO_TEXT


def _write_value(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        whole = abs(value) < 10**15 and value == value.to_integral_value() if not value.is_nan() else False
        return None if value.is_nan() else str(int(value)) if whole else str(value)
    if value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value)


def value_type(kind: Any) -> Any:
    """The type of a column's values, whether or not they are coded by a dictionary."""
    import pyarrow.types as types

    return value_type(kind.value_type) if types.is_dictionary(kind) else kind


def arrow_kind(kind: Any) -> str:
    """The kind of a column, by its Arrow type: text, integer, number, boolean, date, time or other."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = value_type(kind)
    if _is_text(kind) or types.is_time(kind) or kind == pa.uuid():
        return "text"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or (types.is_decimal128(kind) and kind.scale >= 0):  # DuckDB has no others
        return "number"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_date(kind):
        return "date"
    return "time" if types.is_timestamp(kind) else "other"


def sql_column(number: int, kind: Any) -> Column:
    """A column as queries call it, from its Arrow type."""
    import pyarrow.types as types

    name, kind = f"c{number}", value_type(kind)
    if types.is_timestamp(kind):
        return Column(name, "time", PER_SECOND[kind.unit], kind.tz is not None)
    ticks = PER_SECOND["ms"] if types.is_date64(kind) else None
    return Column(name, arrow_kind(kind), ticks, exact=types.is_decimal(kind))


def duckdb_type(kind: Any) -> Any:
    """The type in which DuckDB is given a column; None where no rule reads such values."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = value_type(kind)
    if types.is_timestamp(kind) or types.is_date64(kind):
        return pa.int64()
    if types.is_time(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    known = arrow_kind(kind) != "other" or types.is_null(kind) or any(check(kind) for check in binary)
    return kind if known else None


def to_duckdb(array: Any) -> Any:
    """An array in the type of :func:`duckdb_type`, value by value."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = array.type
    if types.is_dictionary(kind):
        return _decode_dictionary(array)
    if types.is_timestamp(kind) or types.is_date64(kind):
        return array.view(pa.int64())
    if types.is_time(kind):
        return _write_times(array)
    if types.is_float16(kind):
        return array.cast(pa.float32())
    return _replace_broken(array) if _is_text(kind) else array


def _decode_dictionary(array: Any) -> Any:
    """The values that codes of a dictionary stand for. Arrow cannot look up texts as polars has them in categories."""
    import pyarrow as pa

    if not pa.types.is_string_view(array.type.value_type):
        return to_duckdb(array.dictionary_decode())
    found = pa.DictionaryArray.from_arrays(array.indices, to_duckdb(array.dictionary).cast(pa.large_string()))
    return found.dictionary_decode().cast(pa.string_view())


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _replace_broken(array: Any) -> Any:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        binary = pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()
        return pa.array([_decode(value) for value in array.cast(binary).to_pylist()], array.type)
    return array


def _decode(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return NO_TEXT


def _write_times(array: Any) -> Any:
    """Times of day as texts: those before the first second or after the last would be written outside of memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    ticks = array.view(raw)
    most = pa.scalar(86_400 * PER_SECOND[array.type.unit] - 1, raw)
    inside = pc.and_(pc.greater_equal(ticks, pa.scalar(0, raw)), pc.less_equal(ticks, most))
    kept = pc.if_else(inside, ticks, pa.scalar(0, raw)).view(array.type)
    return pc.if_else(inside, kept.cast(pa.string()), NO_TEXT)


def to_arrow(values: Any) -> Any:
    """A column, or a slice of one, as Arrow data. Its type follows from the column's type alone, never from values.

    What has no type of its own (a list, an array or frame column of objects) is read value by value, as texts.
    """
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        array = values
    elif isinstance(values, np.ndarray) and values.dtype == np.dtype("M8[D]"):
        # Numpy's days have 64 bits and Arrow's 32, into which it would fold the others.
        days = np.clip(values.astype(np.int64), -(2**31) + 1, 2**31 - 1).astype(np.int32)
        array = pa.array(days, mask=np.isnat(values)).view(pa.date32())
    elif _has_type(values):
        array = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
    else:
        array = pa.array([to_text(value) for value in values], pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _has_type(values: Any) -> bool:
    """Whether every value of a column is of the column's type, and Arrow can take any such value."""
    kind = getattr(values, "dtype", None)
    # Of categories only the values count, not which ones there could be; Python's texts need not be Unicode.
    if kind is None or str(kind).lower() in ("category", "object") or getattr(kind, "storage", None) == "python":
        return False
    return not isinstance(kind, np.dtype) or kind.kind not in "US"


def arrow_type(name: str, values: Any) -> Any:
    """The Arrow type of a column, from its own type; None for what is no column."""
    if not is_column(values):
        return None
    kind = attempt(lambda: to_arrow(empty_column(values)).type)
    if kind is None:
        raise unread_type_error(name, getattr(values, "dtype", type(values).__name__))
    return kind


def empty_column(values: Any) -> Any:
    """A column without its values; what is none stays as it is, to be refused."""
    if not is_column(values):
        return values
    if hasattr(values, "iloc"):
        return values.iloc[:0]
    # Of what has no type of its own nothing is looked at, not even the first value.
    return values[:0] if hasattr(values, "dtype") or hasattr(values, "type") else []


def is_column(values: Any) -> bool:
    """Whether something is a list or an array with one value per record, by its type."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        return False
    return getattr(values, "ndim", 1) == 1
