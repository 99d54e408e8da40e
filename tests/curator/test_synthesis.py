"""From a raw table to synthetic records: one charge, a promise that adds up, records like those of the source."""

import csv
import datetime
import gzip
import json
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import quietfield as qf
from quietfield.cli import main
from quietfield.cli.outputs import NOTHING_KEPT
from quietfield.curator.synthesis import plan_synthesis
from quietfield.errors import STANDS, Error
from quietfield.privacy import accounting

# With so small a delta, that a text of one record is published by chance has a probability below 1e-9 (4,000 of them).
ASKED = {"epsilon": 8, "delta": "1e-12", "unit": qf.Rows(1)}


def people(rows: int = 4000) -> dict[str, list]:
    """Numbers, dates, blanks, labels, free text; who smokes coughs."""
    random = np.random.default_rng(3)
    smokes = random.random(rows) < 0.4
    coughs = smokes ^ (random.random(rows) < 0.1)
    days = random.integers(0, 700, rows)
    return {
        "age": random.integers(18, 80, rows).tolist(),
        "smokes": np.where(smokes, "yes", "no").tolist(),
        "coughs": ["" if random.random() < 0.1 else "often" if cough else "never" for cough in coughs],
        "seen": [(datetime.date(2023, 1, 1) + datetime.timedelta(days=int(day))).isoformat() for day in days],
        "note": [f"text {i}" for i in range(rows)],
    }


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = people()
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def made(raw):
    """A synthesis that was paid for, and its ledger."""
    ledger = qf.Ledger.create(
        raw.with_name("budget.db"), epsilon=8, delta="1e-12", unit=qf.Rows(1), accounting_by="zcdp"
    )
    return qf.synthesize(raw, ledger=ledger, header=True, cliques=qf.Choice(rounds=2), **ASKED), ledger


def test_one_charge_pays_for_discovery_choice_and_tables(raw, made, tmp_path):
    found, ledger = made
    (charge,) = ledger.charges
    assert charge.threshold == Fraction(1, 10**13)
    assert found.release.discovery is not None
    assert found.release.discovery.threshold == charge.threshold
    said = found.release.check_promise()
    assert "the discovery of the schema included" in said
    # All of the promise is spent, and no more: rho at the part of delta that thresholds leave.
    rho = accounting.zcdp_rho(Fraction(8), Fraction(9, 10**13))
    assert 0.99 * rho < found.release.promise.rho <= rho
    with pytest.raises(qf.BudgetExceeded):
        qf.synthesize(raw, ledger=ledger, header=True, **ASKED)
    found.release.save(tmp_path / "r.qfr")
    assert qf.Release.load(tmp_path / "r.qfr").discovery == found.release.discovery


def test_records_are_like_those_of_the_source(made):
    drawn = made[0].records(20_000, seed=1).to_pydict()
    assert list(drawn) == ["age", "smokes", "coughs", "seen"]  # free text is left out
    smokes, coughs = np.array(drawn["smokes"]), np.array(drawn["coughs"])
    assert 0.35 < (smokes == "yes").mean() < 0.45
    assert (coughs[smokes == "yes"] == "often").mean() > 0.6 > 0.3 > (coughs[smokes == "no"] == "often").mean()
    assert 0.05 < np.mean([cough is None for cough in coughs]) < 0.15
    assert all(isinstance(age, int) and 10 <= age < 100 for age in drawn["age"] if age is not None)
    assert all(isinstance(day, datetime.date) for day in drawn["seen"] if day is not None)


def test_what_is_known_costs_nothing():
    columns = people(500)
    known = {name: columns[name] for name in ("age", "smokes", "coughs")}
    schema = qf.Schema({"age": qf.Cuts([40, 60]), "smokes": ["no", "yes"], "coughs": ["never", "often"]})
    found = qf.synthesize(known, schema, cliques=qf.Choice(rounds=1), ledger=None, **ASKED)
    assert found.release.discovery is None
    assert found.release.selections
    given = qf.synthesize(known, schema, cliques=[("smokes", "coughs"), ("age",)], ledger=None, **ASKED)
    assert given.release.structure.cliques == (("smokes", "coughs"), ("age",))
    assert not given.release.selections


