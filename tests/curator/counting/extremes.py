"""Extreme values of every type of column of every engine, and every kind of rule to read them with.

A count that fails tells something about a record, and no noise is in it. So each type meets each rule here, and each
count must succeed and agree with the brute-force reference where the documentation says what a value is.
"""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from math import inf, nan
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import reference

from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.errors import Error
from quietfield.privacy.units import Person, Rows, Statistics, Unit, statistics
from quietfield.schema import Attribute, Cuts, Dates, Labels, Schema

DAY, DATETIME, UTC = datetime.date, datetime.datetime, datetime.UTC


@dataclass(frozen=True)
class Beyond:
    """A value that no rule covers: a date outside the years 1 to 9999, bytes. Its text is the engine's own."""

    name: Any


#: Runs of integers, which are counted in a way of their own: narrower and wider than each type of integers.
RUNS = [
    (0, 3), (-50, 101), (-3, 300), (100, 300), (-200, -100), (250, 260), (-300, 400), (-1, 2), (32_000, 33_000),
    (-33_000, -32_000), (65_000, 66_000), (2**31 - 2, 2**31 + 3), (-(2**31), -(2**31) + 5),
    (2**31, 2**31 + 2), (-(2**31) - 5, -(2**31) + 5),
]  # fmt: skip
SCATTERED = (2**62 - 1, -(2**62) + 1, 10**16, -(10**16), 0, 1, -1, 127, -128, 255, -129, 32_767, 65_535, 2**53 + 1, 42)
TEXTS = (
    "1", "-128", "0", "true", "false", "2024-01-31", "1970-01-01", "x", "nan", "inf", "9223372036854775807", "-0", "5",
    "1e308", "é", "'; DROP TABLE x", "00000000-0000-0000-0000-000000000000", "(1)", "10000000000000000",
)  # fmt: skip
CUTS: list[tuple[float, ...]] = [
    (0,),
    (-1e308, -1.0, -5e-324, 0, 5e-324, 1e-9, 1.0, 1e308),
    (-(2**63), -129, 0.05, 18, 0.9353088160706597e2, 2**31, 2**53, 2**63, 10**300),
    (0.22095507847245166, 0.9353088160706597, 1.7976931348623157e308),
]
PERIODS = [
    ("year", "0001-01-01", "0021-01-01"),
    ("year", "9990-01-01", "9999-01-01"),
    ("year", "1960-01-01", "2030-01-01"),
    ("month", "1969-12-01", "1970-03-01"),
    ("week", "1969-12-29", "1970-02-02"),
    ("day", "2024-01-30", "2024-03-02"),
    ("hour", "1969-12-31", "1970-01-02"),
    ("hour", "9998-12-30", "9998-12-31"),
]


def labelled_rules() -> dict[str, Attribute]:
    """Every kind of rule, with labels for nulls and unknown values, so that all can be counted at once."""
    number: dict[str, Any] = {"null": 2**40, "unknown": 2**40 + 1}
    text: dict[str, Any] = {"null": "NULL", "unknown": "UNKNOWN"}
    runs = [run for run in RUNS if run[1] - run[0] < 1000]
    rules: dict[str, Attribute] = {f"run {run}": Labels(tuple(range(*run)), **number) for run in runs}
    rules["scattered"] = Labels(SCATTERED, **number)
    rules["texts"] = Labels(TEXTS, **text)
    rules |= {f"cuts {i}": Cuts(points, **text) for i, points in enumerate(CUTS)}
    rules |= {f"dates {i}": Dates(*period, **text) for i, period in enumerate(PERIODS)}  # type: ignore[arg-type]
    return rules


def dropping_rules() -> dict[str, Attribute]:
    """Every kind of rule, in which nulls, unknown values or both drop the record."""
    rules: dict[str, Attribute] = {f"run {run}": Labels(tuple(range(*run))) for run in RUNS}
    rules["scattered"] = Labels(SCATTERED, unknown=2**40)
    rules["texts"] = Labels(TEXTS, null="NULL")
    rules["cuts"] = Cuts(CUTS[2])
    rules["dates"] = Dates("month", "1969-12-01", "1970-03-01", unknown="UNKNOWN")
    return rules


