"""The curator's look at records: every count against plain Python, whatever the source, and lines that are none."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.curator import values
from quietfield.curator.counting import lines
from quietfield.curator.inspection import inspect_lines, inspect_records

LABELS = ["a", "b", "x y"]
SCHEMA = qf.Schema({"s": LABELS, "n": qf.Cuts((0, 10)), "k": [1, 2, 3]})
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "x y", "A", "a ", "é", "~"]))
NUMBERS = st.sampled_from([None, "", "3", "-1.5", "1e3", "nan", "NaN", "1,5", "many", " 7 ", "1e999"])
CODES = st.sampled_from([None, "", "1", "2.0", "2.5", "03", "9", "one"])


def is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e300
    except ValueError:
        return False


def expected(column: str, values: list[str | None], most: int) -> tuple[int, int, int, tuple[tuple[str, int], ...]]:
    """Records, nulls, unknown values and the most common of those, by the words of the documentation."""
    numeric = column != "s"
    known: Any = {
        "s": lambda text: text in LABELS,
        "n": is_number,
        "k": lambda text: is_number(text) and float(text) in (1, 2, 3),
    }[column]
    nulls = [v for v in values if v is None or v == "" or (numeric and v.strip().lower() == "nan")]
    unknown = Counter(v for v in values if v not in nulls and not known(v))
    ranked = sorted(unknown.items(), key=lambda item: (-item[1], item[0].encode()))
    return len(values), len(nulls), sum(unknown.values()), tuple(ranked[:most])


def sources(records: dict[str, list[str | None]], folder: Path) -> dict[str, Any]:
    table = pa.table({name: pa.array(values, pa.string()) for name, values in records.items()})
    pq.write_table(table, folder / "a.parquet")
    rows = zip(*records.values(), strict=True)
    quoted = [",".join('"' + (value or "") + '"' for value in row) for row in rows]
    (folder / "a.csv").write_text("\n".join([",".join(records), *quoted]) + "\n")
    return {
        "arrow": table, "stream": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3)),
        "parquet": folder / "a.parquet", "csv": folder / "a.csv", "polars": pl.DataFrame(records, schema=dict.fromkeys(
            records, pl.String)), "categories": table.set_column(0, "s", table["s"].dictionary_encode()),
    }  # fmt: skip


@pytest.mark.slow
@given(rows=st.lists(st.tuples(TEXTS, NUMBERS, CODES), max_size=25), most=st.integers(0, 3), waiting=st.integers(0, 9))
def test_every_count_is_exact(rows, most, waiting, tmp_path_factory):
    """With few values that wait, so that DuckDB keeps them."""
    records = {name: [row[i] for row in rows] for i, name in enumerate("snk")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "WAITING", waiting)
        for kind, source in sources(records, tmp_path_factory.mktemp("records")).items():
            found = inspect_records(source, SCHEMA, most)
            for item in found:
                counted = (item.records, item.nulls, item.unknown, item.common)
                assert counted == expected(item.column, records[item.column], most), (kind, item.column)


def test_columns_of_every_type():
    columns = {
        "i": pa.array([1, 2, 9, 9, None], pa.int16()), "f": pa.array([1.0, 2.5, float("nan"), 2.5, None]),
        "h": pa.array([1.0, 2.5, 2.5, 2.5, None], pa.float16()), "d": pa.array([18262, 0, 0, None, None], pa.date32()),
        "t": pa.array([1577836800, 0, 0, 0, None], pa.timestamp("s")), "b": pa.array([True, False, False, None, None]),
        "v": pa.array(["a", "b", "c", "c", None], pa.string_view()), "l": pa.array(["a", "c", "c", "d", ""],
                                                                                pa.large_string()),
    }  # fmt: skip
    schema = qf.Schema({
        "i": [1, 2], "f": [1, 3], "h": [1, 3], "d": qf.Dates("year", "2020-01-01", "2022-01-01"),
        "t": qf.Dates("year", "2020-01-01", "2022-01-01"), "b": ["true"], "v": ["a", "b"], "l": ["a"],
    })  # fmt: skip
    found = {item.attribute: (item.nulls, item.unknown) for item in inspect_records(pa.table(columns), schema)}
    assert found == {
        "i": (1, 2),
        "f": (2, 2),
        "h": (1, 3),
        "d": (2, 2),
        "t": (1, 3),
        "b": (2, 2),
        "v": (1, 2),
        "l": (1, 3),
    }
    assert inspect_records(pa.table(columns), schema)[0].common == (("9", 2),)


def test_one_column_for_two_attributes_is_read_once():
    columns = {"age": qf.Labels([1, 2], column="x"), "group": qf.Labels([1], column="x")}
    found = inspect_records({"x": [1, 1, 2, 3]}, qf.Schema(columns))
    assert [item.unknown for item in found] == [1, 2]


@pytest.mark.parametrize(
    "data",
    [b"s\na\nb\n", b"s\na\nb", b"s\n", b"s", b"s\n\na\n", b"s\na\n\r\nb\r\n", b's\n"a\nb\n', b"s\n\xe9\nb\n",
     b"s\na,b\nb\n", b's\n"a"\n"b"\n', b"s\na\n\r"],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_lines_that_are_no_records_are_all_told(data, packed, tmp_path):
    """What is not read again where every line is a record is what reading it again would tell."""
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    records = inspect_records(path, qf.Schema({"s": ["a"]}))[0].records
    assert inspect_lines(path, records) == lines.count_lines(path)
    wide = tmp_path / "b.csv"
    wide.write_bytes(data.decode("latin-1").encode("utf-16"))
    other = qf.CsvFile(wide, encoding="utf-16")
    assert inspect_lines(other, inspect_records(other, qf.Schema({"s": ["a"]}))[0].records) == lines.count_lines(other)


def test_what_has_no_lines_has_none_that_are_broken():
    assert inspect_lines({"s": ["a"]}, 1) == (0, 0, 0, 0)


def test_a_log_of_sequences_is_refused():
    visits = qf.Sequences("u", "t", "p", labels=["a"])
    with pytest.raises(qf.Error, match="give it the records"):
        inspect_records(visits.log(pa.table({"u": ["p"], "t": [1], "p": ["a"]})), visits.schema)