def test_what_is_known_of_every_column_is_the_schema(tmp_path, capsys):
    columns = {**{name: people(500)[name] for name in ("age", "smokes", "note")}, "well": np.arange(500) % 2 == 0}
    known = {"smokes": ["no", "yes"], "age": qf.Cuts([40, 60]), "note": None}
    found = qf.synthesize(columns, known, ledger=None, **ASKED)
    assert found.release.discovery is None
    assert list(found.schema) == ["age", "smokes", "well"]
    with pytest.raises(Error, match="all of them are left out"):
        qf.synthesize({"note": columns["note"]}, {"note": None}, ledger=None, **ASKED)
    path, rules = tmp_path / "people.csv", tmp_path / "known.json"
    del columns["well"]
    rows = [columns, *zip(*columns.values(), strict=True)]
    path.write_text("\n".join(",".join(map(str, row)) for row in rows))
    assert main(["schema", str(path), "--header", "--out", str(rules)]) == 0
    draft = json.loads(rules.read_text())
    draft["attributes"][:2] = qf.Schema({name: known[name] for name in ("age", "smokes")}).to_json()["attributes"]
    rules.write_text(json.dumps(draft))
    out = ["--out", str(tmp_path / "made.csv"), "--no-report", "--no-ledger"]
    words = [str(path), "--header", "--known", str(rules), "--leave-out", "note", *out]
    said = main(["synthesize", *words, "--epsilon", "5", "--delta", "1e-7", "--unit", "rows:1"])
    assert said == 0, capsys.readouterr().err
    assert (tmp_path / "made.csv").read_text().startswith('"age","smokes"\n')


def test_pure_epsilon_needs_labels_that_are_known():
    columns = {name: people(2000)[name] for name in ("age", "smokes")}
    columns["age"] = np.array(columns["age"])  # a column of whole numbers, by its type
    asked = {"epsilon": 5, "unit": qf.Rows(1), "ledger": None}
    with pytest.raises(Error, match="takes a delta"):
        qf.synthesize(columns, **asked)
    found = qf.synthesize(columns, {"smokes": ["no", "yes"]}, **asked)
    assert found.release.delta is None
    assert found.release.discovery.cost == Fraction(1, 2)
    found.release.check_promise()


def test_what_cannot_be_planned_is_refused_before_the_charge(raw, tmp_path):
    with pytest.raises(Error, match="first line"):
        plan_synthesis(raw, **ASKED)
    with pytest.raises(Error, match="not known before the schema"):
        plan_synthesis(raw, header=True, cliques=[("age", "smokes")], **ASKED)
    with pytest.raises(Error, match="line by line"):  # of persons the curator has to affirm it
        plan_synthesis(raw, header=True, **{**ASKED, "unit": qf.Person("note", rows=1)})


def test_what_replace_neighbours_forbid_is_refused_before_the_charge(raw, tmp_path):
    """The number of records is public there, so that none may be dropped: neither by a reader nor by a known rule."""
    asked = {"epsilon": 5, "delta": "1e-6", "unit": qf.Rows(1), "neighbours": "replace"}
    budget = {"accounting_by": "zcdp", "unit": qf.Rows(1), "neighbours": "replace"}
    book = qf.Ledger.create(tmp_path / "r.db", epsilon=50, delta="1e-5", **budget)
    with pytest.raises(Error, match="lines that are not well formed"):
        qf.synthesize(raw, header=True, ledger=book, **asked)
    people = {"smokes": ["yes", "no"] * 500, "coughs": ["yes", "no"] * 500}
    with pytest.raises(Error, match="'coughs' would drop some"):
        qf.synthesize(people, {"coughs": qf.Labels(["yes", "no"])}, ledger=book, **asked)
    assert book.spent == 0
    qf.synthesize(people, {"coughs": qf.Labels(["yes", "no"], null="no", unknown="no")}, ledger=book, **asked)


def test_a_choice_that_names_no_column_is_refused_before_the_charge(raw, tmp_path):
    book = qf.Ledger.create(tmp_path / "c.db", epsilon=9, delta="1e-5", accounting_by="zcdp", unit=qf.Rows(1))
    for choice in (qf.Choice(include=[("nothing", "else")]), qf.Choice(workload=[("nothing", "else")])):
        with pytest.raises(Error, match="the choice names 'else', 'nothing'"):
            qf.synthesize(raw, header=True, epsilon=5, delta="1e-6", unit=qf.Rows(1), ledger=book, cliques=choice)
    assert book.spent == 0


