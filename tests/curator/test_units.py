"""Units: the change that one person can make never exceeds what is claimed, and reaches it where it should."""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent / "counting"))
import reference

from quietfield.cliques import Structure
from quietfield.curator.counting import count
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.privacy.units import GRID, Person, Rows, Statistics, statistics, unit_from_json
from quietfield.schema import Labels, Schema
from quietfield.structures import chain

NAMES = ("a", "b", "c", "d")
STRUCTURES = [
    Structure((("a", "b"), ("b", "c"), ("c", "d"))),
    Structure((("a",), ("b", "a", "c"), ("d",))),
    chain(NAMES, homogeneous=True),
    Structure((("a",), ("b",), ("a", "b"), ("c", "d")), ((("a",), ("b",)), (("a", "b"), ("c", "d")))),
]
UNITS = [
    Rows(1),
    Person("who", rows=1),
    Person("who", rows=3),
    Person("who", normalise=True),
    Person("who", normalise=True, null=2),
]
KINDS = [Person("who", rows=1, kind="integer"), Person(("who", "day"), normalise=True, kind=("integer", None))]
VALUE = st.sampled_from([0, 1, 2, 5, None])
TOTAL = Schema({name: Labels((0, 1), null=2, unknown=2) for name in NAMES})
DROPPING = Schema({name: Labels((0, 1, 2)) for name in NAMES})
RECORD = st.fixed_dictionaries(dict.fromkeys(NAMES, VALUE))


def counted(records: list[dict[str, Any]], schema: Schema, asked: Statistics, unit: Any) -> np.ndarray:
    tables, total = reference.count(records, schema, asked, unit)
    return np.concatenate([*(table.ravel() for table in tables), np.array([total] * asked.total, dtype=np.int64)])


def moved(one: np.ndarray, two: np.ndarray, asked: Statistics) -> tuple[Fraction, Fraction]:
    change = [Fraction(int(c), asked.denominator) for c in one - two]
    return sum(map(abs, change), Fraction(0)), sum((c * c for c in change), Fraction(0))


@st.composite
def neighbouring(draw: st.DrawFn) -> tuple[Any, ...]:
    unit = draw(st.sampled_from(UNITS))
    neighbours = draw(st.sampled_from(["add_remove", "replace", "paper"]))
    schema = TOTAL if neighbours == "replace" else draw(st.sampled_from([TOTAL, DROPPING]))
    asked = statistics(draw(st.sampled_from(STRUCTURES)), schema.domain, unit, neighbours, draw(st.booleans()))
    others = [{**row, "who": draw(st.sampled_from(["p", "q"]))} for row in draw(st.lists(RECORD, max_size=5))]
    most = 1 if isinstance(unit, Rows) else 6
    mine = [{**row, "who": "me"} for row in draw(st.lists(RECORD, min_size=most == 1, max_size=most))]
    other = draw(st.lists(RECORD, min_size=most == 1, max_size=most)) if neighbours == "replace" else []
    return unit, schema, asked, others, mine, [{**row, "who": "me"} for row in other]


@given(neighbouring())
def test_one_person_changes_no_more_than_claimed(problem: tuple[Any, ...]) -> None:
    unit, schema, asked, others, mine, other = problem
    one, two = (counted([*others, *rows], schema, asked, unit) for rows in (mine, other))
    l1, l2_squared = moved(one, two, asked)
    assert l1 <= asked.l1
    assert l2_squared <= asked.l2_squared
    start = 0
    for table in asked.tables:
        size = int(np.prod(table.shape))
        l1, l2_squared = moved(one[start : start + size], two[start : start + size], asked)
        assert l1 <= table.l1
        assert l2_squared <= table.l2_squared
        start += size


@given(neighbouring())
def test_the_counted_change_is_what_the_reference_says(problem: tuple[Any, ...]) -> None:
    unit, schema, asked, others, mine, _ = problem
    records = [*others, *mine]
    assume(records)
    columns = {name: np.array([row[name] for row in records], dtype=object) for name in (*NAMES, "who")}
    found = count(columns, schema, asked, unit)
    tables, total = reference.count(records, schema, asked, unit)
    assert all(np.array_equal(a, b) for a, b in zip(found.tables, tables, strict=True))
    assert found.total == (total if asked.total or asked.known_total else None)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "paper"])
def test_the_claim_is_reached(structure: Structure, rows: int, neighbours: Any) -> None:
    """The paper's sensitivity, the number of cliques, is exact; so are its versions for rows, ties and replacement."""
    unit = Person("who", rows=rows)
    asked = statistics(structure, TOTAL.domain, unit, neighbours, True)
    mine, other = ([{**dict.fromkeys(NAMES, value), "who": "me"}] * rows for value in (0, 1))
    two = counted(other if neighbours == "replace" else [], TOTAL, asked, unit)
    l1, l2_squared = moved(counted(mine, TOTAL, asked, unit), two, asked)
    fixed = asked.total_l1 if neighbours == "replace" else 0  # who has as many rows as before moves no total
    assert l1 == asked.l1 - fixed
    assert l2_squared == asked.l2_squared - fixed**2


