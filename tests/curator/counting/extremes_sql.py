"""Columns of every type of DuckDB, PostgreSQL and Spark, as literals, with the values for the reference."""

import datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

from extremes import DAY, DOUBLES, SINGLES, WORDS, Beyond, exact_decimals, integers_of

Columns = dict[str, list[tuple[str, Any]]]
MOMENT = datetime.datetime


def _numbers(values: list[Any]) -> list[tuple[str, Any]]:
    return [("NULL" if value is None else f"'{value}'", value) for value in values]


def _decimals(digits: int, scale: int) -> list[tuple[str, Any]]:
    listed = ["0", "1", "-1", "42", "255", "0.5", "10000000000000000", "999999999999999999", "-129"]
    return [("NULL" if v is None else f"'{v:f}'", v) for v in exact_decimals(listed, scale, digits)]


def _words(escape: bool = False) -> list[tuple[str, Any]]:
    def literal(word: str) -> str:
        doubled = word.replace("\\", "\\\\").replace("'", "\\'") if escape else word.replace("'", "''")
        return f"'{doubled}'"

    return [("NULL" if word is None else literal(word), word) for word in WORDS]


def _far(*texts: str) -> list[tuple[str, Any]]:
    return [(f"'{text}'", Beyond(text)) for text in texts]


NULL: list[tuple[str, Any]] = [("NULL", None)]
DATES: list[tuple[str, Any]] = [
    ("'1970-01-01'", DAY(1970, 1, 1)), ("'2024-01-31'", DAY(2024, 1, 31)), ("'0001-01-01'", DAY(1, 1, 1)),
    ("'9999-12-31'", DAY(9999, 12, 31)), ("'9998-12-30'", DAY(9998, 12, 30)), *NULL,
]  # fmt: skip
TIMES: list[tuple[str, Any]] = [
    ("'1970-01-01 00:00:00'", MOMENT(1970, 1, 1)), ("'1969-12-31 23:59:59'", MOMENT(1969, 12, 31, 23, 59, 59)),
    ("'2024-01-31 12:00:00'", MOMENT(2024, 1, 31, 12)), *NULL,
]  # fmt: skip
FAR_TIMES: list[tuple[str, Any]] = [
    ("'0001-01-01 00:00:00'", MOMENT(1, 1, 1)), ("'9999-12-31 23:59:59'", MOMENT(9999, 12, 31, 23, 59, 59)),
    ("'9998-12-30 23:59:59.999'", MOMENT(9998, 12, 30, 23, 59, 59, 999_000)),
]  # fmt: skip
IDS: list[tuple[str, Any]] = [
    (f"'{one}'", one) for one in ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
]