def test_a_budget_that_rounds_to_none_is_refused():
    asked = {"epsilon": "1e-12", "delta": "1e-30", "unit": qf.Rows(1), "ledger": None}
    people = {"a": [0, 1] * 50, "b": [0, 1] * 50}
    with pytest.raises(Error, match="ask for a larger epsilon"):
        qf.synthesize(people, **asked)
    with pytest.raises(Error, match="ask for a larger epsilon"):
        qf.release(people, qf.Schema({"a": 2, "b": 2}), "auto", noise="gaussian", **asked)


def test_the_command_writes_all_files_or_tells_why(raw, tmp_path, capsys):
    out = tmp_path / "made.csv"
    words = ["synthesize", str(raw), "--header", "--epsilon", "8", "--delta", "1e-12", "--unit", "rows:1"]
    words += ["--no-ledger", "--leave-out", "age", "--leave-out", "seen"]
    assert main([*words, "--out", str(out), "--dry-run"]) == 0
    assert "discovers 3 columns" in capsys.readouterr().out
    assert not out.exists()
    assert main([*words, "--out", str(out), "--rows", "50", "--seed", "1", "--no-report"]) == 0
    said = capsys.readouterr().out
    assert "left out    note: no value is common enough" in said
    assert "counted     about " in said
    assert "lines of the file are no records" in said
    for ending in (".csv", ".card.md", ".qfr", ".qfm"):
        assert out.with_suffix(ending).exists()
    assert "what they hold was not found: 'note'" in out.with_suffix(".card.md").read_text()
    assert len(out.read_text().splitlines()) == 51
    assert main(["verify", str(out.with_suffix(".qfr"))]) == 0
    said = capsys.readouterr().out
    assert "the discovery of the schema included" in said
    assert main([*words, "--out", str(out)]) == 1
    assert "--force" in capsys.readouterr().err
    for extra, why in (
        (["--structure", "chain"], "give --schema"),
        (["--known", "x.json", "--schema", "x.json"], "for discovery"),
    ):
        assert main([*words, "--out", str(tmp_path / "other.csv"), *extra]) == 1
        assert why in capsys.readouterr().err


def test_records_are_written_as_the_source_writes_them(tmp_path, capsys):
    """Money, thousands, percents, years of two digits and times, from the one command to a file that reads alike."""
    rng, days = np.random.default_rng(5), np.datetime64("1950-01-01") + np.arange(0, 20_000)
    rows = 20_000
    born, seen = rng.choice(days, rows).astype(object), rng.choice(days[-700:], rows).astype(object)
    columns = {
        "charge": [f"${n:,.2f}" for n in rng.lognormal(7, 1, rows)],
        "visits": [f"{n:,}" for n in rng.integers(100, 5000, rows)],
        "discount": [f"{n} %" for n in rng.integers(0, 60, rows)],
        "born": [f"{day:%d/%m/%y}" for day in born],
        "seen": [f"{day:%Y-%m-%d}T{hour:02}:30" for day, hour in zip(seen, rng.integers(0, 24, rows), strict=True)],
    }
    with open(tmp_path / "raw.csv", "w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    out = tmp_path / "made.csv"
    words = ["synthesize", str(tmp_path / "raw.csv"), "--header", "--epsilon", "20", "--delta", "1e-12", "--unit"]
    words += ["rows:1", "--no-ledger", "--out", str(out), "--no-report", "--seed", "1", "--years-from", "1940"]
    assert main([*words, "--for-programs"]) == 0
    assert "left out" not in capsys.readouterr().out
    with open(out, newline="") as file:
        made = list(csv.DictReader(file))
    forms = {
        "charge": r"\$([0-9]{1,3})(,[0-9]{3})*[.][0-9]{2}",
        "visits": r"[0-9]{1,3}|[1-9],[0-9]{3}",
        "discount": r"[0-9]{1,2} %",
        "born": r"[0-3][0-9]/[01][0-9]/[0-9]{2}",
        "seen": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}",
    }
    for name, form in forms.items():
        values = [record[name] for record in made if record[name]]
        assert len(values) > 0.9 * len(made), name
        assert [value for value in values if not re.fullmatch(form, value)] == [], name
    rules = qf.Release.load(out.with_suffix(".qfr")).schema
    assert (rules["born"].years_from, rules["born"].start[:2], rules["seen"].type) == (1940, "19", "time")


