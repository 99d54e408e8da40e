"""One record's value never changes how another is read, and never makes the count fail."""

import datetime
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietfield.cliques import Structure
from quietfield.curator.counting import columns, count
from quietfield.errors import Error
from quietfield.privacy.units import Person, Rows, statistics
from quietfield.schema import Cuts, Dates, Labels, Schema


class Rude:
    """An object that answers nothing."""

    def __str__(self) -> str:
        raise ValueError("secret")

    def __eq__(self, other: object) -> bool:
        raise ValueError("secret")

    def __ne__(self, other: object) -> bool:
        raise ValueError("secret")

    __hash__ = None  # type: ignore[assignment]


class Odd(str):
    """A text that does not behave like one."""

    def encode(self, *_: Any) -> bytes:
        raise ValueError("secret")


pandas = pytest.importorskip("pandas")
STRANGE = [
    pandas.NA, pandas.NaT, np.array([1, 2]), np.array([], dtype=float), Decimal("sNaN"), Decimal("NaN"), 10**5000,
    Decimal("1e999999"), Rude(), "\ud800", "a\udfff", "\x00", b"\xff", [1, [2]], {"x": Rude()}, {1, 2},
    float("inf"), np.datetime64("NaT"), np.timedelta64("NaT"), 1j, object, pandas.DataFrame({"a": [1]}),
]  # fmt: skip
PLAIN: list[Any] = [
    True, False, 0, 1, 2, 1.0, 0.5, "x", "1", "1.0", "true", "2024-01-31", None, "", float("nan"), -0.0, 2**53 + 1,
    datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 12), np.int8(1), np.float32(2), np.bool_(True),
    Decimal("1.0"), np.str_("x"), Odd("x"), 1e300, 2**70,
]  # fmt: skip
RULES = {
    "texts": Labels(["x", "1", "true", "2024-01-31", "a?"], null="none", unknown="other"),
    "integers": Labels([0, 1, 2], null=8, unknown=9),
    "cuts": Cuts([0.75, 2], null="none", unknown="other"),
    "dates": Dates("day", "2024-01-01", "2024-02-03", null="none", unknown="other"),
}


def counted(source: Any, rules: Any, unit: Any = Rows(1)) -> list[list[int]]:  # noqa: B008  # frozen
    schema = Schema(rules)
    asked = statistics(
        Structure.of([(name,) for name in rules], schema.domain), schema.domain, unit, "add_remove", True
    )
    return [table.tolist() for table in count(source, schema, asked, unit).tables]


def rules(column: str = "a") -> dict[str, Any]:
    return {name: _on(rule, column) for name, rule in RULES.items()}


def _on(rule: Any, column: str) -> Any:
    from dataclasses import replace

    return replace(rule, column=column)


def added(parts: list[list[list[int]]]) -> list[list[int]]:
    return [np.sum(tables, axis=0).tolist() for tables in zip(*parts, strict=True)]


def one_by_one(values: list[Any]) -> list[list[int]]:
    return added([counted({"a": [value]}, rules()) for value in values])


# Lists and objects


@pytest.mark.parametrize(
    ("values", "labels", "extra"),
    [
        ([True, False], ["true", "false"], "x"),
        ([True, False], ["true", "false"], 2),
        ([True, False], ["true", "false"], 0.5),
        ([1.0, 2.0], ["1", "2"], "x"),
        ([1, 2], [1, 2], None),
        ([1, 2], [1, 2], 2**70),
    ],
)
def test_one_value_does_not_change_the_type_of_a_list(values: Any, labels: Any, extra: Any) -> None:
    assert counted({"a": values * 50}, {"a": labels}) == [[50, 50]]
    assert counted({"a": [*values * 50, extra]}, {"a": labels}) == [[50, 50]]
    assert counted({"a": (*values * 50, extra)}, {"a": labels}) == [[50, 50]]


def test_one_id_does_not_merge_the_others() -> None:
    ids = [2**53 + i for i in range(100)]
    unit = Person("id", rows=1)
    assert counted({"id": ids, "a": ["x"] * 100}, {"a": ["x"]}, unit) == [[100]]
    assert counted({"id": [*ids, 0.5], "a": ["x"] * 101}, {"a": ["x"]}, unit) == [[101]]


@pytest.mark.slow
@given(st.lists(st.sampled_from(range(len(PLAIN + STRANGE))), min_size=1, max_size=8))
def test_a_list_counts_as_its_records_do_alone(picks: list[int]) -> None:
    values = [(PLAIN + STRANGE)[i] for i in picks]
    expected = one_by_one(values)
    held = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        held[i] = value
    for source in ({"a": values}, {"a": held}, pandas.DataFrame({"a": pandas.Series(list(held), dtype=object)})):
        assert counted(source, rules()) == expected


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_strange_values_are_nulls_or_unknown(value: Any) -> None:
    for table in counted({"a": ["x", value]}, {"a": RULES["texts"]}):
        assert (table[0], sum(table[-2:])) == (1, 1)


