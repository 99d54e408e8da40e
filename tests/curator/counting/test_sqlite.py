"""SQLite, which has fewer functions than other databases, and whose types are hints, counts every kind of column."""

import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("ibis")
sys.path.insert(0, str(Path(__file__).parent))
import frames
import reference

import quietfield as qf
from quietfield.cliques import Structure
from quietfield.curator.counting import count, databases, open_address
from quietfield.curator.counting.databases import IbisEngine, _seconds
from quietfield.privacy.units import Person, Rows, Unit, statistics
from quietfield.schema import Cuts, DateForm, Dates, Labels, Schema

HALF = Cuts((0.5, 1.5))
YEARS = Dates("year", "2019-01-01", "2022-01-01")
#: By declared type: what is kept, and rules for it.
COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "INTEGER": ([1, 2, None, -3], [HALF, Labels((1, 2)), Labels(("1", "2"))]),
    "REAL": ([1.0, 0.25, None, float("inf")], [HALF, Labels((1, 2))]),
    "DOUBLE": ([1.0, 0.25, None, 2.5], [HALF]),
    "FLOAT": ([1.0, 0.25, None, 2.5], [HALF]),
    "NUMERIC": ([1, 2, None, 1], [HALF, Labels((1, 2))]),
    "DECIMAL(10,2)": ([1, 0.25, None, 2.5], [HALF]),
    "BOOLEAN": ([True, False, None, True], [Labels(("true", "false"))]),
    "TEXT": (["1", "2020-05-01", None, "x"], [HALF, YEARS, Labels(("1", "x"))]),
    "VARCHAR(20)": (["2020-05-01 10:00:00.5", "2021-12-31T23:59", "", "x"], [YEARS, Labels(("x",))]),
    "DATE": (["2020-05-01", "2019-12-31", None, "2021-01-01"], [YEARS, Labels(("2020-05-01",))]),
    "DATETIME": (["2020-05-01 10:00:00", "2019-12-31 23:59:59", None, "2021-01-01 00:00:00"], [YEARS]),
    "TIMESTAMP": (["2020-05-01 10:00:00", "2019-12-31 23:59:59", None, "2021-01-01 00:00:00"], [YEARS]),
    "BLOB": ([b"a", b"b", None, b"a"], [Labels(("a", "b"))]),
    "TIME": (["10:00", "11:00", None, "10:00"], [Labels(("10:00", "11:00"))]),
}


def opened(folder: Path, columns: dict[str, tuple[str, list[Any]]]) -> Any:
    """A table of SQLite, and its address."""
    path = folder / "h.sqlite"
    connection = sqlite3.connect(path)
    declared = ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items())
    connection.execute(f"CREATE TABLE visits ({declared})")
    rows = zip(*(values for _, values in columns.values()), strict=True)
    connection.executemany(f"INSERT INTO visits VALUES ({', '.join('?' * len(columns))})", rows)
    connection.commit()
    connection.close()
    return open_address(f"sqlite://{path}#visits")


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "unit", [Rows(1), Person("who", rows=1), Person("who", normalise=True)], ids=["rows", "person", "weights"]
)
def test_every_kind_of_column_is_counted(kind: str, unit: Unit, tmp_path: Path) -> None:
    values, rules = COLUMNS[kind]
    who = ["p", "p", "q", "r"]
    table = opened(tmp_path, {"a": (kind, values), "who": ("TEXT", who)})
    python = [value.decode() if isinstance(value, bytes) else value for value in values]
    for rule in rules:
        whole = isinstance(rule, Labels) and isinstance(rule.values[0], int)
        schema = Schema(
            {
                "a": replace(rule, null=98, unknown=99) if whole else replace(rule, null="none", unknown="other"),
                "b": Labels(("p", "q"), column="who", unknown="other"),
            }
        )
        asked = statistics(Structure((("a", "b"), ("b",))), schema.domain, unit, "add_remove", True)
        IbisEngine(table).check(schema, asked, unit)
        found = count(table, schema, asked, unit)
        records = [{"a": value, "who": person} for value, person in zip(python, who, strict=True)]
        tables, total = reference.count(records, schema, asked, unit)
        assert found.total == total
        for actual, expected in zip(found.tables, tables, strict=True):
            np.testing.assert_array_equal(actual, expected, err_msg=f"{kind} {rule}")


