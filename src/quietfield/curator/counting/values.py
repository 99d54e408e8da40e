"""Values on their way to DuckDB: each is read on its own, and none can make the reading fail.

Python values become texts one by one. Arrow columns keep their type where DuckDB takes any value of it; times become
whole numbers, since DuckDB fails on those that it cannot convert, and texts that are not UTF-8 become ``UNREADABLE``.
"""

from decimal import Decimal
from typing import Any

import numpy as np

from quietfield.curator.counting.mapping import Column

#: The text of a value that has none: no label can be it, so it is an unknown value, and it names no person.
UNREADABLE = "\x00"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def text(value: Any) -> str | None:
    """Any Python value as the text that a schema is matched with; None for a null.

    >>> text(2.0), text(True), text(float("nan")), text("\\ud800")
    ('2', 'true', None, '\\x00')
    """
    try:
        found = _text(value)
        return None if found is None else str.encode(found, "utf-8").decode("utf-8")
    except Exception:  # noqa: BLE001  # an object may raise anything, and so does a text that is no Unicode
        return UNREADABLE


def _text(value: Any) -> str | None:
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


def plain(kind: Any) -> Any:
    """The type of a column's values, whether or not they are coded by a dictionary."""
    import pyarrow.types as types

    return plain(kind.value_type) if types.is_dictionary(kind) else kind


def kind_of(kind: Any) -> str:
    """The kind of a column, by its Arrow type: text, integer, number, boolean, date, time or other."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = plain(kind)
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


def column(number: int, kind: Any) -> Column:
    """A column as queries call it, from its Arrow type."""
    import pyarrow.types as types

    name, own = f"c{number}", plain(kind)
    if types.is_timestamp(own):
        return Column(name, "time", PER_SECOND[own.unit], own.tz is not None)
    ticks = PER_SECOND["ms"] if types.is_date64(own) else None
    return Column(name, kind_of(own), ticks, exact=types.is_decimal(own))


def handed_type(kind: Any) -> Any:
    """The type in which DuckDB is given a column; None where no rule reads such values."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = plain(kind)
    if types.is_timestamp(kind) or types.is_date64(kind):
        return pa.int64()
    if types.is_time(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    known = kind_of(kind) != "other" or types.is_null(kind) or any(check(kind) for check in binary)
    return kind if known else None


def handed(array: Any) -> Any:
    """An array in the type of :func:`handed_type`, value by value."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = array.type
    if types.is_dictionary(kind):
        return _decoded_dictionary(array)
    if types.is_timestamp(kind) or types.is_date64(kind):
        return array.view(pa.int64())
    if types.is_time(kind):
        return _hours(array)
    if types.is_float16(kind):
        return array.cast(pa.float32())
    return _utf8(array) if _is_text(kind) else array


def _decoded_dictionary(array: Any) -> Any:
    """The values that codes of a dictionary stand for. Arrow cannot look up texts as polars has them in categories."""
    import pyarrow as pa

    if not pa.types.is_string_view(array.type.value_type):
        return handed(array.dictionary_decode())
    found = pa.DictionaryArray.from_arrays(array.indices, handed(array.dictionary).cast(pa.large_string()))
    return found.dictionary_decode().cast(pa.string_view())


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _utf8(array: Any) -> Any:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        binary = pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()
        return pa.array([_decoded(value) for value in array.cast(binary).to_pylist()], array.type)
    return array


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return UNREADABLE


def _hours(array: Any) -> Any:
    """Times of day as texts: those before the first second or after the last would be written outside of memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    ticks = array.view(raw)
    most = pa.scalar(86_400 * PER_SECOND[array.type.unit] - 1, raw)
    inside = pc.and_(pc.greater_equal(ticks, pa.scalar(0, raw)), pc.less_equal(ticks, most))
    kept = pc.if_else(inside, ticks, pa.scalar(0, raw)).view(array.type)
    return pc.if_else(inside, kept.cast(pa.string()), UNREADABLE)
