"""Tables for people: consistent, never negative, with margins of error, marked where inferred; and workbooks."""

import csv
import io
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.cli import main
from quietfield.models import intervals
from quietfield.models.basis import COUNTED, INFERRED, UNMEASURED
from quietfield.models.fit_report import FitReport
from quietfield.models.uncertainty import remember_fit
from quietfield.output.tables import people_tables
from quietfield.output.workbooks import Sheet, workbook

DOMAIN = qf.Domain({"age": ["young", "old"], "smokes": ["no", "yes"], "visits": 3})
#: What XML cannot hold, or reads as another kind of line end.
UNWRITABLE = re.compile("[\\x00-\\x1f\\ud800-\\udfff\\ufffe\\uffff]")
POTENTIALS = {("age", "smokes"): [[1.0, 0.0], [0.2, 0.4]], ("smokes", "visits"): [[0.5, 0.0, -9.0], [0.0, 0.3, 0.7]]}


@pytest.fixture(scope="module")
def release():
    truth = qf.Model(DOMAIN, POTENTIALS)
    random = np.random.default_rng(0)
    tables = {c: 3000 * truth.marginal(c) + random.laplace(0, 4, truth.marginal(c).shape) for c in truth.cliques}
    return qf.Release.from_tables(DOMAIN, tables, noise=qf.Laplace(4.0), total=3000)


@pytest.fixture(scope="module")
def model():
    """As learned: with the report of a fit, which knows the number of records."""
    report = FitReport("map", "exact", 3, 20, -50.0, 2987.5, True, 0.1)
    return qf.Model(DOMAIN, POTENTIALS, report=report)


def test_tables_agree_add_up_and_are_never_negative(model):
    made = people_tables(model)
    assert [table.attributes for table in made.tables] == [("age",), ("smokes",), ("visits",), *model.cliques]
    by = {table.attributes: table for table in made.tables}
    for table in made.tables:
        assert sum(table.columns["share"]) == pytest.approx(1, abs=1e-6)
        assert sum(table.columns["count"]) == pytest.approx(model.report.total, abs=0.05)
        assert min(table.columns["share"]) >= 0
        assert not table.inferred
    joint = np.reshape(by["smokes", "visits"].columns["share"], (2, 3))
    np.testing.assert_allclose(joint.sum(axis=1), by["smokes",].columns["share"], atol=1e-6)


def test_what_no_clique_joins_is_marked(model):
    made = people_tables(model, [("age", "visits"), "age", ("visits", "smokes")])
    assert [table.inferred for table in made.tables] == [True, False, False]
    assert set(made.tables[0].columns["basis"]) == {INFERRED}
    assert set(made.tables[2].columns["basis"]) == {COUNTED}
    assert any("model's inference" in text for text in made.statement)
    assert not any("model's inference" in text for text in people_tables(model, ["age"]).statement)
    assert made.tables[2].columns["visits"][:3] == [0, 0, 1]


def test_what_no_table_holds_is_marked_and_has_no_margins():
    domain = qf.Domain({"a": 2, "left out": 2})
    release = qf.Release.from_tables(domain, {"a": [60.0, 40.0]}, noise=qf.Laplace(1.0))
    model = qf.Model(
        domain, {("a",): [0.2, -0.2]}, uncertainty=remember_fit(release, 100.0, np.ones((2, len(release.parts))))
    )
    made = people_tables(model, ["a", "left out", ("a", "left out")])
    assert [table.note for table in made.tables] == [COUNTED, UNMEASURED, UNMEASURED]
    assert [table.margins for table in made.tables] == [True, False, False]
    assert not any(table.inferred for table in made.tables)
    assert set(made.tables[1].columns["basis"]) == {UNMEASURED}
    assert "Some tables have none: no published table holds 'left out'." in made.statement


