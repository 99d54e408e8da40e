"""Every way of counting gives the same integers, cell by cell, as plain Python."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import frames
import reference

from quietfield.cliques import Structure
from quietfield.curator.counting import count, duckdb_engine, open_engine
from quietfield.curator.counting.coding import Parameters
from quietfield.curator.counting.tally import cover_cliques
from quietfield.domain import Domain
from quietfield.errors import Error, TooLarge
from quietfield.privacy.units import Person, Rows, statistics
from quietfield.schema import Labels, Schema
from quietfield.structures import chain

ONE = Rows(1)
PAIR = Schema({"a": ["x", "y"], "b": [0, 1]})


def wanted(schema: Schema, cliques: Any, unit: Any = ONE, neighbours: Any = "add_remove") -> Any:
    return statistics(Structure.of(cliques, schema.domain), schema.domain, unit, neighbours, True)


def assert_same(source: Any, table: pa.Table, schema: Schema, structure: Structure, unit: Any, label: str = "") -> None:
    asked = statistics(structure, schema.domain, unit, "add_remove", True)
    tables, total = reference.count(frames.records(table), schema, asked, unit)
    found = count(source, schema, asked, unit)
    assert found.total == total, label
    for counted, expected, actual in zip(asked.tables, tables, found.tables, strict=True):
        assert actual.dtype == np.int64
        np.testing.assert_array_equal(actual, expected, err_msg=f"{label} {counted.clique}")


@given(frames.problems())
def test_all_forms_agree_with_plain_python(tmp_path_factory: pytest.TempPathFactory, problem: Any) -> None:
    table, schema, structure, unit = problem
    for label, source in frames.forms(table, tmp_path_factory.mktemp("forms")).items():
        assert_same(source, table, schema, structure, unit, label)


# A database that ignores case cannot hold both "plain" and "Plain" in one table.
@given(frames.problems([name for name in frames.NAMES if name != "Plain"]))
def test_ibis_agrees_with_plain_python(problem: Any) -> None:
    ibis = pytest.importorskip("ibis")
    table, schema, structure, unit = problem
    assert_same(ibis.memtable(table), table, schema, structure, unit)


@given(st.integers(0, 300), st.sampled_from(["drop", 9]))
def test_arrays_of_codes(size: int, unknown: Any) -> None:
    schema = Schema({"a": Labels((0, 1, 2), unknown=unknown), "b": Labels((0, 1, 2), unknown=unknown)})
    codes = frames.codes(len(schema["a"].labels), size, 2)
    table = pa.table({"a": codes[:, 0], "b": codes[:, 1]})
    asked = wanted(schema, [("b", "a"), ("a",)])
    expected = np.zeros((len(schema["b"].labels), len(schema["a"].labels)), dtype=np.int64)
    for a, b in codes.tolist():
        known = [value if 0 <= value < expected.shape[0] else schema["a"].unknown_code for value in (b, a)]
        if None not in known:
            expected[tuple(known)] += 1
    found = count(codes, schema, asked, Rows(1))
    np.testing.assert_array_equal(found.tables[0], expected)
    np.testing.assert_array_equal(found.tables[1], expected.sum(axis=0))
    assert found.total == expected.sum()
    assert table.num_rows == size


@pytest.mark.parametrize("unit", [Rows(1), Person("who", rows=2), Person("who", normalise=True)])
def test_no_rows_give_zeros(unit: Any, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("a,b,who\n")
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64()), "who": pa.array([], pa.string())})
    for source in (tmp_path / "none.csv", empty, empty.to_pandas()):
        found = count(source, PAIR, wanted(PAIR, [("a", "b")], unit), unit)
        assert found.tables[0].tolist() == [[0, 0], [0, 0]]
        assert found.total == 0


def test_the_order_of_rows_and_the_size_of_batches_change_nothing() -> None:
    draw = np.random.default_rng(3)
    table = pa.table(
        {"a": draw.choice(["x", "y", "z"], 5000), "b": draw.integers(0, 3, 5000), "who": draw.integers(0, 900, 5000)}
    )
    shuffled = table.take(draw.permutation(5000))
    for unit in (Rows(1), Person("who", rows=2), Person("who", normalise=True)):
        asked = wanted(PAIR, [("a", "b")], unit)
        one, two = count(table, PAIR, asked, unit), count(shuffled.to_reader(max_chunksize=97), PAIR, asked, unit)
        np.testing.assert_array_equal(one.tables[0], two.tables[0])
        assert one.total == two.total


def test_tables_are_marginals_of_covering_tables() -> None:
    domain = Domain({f"x{i}": 10 for i in range(10)})
    structure = chain(domain, order=3)
    found = cover_cliques(structure.cliques, domain)
    assert len(found) <= 7
    assert all(any(set(clique) <= set(cover) for cover in found) for clique in structure)
    assert all(domain.cells(cover) <= 10**4 for cover in found)


def test_a_large_table_is_counted_and_a_huge_one_refused() -> None:
    schema = Schema({"a": 1000, "b": 1000, "c": 1000})
    table = pa.table({name: [999, 0, 999] for name in "abc"})
    found = count(table, schema, wanted(schema, [("a", "b")]), Rows(1)).tables[0]
    assert (found[999, 999], found[0, 0], found.sum()) == (2, 1, 3)
    with pytest.raises(TooLarge, match="1,000,000,000 cells"):
        count(table, schema, wanted(schema, [("a", "b", "c")]), Rows(1))


def test_several_files_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\nx,0\n")
    (tmp_path / "2.csv").write_text("b,a\n1,y\n0,x\n")
    found = count(str(tmp_path / "*.csv"), PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
    assert found.tables[0].tolist() == [[2, 0], [0, 1]]


def test_replace_refuses_to_drop_records() -> None:
    with pytest.raises(Error, match="none may be dropped, but 'a', 'b' would"):
        count({"a": ["x"], "b": [0]}, PAIR, wanted(PAIR, [("a", "b")], neighbours="replace"), Rows(1))
    total = Schema({name: Labels((0, 1), null=2, unknown=2) for name in "ab"})
    asked = wanted(total, [("a", "b")], neighbours="replace")
    assert asked.known_total
    assert not asked.total
    found = count({"a": [0, 5, 1], "b": [0, 1, 1]}, total, asked, Rows(1))
    assert found.total == found.tables[0].sum() == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no/such/file.parquet", "there is no file"),
        (17, "cannot be counted in a int"),
        (np.zeros(3), "two dimensions"),
        (np.zeros((3, 5), dtype=int), "5 columns and the schema 2"),
        ({"a": ["x"]}, "no column 'b'"),
    ],
)
def test_sources_that_cannot_be_read_are_explained(source: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        count(source, PAIR, wanted(PAIR, [("a", "b")]), Rows(1))


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("Smith, 1970")
    with pytest.raises(Error, match="cannot be read as Parquet") as caught:
        count(tmp_path / "rows.parquet", PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
    assert "Smith" not in str(caught.value)


def test_categories_are_not_labels() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Categorical(["y", "x"], categories=["z", "y", "x"]), "b": [0, 1]})
    assert dict(open_engine(frame).columns()) == {"a": "text", "b": "integer"}
    found = count(frame, PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
    assert found.tables[0].tolist() == [[0, 1], [1, 0]]


def test_categories_of_polars_count_as_their_texts() -> None:
    polars = pytest.importorskip("polars")
    values = ["y", "x", None, "z", "y"]
    for kind in (polars.Categorical, polars.Enum(["z", "y", "x"]), polars.String):
        frame = polars.DataFrame({"a": polars.Series(values, dtype=kind), "b": [0, 1, 1, 1, 0]})
        assert dict(open_engine(frame).columns()) == {"a": "text", "b": "integer"}
        found = count(frame, PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
        assert found.tables[0].tolist() == [[0, 1], [2, 0]]


def test_a_text_in_a_dictionary_that_is_not_utf8_is_unknown() -> None:
    broken = pa.array([b"x", b"\xff"]).view(pa.string())
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int8()), _as(broken, kind))
        found = count(pa.table({"a": coded, "b": [0, 0, 1, 1]}), PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
        assert found.tables[0].tolist() == [[1, 1], [0, 0]]


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of another type, whatever bytes they have."""
    binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    return array.view(pa.binary()).cast(binary).view(kind)