@given(st.sampled_from(STRUCTURES), st.integers(1, 5))
def test_closed_forms(structure: Structure, rows: int) -> None:
    cliques, ties = len(structure), len(structure.cliques) - len(structure.groups)
    plain = statistics(structure, TOTAL.domain, Rows(rows), "add_remove", False)
    assert plain.l1 == rows * cliques
    if not ties:
        assert plain.l2_squared == rows**2 * cliques
    assert statistics(structure, TOTAL.domain, Rows(rows), "add_remove", True).l1 == rows * (cliques + 1)
    twice = statistics(structure, TOTAL.domain, Rows(rows), "replace", False)
    assert (twice.l1, twice.l2_squared) == (2 * plain.l1, 2 * plain.l2_squared)
    assert twice.known_total == (rows == 1)
    paper = statistics(structure, TOTAL.domain, Rows(rows), "paper", True)
    assert (paper.l1, paper.total, paper.known_total) == (plain.l1, False, True)


def test_ties_add_up_in_one_cell() -> None:
    chained = chain(NAMES, homogeneous=True)  # one table for three edges, one for the first attribute
    asked = statistics(chained, TOTAL.domain, Rows(1), "add_remove", False)
    assert [len(table.cliques) for table in asked.tables] == [1, 3]
    assert (asked.l1, asked.l2_squared) == (4, 1 + 9)


def test_a_homogeneous_chain_with_weights_has_sensitivity_two() -> None:
    unit = Person("who", normalise=True, null=2)
    asked = statistics(chain(NAMES, homogeneous=True), TOTAL.domain, unit, "add_remove", False)
    assert (asked.l1, asked.l2_squared, asked.denominator) == (2, 2, GRID)
    assert [table.excluded for table in asked.tables] == [None, (2, 2)]
    nulls = {**dict.fromkeys(NAMES), "who": "me"}
    assert counted([nulls], TOTAL, asked, unit).sum() == 0  # K = 0: nothing
    once = counted([{**nulls, "a": 0}, nulls], TOTAL, asked, unit)
    assert moved(once, 0 * once, asked) == (2, 2)  # one edge, one segment: both claims are reached


@pytest.mark.parametrize("unit", [*UNITS, Rows(7), Person(("who", "day"), rows=2), *KINDS])
def test_units_survive_json_and_describe_themselves(unit: Any) -> None:
    assert unit_from_json(unit.to_json()) == unit
    assert "any one" in unit.describe()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rows(0), "1 or more"),
        (lambda: Rows(True), "1 or more"),
        (lambda: Person("who"), "exactly one of rows=k"),
        (lambda: Person("who", rows=2, normalise=True), "exactly one of rows=k"),
        (lambda: Person((), rows=1), "name of a column"),
        (lambda: Person(("a", "a"), rows=1), "repeat"),
        (lambda: Person("who", rows=1, null=0), "goes with normalise only"),
        (lambda: Person("who", rows=1, kind="number"), "'integer' or None"),  # type: ignore[arg-type]
        (lambda: Person("who", rows=1, kind=("integer", None)), "one for each of"),
        (lambda: unit_from_json({**Person("who", rows=1).to_json(), "kinds": 7}), "JSON"),
        (lambda: unit_from_json({**Person("who", rows=1).to_json(), "kinds": []}), "one for each of"),
        (lambda: statistics(Structure((("a",),)), Domain({"a": 2}), Person("w", normalise=True)), "two attributes"),
        (lambda: statistics(Structure((("a",),)), Domain({"a": 2}), "rows"), "Rows"),
        (lambda: statistics(Structure((("a",),)), Domain({"a": 2}), Rows(1), "near"), "add_remove"),  # type: ignore[arg-type]
        (lambda: unit_from_json({"kind": "street"}), "street"),
        (lambda: unit_from_json({}), "JSON"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises((Error, FileError), match=message):
        make()


def test_one_person_under_several_spellings_is_one_person(tmp_path: Path) -> None:
    """Labels read 7, 7.0 and 007 as one number; so do ids that are said to be whole numbers, in every engine."""
    ibis = pytest.importorskip("ibis")
    ids, values = ["7", "7.0", " 7", "007", "seven", "", "8"], [0] * 7
    path = tmp_path / "rows.csv"
    path.write_text("id,a\n" + "".join(f"{who},{value}\n" for who, value in zip(ids, values, strict=True)))
    schema = Schema({"a": [0, 1]})
    frame = pa.table({"id": ids, "a": values})
    for kind, expected in ((None, 6), ("integer", 2)):
        unit = Person("id", rows=1, kind=kind)  # type: ignore[arg-type]
        asked = statistics(Structure((("a",),)), schema.domain, unit)
        for source in (path, frame, ibis.memtable(frame)):
            assert count(source, schema, asked, unit).tables[0].tolist() == [expected, 0]


def test_a_unit_without_kinds_is_written_as_it_always_was() -> None:
    written = {"kind": "person", "column": "who", "rows": 3}
    assert Person("who", rows=3).to_json() == written
    assert unit_from_json(written) == Person("who", rows=3)
    assert unit_from_json({**written, "kinds": ["integer"]}) == Person("who", rows=3, kind="integer")
    both = Person(("a", "b"), rows=1, kind="integer")
    assert unit_from_json(both.to_json()) == both == Person(("a", "b"), rows=1, kind=("integer", "integer"))
    assert "(a whole number)" in both.describe()
