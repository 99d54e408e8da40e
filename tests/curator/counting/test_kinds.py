"""Types that were guessed from values are refused or passed by, and what a type shows costs nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import quietfield as qf
from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.curator.counting.sources import check_columns
from quietfield.errors import Error
from quietfield.privacy.units import statistics

SCHEMA = qf.Schema({"a": [0, 1], "b": [0, 1]})


@pytest.fixture
def ledger(tmp_path: Path) -> qf.Ledger:
    return qf.Ledger.create(tmp_path / "budget.db", epsilon=4, unit=qf.Rows(1))


def counted(source: Any, rules: dict[str, Any]) -> list[int]:
    schema = qf.Schema(rules)
    wanted = statistics(Structure((tuple(rules),)), schema.domain, qf.Rows(1))
    return list(count(source, schema, wanted, qf.Rows(1)).tables[0].ravel())


def refused(source: Any, ledger: qf.Ledger, why: str) -> str:
    """The mistake is told, and nothing is spent on it; whoever counts without a release is told too."""
    with pytest.raises(Error, match=why) as caught:
        qf.release(source, SCHEMA, [("a", "b")], epsilon=1, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == 0
    return str(caught.value)


# Datasets, with folders that are named by values


def folders(root: Path, **rows: int) -> ds.Dataset:
    for name, many in rows.items():
        (root / f"zip={name.strip('_')}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [0] * many}), root / f"zip={name.strip('_')}" / "1.parquet")
    return ds.dataset(root, partitioning="hive")


def test_one_record_in_another_folder_moves_no_others(tmp_path: Path) -> None:
    """Arrow takes folders 01 and 02 for whole numbers, until a folder A makes texts of them."""
    for number, more in enumerate(({}, {"A": 1})):
        source = folders(tmp_path / str(number), _01=50, _02=30, **more)
        assert (source.schema.field("zip").type == pa.string()) == bool(more)
        with pytest.raises(Error, match=r"no column 'zip'.*guessed from values"):
            counted(source, {"zip": [1, 2]})
        assert counted(source, {"x": [0, 1]}) == [80 + len(more), 0]


def test_no_message_tells_the_name_of_a_folder(tmp_path: Path, ledger: qf.Ledger) -> None:
    for name, values in (("Smith", [0]), ("Jones", ["0"])):
        (tmp_path / "h" / f"name={name}").mkdir(parents=True)
        pq.write_table(pa.table({"a": values, "b": [0]}), tmp_path / "h" / f"name={name}" / "a.parquet")
    source = ds.dataset(tmp_path / "h", partitioning="hive", schema=pa.schema({"a": pa.int64(), "b": pa.int64()}))
    said = refused(source, ledger, "a part of the dataset holds column 'a' as string, and not as int64")
    assert "Jones" not in said
    assert "Smith" not in said
    said = refused(tmp_path / "h" / "*" / "a.parquet", ledger, "name=.../a.parquet holds column 'a' as int64")
    assert "Smith" not in said
    (tmp_path / "h" / "name=Jones" / "a.parquet").write_text("a,b")
    said = refused(tmp_path / "h" / "*" / "a.parquet", ledger, "name=.../a.parquet cannot be read as Parquet")
    assert "Jones" not in said


def test_a_part_that_lacks_a_column_is_not_taken_for_nulls(tmp_path: Path, ledger: qf.Ledger) -> None:
    (tmp_path / "p").mkdir()
    pq.write_table(pa.table({"a": [0] * 5, "b": [0] * 5}), tmp_path / "p" / "1.parquet")
    pq.write_table(pa.table({"a": [0] * 7}), tmp_path / "p" / "2.parquet")
    assert "2.parquet" not in refused(ds.dataset(tmp_path / "p"), ledger, "a part of the dataset has no column 'b'")
    assert counted(ds.dataset(tmp_path / "p"), {"a": [0, 1]}) == [12, 0]


# Frames of kinds that others derived


class Derived(pd.DataFrame):
    """As GeoDataFrame is one: a frame of pandas, defined elsewhere."""


class DerivedSeries(pd.Series):
    pass


class DerivedPolars(pl.DataFrame):
    pass


@pytest.mark.parametrize("kind", [pd.DataFrame, Derived])
@pytest.mark.parametrize("more", [[], ["x"], [10**400], [b"\xff"]])
def test_no_record_moves_others_in_a_frame_that_others_derived(kind: Callable[..., Any], more: list[Any]) -> None:
    frame = kind({"a": pd.Series([1] * 5 + [2] * 3 + more, dtype=object)})
    assert counted(frame, {"a": [1, 2]}) == [5, 3]


def test_frames_that_others_derived_are_checked_by_their_types(ledger: qf.Ledger) -> None:
    refused(Derived({"a": [0j], "b": [1]}), ledger, "column 'a' holds complex128")
    refused(Derived({"a": [0]}), ledger, "no column 'b'")
    refused(DerivedPolars({"a": [[0]], "b": [1]}), ledger, "column 'a' holds (large_)?list")
    refused(DerivedSeries([0, 1], name="a"), ledger, "a DerivedSeries is a single column")
    assert counted(DerivedPolars({"a": [0, 1], "b": [1, 1]}), {"a": [0, 1]}) == [1, 1]


def test_a_frame_in_disguise_is_refused(ledger: qf.Ledger) -> None:
    for frame in (pd.DataFrame({"a": pd.Series([0, "x"], dtype=object), "b": [1, 1]}), pl.DataFrame({"a": [0]})):
        disguised = narwhals.from_native(frame)
        refused(disguised, ledger, "to_native")
        refused(disguised.lazy(), ledger, "to_native")


# Relations of DuckDB


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("INTERVAL 1 DAY", "column 'a' holds month_day_nano_interval"),
        ("1::BIGNUM", "column 'a' holds .*bignum"),
        ("1::VARIANT", "column 'a' holds variant"),
        ("[0]", "column 'a' holds list"),
        ("{'x': 0}", "column 'a' holds struct"),
        ("MAP {'x': 0}", "column 'a' holds map"),
        ("['Jones']::ENUM('Jones')[]", "column 'a' holds list"),
    ],
)
def test_types_of_duckdb_that_no_rule_reads_cost_nothing(value: str, why: str, ledger: qf.Ledger) -> None:
    con = duckdb.connect()
    assert "Jones" not in refused(con.sql(f"SELECT {value} AS a, 0 AS b"), ledger, why)
    assert counted(con.sql(f"SELECT {value} AS a, 0 AS b"), {"b": [0, 1]}) == [1, 0]  # it need not be read


@pytest.mark.parametrize(
    "value", ["0::HUGEINT", "0::DECIMAL(38, 2)", "'0'", "'0'::ENUM('0')", "0::UTINYINT", "'0'::JSON"]
)
def test_types_of_duckdb_that_rules_read_pass(value: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TYPE own AS INTEGER")
    source = con.sql(f"SELECT {value} AS a, 0::own AS b, 1 AS c")
    assert check_columns(source, ["b", "a"]) == frozenset()
    assert counted(source, {"b": [0, 1], "a": [0, 1]}) == [1, 0, 0, 0]


def test_a_relation_is_not_computed_before_the_charge() -> None:
    """Without its optimizers DuckDB computes a sort even for LIMIT 0, and would fail on a record."""
    con = duckdb.connect()
    con.execute("SET disabled_optimizers = 'statistics_propagation,limit_pushdown,empty_result_pullup,filter_pushdown'")
    source = con.sql("SELECT CASE WHEN i > 3 THEN error('boom') ELSE 1 END AS a FROM range(9) t(i) ORDER BY a")
    with pytest.raises(duckdb.Error, match="boom"):
        source.limit(0).fetchall()
    assert check_columns(source, ["a"]) == frozenset()


def test_columns_of_a_relation_are_known_by_their_case() -> None:
    source = duckdb.sql("SELECT 0 AS a, 1 AS A, 'x' AS \"#1\"")
    assert counted(source, {"A": [0, 1]}) == [0, 1]
    assert counted(source, {"a": [0, 1]}) == [1, 0]
    assert counted(source, {"#1": ["x", "a"]}) == [1, 0]


# Tables of Ibis


@pytest.fixture
def table() -> Any:
    con = ibis.duckdb.connect()
    con.raw_sql(
        "CREATE TABLE t AS SELECT 0 AS a, 1 AS b, [0] AS l, {'x': 0} AS s, INTERVAL 1 DAY AS i, "
        "0::DECIMAL(38, 2) AS d, '0' AS t, DATE '2024-01-01' AS day"
    )
    return con.table("t")


@pytest.mark.parametrize(
    ("name", "why"), [("l", "list"), ("s", "struct"), ("i", "duration|interval"), ("none", "no column")]
)
def test_columns_of_ibis_that_no_rule_reads_cost_nothing(name: str, why: str, table: Any, ledger: qf.Ledger) -> None:
    source = table.select("b", a=table[name]) if name != "none" else table.select("b")
    refused(source, ledger, f"{why} 'a'" if name == "none" else f"column 'a' holds ({why})")
    refused(source.cache(), ledger, why)
    assert counted(source, {"b": [0, 1]}) == [0, 1]


def test_columns_of_ibis_that_rules_read_pass(table: Any) -> None:
    assert check_columns(table, ["a", "d", "t", "day"]) == frozenset()
    wide = ibis.table({"a": "decimal(76, 38)", "b": "uuid", "c": "inet"}, name="wide")
    assert check_columns(wide, ["a", "b", "c"]) == frozenset()
    with pytest.raises(Error, match="column 'g' holds"):
        check_columns(ibis.table({"g": "geometry"}, name="places"), ["g"])


def test_what_is_no_table_of_ibis_costs_nothing(table: Any, ledger: qf.Ledger) -> None:
    for source in (table.a, table.a.sum(), table.schema(), table.get_backend(), ibis._):
        refused(source, ledger, "of Ibis is no table")
        with pytest.raises(Error, match="of Ibis is no table"):
            counted(source, {"a": [0, 1]})


def test_types_that_ibis_guessed_from_objects_are_refused(table: Any, ledger: qf.Ledger) -> None:
    """It takes objects for whole numbers, until one of them is a text."""
    for more in ([], ["x"]):
        frame = pd.DataFrame({"a": pd.Series([0, 1, *more], dtype=object), "b": 1})
        made = ibis.memtable(frame)
        for source in (made, made.mutate(c=made.b + 1), made.filter(made.b == 1)):
            refused(source, ledger, "guessed their types")
        assert counted(frame, {"a": [0, 1]}) == [1, 1]
    for typed in (pd.DataFrame({"a": [0, 1]}), pa.table({"a": [0, 1]}), pl.DataFrame({"a": [0, 1]})):
        assert counted(ibis.memtable(typed), {"a": [0, 1]}) == [1, 1]


# One wording


def test_a_missing_column_is_told_in_the_same_words(tmp_path: Path, table: Any) -> None:
    frame = pd.DataFrame({"a": [0]})
    for number, second in ((1, frame), (2, frame.rename(columns={"a": "A"}))):
        second.to_parquet(tmp_path / f"{number}.parquet")
        second.to_csv(tmp_path / f"{number}.csv", index=False)
        second.to_stata(tmp_path / f"{number}.dta", write_index=False)
    patterns = [str(tmp_path / f"*.{ending}") for ending in ("parquet", "csv", "dta")]
    dataset = ds.dataset(tmp_path, format="parquet", exclude_invalid_files=True)
    words = r"has no column 'a'; check the schema and the unit \(capital letters and spaces count\)\. \w+"
    for source in (
        *patterns,
        dataset,
        table.select("b"),
        frame.rename(columns={"a": "A"}),
        duckdb.sql("SELECT 1 AS A"),
    ):
        with pytest.raises(Error, match=words):
            check_columns(source, ["a"])
        with pytest.raises(Error, match=words):
            counted(source, {"a": [0, 1]})


@pytest.mark.parametrize("ending", [".csv", ".sav"])
def test_folders_found_by_a_pattern_are_not_told(ending: str, tmp_path: Path) -> None:
    """A folder may be called by the value of a record, and a message must not tell it."""
    folder = tmp_path / "name=Jones"
    folder.mkdir()
    (folder / f"broken{ending}").write_bytes(b"")
    schema = qf.Schema({"a": [1, 2]})
    with pytest.raises(qf.Error) as told:
        qf.release(f"{tmp_path}/*/*{ending}", schema, ["a"], epsilon=1, unit=qf.Rows(1), ledger=None)
    assert "Jones" not in str(told.value)
    assert "name=..." in str(told.value)