def is_defined(rule: Attribute, value: Any) -> bool:
    """Whether the documentation says what a rule makes of a value: it does not say the texts of times and bytes."""
    texts = isinstance(rule, Labels) and isinstance(rule.values[0], str)
    return not (texts and isinstance(value, DATETIME | datetime.time | Beyond | bytes | float | Decimal)) or (
        isinstance(value, float | Decimal) and reference.whole(value) is not None
    )


def code(rule: Attribute, value: Any) -> int | None:
    """The code of a value, by the reference."""
    return rule.unknown_code if isinstance(value, Beyond) else reference.code(rule, value)


def asked_of(schema: Schema, unit: Unit) -> Statistics:
    return statistics(Structure(tuple((name,) for name in schema)), schema.domain, unit, "add_remove", True)


def check_rules(source: Any, column: str, values: list[Any], rules: dict[str, Attribute]) -> int:
    """Count a column by several rules at once and compare; the number of cases (a value read by a rule)."""
    schema = Schema({name: replace(rule, column=column) for name, rule in rules.items()})
    counts = count(source, schema, asked_of(schema, Rows(1)), Rows(1))
    kept = [value for value in values if all(code(rule, value) is not None for rule in rules.values())]
    if all(is_defined(rule, value) for rule in rules.values() for value in values):
        assert counts.total == len(kept), column
    for (name, rule), table in zip(rules.items(), counts.tables, strict=True):
        expected = np.zeros(len(rule.labels), dtype=np.int64)
        for value in kept:
            expected[code(rule, value)] += is_defined(rule, value)
        if all(is_defined(rule, value) for value in values):
            np.testing.assert_array_equal(table, expected, err_msg=f"{column}: {name}")
        else:
            assert table.sum() == counts.total, (column, name)
    return len(values) * len(rules)


def check_persons(source: Callable[[], Any], column: str, values: list[Any]) -> int:
    """Count one row per person, where the column names persons, as it is and as whole numbers."""
    schema = Schema({"whoever": Labels(("x",), column=column, null="N", unknown="U")})
    for kind in (None, "integer"):
        unit = Person(column, rows=1, kind=kind)  # type: ignore[arg-type]
        counts = count(source(), schema, asked_of(schema, unit), unit)
        people = {value for value in values if not reference.is_null(value) and value != "\x00"}
        certain = {value for value in people if not isinstance(value, Beyond)}
        if kind == "integer":
            people = certain = {reference.whole(value) for value in certain} - {None}
        assert counts.total is not None
        assert len(certain) <= counts.total <= len(people), (column, kind)
    return 2 * len(values)


#: Rules that drop records are counted one by one, so a few stand for all where a count takes long.
FEW = ("run (-50, 101)", "run (-300, 400)", "scattered")


class Checks:
    """Cases that were checked, and what went wrong, by column: one failure does not hide the others."""

    def __init__(self) -> None:
        self.cases = 0
        self.columns = 0
        self.failures: dict[str, str] = {}

    def check(self, name: str, source: Callable[[], Any], values: list[Any], dropping: Iterable[str] = FEW) -> None:
        """All rules and both kinds of persons on the column ``a`` of a source, which is made anew for each count."""
        rules = dropping_rules()
        work: dict[str, Callable[[], int]] = {
            "labels": lambda: check_rules(source(), "a", values, labelled_rules()),
            "persons": lambda: check_persons(source, "a", values),
        }
        for rule in dropping:
            work[rule] = partial(lambda rule: check_rules(source(), "a", values, {rule: rules[rule]}), rule)
        self.columns += 1
        for what, do in work.items():
            try:
                self.cases += do()
            except (AssertionError, Error) as failure:
                self.failures[f"{name}, {what}"] = " ".join(str(failure).split())[:200]

    def end(self, columns: int, cases: int) -> None:
        """Fail if anything went wrong, or if less was checked than there used to be."""
        print(f"{self.columns} columns, {self.cases:,} cases, {len(self.failures)} failures")
        assert not self.failures, "\n".join(f"{name}: {failure}" for name, failure in self.failures.items())
        assert self.columns >= columns
        assert self.cases >= cases