def test_values_that_cannot_be_read_name_no_person() -> None:
    # Merged into one person they would push each other's rows out.
    unit = Person("id", rows=1)
    ids = ["p", Rude(), Rude(), "\ud800", "?", 10**5000]
    assert counted({"id": ids, "a": ["x"] * 6}, {"a": ["x"]}, unit) == [[2]]


def test_texts_of_python_with_lone_surrogates() -> None:
    series = pandas.Series(["x", "a\ud800", "a?"], dtype=pandas.StringDtype("python"))
    for source in (pandas.DataFrame({"a": series}), {"a": series}, {"a": np.array(["x", "a\ud800", "a?"])}):
        assert counted(source, {"a": RULES["texts"]}) == [[1, 0, 0, 0, 1, 0, 1]]


def test_columns_with_a_type_keep_it() -> None:
    polars = pytest.importorskip("polars")
    for column in (np.array([1, 2]), pandas.Series([1, 2]), polars.Series([1, 2]), pa.array([1, 2])):
        assert dict(columns({"a": column})) == {"a": "integer"}
    assert dict(columns({"a": pa.chunked_array([["x"], ["y"]])})) == {"a": "text"}
    assert dict(columns({"a": polars.Series([Rude()], dtype=polars.Object)})) == {"a": "text"}


@pytest.mark.parametrize("column", ["text", 3, {"x": 1}, None])
def test_what_is_no_column_is_refused(column: Any) -> None:
    with pytest.raises(Error, match="column 'a' is a"):
        counted({"a": column}, {"a": ["x"]})


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(Error, match="differ in length"):
        counted({"a": [1, 2], "b": [1]}, {"a": [1]})


# Times


@pytest.mark.parametrize(
    "kind", [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
)
def test_times_out_of_range_are_unknown(kind: pa.DataType, tmp_path: Path) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    inside, before = 1_706_659_200, -86_400 - 1
    far = [2**62, -(2**62), 2**63 - 1, -(2**63) + 1, -(2**63)]
    moments = [inside * per_second, before * per_second, -1, None, *far]
    table = pa.table({"a": pa.array(moments, pa.int64()).cast(kind), "id": pa.array(moments, pa.int64()).cast(kind)})
    text = "2024-01-31 00:00:00" + ("+00" if kind.tz else "")
    last = "1969-12-31 23:59:59"
    asked = {
        "day": Dates("day", "2024-01-31", "2024-02-01", column="a", null="none", unknown="other"),
        "old": Dates("day", "1969-12-30", "1970-01-01", column="a", null="none", unknown="other"),
        "text": Labels([text, last], column="a", null="none", unknown="other"),
        "number": Labels([0], column="a", unknown=9),
    }
    sources = [table, table.to_reader(), ds.dataset(table)]
    if kind.unit != "s":  # Parquet has no whole seconds
        pq.write_table(table, tmp_path / "1.parquet")
        sources.append(tmp_path / "1.parquet")
        sources.append(ds.dataset(tmp_path / "1.parquet"))
    for source in sources:
        day, old, found, number = counted(source, {**asked, "number": Labels([0], column="a", null=8, unknown=9)})
        assert day == [1, 1, 7]
        assert old == [1, 1, 1, 6]
        assert found[0] == 1
        assert sum(found) == 9
        assert number == [0, 1, 8]
    assert counted(table, {"text": asked["text"]}, Person("id", rows=1))[0] == [
        1,
        int(kind.unit == "s" and not kind.tz),
        0,
        7 - int(kind.unit == "s" and not kind.tz),
    ]
    assert dict(columns(table)) == {"a": "time", "id": "time"}


def test_dates_in_milliseconds_and_times_of_day() -> None:
    dates = pa.array([0, 86_400_000, 2**62, 2**63 - 1, -(2**63), None], pa.int64()).view(pa.date64())
    rule = Labels(["1970-01-01", "1970-01-02"], null="none", unknown="other")
    assert counted({"a": dates}, {"a": rule}) == [[1, 1, 1, 3]]
    hours = pa.array([0, 28_800_000_000, 2**62, -5, None], pa.int64()).view(pa.time64("us"))
    rule = Labels(["08:00:00.000000"], null="none", unknown="other")
    assert counted({"a": hours}, {"a": rule}) == [[1, 1, 3]]


@pytest.mark.parametrize(
    "kind", [pa.duration("s"), pa.list_(pa.string()), pa.struct([("x", pa.int8())]), pa.decimal256(60)]
)
def test_types_that_no_rule_reads_are_refused_by_their_name(kind: pa.DataType) -> None:
    table = pa.table({"a": pa.nulls(3, kind), "b": ["x", "y", "z"]})
    assert counted(table, {"b": ["x"]}) == [[1]]
    with pytest.raises(Error, match="column 'a' holds"):
        counted(table, {"a": ["x"]})


# Files


def broken_text(kind: pa.DataType = pa.string()) -> pa.Array:  # noqa: B008
    data = pa.array([b"x", b"a\xff", None, b"", b"x"], pa.large_binary() if kind == pa.large_string() else pa.binary())
    return data.view(kind)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_that_are_not_utf8_are_unknown(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"a": broken_text(kind), "id": broken_text(kind)})
    pq.write_table(table, tmp_path / "1.parquet")
    coded = pa.table({"a": table["a"].chunk(0).dictionary_encode(), "id": table["id"]})
    frame = pandas.DataFrame({"a": pandas.arrays.ArrowExtensionArray(table["a"])})
    sources = (table, coded, frame, tmp_path / "1.parquet", ds.dataset(tmp_path / "1.parquet"), table.to_reader())
    for source in sources:
        texts, integers, cuts, dates = counted(source, rules())
        assert texts == [2, 0, 0, 0, 0, 2, 1]
        assert integers == [0, 0, 0, 2, 3]
        assert cuts == [0, 0, 0, 2, 3]
        assert dates[-2:] == [2, 3]
    assert counted(tmp_path / "1.parquet", {"a": RULES["texts"]}, Person("id", rows=1)) == [[1, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("second", ["1", "x"])
def test_files_of_different_types_are_always_refused(second: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1], "a": [second]}), tmp_path / "2.parquet")
    for source in (str(tmp_path / "*.parquet"), ds.dataset([str(tmp_path / f"{i}.parquet") for i in (1, 2)])):
        with pytest.raises(Error, match=r"holds column 'a' as string"):
            counted(source, {"a": [1]})
        assert counted(source, {"b": [1]}) == [[2]]


