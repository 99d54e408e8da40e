"""Before the charge: a mistake that names and types show costs nothing, and no value is looked at to find it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import quietfield as qf
from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.curator.counting.sources import check_columns
from quietfield.errors import Error
from quietfield.privacy.units import statistics

SCHEMA = qf.Schema({"a": [0, 1], "b": [0, 1]})
GOOD = {"a": [0, 1], "b": [1, 1]}


@pytest.fixture
def ledger(tmp_path: Path) -> qf.Ledger:
    return qf.Ledger.create(tmp_path / "budget.db", epsilon=4, unit=qf.Rows(1))


def refused(source: Any, ledger: qf.Ledger, why: str, unit: Any = None) -> None:
    """The mistake is told, and nothing is spent on it."""
    with pytest.raises(Error, match=why):
        qf.release(source, SCHEMA, [("a", "b")], epsilon=1, unit=unit or qf.Rows(1), ledger=ledger)
    assert ledger.spent == 0


# Types that depend on values


def guessed(folder: Path) -> dict[str, Callable[[], Any]]:
    (folder / "u.csv").write_text("a,b\n" + "0,1\n" * 100)
    (folder / "u.json").write_text('{"a": 0, "b": 1}\n')
    pq.write_table(pa.table(GOOD), folder / "u.parquet")
    lines, typed = str(folder / "u.csv"), str(folder / "u.parquet")

    def csv() -> Any:
        return ds.dataset(lines, format="csv")

    def disguised() -> Any:
        """A dataset that says it is Parquet, with a part that is not."""
        return ds.FileSystemDataset(list(csv().get_fragments()), csv().schema, ds.ParquetFileFormat())

    return {
        "dataset": csv,
        "union": lambda: ds.dataset([csv()]),
        "union of unions": lambda: ds.dataset([ds.dataset([ds.dataset(typed), csv()])]),
        "json": lambda: ds.dataset([ds.dataset(str(folder / "u.json"), format="json")]),
        "disguised": disguised,
        "open_csv": lambda: pyarrow.csv.open_csv(lines),
        "open_json": lambda: pyarrow.json.open_json(str(folder / "u.json")),
    }


KINDS = ["dataset", "union", "union of unions", "json", "disguised", "open_csv", "open_json"]


@pytest.mark.parametrize("kind", KINDS)
def test_types_guessed_from_records_are_refused(kind: str, tmp_path: Path, ledger: qf.Ledger) -> None:
    refused(guessed(tmp_path)[kind](), ledger, "guessed")
    wanted = statistics(Structure((("a", "b"),)), SCHEMA.domain, qf.Rows(1))
    with pytest.raises(Error, match="guessed"):  # whoever counts without a release is told too
        count(guessed(tmp_path)[kind](), SCHEMA, wanted, qf.Rows(1))


def test_one_line_moves_no_others_in_a_dataset_of_datasets(tmp_path: Path) -> None:
    """With guessed types a hundred "NA" are nulls, until one more line makes them texts."""
    schema = qf.Schema({"a": qf.Labels([0, 1], null=8, unknown=9)})
    wanted = statistics(Structure((("a",),)), schema.domain, qf.Rows(1))
    for more in ("", "x,1\n"):
        (tmp_path / "u.csv").write_text("a,b\n" + "NA,1\n" * 100 + more)
        with pytest.raises(Error, match="guessed"):
            count(ds.dataset([ds.dataset(tmp_path / "u.csv", format="csv")]), schema, wanted, qf.Rows(1))


def test_datasets_with_types_of_their_own_are_counted(tmp_path: Path, ledger: qf.Ledger) -> None:
    pq.write_table(pa.table(GOOD), tmp_path / "u.parquet")
    file = ds.dataset(tmp_path / "u.parquet")
    for source in (
        file,
        ds.dataset([file]),
        ds.dataset(pa.table(GOOD)),
        ds.dataset([file, ds.dataset(pa.table(GOOD))]),
    ):
        qf.release(source, SCHEMA, [("a", "b")], epsilon="0.1", unit=qf.Rows(1), ledger=ledger)
    before = ledger.spent
    with pytest.raises(Error, match="filtered"):
        qf.release(file.filter(ds.field("a") == 1), SCHEMA, [("a", "b")], epsilon=1, unit=qf.Rows(1), ledger=ledger)
    with pytest.raises(Error, match=r"cannot be counted in a .*Fragment"):
        qf.release(next(iter(file.get_fragments())), SCHEMA, [("a", "b")], epsilon=1, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == before


# Mistakes that names and types show


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ("a,c\n0,1\n", "2.csv has no column 'b'"),
        ("a;b\n0;1\n", "2.csv has no column 'a', 'b'.*delimiter"),
        ("", "2.csv is empty"),
        ("a,a,b\n", "2.csv names a column more than once"),
    ],
)
def test_every_csv_file_of_a_pattern_is_checked(second: str, why: str, tmp_path: Path, ledger: qf.Ledger) -> None:
    (tmp_path / "1.csv").write_text("a,b\n0,1\n")
    (tmp_path / "2.csv").write_text(second)
    refused(tmp_path / "*.csv", ledger, why)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"a": [0]}, "2.parquet has no column 'b'"),
        ({"a": [0], "b": ["1"]}, "2.parquet holds column 'b' as string"),
        ({"a": [0], "b": [[1]]}, "2.parquet holds column 'b' as list"),
    ],
)
def test_every_parquet_file_of_a_pattern_is_checked(
    second: dict[str, Any], why: str, tmp_path: Path, ledger: qf.Ledger
) -> None:
    pq.write_table(pa.table(GOOD), tmp_path / "1.parquet")
    pq.write_table(pa.table(second), tmp_path / "2.parquet")
    refused(tmp_path / "*.parquet", ledger, why)


def nested(folder: Path) -> dict[str, Any]:
    pq.write_table(pa.table({"a": [[0], [1]], "b": [1, 1]}), folder / "list.parquet")
    twice = pa.table([pa.array([0]), pa.array([1]), pa.array([1])], ["a", "b", "b"])
    frame = pd.DataFrame([[0, 1, 1]], columns=["a", "b", "b"])
    lists = pa.table({"a": [[0], [1]], "b": [1, 1]})
    return {
        "a list column in Parquet": (folder / "list.parquet", "column 'a' holds list"),
        "a list column in Arrow": (lists, "column 'a' holds list"),
        "a list column in a batch": (lists.to_batches()[0], "column 'a' holds list"),
        "a list column in a stream": (lists.to_reader(), "column 'a' holds list"),
        "a list column in a dataset": (ds.dataset(folder / "list.parquet"), "column 'a' holds list"),
        "a list column in polars": (pl.DataFrame({"a": [[0]], "b": [1]}), "column 'a' holds (large_)?list"),
        "a list column in a dictionary": ({"a": pa.array([[0]]), "b": [1]}, "column 'a' holds list"),
        "a list column in DuckDB": (duckdb.sql("SELECT [0] AS a, 1 AS b"), "column 'a' holds list"),
        "complex numbers": ({"a": np.array([0j]), "b": [1]}, "column 'a' holds complex128"),
        "complex numbers in pandas": (pd.DataFrame({"a": [0j], "b": [1]}), "column 'a' holds complex128"),
        "a masked array": (np.ma.array(np.zeros((3, 2), int)), "masked"),
        "names twice in Arrow": (twice, "several columns of one name"),
        "names twice in pandas": (frame, "several columns of one name"),
        "names twice in DuckDB": (duckdb.sql("SELECT 0 AS a, 1 AS b, 1 AS b"), "several columns of one name"),
        "names twice in a dictionary": ({"a": [0], "b": [1], 1: [1], "1": [1]}, "several columns of one name"),
        "an array of one dimension": (np.zeros(3, int), "two dimensions"),
        "an array of floats": (np.zeros((3, 2)), "whole numbers, not 2 and float64"),
        "an array of another width": (np.zeros((3, 5), int), "5 columns and the schema 2"),
        "a text for a column": ({"a": "x", "b": [1]}, "column 'a' is a str"),
        "a number for a column": ({"a": 3, "b": [1]}, "column 'a' is a int"),
        "a column of two dimensions": ({"a": np.zeros((2, 2), int), "b": [1, 1]}, "of 2 dimensions"),
        "a series of pandas": (pd.Series([0, 1], name="a"), "a Series is a single column"),
        "a series of polars": (pl.Series("a", [0, 1]), "a Series is a single column"),
        "a chunked array": (pa.chunked_array([[0, 1]]), "a ChunkedArray is a single column"),
    }


@pytest.mark.parametrize("number", range(24))
def test_what_types_show_costs_nothing(number: int, tmp_path: Path, ledger: qf.Ledger) -> None:
    every = nested(tmp_path)
    assert len(every) == 24
    source, why = list(every.values())[number]
    refused(source, ledger, why)


def test_persons_in_an_array_and_a_log_that_is_one_cost_nothing(tmp_path: Path) -> None:
    visits = qf.Sequences("user", "seen", "place", labels=["hall"], segment="1h")
    book = qf.Ledger.create(tmp_path / "p.db", epsilon=4, unit=qf.Person("who", rows=1))
    refused(np.zeros((3, 2), int), book, "no column that names persons", qf.Person("who", rows=1))
    book = qf.Ledger.create(tmp_path / "v.db", epsilon=4, unit=visits.unit)
    log = visits.log(np.zeros((3, 3), int))
    with pytest.raises(Error, match="cannot be counted in a ndarray"):
        qf.release(log, visits.schema, visits.structure, epsilon=1, unit=visits.unit, ledger=book)
    assert book.spent == 0


class Untouchable(list[int]):
    """A column whose values must not be looked at."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("a value was looked at")

    def __getitem__(self, where: Any) -> Any:
        raise AssertionError("a value was looked at")

    def __len__(self) -> int:
        raise AssertionError("the records were counted")