# Arrow, and what is made of it


def integers_of(bits: int, signed: bool) -> list[Any]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [low, low + 1, high, high - 1, 0, 1, 42, 100, 126, 127]
    near += [
        v for v in (-1, -128, -129, 128, 255, 256, 32_767, 65_535, 65_536, 2**31, -(2**31) - 1) if low <= v <= high
    ]
    return [*dict.fromkeys(near), None]


SINGLES = [0.0, 1.0, -1.0, 0.5, 42.0, 127.0, 255.0, 2.0**31, 2.0**53, 2.0**126, -(2.0**-149), nan, inf, -inf, None]
DOUBLES = [
    *SINGLES, 0.1, -0.0, 1e15, -1e15, 1e16, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    -1.7976931348623157e308, 1e308, -1e308, 9.223372036854775e18, -9.223372036854775e18, 1.8446744073709552e19,
    0.22095507847245166, 0.9353088160706597, 93.53088160706597, 999999999999999.0, 1e19, 3e38,
]  # fmt: skip
WORDS = [
    "x", "1", " 1 ", "+5", "5", "-128", "007", "1.0", "1.", ".5", "1e2", "1E+2", "1e308", "1e309", "-1e308", "1e999999",
    "nan", " NaN", "-nan", "inf", "-Infinity", "infinity", "１２", "٣", "0x10", "1_000", "1,5", "1 2", "-0", "+", "-",
    ".", "e5", "--1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" * 18, "1" * 19,
    "1" * 200, "-" + "9" * 25, "true", "True", "false", "null", "NULL", "2024-01-31", "2024-02-30", "2023-02-29",
    "0001-01-01", "9999-12-31", "0000-01-01", "10000-01-01", "-0001-01-01", "1970-01-01T00:00:00Z", "1969-12-31 23:59",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2024-01-31T24:00", "2024-01-31 12:00:60", "infinity ",
    "epoch", "now", "today", "2024-01-31\n", "1\n", "\n1", "1\r", "\t5", "5\t", "\u00a05", "é", "e\u0301", "😀",
    "'; DROP TABLE x", "$p0", "%s", "{0}", "\\", '"', "", None, " ", "\u200b1", "x" * 5000, "(1)", "NaN()", "1d", "1f",
    "1e-307", "00000000-0000-0000-0000-000000000000", "2024-01-31T12:00+15:00", "2024-01-31T12:00+99:99", "\ufeff1",
]  # fmt: skip
DAYS = {0: DAY(1970, 1, 1), 19_753: DAY(2024, 1, 31), -719_162: DAY(1, 1, 1), 2_932_896: DAY(9999, 12, 31)}
FAR_DAYS = [-719_163, 2_932_897, 106_751_991, 106_751_992, -106_751_992, 2**31 - 1, -(2**31) + 1, 2**31 - 2, -(2**31)]
DECIMALS = ["0", "1", "-1", "42", "255", "0.1", "0.5", "10000000000000000", "999999999999999999", "-129", "2147483648"]


def exact_decimals(texts: list[str], scale: int, digits: int) -> list[Any]:
    """Decimals of a width that hold what is told, the largest and the smallest."""
    most, least = Decimal(f"{'9' * digits}e{-scale}"), Decimal(f"1e{-scale}")
    kept = [value for value in map(Decimal, texts) if abs(value) <= most and -value.as_tuple().exponent <= scale]
    return [*dict.fromkeys([*kept, most, most.copy_negate(), least, -least]), None]


def times_of(per_second: int) -> tuple[list[int | None], list[Any]]:
    """Times as they are stored, and as Python knows them."""
    stored: list[int | None] = []
    known: list[Any] = []
    first, last = -62_135_596_800, 253_402_300_799
    for second in (0, -1, 1, 1_706_659_200, -86_400, first, last, first - 1, last + 1):
        if abs(second * per_second) < 2**63:
            stored.append(second * per_second)
            inside = first <= second <= last
            known.append(DATETIME(1970, 1, 1) + datetime.timedelta(seconds=second) if inside else Beyond(second))
    far = [2**63 - 1, -(2**63) + 1]  # the last second that 64 bits hold is no time to us
    return [*stored, *far, None], [*known, *(Beyond(tick) for tick in far), None]


