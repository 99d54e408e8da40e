"""No error, context or traceback carries a record's value."""

import traceback
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.curator.counting.reading import hide_details
from quietfield.errors import Error, FileError
from quietfield.privacy.units import Rows, statistics
from quietfield.schema import Schema

SECRET = "Smith-1970"
SCHEMA = Schema({"a": ["x"], "b": ["y"]})
ASKED = statistics(Structure((("a", "b"),)), SCHEMA.domain, Rows(1), "add_remove", True)


def everything(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error.__context__) + repr(error.__cause__)


def test_an_engine_s_words_do_not_leave() -> None:
    def fail() -> None:
        raise ValueError(f"could not convert {SECRET!r}")

    with pytest.raises(Error, match=r"^fixed text$") as caught:
        hide_details(fail, "fixed text")
    assert caught.value.__context__ is None
    assert SECRET not in everything(caught.value)


def test_our_own_errors_keep_their_words_and_lose_their_context() -> None:
    def fail() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise FileError("no column 'b'") from None

    with pytest.raises(FileError, match="no column 'b'") as caught:
        hide_details(fail, "fixed text")
    assert SECRET not in everything(caught.value)


def test_interruptions_pass() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hide_details(stop, "fixed text")


def test_a_stream_that_fails_on_a_record_says_nothing_about_it() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])

    def batches() -> Iterator[Any]:
        yield pa.record_batch([["x"], ["y"]], schema=schema)
        raise ValueError(f"bad row {SECRET}")

    with pytest.raises(Error, match="not shown") as caught:
        count(pa.RecordBatchReader.from_batches(schema, batches()), SCHEMA, ASKED, Rows(1))
    assert SECRET not in everything(caught.value)


def test_a_frame_of_strange_objects_counts_without_them() -> None:
    pandas = pytest.importorskip("pandas")

    class Rude:
        def __str__(self) -> str:
            raise ValueError(SECRET)

    found = count(pandas.DataFrame({"a": ["x", Rude()], "b": ["y", "y"]}), SCHEMA, ASKED, Rows(1))
    assert found.tables[0].tolist() == [[1]]


def test_a_database_s_words_do_not_leave() -> None:
    ibis = pytest.importorskip("ibis")
    con = ibis.duckdb.connect()
    table = con.sql(f"SELECT CAST(error('{SECRET}') AS VARCHAR) AS a, 'y' AS b")
    with pytest.raises(Error, match="the database could not count") as caught:
        count(table, SCHEMA, ASKED, Rows(1))
    assert SECRET not in everything(caught.value)
