"""Extreme values of every type of column in every form and every database: no count fails, and none is wrong.

Each column is counted by every kind of rule and as the name of persons; see ``tests/curator/counting/extremes.py``.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "curator" / "counting"))
import extremes
import extremes_sql

from quietfield.curator.counting.sources import check_columns
from quietfield.errors import Error

# What Spark, its bridge and the drivers of databases warn of, in one version or another, is their own.
pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("default")]

#: Types that are refused before anything is paid, whatever the values are.
REFUSED = {"interval", "integer[]"}


def forms(name: str, array: pa.Array, values: list[Any], folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The same values in every form that holds them as they are."""
    import duckdb
    import ibis
    import pandas
    import polars

    table, kind = pa.table({"a": array}), array.type
    yield "Arrow", lambda: table
    yield "stream", lambda: table.to_reader(max_chunksize=3)
    yield "dataset", lambda: pa.dataset.dataset(table)
    made: dict[str, Callable[[], Any]] = {
        "Parquet": lambda: pq.write_table(table, folder / "a.parquet") or folder / "a.parquet",
        "pandas of Arrow": lambda: pandas.DataFrame({"a": pandas.arrays.ArrowExtensionArray(table["a"])}),
    }
    strange = "out of range" in name or "not UTF-8" in name
    if not strange and name != "uuid" and not name.startswith("timestamp[s"):  # polars would change those by itself
        made["polars"] = lambda: polars.from_arrow(table)
    if not strange and not pa.types.is_temporal(kind):  # they are computed by an engine that fails on its own
        made["relation"] = lambda: duckdb.connect().from_arrow(table)
        if not pa.types.is_float16(kind):
            made["Ibis"] = lambda: ibis.memtable(table)
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    wide = own in (pa.int64(), pa.uint64()) or pa.types.is_floating(own) or pa.types.is_decimal(own)
    # Python's values are read as texts, of which not every large number is one.
    if not wide and not any(isinstance(value, extremes.Beyond) for value in values):
        made["list"] = lambda: {"a": values}
        made["objects"] = lambda: pandas.DataFrame({"a": pandas.Series(values, dtype=object)})
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        made["numpy"] = lambda: {"a": array.drop_null().to_numpy(zero_copy_only=False)}
        made["pandas"] = lambda: pandas.DataFrame({"a": array.drop_null().to_numpy(zero_copy_only=False)})
    for form, make in made.items():
        try:
            make()
        except Exception:  # noqa: BLE001  # this form has no such type: its own library says so, before we see it
            continue
        yield form, make


@pytest.mark.parametrize("part", range(4))
def test_files_and_frames(part: int, tmp_path: Path) -> None:
    checks = extremes.Checks()
    columns = list(extremes.arrow_columns().items())[part::4]
    for name, (array, values) in columns:
        for form, make in forms(name, array, values, tmp_path):
            if form == "Parquet" and name == "time32[s] out of range":
                continue  # Parquet has no seconds, and Arrow folds what is out of range as it writes
            kept = [value for value in values if value is not None] if form in ("numpy", "pandas") else values
            checks.check(f"{form}: {name}", make, kept)
    checks.end(90, 40_000)


def test_csv(tmp_path: Path) -> None:
    words = [word for word in extremes.WORDS if word is not None and not set(word) & set('"\n\r,')]
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{word},\n" for word in words), encoding="utf-8", newline="")
    checks = extremes.Checks()
    checks.check("CSV", lambda: tmp_path / "a.csv", words, extremes.dropping_rules())
    checks.end(1, 3_500)


def test_times_of_numpy() -> None:
    checks = extremes.Checks()
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        ticks, moments = extremes.times_of(per_second)
        held = np.array([-(2**63) if tick is None else tick for tick in ticks], np.int64).view(f"M8[{unit}]")
        checks.check(unit, lambda held=held: {"a": held}, moments, extremes.dropping_rules())  # type: ignore[misc]
    checks.end(4, 1_500)