def test_counts_do_not_show_themselves() -> None:
    found = count({"a": ["x"], "b": [0]}, PAIR, wanted(PAIR, [("a", "b")]), Rows(1))
    assert repr(found) == "Counts(1 tables, NOT PRIVATE)"


def test_a_progress_line_shows_no_number(capfd: pytest.CaptureFixture[str]) -> None:
    count({"a": ["x"] * 37, "b": [0] * 37}, PAIR, wanted(PAIR, [("a", "b")]), Rows(1), progress=True)
    shown = capfd.readouterr()
    assert not any(character.isdigit() for character in shown.out + shown.err)


@pytest.mark.parametrize("sizes", [[], [5], [256, 2], [2, 3, 300, 4, 70, 1], [2] * 20, [1, 65_536, 16, 16]])
def test_texts_of_codes_are_all_codes_in_order(sizes: list[int]) -> None:
    """What is hashed to choose a person's rows is the same text, however its parts are looked up."""
    random = np.random.default_rng(0)
    rows = np.array([[0] * len(sizes), [size - 1 for size in sizes], *(random.integers(0, sizes) for _ in range(50))])
    parameters = Parameters()
    texts = duckdb_engine.code_texts_sql(sizes, parameters)
    kinds = ["UTINYINT" if size <= 2**8 else "USMALLINT" for size in sizes]
    with duckdb_engine.connect() as con:
        for row in rows.reshape(len(rows), len(sizes)).tolist():
            codes = ", ".join(f"{code}::{kind} AS k{i}" for i, (code, kind) in enumerate(zip(row, kinds, strict=True)))
            query = f"SELECT concat('', {', '.join(texts) or 'NULL'}) FROM (SELECT {codes or 1})"
            assert con.execute(query, parameters.values).fetchone() == ("".join(f"|{code}" for code in row),)