DUCKDB: Columns = {
    **{name: _numbers(integers_of(bits, True)) for name, bits in
       (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64))},
    **{name: _numbers(integers_of(bits, False)) for name, bits in
       (("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64))},
    "HUGEINT": _numbers([*map(Decimal, (0, 1, -1, 42, 255, 10**16, 2**63, 10**38, 2**127 - 1, -(2**127))), None]),
    "UHUGEINT": _numbers([*map(Decimal, (0, 1, 42, 255, 10**16, 2**63, 10**38, 2**128 - 1)), None]),
    "FLOAT": _numbers(SINGLES),
    "DOUBLE": _numbers(DOUBLES),
    **{f"DECIMAL({digits}, {scale})": _decimals(digits, scale) for digits, scale in
       ((4, 1), (9, 9), (18, 2), (38, 0), (38, 18), (38, 38))},
    "VARCHAR": _words(),
    "BOOLEAN": [("true", True), ("false", False), *NULL],
    "DATE": DATES
    + _far("infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)", "10000-01-01", "0001-12-31 (BC)"),
    "TIMESTAMP": TIMES + FAR_TIMES
    + _far("infinity", "-infinity", "294247-01-10 04:00:54", "290309-12-22 (BC) 00:00:00"),
    "TIMESTAMP_S": TIMES + FAR_TIMES[:2] + _far("infinity", "-infinity", "294247-01-10 04:00:54"),
    "TIMESTAMP_MS": TIMES + FAR_TIMES + _far("infinity", "-infinity"),
    "TIMESTAMP_NS": TIMES + _far("infinity", "-infinity"),
    "TIMESTAMPTZ": [(f"{text[:-1]}+00'" if value else text, value) for text, value in TIMES + FAR_TIMES]
    + _far("infinity", "-infinity", "294247-01-10 04:00:54+00"),
    "TIME": _far("00:00:00", "23:59:59.999999", "24:00:00") + NULL,
    "TIMETZ": _far("00:00:00+15:59:59", "23:59:59.999999-15:59:59") + NULL,
    "UUID": IDS + NULL,
    "BLOB": _far("x", "\\xFF\\x00", "") + NULL,
    "BIT": _far("0", "1", "01" * 500) + NULL,
    "ENUM('x', '1', 'é')": [("'x'", "x"), ("'1'", "1"), ("'é'", "é"), *NULL],
    "JSON": _far('"x"', '{"a": [1, null]}', "null") + NULL,
}  # fmt: skip

POSTGRES: Columns = {
    **{name: _numbers(integers_of(bits, True)) for name, bits in (("smallint", 16), ("integer", 32), ("bigint", 64))},
    "real": _numbers(SINGLES),
    "double precision": _numbers(DOUBLES),
    "numeric": _decimals(38, 0)
    + _numbers([nan, inf, -inf])
    + [("1e400", Beyond("large")), ("-1e131071", Beyond("huge")), ("0.1", Decimal("0.1")), ("2.000", Decimal(2))],
    **{f"numeric({digits}, {scale})": _decimals(digits, scale) for digits, scale in
       ((4, 1), (18, 2), (38, 0), (38, 18), (38, 38))},
    "numeric(1000, 500)": _far("9" * 500, "1e-500", "1") + NULL,  # more than 200 places: no number to us
    "text": _words(),
    "varchar(5000)": _words(),
    "boolean": [("true", True), ("false", False), *NULL],
    "date": DATES
    + _far("infinity", "-infinity", "5874897-12-31", "4713-01-01 BC", "10000-01-01", "294277-01-01", "0001-12-31 BC"),
    "timestamp": TIMES + FAR_TIMES
    + _far("infinity", "-infinity", "294276-12-31 23:59:59", "4713-01-01 BC", "10000-01-01"),
    "timestamptz": [(f"{text[:-1]}+00'" if value else text, value) for text, value in TIMES + FAR_TIMES]
    + _far("infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-02 00:00:00+00 BC", "10000-01-01 00:00:00+00"),
    "uuid": IDS + NULL,
    "time": _far("00:00:00", "23:59:59.999999", "24:00:00") + NULL,
    "timetz": _far("00:00:00+15:59", "24:00:00-15:59") + NULL,
    "interval": _far("infinity", "178000000 years", "-178000000 years", "0", "1 month") + NULL,
    "bytea": _far("x", "\\xff00", "") + NULL,
    "json": _far("1", '{"a": [1, null]}') + NULL,
    "jsonb": _far("1", '{"a": [1, null]}', "1e400") + NULL,
    "inet": _far("127.0.0.1", "::1") + NULL,
    "money": _far("92233720368547758.07", "-92233720368547758.08", "1") + NULL,
    "bit(3)": _far("101") + NULL,
    "name": [("'x'", "x"), ("'1'", "1"), *NULL],
    "integer[]": _far("{1,2}", "{}") + NULL,
    "int4range": _far("[1,2)", "empty") + NULL,
    "char(5)": [("'x'", "x"), ("'1'", "1"), ("'00001'", "00001"), *NULL],
}  # fmt: skip

SPARK: Columns = {
    **{name: _numbers(integers_of(bits, True)) for name, bits in
       (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64))},
    "float": _numbers(SINGLES),
    "double": _numbers(DOUBLES),
    **{f"decimal({digits}, {scale})": _decimals(digits, scale) for digits, scale in
       ((4, 1), (9, 9), (18, 2), (38, 0), (38, 18), (38, 38))},
    "string": _words(escape=True),
    "boolean": [("true", True), ("false", False), *NULL],
    "date": DATES
    + _far("+10000-01-01", "+200000-01-01", "+294248-01-01", "-0001-01-01", "-290309-01-01", "+5881580-07-11"),
    "timestamp": TIMES + FAR_TIMES + _far("+294247-01-10 04:00:54", "-290308-12-22 00:00:00", "+10000-01-01 00:00:00"),
    "timestamp_ntz": TIMES + FAR_TIMES + _far("+294247-01-10 04:00:54", "-290308-12-22 00:00:00"),
    "binary": _far("x", "é", "") + NULL,
    "void": NULL,
}  # fmt: skip


def listed(rows: list[tuple[str, Any]]) -> str:
    """The literals as rows of VALUES."""
    return ", ".join(f"({literal})" for literal, _ in rows)