def test_tables_that_share_no_cover(tmp_path: Path) -> None:
    table = opened(tmp_path, {"a": ("REAL", [float(i) for i in range(8)]), "b": ("INTEGER", [0] * 8)})
    schema = Schema({"a": Cuts(tuple(i + 0.5 for i in range(150))), "b": list(range(150))})
    asked = statistics(Structure((("a",), ("b",))), schema.domain, Rows(1), "add_remove", True)
    first, second = count(table, schema, asked, Rows(1)).tables
    assert first[:9].tolist() == [1] * 8 + [0]
    assert second[0] == 8


@pytest.mark.slow
def test_values_that_are_not_of_their_columns_type(tmp_path: Path) -> None:
    """SQLite keeps whatever it is given; neither counting nor discovery may end on it."""
    rows = 600
    columns: dict[str, tuple[str, list[Any]]] = {
        "i": ("INTEGER", ["x", b"y", 2.5, *[1, 2] * rows]),
        "r": ("REAL", ["x", b"y", 1, *[1.5, 2.5] * rows]),
        "t": ("TEXT", [b"y", 1, "x", *["x", "z"] * rows]),
        "d": ("DATE", ["never", 7, "2020-99-99", *["2020-01-01", "2020-02-01"] * rows]),
        "b": ("BOOLEAN", ["x", 2.5, b"y", *[True, False] * rows]),
    }
    table = opened(tmp_path, columns)
    made = qf.synthesize(table, epsilon=20, delta=1e-6, unit=Rows(1), ledger=None)
    assert set(made.schema) == set(columns)


@pytest.mark.parametrize("schema", [Schema({"a": HALF}), Schema({"a": Labels((1, 2))})])
def test_what_a_database_lacks_is_refused_before_the_charge(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(tmp_path, {"a": ("REAL", [1.0, 2.0])})
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=Rows(1))
    monkeypatch.setattr(databases, "_is_sqlite", lambda _: False)  # as if its lacks were not known
    with pytest.raises(qf.Error, match="Nothing was charged"):
        qf.release(table, schema, [("a",)], epsilon=1, unit=Rows(1), ledger=ledger)
    with pytest.raises(qf.Error, match="Nothing was charged"):
        qf.synthesize(table, epsilon=1, unit=Rows(1), ledger=ledger)
    assert not ledger.charges


def test_every_form_of_dates(tmp_path: Path) -> None:
    forms = get_args(DateForm)
    table = opened(tmp_path, {"a": ("TEXT", frames.TIMES)})
    IbisEngine(table)  # which gives SQLite what it lacks
    read = table.select("a", **{f"s{i}": _seconds(table.a, form, 1969) for i, form in enumerate(forms)}).to_pyarrow()
    for row in read.to_pylist():
        expected = [reference.seconds(row["a"], form, 1969) for form in forms]
        assert [row[f"s{i}"] for i in range(len(forms))] == expected, row["a"]


@pytest.mark.parametrize(
    "kind", ["TEXT", "VARCHAR(20)", "DATE", "TIMESTAMP", "REAL", "INTEGER", "DECIMAL(10,2)", "BOOLEAN"]
)
def test_bytes_that_are_no_text_end_no_count(tmp_path: Path, kind: str) -> None:
    """They may stand in one record alone: no outcome may tell."""
    broken = sqlite3.connect(tmp_path / "h.sqlite")
    broken.execute(f"CREATE TABLE visits (who TEXT, x {kind}, day TEXT)")
    broken.executemany("INSERT INTO visits VALUES (?, ?, ?)", [("a", "1", "2020-05-01")] * 500)
    broken.execute("INSERT INTO visits VALUES (CAST(X'ff41' AS TEXT), CAST(X'ff31' AS TEXT), CAST(X'ff41' AS TEXT))")
    broken.commit()
    broken.close()
    source = open_address(f"sqlite://{tmp_path / 'h.sqlite'}#visits")
    for rule in (HALF, YEARS, Labels(("1", "2"))):
        schema = Schema({"x": rule, "day": YEARS})
        for unit in (Rows(1), Person("who", rows=1)):
            wanted = statistics(Structure((("x",), ("day",))), schema.domain, unit, "add_remove", False)
            assert all(np.sum(table) <= 500 for table in count(source, schema, wanted, unit).tables)
    found = qf.discover(source, epsilon=5, delta=1e-6, unit=Rows(1), ledger=None)
    assert found.discovered is not None