def test_the_command_says_what_it_does_where_there_is_no_terminal(raw, tmp_path, capsys):
    """Plain lines from public facts, the same for other records; nothing that only a terminal understands."""
    words = ["--header", "--epsilon", "8", "--delta", "1e-12", "--unit", "rows", "--no-ledger"]
    words += ["--leave-out", "age", "--leave-out", "seen", "--leave-out", "note", "--rows", "9"]
    told = []
    for records in (raw, tmp_path / "others.csv"):
        if records != raw:
            lines = raw.read_text().splitlines(keepends=True)
            records.write_text("".join([lines[0], *lines[1000:]]))
        assert main(["synthesize", str(records), *words, "--out", str(tmp_path / f"{records.stem}-made.csv")]) == 0
        told.append(capsys.readouterr().err)
    hint, *lines = told[0].splitlines()
    assert hint.startswith("Warning: each line of the file is taken for one record;")
    assert lines[:2] == ["Reading records ...", "Counting ..."]
    assert told[0] == told[1]
    assert told[0].replace("\n", "").isprintable()


def damaged(kind, raw, folder):
    """A copy of the records that cannot be read to its end."""
    if kind == "gzip":
        path = folder / "people.csv.gz"
        # More than a first block of it, which is looked at for the names of columns.
        path.write_bytes(gzip.compress(raw.read_bytes() * 40, 1)[:-20_000])
        return path
    path = folder / "people.parquet"
    parquet.write_table(pa.table(people()), path)
    content = path.read_bytes()
    wrong = {"header": b"\0" * 4 + content[4:], "pages": content[:4] + b"\xff" * 3000 + content[3004:]}
    path.write_bytes(content[:5000] + content[-3000:] if kind == "hole" else wrong[kind])
    return path


@pytest.mark.parametrize("kind", ["header", "hole"])
def test_a_damaged_file_is_refused_before_the_charge_where_its_footer_tells(kind, raw, tmp_path, capsys):
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=9, delta="1e-12", unit=qf.Rows(1), accounting_by="zcdp")
    words = ["synthesize", str(damaged(kind, raw, tmp_path)), "--epsilon", "8", "--delta", "1e-12", "--unit", "rows:1"]
    assert main([*words, "--ledger", str(tmp_path / "b.db"), "--out", str(tmp_path / "made.csv")]) == 1
    said = capsys.readouterr().err
    assert "is damaged" in said or "check that it is whole" in said
    assert ledger.spent == 0


@pytest.mark.parametrize("kind", ["gzip", "pages"])
def test_a_damaged_file_that_is_found_after_the_charge_says_how_to_go_on(kind, raw, tmp_path, capsys):
    """Whether a file can be read to its end may depend on a record: that is paid for, and not asked twice for once."""
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=9, delta="1e-12", unit=qf.Rows(1), accounting_by="zcdp")
    path = damaged(kind, raw, tmp_path)
    words = ["synthesize", str(path), "--epsilon", "8", "--delta", "1e-12", "--unit", "rows:1", "--id", "ab" * 16]
    words += ["--header"] * (kind == "gzip")
    words += ["--ledger", str(tmp_path / "b.db"), "--out", str(tmp_path / "made.csv")]
    assert main(words) == 1
    said = capsys.readouterr().err
    for part in ("could not be read" if kind == "pages" else "check that it is whole", STANDS, NOTHING_KEPT):
        assert part in said
    spent = ledger.spent
    assert spent > 0
    assert not (tmp_path / "made.qfr").exists()
    assert main(words) == 1  # mended or not: an id is paid once, and there is nothing to go on with
    assert "was already charged, and is not charged again" in capsys.readouterr().err
    assert ledger.spent == spent
    if kind == "gzip":
        assert main(["inspect", str(path)]) == 1  # which costs nothing
        assert "check that it is whole" in capsys.readouterr().err


