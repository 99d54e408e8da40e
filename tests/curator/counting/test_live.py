"""A database that changes while it is counted: every record is read once, as it was at one moment."""

from typing import Any

import numpy as np
import pytest

from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.privacy.units import GRID, Person, Rows, statistics
from quietfield.schema import Schema

ibis = pytest.importorskip("ibis")
SIZE = 200
SCHEMA = Schema(dict.fromkeys("abc", SIZE))
STRUCTURE = Structure((("a", "b"), ("b", "c")))  # too many cells to be joined: two tables


def changing(monkeypatch: pytest.MonkeyPatch, change: str) -> tuple[Any, list[Any]]:
    """A table, and the queries that were sent to it; after each of them the table is changed."""
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE visits AS SELECT 'ann' AS who, 1 AS a, 0 AS b, 0 AS c")
    sent: list[Any] = []
    run = ibis.expr.types.core.Expr.to_pyarrow

    def watched(expression: Any, *args: Any, **settings: Any) -> Any:
        found = run(expression, *args, **settings)
        sent.append(expression)
        con.raw_sql(change)
        return found

    monkeypatch.setattr(ibis.expr.types.core.Expr, "to_pyarrow", watched)
    monkeypatch.setattr(ibis.expr.types.relations.Table, "to_pyarrow", watched)
    return con.table("visits"), sent


def test_one_person_adds_one_while_her_row_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Person("who", normalise=True, null=0)
    asked = statistics(STRUCTURE, SCHEMA.domain, unit)
    table, sent = changing(monkeypatch, "UPDATE visits SET a = 0, c = 1")
    found = count(table, SCHEMA, asked, unit)
    assert sum(int(part.sum()) for part in found.tables) == GRID == found.total
    assert len(sent) == 1


@pytest.mark.parametrize("unit", [Rows(1), Person("who", rows=1)])
def test_all_tables_are_of_the_same_records(monkeypatch: pytest.MonkeyPatch, unit: Any) -> None:
    asked = statistics(STRUCTURE, SCHEMA.domain, unit)
    table, _ = changing(monkeypatch, "UPDATE visits SET b = b + 1")
    first, second = count(table, SCHEMA, asked, unit).tables
    np.testing.assert_array_equal(first.sum(axis=0), second.sum(axis=1))
    assert first.sum() == 1