def test_margins_are_asked_for_in_one_go_whatever_is_not_measured(monkeypatch):
    domain = qf.Domain({"a": 2, "left out": 2, "b": 3, "c": 2})
    tables = {("a", "b"): np.full((2, 3), 20.0), ("b", "c"): np.full((3, 2), 20.0)}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(1.0))
    model = qf.Model(
        domain,
        {c: np.zeros(t.shape) for c, t in tables.items()},
        uncertainty=remember_fit(release, 120.0, np.ones((2, len(release.parts)))),
    )
    asked = []

    def counted(model, queries, level):
        asked.append(list(queries))
        return [(model.marginal(query), model.marginal(query)) for query in queries]

    monkeypatch.setattr(intervals, "intervals", counted)
    made = people_tables(model, ["a", "left out", "b", ("a", "left out"), ("a", "b"), ("a", "c")])
    assert asked == [[("a",), ("b",), ("a", "b")], [("a", "c")]]
    assert [table.margins for table in made.tables] == [True, False, True, False, True, True]


def test_one_table_that_is_too_large_takes_no_margins_from_others(monkeypatch):
    domain = qf.Domain({"a": 2, "b": 3})
    release = qf.Release.from_tables(domain, {("a", "b"): np.full((2, 3), 20.0)}, noise=qf.Laplace(1.0))
    model = qf.Model(
        domain,
        {("a", "b"): np.zeros((2, 3))},
        uncertainty=remember_fit(release, 120.0, np.ones((2, len(release.parts)))),
    )
    monkeypatch.setattr(intervals, "MOST_CELLS", 5)
    made = people_tables(model, ["a", ("a", "b")])
    assert [table.margins for table in made.tables] == [True, False]
    assert any("Some tables have none: 'a', 'b' have 6 combinations" in text for text in made.statement)


def test_a_release_of_other_attributes_is_refused(model):
    other = qf.Release.from_tables(qf.Domain({"age": 2}), {"age": [60.0, 40.0]}, noise=qf.Laplace(1.0))
    with pytest.raises(qf.Error, match="the release and the model differ in 'age', 'smokes', 'visits'"):
        people_tables(model, ["age"], release=other)


def test_margins_come_from_the_model_and_stay_within_0_and_1(model, monkeypatch):
    def known(model, queries, level):
        return [(model.marginal(q) - 0.5 * level, model.marginal(q) + 0.01 * level) for q in queries]

    monkeypatch.setattr(intervals, "intervals", known)
    made = people_tables(model, [("smokes", "visits")], level=0.8, total=1000)
    columns = made.tables[0].columns
    assert list(columns)[2:] == ["share", "share_low", "share_high", "count", "count_low", "count_high", "basis"]
    share = np.array(columns["share"])
    np.testing.assert_allclose(columns["share_high"], np.minimum(share + 0.008, 1), atol=1e-7)
    np.testing.assert_allclose(columns["share_low"], np.maximum(share - 0.4, 0), atol=1e-7)
    np.testing.assert_allclose(columns["count_high"], np.array(columns["share_high"]) * 1000, atol=1e-3)
    assert any("confidence of 80%" in text for text in made.statement)
    assert any("80% confidence" in meaning for _, _, meaning in made.dictionary)


def test_a_learned_model_has_margins_and_keeps_them_in_its_file(release, tmp_path):
    qf.fit(release).save(tmp_path / "m.qfm")
    learned = qf.load(tmp_path / "m.qfm")
    made = people_tables(learned, [("age", "smokes"), ("age", "visits")])
    for table in made.tables:
        assert table.margins
        low, share, high = (np.array(table.columns[name]) for name in ("share_low", "share", "share_high"))
        assert ((low <= share + 1e-8) & (share <= high + 1e-8) & (low < high)).all()
        assert (high - low).max() < 0.2
    np.testing.assert_allclose(
        made.tables[0].columns["share_low"], learned.interval(("age", "smokes"), 0.9)[0].ravel(), atol=1e-6
    )


def test_a_model_without_margins_says_so():
    made = people_tables(qf.Model(DOMAIN, POTENTIALS), ["age"])
    assert list(made.tables[0].columns) == ["age", "share", "basis"]
    assert "There are no margins of error: the model keeps no record of how far it may be from the truth." in (
        made.statement
    )
    assert not any("noise was added" in text for text in made.statement)  # nobody knows where it comes from


def test_the_statement_quotes_the_promise(model):
    pytest.importorskip("opendp")
    schema = qf.Schema({name: list(DOMAIN.labels(name)) for name in DOMAIN})
    people = qf.Model(DOMAIN, POTENTIALS).sample(500, seed=0).codes
    release = qf.release(
        people, schema, model.cliques, epsilon=2, delta=1e-6, noise="gaussian", unit=qf.Rows(3), ledger=None
    )
    said = " ".join(people_tables(model, ["age"], release=release).statement)
    assert "epsilon = 2 and delta = 1e-06" in said
    assert "at most 3 rows" in said
    assert release.id in said
    assert "quote the promise of that release" in " ".join(people_tables(model, ["age"]).statement)