def test_a_ledger_that_is_not_there_is_made_with_the_command_that_is_told(raw, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["synthesize", str(raw), "--header", "--epsilon", "2", "--delta", "1e-7", "--unit", "rows:1", "--dry-run"]
    words += ["--ledger", "budget.db", "--out", "made.csv"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "quietfield ledger create budget.db --epsilon TOTAL --unit rows:1, and --delta 1e-6" in said
    assert main(["ledger", "create", "budget.db", "--epsilon", "4", "--unit", "rows:1", "--delta", "1e-6"]) == 0
    assert qf.Ledger("budget.db").accounting == "zcdp"
    assert main(words) == 0
    assert "any one line of the file" in capsys.readouterr().out  # as the release will say it


def test_a_separator_that_was_forgotten_costs_nothing(tmp_path, capsys):
    path, book = tmp_path / "rows.csv", tmp_path / "budget.db"
    path.write_text("a;b\n" + "1;yes\n2;no\n" * 500)
    ledger = qf.Ledger.create(book, epsilon=8, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    paid = ["--header", "--epsilon", "1", "--delta", "1e-7", "--unit", "rows:1", "--ledger", str(book)]
    for words in (["synthesize", "--out", str(tmp_path / "made.csv")], ["schema", "--discover"]):
        assert main([*words, str(path), *paid]) == 1
        assert "--delimiter ';'" in capsys.readouterr().err
    assert not ledger.charges
    assert main(["schema", "--discover", str(path), *paid, "--delimiter", ","]) == 0  # one name, by the curator's word
    assert len(ledger.charges) == 1


def test_texts_that_a_spreadsheet_would_run_are_told_of_in_a_line(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "-,yes\nx,no\n" * 1000)
    words = ["synthesize", str(path), "--header", "--epsilon", "8", "--delta", "1e-6", "--unit", "rows:1"]
    assert main([*words, "--no-ledger", "--no-report", "--out", str(tmp_path / "made.csv")]) == 0
    said = capsys.readouterr()
    assert "note        in CSV files an apostrophe" in said.out
    assert "apostrophe" not in said.err


@pytest.mark.parametrize("when", ["chosen", "learned", "drawn"])
def test_an_interrupt_says_how_to_go_on_and_that_is_true(when, raw, tmp_path, monkeypatch, capsys):
    """A fit that is interrupted returns the best so far; the work that it is a part of must not go on with that."""
    from quietfield import Model
    from quietfield.curator import synthesis
    from quietfield.study import choice

    fits = []

    def interrupt(report):
        raise KeyboardInterrupt

    def fit(release, **more):
        fits.append(release)
        return qf.fit(release, callback=interrupt, **more)

    last = when != "chosen"
    book = tmp_path / "budget.db"
    ledger = qf.Ledger.create(book, epsilon=8, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    words = ["synthesize", str(raw), "--header", "--epsilon", "4", "--delta", "1e-7", "--unit", "rows:1"]
    words += ["--ledger", str(book), "--out", str(tmp_path / "made.csv"), "--copies", "2", "--no-report"]
    with monkeypatch.context() as patched:
        if when == "drawn":
            patched.setattr(Model, "draws", lambda *_: interrupt(None))
        else:
            patched.setattr(synthesis if last else choice, "fit", fit)
        assert main(words) == 130
    assert len(fits) == (when != "drawn")
    told = capsys.readouterr().err
    assert ("the charge stands" in told) == (not last)
    left = sorted(path.name for path in tmp_path.glob("made*"))  # what was measured until then
    assert left == ["made.qfm"] * (when == "drawn") + ["made.qfr"]
    name = qf.Release.load(tmp_path / "made.qfr").id
    kept = f"{tmp_path / 'made.qfr'} is kept: the same command again, with --id {name}, goes on from there, and nothing"
    assert told.count(f"{kept} is charged again.\n") == 1
    assert main([*words, "--id", name]) == 0
    assert len(ledger.charges) == 1
    assert (tmp_path / "made.card.md").exists()
    learned = qf.fit(qf.Release.load(tmp_path / "made.qfr"), of="records")
    made = qf.load(tmp_path / "made.qfm")
    assert all(np.array_equal(made.potentials[clique], learned.potentials[clique]) for clique in learned.potentials)


def test_a_table_in_a_database_is_named_by_its_address(tmp_path, capsys, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("clinic.duckdb") as connection:
        connection.sql("CREATE TABLE visits AS SELECT i % 2 AS a, i % 3 AS b FROM range(300) t(i)")
    address = f"duckdb://{tmp_path}/clinic.duckdb"
    qf.Schema({"a": [0, 1], "b": [0, 1, 2]}).save("schema.json")
    words = ["release", "--schema", "schema.json", "--structure", "auto", "--epsilon", "50", "--unit", "rows:1"]
    words += ["--no-ledger", "--out", "visits.qfr"]
    assert main([*words, f"{address}#visits"]) == 0
    assert abs(qf.Release.load("visits.qfr").tables["a"].sum() - 300) < 30  # 60 scales of noise
    capsys.readouterr()
    for wrong, said in ((f"{address}#nobody", "has no table 'nobody'"), (address, "ends in # and its name")):
        assert main([*words, "--force", wrong]) == 1
        assert said in capsys.readouterr().err
    assert main([*words, "--force", "--delimiter", ";", f"{address}#visits"]) == 1
    assert "not for databases" in capsys.readouterr().err


def test_a_release_that_cannot_be_learned_from_is_not_lost(monkeypatch):
    def fails(*_, **__):
        raise qf.CannotLearn("the noise is larger than the data.")

    monkeypatch.setattr("quietfield.curator.synthesis.fit", fails)
    schema = qf.Schema({"a": [0, 1]})
    with pytest.raises(qf.CannotLearn) as caught:
        qf.synthesize({"a": [0, 1] * 50}, schema, epsilon=1, unit=qf.Rows(1), ledger=None)
    assert caught.value.release.tables["a"].shape == (2,)


def test_a_table_of_a_column_that_is_left_out_is_dropped_and_told(tmp_path):
    """What fails after the charge were paid for and lost; that a column was left out is published anyhow."""
    columns = {name: people()[name] for name in ("smokes", "coughs", "note")}
    book = qf.Ledger.create(tmp_path / "b.db", epsilon=9, delta="1e-5", accounting_by="zcdp", unit=qf.Rows(1))
    choice = qf.Choice(
        include=[("smokes", "note"), ("smokes", "coughs")], workload={("coughs", "note"): 3, ("note",): 1}, rounds=1
    )
    found = qf.synthesize(columns, ledger=book, cliques=choice, **ASKED)
    assert ("smokes", "coughs") in found.release.structure.cliques
    (note,) = [note for note in found.release.notes if "that were named" in note]
    assert note.endswith("cells are too many: ('smokes', 'note')")
    wide = qf.Domain(dict.fromkeys("abc", 1000))
    assert qf.Choice(include=[tuple("abc")]).within(wide)[1] == (("a", "b", "c"),)


def test_a_synthesis_is_shown_in_a_few_lines(made):
    found, _ = made
    shown = repr(found)
    assert shown.startswith("Synthesis: 4 columns, ")
    assert "'note'" in shown
    assert len(shown) < 600
    assert "<table" in found._repr_html_()
    noise = repr(found.release).splitlines()[2]
    assert "scales from" in noise
    assert len(noise) < 130


def test_a_command_that_was_interrupted_goes_on_under_its_id(raw, tmp_path, capsys, monkeypatch):
    from quietfield.curator import synthesis

    book, out, name = tmp_path / "budget.db", tmp_path / "made.csv", "0123456789abcdef" * 2
    ledger = qf.Ledger.create(book, epsilon=8, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    words = ["synthesize", str(raw), "--header", "--epsilon", "4", "--delta", "1e-7", "--unit", "rows:1"]
    words += ["--leave-out", "age", "--leave-out", "seen", "--ledger", str(book), "--out", str(out), "--id", name]
    fit = synthesis.fit

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(synthesis, "fit", stop)
    assert main([*words, "--no-report"]) == 130
    assert [path.name for path in tmp_path.glob("made*")] == ["made.qfr"]
    monkeypatch.setattr(synthesis, "fit", fit)
    capsys.readouterr()
    assert main([*words, "--no-report"]) == 0
    assert "nothing is charged" in capsys.readouterr().err
    records, release = out.read_bytes(), out.with_suffix(".qfr").read_bytes()
    monkeypatch.setattr(synthesis, "fit", stop)  # nothing is learned a second time
    assert main(words) == 0
    assert out.with_suffix(".html").exists()  # only what was missing is made
    assert (records, release) == (out.read_bytes(), out.with_suffix(".qfr").read_bytes())
    assert [charge.release for charge in ledger.charges] == [name]
    capsys.readouterr()
    card = out.with_suffix(".card.md").read_bytes()
    assert main([*words, "--rows", "5"]) == 0  # what is there stays, and that is said
    assert "--rows and --seed are for new records" in capsys.readouterr().err
    other = [*words[: words.index("--out") + 1], str(out.with_suffix(".parquet")), *words[words.index("--out") + 2 :]]
    assert main(other) == 1  # a card describes the records beside it, and no others
    assert "describes other records of this release" in capsys.readouterr().err
    assert not out.with_suffix(".parquet").exists()
    assert (records, card) == (out.read_bytes(), out.with_suffix(".card.md").read_bytes())
    monkeypatch.setattr(synthesis, "fit", fit)
    assert main([*words, "--copies", "2", "--force", "--no-report"]) == 0
    assert "'made.csv', 'made.html': of an earlier run, and left as they are" in capsys.readouterr().err
    assert out.with_stem("made-2").exists()
    out.with_suffix(".qfr").unlink()
    assert main([*words, "--copies", "2", "--force"]) == 1
    assert "already charged, and is not charged again" in capsys.readouterr().err


def test_what_was_measured_before_an_interrupt_is_kept(raw, tmp_path, capsys, interrupt_second_round):
    book, out = tmp_path / "budget.db", tmp_path / "made.csv"
    qf.Ledger.create(book, epsilon=8, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    words = ["synthesize", str(raw), "--header", "--epsilon", "8", "--delta", "1e-6", "--unit", "rows:1"]
    with interrupt_second_round():
        assert main([*words, "--ledger", str(book), "--out", str(out), "--no-report"]) == 130
    assert "kept in" in capsys.readouterr().err
    kept = qf.Release.load(out.with_suffix(".qfr"))
    assert len(kept.parts) > 4
    assert kept.check_promise()
    assert qf.fit(kept).report.converged


@pytest.mark.parametrize("spelling", ["itself", "relative", "dots", "symlink", "hard link", "folder", "numbered"])
def test_the_source_is_never_replaced(spelling, raw, tmp_path, monkeypatch, capsys):
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / ("people-2.csv" if spelling == "numbered" else "people.csv")
    source.write_bytes(raw.read_bytes())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    out = {
        "itself": str(source), "relative": "in/people.csv", "dots": "in/../in/people.csv", "symlink": "link.csv",
        "hard link": "hard.csv", "folder": "alias/people.csv", "numbered": "in/people.csv",
    }[spelling]  # fmt: skip
    words = ["synthesize", str(source), "--header", "--epsilon", "8", "--delta", "1e-6", "--unit", "rows:1"]
    words += ["--copies", "2"] if spelling == "numbered" else []
    assert main([*words, "--no-ledger", "--force", "--out", out]) == 1
    assert "which this command reads" in capsys.readouterr().err
    assert source.read_bytes() == raw.read_bytes()


def test_force_replaces_only_synthetic_records_and_says_which(raw, tmp_path, capsys):
    out = tmp_path / "made.csv"
    out.write_text("someone,else\n1,2\n")
    words = ["synthesize", str(raw), "--header", "--epsilon", "8", "--delta", "1e-6", "--unit", "rows:1", "--no-ledger"]
    words += ["--leave-out", "age", "--leave-out", "seen", "--out", str(out), "--no-report", "--rows", "9"]
    assert main([*words, "--force"]) == 1
    assert "no data card beside it" in capsys.readouterr().err
    assert out.read_text() == "someone,else\n1,2\n"
    out.unlink()
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "--force", "--dry-run"]) == 0
    assert f"--force replaces {out}, {out.with_suffix('.qfr')}" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_a_dry_run_says_how_common_a_value_must_be_and_which_names_are_of_identifiers(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("customer_id,answer\n" + "".join(f"{i},{'yes' if i % 2 else 'no'}\n" for i in range(40)))
    words = ["synthesize", str(path), "--header", "--epsilon", "1", "--delta", "1e-6", "--unit", "rows:1"]
    words += ["--no-ledger", "--out", str(tmp_path / "made.csv")]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr()
    plan = plan_synthesis(path, header=True, epsilon=1, delta="1e-6", unit=qf.Rows(1)).discovery
    assert f"about {plan.label_threshold:,} records or more have in common" in said.out
    assert f"fewer than about {plan.least_values:,} values" in said.out
    assert "may be identifiers: 'customer_id'" in said.err
    assert main([*words, "--dry-run", "--leave-out", "customer_id"]) == 0
    assert capsys.readouterr().err == ""
    assert main(words) == 1  # 40 records are too few
    assert "(--schema, or --known" in capsys.readouterr().err
