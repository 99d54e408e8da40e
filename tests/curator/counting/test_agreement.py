"""One spelling of a rule for all engines: what is not a number, what is infinite, and times with an offset."""

import datetime
import itertools
import sys
from pathlib import Path
from typing import Any, get_args

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import frames
import reference

from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.curator.counting.coding import Column
from quietfield.curator.inspection import inspect_records
from quietfield.privacy.units import Rows, statistics
from quietfield.schema import Attribute, Cuts, DateForm, Dates, Labels, NumberForm, Schema

UTC = datetime.UTC


def found(source: Any, rule: Attribute) -> list[int]:
    schema = Schema({"a": rule})
    asked = statistics(Structure((("a",),)), schema.domain, Rows(1), "add_remove", total=True)
    return count(source, schema, asked, Rows(1)).tables[0].tolist()


def sources(folder: Path, values: list[Any], texts: list[str], kind: Any) -> dict[str, Any]:
    """The same values in all forms: with a type of their own, and as texts."""
    ibis = pytest.importorskip("ibis")
    typed, written = pa.table({"a": pa.array(values, kind)}), pa.table({"a": texts})
    pq.write_table(typed, folder / "typed.parquet")
    pq.write_table(written, folder / "texts.parquet")
    (folder / "rows.csv").write_text("a,b\n" + "".join(f"{text},\n" for text in texts))
    return {
        "CSV": folder / "rows.csv",
        "Parquet": folder / "typed.parquet",
        "Parquet texts": folder / "texts.parquet",
        "Arrow": typed,
        "pandas": typed.to_pandas(),
        "pandas objects": pandas.DataFrame({"a": pandas.Series(values, dtype=object)}),
        "list": {"a": values},
        "list of texts": {"a": texts},
        "Ibis": ibis.memtable(typed),
        "Ibis texts": ibis.memtable(written),
    }


NUMBERS = [17.0, 18.0, float("inf"), float("-inf"), float("nan"), float("nan"), float("nan")]
SPELLED = ["17", "18.0", "inf", "-Infinity", "nan", " NaN", "-nan"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Cuts((18,), null="N", unknown="U"), [1, 1, 3, 2]),
        (Labels((17, 18), null=0, unknown=1), [1, 1, 3, 2]),
    ],
)
def test_nan_is_a_null_and_infinity_unknown(rule: Attribute, expected: list[int], tmp_path: Path) -> None:
    for label, source in sources(tmp_path, NUMBERS, SPELLED, pa.float64()).items():
        assert found(source, rule) == expected, label


def test_a_check_counts_nan_as_a_null() -> None:
    seen = inspect_records({"a": SPELLED}, Schema({"a": Cuts((18,))}))[0]
    assert (seen.nulls, seen.unknown) == (3, 2)


def test_nan_can_be_the_label_of_a_text() -> None:
    assert found({"a": ["nan", "Nan", ""]}, Labels(("nan", "Nan"), null="N")) == [1, 1, 1]


def test_times_with_an_offset_are_converted(tmp_path: Path) -> None:
    offsets = ["Z", "+00:00", "+05:00", "-0330", "+14", "-00:00", "", "+05:30"]
    texts = [f"2024-01-31{'T' if i % 2 else ' '}03:00:00{offset}" for i, offset in enumerate(offsets)]
    texts += ["2024-01-31T03:00+05:00", "2024-01-31 22:00-0330", "2024-01-31 23:59:59.999999-00:01", "2024-01-31"]
    moments = [datetime.datetime.fromisoformat(text) for text in texts]
    moments = [moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments]
    rule = Dates("hour", "2024-01-30", "2024-02-02", null="N", unknown="U")
    expected = [0] * len(rule.labels)
    for moment in moments:
        expected[rule.labels.index(moment.astimezone(UTC).strftime("%Y-%m-%d %H:00"))] += 1
    for label, source in sources(tmp_path, moments, texts, pa.timestamp("us", "UTC")).items():
        assert found(source, rule) == expected, label


def test_what_is_no_offset_or_leaves_the_calendar_is_unknown(tmp_path: Path) -> None:
    texts = ["2024-01-31T12:00:00+24:00", "2024-01-31T12:00:00+05:60", "2024-01-31+05:00", "2024-01-31T12:00 +05:00"]
    texts += ["2024-01-31T12:00:00+5", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2024-01-31T12:00+05:"]
    for start in ("0001-01-01", "2024-01-01", "9998-01-01"):
        rule = Dates("year", start, f"{int(start[:4]) + 1:04d}-01-01", unknown="U")
        for source in sources(tmp_path, texts, texts, pa.string()).values():
            assert found(source, rule) == [0, len(texts)]


def test_every_form_reads_every_text_as_plain_python_does() -> None:
    """All forms of numbers and dates, on texts that are nearly of one: DuckDB, Ibis and plain Python read the same."""
    duckdb, ibis = pytest.importorskip("duckdb"), pytest.importorskip("ibis")
    from quietfield.curator.counting import databases

    texts = list(dict.fromkeys([*frames.NUMBERS, *frames.TIMES, *frames.TEXTS]))
    table, con, column = pa.table({"x": texts}), duckdb.connect(), Column("x", "text")
    con.register("t", table)
    lazy = ibis.memtable(table)
    signs = itertools.product(".,", (None, *" '.,"), ("", "$"), ("", "%", " €"))
    forms = [NumberForm(*form) for form in signs if form[0] != form[1]]
    asked: list[tuple[str, Any, list[Any]]] = [
        (column.read_number(form), databases._number(lazy.x, form), [reference.number(text, form) for text in texts])
        for form in forms
    ]
    asked += [
        (
            column.read_seconds(form, since),
            databases._seconds(lazy.x, form, since),
            [reference.seconds(text, form, since) for text in texts],
        )
        for form in get_args(DateForm)
        for since in (1969, 2024)
    ]
    for i, (sql, value, expected) in enumerate(asked):
        assert [row[0] for row in con.execute(f"SELECT {sql} FROM t").fetchall()] == expected
        if i % 3 == 0 or i >= len(forms):  # Ibis takes its time with numbers
            assert lazy.select(v=value).to_pyarrow()["v"].to_pylist() == expected
    assert sum(value is not None for _, _, expected in asked for value in expected) > 500