def arrow_columns() -> dict[str, tuple[pa.Array, list[Any]]]:
    """A column of each type of Arrow that is read, and the values for the reference."""
    found: dict[str, tuple[pa.Array, list[Any]]] = {}

    def add(kind: pa.DataType, values: list[Any], array: pa.Array | None = None, name: str = "") -> None:
        found[name or str(kind)] = (pa.array(values, kind) if array is None else array, values)

    for bits in (8, 16, 32, 64):
        add(getattr(pa, f"int{bits}")(), integers_of(bits, True))
        add(getattr(pa, f"uint{bits}")(), integers_of(bits, False))
    add(pa.float64(), DOUBLES)
    for kind, narrow in ((pa.float32(), np.float32), (pa.float16(), np.float16)):
        with np.errstate(over="ignore"):
            held = [None if value is None else float(narrow(value)) for value in DOUBLES]
        add(kind, held, pa.array([None if v is None else narrow(v) for v in held], kind))
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        add(kind, WORDS)
    add(pa.bool_(), [True, False, None])
    for digits, scale in ((4, 1), (9, 9), (18, 2), (38, 0), (38, 18), (38, 38)):
        add(pa.decimal128(digits, scale), exact_decimals(DECIMALS, scale, digits))
    stored = [*DAYS, *FAR_DAYS, None]
    days = [*DAYS.values(), *(Beyond(day) for day in FAR_DAYS), None]
    add(pa.date32(), days, pa.array(stored, pa.int32()).view(pa.date32()))
    whole = [None if day is None else day * 86_400_000 for day in stored] + [2**63 - 1, -(2**63), 2**62]
    add(pa.date64(), [*days, Beyond(1), Beyond(2), Beyond(3)], pa.array(whole, pa.int64()).view(pa.date64()))
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "America/New_York"):
            ticks, moments = times_of(per_second)
            kind = pa.timestamp(unit, zone)
            add(kind, moments, pa.array(ticks, pa.int64()).view(kind))
    for kind, raw in ((pa.time32("s"), pa.int32()), (pa.time64("us"), pa.int64()), (pa.time64("ns"), pa.int64())):
        far = 2**31 - 1 if raw == pa.int32() else 2**63 - 1
        add(kind, [Beyond(0), Beyond(1), None], pa.array([0, 1, None], raw).view(kind))
        found[f"{kind} out of range"] = (
            pa.array([0, far, -far, None], raw).view(kind),
            [Beyond(0), "\x00", "\x00", None],
        )
    add(pa.binary(), [Beyond(b"x"), Beyond(b"\xff\x00"), Beyond(b""), None], pa.array([b"x", b"\xff\x00", b"", None]))
    add(pa.binary(2), [Beyond(b"xy"), Beyond(b"\xff\x00"), None], pa.array([b"xy", b"\xff\x00", None], pa.binary(2)))
    add(pa.null(), [None, None], pa.nulls(2))
    ids = [UUID(int=0), UUID(int=2**128 - 1), UUID(int=2**127)]
    stored_ids = pa.array([*(one.bytes for one in ids), None], pa.binary(16))
    add(pa.uuid(), [*map(str, ids), None], pa.ExtensionArray.from_storage(pa.uuid(), stored_ids), "uuid")
    for name in ("int8", "uint64", "double", "string", "large_string", "date32[day]", "decimal128(38, 18)", "bool"):
        array, values = found[name]
        if not pa.types.is_boolean(array.type):
            found[f"dictionary of {name}"] = (array.dictionary_encode(), values)
    bytes_of = pa.array([b"x", b"a\xff", b"1\x002", b"\xed\xa0\x80", None], pa.binary())
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        held = bytes_of.cast(pa.large_binary()) if kind == pa.large_string() else bytes_of
        held = bytes_of.cast(pa.binary_view()) if kind == pa.string_view() else held
        found[f"{kind} that is not UTF-8"] = (held.view(kind), ["x", "\x00", "1\x002", "\x00", None])
    return found