def test_files_without_a_column_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(Error, match=r"2.parquet has no column 'a'"):
        counted(str(tmp_path / "*.parquet"), {"a": [1]})


def test_datasets_whose_types_are_guessed_from_values_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    with pytest.raises(Error, match="path"):
        counted(ds.dataset(tmp_path / "1.csv", format="csv"), {"a": [1]})


@pytest.mark.parametrize(("name", "beside"), [("v[1]", "v1"), ("w*", "w2"), ("y?", "y1"), ("it's", "its")])
def test_a_file_is_its_name_and_not_a_pattern(name: str, beside: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"a": ["x", "x"], "b": [1, 1]}), tmp_path / f"{beside}.parquet")
    for labels in ({"a": ["x"]}, {"b": [1]}, {"b": [1], "a": ["x"]}):
        assert counted(tmp_path / f"{name}.parquet", labels) == [[1]] * len(labels)


def test_columns_that_differ_in_case_alone_are_not_mixed_up(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "A": [2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"A": [2], "a": [1]}), tmp_path / "2.parquet")
    assert counted(str(tmp_path / "*.parquet"), {"a": [1, 2], "A": [1, 2]}) == [[2, 0], [0, 2]]


def test_a_column_beside_one_with_a_longer_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a.b": ["y"], "a": ["x"]}), tmp_path / "1.parquet")
    assert counted(tmp_path / "1.parquet", {"a": ["x"], "a.b": ["y"]}) == [[1], [1]]


def test_a_parquet_file_of_many_groups_counts_as_its_table(tmp_path: Path) -> None:
    table = pa.table({"a": list(itertools.islice(itertools.cycle(["x", "y", None]), 1000))})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=99)
    assert counted(tmp_path / "1.parquet", {"a": ["x", "y"]}) == [[334, 333]]


# Labels


@pytest.mark.parametrize("label", [2**62, -(2**62), 2**70])
def test_labels_beyond_what_can_be_matched_are_refused(label: int) -> None:
    with pytest.raises(Error, match=r"2\*\*62"):
        Labels([1, label])
    assert counted({"a": [1, "abc", 2**62 - 1, None]}, {"a": [1, 2**62 - 1]})[0][0] == 1


def test_labels_that_no_text_can_be_are_refused() -> None:
    for label in ("\x00", "a\x00b", "a\ud800"):
        with pytest.raises(Error, match="label"):
            Labels(["x", label])