def test_no_value_is_looked_at_before_the_charge() -> None:
    assert check_columns({"a": Untouchable(), "b": Untouchable()}, ["a", "b"]) == frozenset()
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        read.append(1)
        yield pa.record_batch({"a": [0], "b": [1]})

    stream = pa.RecordBatchReader.from_batches(pa.table(GOOD).schema, batches())
    check_columns(stream, ["a", "b"])
    assert not read
    assert stream.read_all().num_rows == 1
    frame = pl.LazyFrame(GOOD).map_batches(lambda _: pytest.fail("it was opened"))
    assert check_columns(frame, ["a", "b"]) == frozenset()


def test_columns_of_every_kind_pass_when_they_are_right(ledger: qf.Ledger) -> None:
    sources = [
        GOOD,
        {"a": np.array([0, 1]), "b": (1, 1)},
        {"a": pd.Series([0, 1], index=[5, 7]), "b": pl.Series([1, 1])},
        {"a": pa.array([0, 1]), "b": pa.chunked_array([[1], [1]])},
        {"a": np.array([0, 1], dtype=object), "b": pd.Series(["1", "1"], dtype="category")},
        pd.DataFrame(GOOD),
        pl.DataFrame(GOOD),
        pl.LazyFrame(GOOD),
        pa.table(GOOD),
        pa.table(GOOD).to_batches()[0],
        pa.table(GOOD).to_reader(),
        duckdb.sql("SELECT 0 AS a, 1 AS b"),
        pl.DataFrame({"a": pl.Series(["0", None], dtype=pl.Categorical), "b": [1, 1]}),
        np.array([[0, 1], [1, 1]]),
        np.array([[0, 1], [1, 1]]).view(np.matrix),
    ]
    for source in sources:
        qf.release(source, SCHEMA, [("a", "b")], epsilon="0.1", unit=qf.Rows(1), ledger=ledger)
    assert len(ledger.charges) == len(sources)
