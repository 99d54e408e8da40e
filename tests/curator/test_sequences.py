"""Sequences: slots, segments and weights made in the database are those of plain Python."""

import datetime
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent / "counting"))
import reference

from quietfield.curator.counting import count
from quietfield.curator.sequences import Sequences
from quietfield.errors import Error
from quietfield.privacy.units import Person, Rows, statistics

DAY = Sequences("user", "seen", "place", labels=["hall", "lab"], slot="10min", segment="1h", unit="person-day")
EVER = Sequences("user", "seen", "place", labels=["hall", "lab"], slot="1h", segment="4h", unknown="elsewhere")
NUMBERED = Sequences("user", "seen", "place", labels=["hall", "lab"], unit="person-day", kind="integer")
UTC = datetime.UTC


def segments(rows: list[dict[str, Any]], how: Sequences) -> list[dict[str, Any]]:
    """The records of a log: one for each segment in which something was seen."""
    slots: dict[tuple[Any, int], tuple[int, int]] = {}
    for row in rows:
        moment, code = reference.seconds(row["seen"]), reference.code(how.rule, row["place"])
        user = reference.whole(row["user"]) if how.kind == "integer" and row["user"] else row["user"]
        if reference.is_null(user) or moment is None or code in (None, how.rule.null_code):
            continue
        key = (user, moment // how.slot_seconds)
        slots[key] = max(slots.get(key, (moment, -code)), (moment, -code))
    made: dict[tuple[Any, int], dict[str, Any]] = defaultdict(dict)
    for (user, slot), (_, code) in slots.items():
        made[user, slot // how.slots][f"slot {slot % how.slots + 1}"] = how.rule.labels[-code]
    empty = dict.fromkeys(how.schema)
    return [
        {**empty, **values, "user": user, "day of seen": str(segment * how.segment_seconds // 86400 + 719_162)}
        for (user, segment), values in made.items()
    ]


MOMENT = st.datetimes(datetime.datetime(2024, 1, 1, 22), datetime.datetime(2024, 1, 2, 2)).map(
    lambda moment: moment.replace(microsecond=0)
) | st.sampled_from([datetime.datetime(1969, 12, 31, 23, 59), datetime.datetime(2024, 1, 2), None])
ROW = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob", "7", " 7", "007", "", None]),
        "seen": MOMENT,
        "place": st.sampled_from(["hall", "lab", "moon", "absent", "", None]),
    }
)
TYPES = pa.schema([("user", pa.string()), ("seen", pa.timestamp("us")), ("place", pa.string())])


@pytest.mark.slow
@given(st.lists(ROW, max_size=30), st.sampled_from([DAY, EVER, NUMBERED]), st.booleans())
def test_segments_are_those_of_plain_python(rows: list[dict[str, Any]], how: Sequences, truncate: bool) -> None:
    ibis = pytest.importorskip("ibis")
    table = pa.Table.from_pylist(rows, schema=TYPES)
    texts = table.set_column(
        1, "seen", pa.array([None if r["seen"] is None else str(r["seen"]) for r in rows], pa.string())
    )
    unit = Person(how.identity, rows=2, kind=how.unit.kind) if truncate else how.unit
    asked = statistics(how.structure, how.schema.domain, unit, "add_remove", True)
    tables, total = reference.count(segments(rows, how), how.schema, asked, unit)
    for source in (table, texts, ibis.memtable(table), texts.to_pandas()):
        found = count(how.log(source), how.schema, asked, unit)
        assert found.total == total
        for one, two in zip(found.tables, tables, strict=True):
            np.testing.assert_array_equal(one, two)


def test_the_null_null_cell_follows_from_the_total() -> None:
    rows = [{"user": "ann", "seen": datetime.datetime(2024, 1, 1, 10, m), "place": "lab"} for m in (5, 15, 45)]
    asked = statistics(DAY.structure, DAY.schema.domain, DAY.unit, "add_remove", True)
    assert (asked.l1, asked.l2_squared) == (3, 3)
    first, edges = count(DAY.log(pa.Table.from_pylist(rows, schema=TYPES)), DAY.schema, asked, DAY.unit).tables
    # lab lab null null lab null: K = 4 edges that are not null-null, one segment
    weight, null = 2**20 // 4, 2
    assert first.tolist() == [0, weight, 0]
    assert edges.tolist() == [[0, 0, 0], [0, weight, 2 * weight], [0, weight, 0]]
    assert (DAY.slots - 1) * first.sum() - edges.sum() == weight  # the one null-null edge
    assert edges[null, null] == 0


def test_a_log_from_csv(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "user,seen,place\nann,2024-01-01 10:05:00,lab\nann,2024-01-01T10:15:00Z,hall\nann,,hall\n"
    )
    asked = statistics(DAY.structure, DAY.schema.domain, DAY.unit, "add_remove", True)
    found = count(DAY.log(tmp_path / "log.csv"), DAY.schema, asked, DAY.unit)
    assert found.tables[1].tolist() == [[0, 0, 2**20 // 2], [2**20 // 2, 0, 0], [0, 0, 0]]


def test_a_zone_is_an_instant(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 1, 10, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    table = pa.table(
        {"user": ["ann"], "seen": pa.array([moment], pa.timestamp("us", "Asia/Karachi")), "place": ["lab"]}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    asked = statistics(EVER.structure, EVER.schema.domain, EVER.unit, "add_remove", True)
    found = count(EVER.log(tmp_path / "log.parquet"), EVER.schema, asked, EVER.unit)
    lab, absent = (EVER.rule.labels.index(label) for label in ("lab", "absent"))
    assert found.tables[0][absent] == found.total  # 05:05 UTC is the second hour from 4:00, so the first slot is empty
    assert found.tables[1][absent, lab] == found.tables[1][lab, absent] == found.total


def test_units_that_do_not_fit_are_refused() -> None:
    table = pa.Table.from_pylist([], schema=TYPES)
    for unit in (Rows(1), Person("user", rows=1), NUMBERED.unit, Person(("user", "day of seen"), normalise=True)):
        asked = statistics(DAY.structure, DAY.schema.domain, unit, "add_remove", True)
        with pytest.raises(Error, match="these sequences"):
            count(DAY.log(table), DAY.schema, asked, unit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot": "ten minutes"}, "not a length of time"),
        ({"slot": "7min"}, "whole slots"),
        ({"slot": "1h"}, "whole slots"),
        ({"slot": "1s"}, "1,000"),
        ({"segment": "7h", "slot": "1h"}, "does not divide"),
        ({"unit": "household"}, "'person' or 'person-day'"),
        ({"null": "drop"}, "needs a label"),
        ({"kind": "text"}, "'integer' or None"),
        ({"time": "user"}, "three different columns"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    settings = {"person": "user", "time": "seen", "value": "place", "labels": ["a"], "unit": "person-day", **change}
    with pytest.raises(Error, match=message):
        Sequences(**settings)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["hall", "lab", "hall"], "'hall' is listed more than once"),
        ({"hall", "lab"}, "a list of labels"),
        ("hall", "a list of labels"),
        ([], "no labels"),
        (["hall", "absent"], "'absent' is one of the labels"),
    ],
)
def test_places_are_listed_once_and_in_order(labels: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        Sequences("user", "seen", "place", labels=labels)