@pytest.mark.parametrize(
    ("level", "said"), [(0.9, "90%"), (0.996, "99.6%"), (0.9999999, "99.99999%"), (0.29, "29%"), (0.004, "0.4%")]
)
def test_the_confidence_is_the_one_that_was_asked_for(level, said, model, monkeypatch):
    monkeypatch.setattr(
        "quietfield.models.intervals.intervals", lambda _, asked, __: [2 * (model.marginal(one),) for one in asked]
    )
    made = people_tables(model, ["age"], level=level)
    assert any(f"at a confidence of {said} for each cell" in text for text in made.statement)
    assert any(f"with {said} confidence" in meaning for _, _, meaning in made.dictionary)


def test_the_dictionary_tells_what_the_basis_may_be():
    model = qf.Model(qf.Domain({"a": 2, "b": 2, "c": 2, "left out": 2}), {("a", "b"): np.eye(2), ("b", "c"): np.eye(2)})
    notes = {"a": COUNTED, "left out": UNMEASURED, ("a", "c"): INFERRED}
    for asked in (["a"], ["left out"], ["a", ("a", "c")], list(notes)):
        rows = people_tables(model, asked).dictionary
        (meaning,) = [meaning for column, _, meaning in rows if column == "basis"]
        assert {note for note in notes.values() if repr(note) in meaning} == {notes[one] for one in asked}


def test_names_of_columns_never_clash():
    domain = qf.Domain({"share": 2, "basis": 2})
    made = people_tables(qf.Model(domain, {("share", "basis"): [[0, 1], [2, 0]]}), [("share", "basis")], total=10)
    assert list(made.tables[0].columns) == ["share", "basis", "share_", "count", "basis_"]


def test_files_of_a_folder(model, tmp_path):
    made = people_tables(model, [("age", "visits"), "smokes"])
    out = tmp_path / "tables"
    made.save(out)
    assert {path.name for path in out.iterdir()} == {
        "table-0001.csv", "table-0002.csv", "dictionary.csv", "privacy.txt", "index.csv",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO((out / "table-0001.csv").read_text())))
    assert [float(row["share"]) for row in rows] == made.tables[0].columns["share"]
    assert rows[0]["basis"] == INFERRED
    index = (out / "index.csv").read_text()
    assert "age × visits" in index
    assert INFERRED in index
    assert "Random noise was added" in (out / "privacy.txt").read_text()
    dictionary = list(csv.reader(io.StringIO((out / "dictionary.csv").read_text())))
    assert ["age", "young", "a value of the attribute"] in dictionary
    with pytest.raises(qf.Error, match="holds an earlier export of 5 files"):
        made.save(out, "parquet")
    made.save(out, "parquet", force=True)
    assert pq.read_table(out / "table-0002.parquet").to_pydict() == made.tables[1].columns
    assert not (out / "table-0001.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.csv").write_text("mine\n")
    with pytest.raises(qf.Error, match="no index of an export lists"):
        made.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "index.csv").read_text() == "mine\n"