def test_duckdb() -> None:
    import duckdb
    import ibis

    checks = extremes.Checks()
    for kind, rows in extremes_sql.DUCKDB.items():
        made = f"SELECT CAST(v AS {kind}) AS a FROM (VALUES {extremes_sql.listed(rows)}) t(v)"
        values = [value for _, value in rows]
        held, named = duckdb.connect(), ibis.duckdb.connect()
        held.execute(f"CREATE TABLE rows AS {made}")
        named.raw_sql(f"CREATE TABLE rows AS {made}")
        checks.check(f"relation: {kind}", lambda held=held: held.table("rows"), values)  # type: ignore[misc]
        if kind != "UHUGEINT":  # Ibis does not know it, so that it has a text and no number
            checks.check(f"Ibis: {kind}", lambda named=named: named.table("rows"), values)  # type: ignore[misc]
    checks.end(60, 26_000)


def test_postgres(postgres: Any) -> None:
    checks = extremes.Checks()
    for kind, rows in extremes_sql.POSTGRES.items():
        postgres.raw_sql("DROP TABLE IF EXISTS far").close()
        postgres.raw_sql(f"CREATE TABLE far (a {kind})").close()
        postgres.raw_sql(f"INSERT INTO far VALUES {extremes_sql.listed(rows)}").close()
        if kind in REFUSED:
            with pytest.raises(Error, match="which no rule reads"):
                check_columns(postgres.table("far"), ["a"])
        else:
            checks.check(kind, lambda: postgres.table("far"), [value for _, value in rows])
    checks.end(28, 13_000)


@pytest.mark.parametrize("ansi", [False, True])
def test_spark(spark: Any, ansi: bool) -> None:
    checks = extremes.Checks()
    for kind, rows in extremes_sql.SPARK.items():
        session = spark._session
        made = f"SELECT CAST(v AS {kind}) AS a FROM (VALUES {extremes_sql.listed(rows)}) t(v)"
        session.sql(made if kind != "void" else "SELECT NULL AS a").createOrReplaceTempView("far")
        session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
        try:
            checks.check(kind, lambda: spark.table("far"), [value for _, value in rows], extremes.FEW[:1])
        finally:
            session.conf.set("spark.sql.ansi.enabled", "false")
    checks.end(18, 9_000)


def test_no_record_of_a_database_ends_a_discovery(postgres):
    """A decimal that is no number or of many places, an infinite date or time: one value each, and no failure."""
    import quietfield as qf

    postgres.raw_sql(
        "CREATE TABLE strange AS SELECT (i % 900)::NUMERIC AS open, (i % 900)::NUMERIC(60, 2) AS wide,"
        " (i % 900)::NUMERIC(12, 2) AS cents, DATE '2024-01-01' + i % 300 AS day,"
        " TIMESTAMP '2024-01-01' + (i % 999) * INTERVAL '1 hour' AS time FROM generate_series(1, 5000) AS i"
    ).close()
    postgres.raw_sql(
        "INSERT INTO strange VALUES ('NaN', 'NaN', 'NaN', 'infinity', '-infinity'),"
        " (0.12345678901234567890, 1e50, 0.01, '-infinity', '294276-12-31 23:59:59')"
    ).close()
    found = qf.discover(postgres.table("strange"), epsilon=20, unit=qf.Rows(1), ledger=None)
    assert list(found) == ["open", "wide", "cents", "day", "time"]


def test_no_name_of_a_person_in_a_database_ends_a_discovery(postgres):
    """Names that Python has no value for tell persons apart as any others; what is left out is not even read."""
    import quietfield as qf

    postgres.raw_sql(
        "CREATE TABLE named AS SELECT i % 5000 + CASE WHEN i < 5000 THEN 0.5 ELSE 0.50 END AS id,"
        " DATE '2024-01-01' + i % 5000 AS born, TIMESTAMPTZ '2024-01-01' + i % 5000 * INTERVAL '1 hour' AS seen,"
        " i / 5000 AS age, TIME '10:00' AS clock FROM generate_series(0, 14999) AS i"
    ).close()
    postgres.raw_sql(
        "INSERT INTO named VALUES ('NaN', 'infinity', '-infinity', 7, '24:00'), (1e200, '-infinity', 'infinity', 7,"
        " '24:00'), (1e-99, '0044-03-15 BC', '294276-12-31 23:59:59', 7, '24:00')"
    ).close()
    for name in ("id", "born", "seen"):
        left = {one: None for one in ("id", "born", "seen", "clock") if one != name}
        found = qf.discover(postgres.table("named"), epsilon=20, unit=qf.Person(name, rows=1), ledger=None, known=left)
        # Of three rows each, of which one is counted; the bound is 250 times the scale of the noise.
        assert abs(found.discovered["columns"]["age"]["values"] - 5000) < 100