def test_a_workbook_opens_elsewhere(model, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    made = people_tables(model, [("age", "visits"), "smokes"])
    made.save(tmp_path / "t.xlsx", "xlsx")
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    assert book.sheetnames == ["About", "Dictionary", "Table 1", "Table 2"]
    rows = list(book["Table 1"].values)
    assert rows[0] == tuple(made.tables[0].columns)
    assert [row[:3] for row in rows[1:]] == [
        tuple(made.tables[0].columns[name][i] for name in ("age", "visits", "share")) for i in range(6)
    ]
    assert book["Table 1"]["A1"].font.b
    assert book["About"]["A1"].value == "About these tables"
    with pytest.raises(qf.Error, match="is there already"):
        made.save(tmp_path / "t.xlsx", "xlsx")
    with pytest.raises(qf.Error, match=r"ends in \.xlsx"):
        made.save(tmp_path / "t", "xlsx")


@given(
    sheets=st.integers(1, 4),
    cells=st.lists(
        st.one_of(st.text(max_size=20), st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9), st.booleans()), max_size=5
    ),
)
def test_any_text_and_number_survives(sheets, cells):
    openpyxl = pytest.importorskip("openpyxl")
    names = [f"Table {number}" for number in range(sheets)]
    data = workbook([Sheet(name, ("column", *map(str, range(len(cells)))), [("x", *cells)]) for name in names])
    assert data == workbook([Sheet(name, ("column", *map(str, range(len(cells)))), [("x", *cells)]) for name in names])
    book = openpyxl.load_workbook(io.BytesIO(data))
    assert book.sheetnames == names
    found = list(book.worksheets[0].values)[1][1:]
    for value, read in zip(cells, found, strict=True):
        if isinstance(value, str) and value and not UNWRITABLE.search(value):
            assert read == value
            assert not (value.startswith("=") and book.worksheets[0]["B2"].data_type == "f")
        elif isinstance(value, bool):
            assert read is value
        elif isinstance(value, int | float):
            assert read == pytest.approx(value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tables": [["nothing"]]}, "'nothing' is not an attribute"),
        ({"tables": []}, "at least one"),
        ({"tables": [[]]}, "at least one"),
        ({"level": 2}, "between 0 and 1"),
        ({"total": -1}, "positive number"),
    ],
)
def test_mistakes(asked, message):
    with pytest.raises(qf.Error, match=message):
        people_tables(qf.Model(DOMAIN, POTENTIALS), **asked)


def test_one_attribute_may_be_named_alone(model):
    assert [table.attributes for table in people_tables(model, "smokes").tables] == [("smokes",)]
    with pytest.raises(qf.Error, match="'smoke' is not an attribute"):
        people_tables(model, "smoke")


def test_astronomical_tables_are_refused():
    domain = qf.Domain({f"x{i}": 10 for i in range(8)})
    with pytest.raises(qf.Error, match="name fewer attributes"):
        people_tables(qf.Model(domain, {("x0", "x1"): np.zeros((10, 10))}), [list(domain)])


def test_the_command(model, release, tmp_path, capsys):
    model.save(tmp_path / "m.qfm")
    release.save(tmp_path / "r.qfr")
    asked = ["export", str(tmp_path / "m.qfm"), "--table", "age,visits", "--table", "smokes"]
    assert main([*asked, "--out", str(tmp_path / "t"), "--release", str(tmp_path / "r.qfr")]) == 0
    shown = capsys.readouterr().out
    assert "2 tables for people" in shown
    assert "1 of them joins attributes that no clique joins" in shown
    assert "noised elsewhere" in shown
    assert main([*asked, "--from", "model", "--out", str(tmp_path / "t.xlsx"), "--format", "xlsx"]) == 0
    assert (tmp_path / "t.xlsx").read_bytes()[:2] == b"PK"
    capsys.readouterr()
    for words, message in (
        (["export", str(tmp_path / "r.qfr"), "--out", str(tmp_path / "u"), "--table", "age"], "are for a model"),
        (["export", str(tmp_path / "r.qfr"), "--out", str(tmp_path / "u"), "--format", "xlsx"], "xlsx is for"),
        (
            ["export", str(tmp_path / "r.qfr"), "--out", str(tmp_path / "u"), "--from", "model"],
            "not a quietfield model",
        ),
        ([*asked, "--out", str(tmp_path / "u"), "--from", "records"], "--from is auto"),
        ([*asked, "--out", str(tmp_path / "m.qfm" / "u")], "cannot make the folder"),
    ):
        assert main(words) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "u").exists()


def test_a_promise_of_another_release_is_not_quoted(release):
    """The statement on privacy, and the report, would name an epsilon that the tables do not have."""
    from dataclasses import replace

    from quietfield.output.report import write_report

    mine, other = replace(release, id="aaaa"), replace(release, id="bbbb")
    learned = qf.fit(mine)
    assert learned.report.release == "aaaa"
    people_tables(learned, ["age"], release=mine)
    with pytest.raises(qf.Error, match="learned from the release aaaa, not from this one \\(bbbb\\)"):
        people_tables(learned, ["age"], release=other)
    with pytest.raises(qf.Error, match="learned from the release aaaa"):
        write_report("never.html", other, learned)
