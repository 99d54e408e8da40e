"""One of a thing is said as one, in whatever the commands and the report show."""

import re
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.text import plural
from tests.report.reading import read

pytest.importorskip("duckdb")
pytest.importorskip("opendp")

WRONG = re.compile(
    r"(?<![\d.,])1 (?:[a-z]+ )?(?:attributes|tables|records|cells|values|cliques|rows|steps|lines|pairs|models|"
    r"rehearsals|log-potentials)\b|row\(s\)"
)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tables"), (1, "1 table"), (2, "2 tables"), (1200, "1,200 tables"), (-1, "-1 tables")]
)
def test_a_number_and_its_noun(count: int, said: str) -> None:
    assert plural(count, "table", "tables") == said
    assert plural(count, "table", "tables") == said


def test_one_table_of_one_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = qf.Schema({"sex": ["f"]})
    schema.save("schema.json")
    Path("one.csv").write_text('sex\n"f\n')
    release = ["release", "one.csv", "--schema", "schema.json", "--structure", "chain", "--epsilon", "9", "--unit"]
    model = qf.Model(schema.domain, {("sex",): np.zeros(1)})
    model.save("one.qfm")
    for words in (
        ["inspect", "one.csv", "--schema", "schema.json"],
        ["plan", "schema.json", "--structure", "chain", "--epsilon", "1", "--records", "1"],
        [
            "plan",
            "schema.json",
            "--rehearse",
            "--structure",
            "chain",
            "--records",
            "1",
            "--epsilon",
            "1",
            "--repeats",
            "1",
        ],
        ["ledger", "create", "budget.db", "--epsilon", "20", "--unit", "rows:1"],
        [*release, "rows:1", "--ledger", "budget.db", "--dry-run"],
        [*release, "rows:1", "--ledger", "budget.db", "--out", "one.qfr"],
        ["ledger", "show", "budget.db"],
        ["export", "one.qfr", "--out", "noisy"],
        ["export", "one.qfm", "--out", "tables", "--total", "1"],
        ["sample", "one.qfm", "--rows", "1", "--out", "sample.csv"],
        ["verify", "one.qfr"],
    ):
        assert main(words) == 0, words
        shown = capsys.readouterr()
        assert WRONG.search(shown.out + shown.err) is None, words
    for found in (model, qf.Release.load("one.qfr"), model.sample(1, seed=0)):
        assert WRONG.search(repr(found) + found._repr_html_()) is None
    public = qf.Release.from_tables(schema.domain, {("sex",): [1]}, noise=qf.Laplace(1.0), total=1)
    qf.write_report("one.html", public, model)
    page = read(Path("one.html").read_text())
    assert "1 noisy table of about 1 record was published; the model in this report was learned from it alone" in (
        " ".join(page.text.split())
    )
    assert WRONG.search(" ".join(page.text.split())) is None


def test_what_a_paid_release_costs_and_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    qf.Schema({"sex": ["f", "m"]}).save("schema.json")
    Path("people.csv").write_text("sex\n" + "f\nm\n" * 50)
    qf.Ledger.create("budget.db", epsilon=3, unit=qf.Rows(1))
    asked = ["release", "people.csv", "--schema", "schema.json", "--structure", "chain", "--unit", "rows:1"]
    asked += ["--epsilon", "1", "--ledger", "budget.db", "--out", "r.qfr"]
    assert main([*asked, "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert all(line[:11].strip() or line.startswith(" " * 12) for line in dry.splitlines())
    assert re.search(r"^ledger +epsilon 0 of 3 is spent, 3 remains\.\n {12}It protects", dry, re.MULTILINE)
    assert main(asked) == 0
    made = capsys.readouterr().out
    assert "ledger      line 1 of budget.db: epsilon 1 was charged, 2 of 3 remains\n" in made
    assert "noise       discrete Laplace of scale 1 (standard deviation 1.36)\n" in made
    assert main(["verify", "r.qfr"]) == 0
    verified = capsys.readouterr().out
    assert "the L1 sensitivity is 1, the squared L2 sensitivity 1" in verified
    assert "note: the total is left out, since the tables' sums tell it" in verified


def test_shares_of_capped_rows_are_not_called_shares_of_all_records(tmp_path: Path) -> None:
    records = {"user": [i // 5 for i in range(500)], "sex": ["f", "m"] * 250}
    schema = qf.Schema({"sex": ["f", "m"]})
    for unit, words in (
        (qf.Person("user", rows=3), "records that were counted (at most 3 per 'user')"),
        (qf.Rows(1), "records that were counted"),
    ):
        release = qf.release(records, schema, [("sex",)], epsilon=5, unit=unit, ledger=None)
        model = qf.fit(release)
        tables = qf.people_tables(model, release=release)
        meanings = {name: text for name, _, text in tables.dictionary}
        assert meanings["share"] == f"estimated share of {words} in this cell; the shares of a table add up to 1"
        assert f"number of {words};" in meanings["count"]
        assert not any("numbers below" in text or "Protected is" in text for text in tables.statement)
        assert any(f"They protect {unit.describe()}." in text for text in tables.statement)
        qf.write_report(tmp_path / f"{unit.rows}.html", release, model)
        assert f"Shares of the {words}." in read((tmp_path / f"{unit.rows}.html").read_text()).text


def test_a_model_of_noise_is_called_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    domain = qf.Domain({"a": 4, "b": 2})
    noise = np.random.default_rng(0).laplace(scale=30_000, size=(4, 2))
    noise += (50_000 - noise.sum()) / 8  # an N that is positive by chance
    alone = qf.Release.from_tables(domain, {("a", "b"): noise}, noise=qf.Laplace(30_000.0))
    public = qf.Release.from_tables(domain, {("a", "b"): noise}, noise=qf.Laplace(30_000.0), total=20_000)
    clear = qf.Release.from_tables(domain, {("a", "b"): abs(noise)}, noise=qf.Laplace(30.0))
    for release, words in (
        (alone, "Warning: the number of records is estimated as 50,000, with a standard error of 120,000: it could"),
        (public, "Warning: nothing in the tables stands out from their noise"),
        (clear, ""),
    ):
        release.save("r.qfr")
        assert main(["fit", "r.qfr", "--out", "m.qfm", "--force"]) == 0
        shown = capsys.readouterr()
        assert shown.err.startswith(words) if words else not shown.err
        assert "converged   yes\n" in shown.out
        if words:
            learned = qf.Model.load("m.qfm")
            assert words[9:] in learned._repr_html_()
            qf.write_report("r.html", release, learned)
            assert words[9:] in read(Path("r.html").read_text()).text


def test_an_epsilon_that_drowns_every_count_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    qf.Schema({"sex": ["f", "m"]}).save("schema.json")
    Path("people.csv").write_text("sex\nf\n")
    words = "epsilon 0.0001 takes much noise: its standard deviation is at least 14,142 in every cell"
    release = ["release", "people.csv", "--schema", "schema.json", "--unit", "rows:1", "--no-ledger", "--dry-run"]
    for asked in (release, ["plan", "schema.json"]):
        assert main([*asked, "--structure", "chain", "--epsilon", "0.0001"]) == 0
        assert words in capsys.readouterr().err
    assert main([*release, "--structure", "chain", "--epsilon", "0.01"]) == 0
    assert "takes much noise" not in capsys.readouterr().err
    qf.Schema({name: ["f", "m"] for name in "abcd"}).save("schema.json")
    Path("people.csv").write_text("a,b,c,d\nf,f,f,f\n")
    words = "at least 42,426 in every cell of the 3 tables that share it"  # three times the noise of a single table
    for asked in (release, ["plan", "schema.json"]):
        assert main([*asked, "--structure", "chain", "--epsilon", "0.0001"]) == 0
        assert words in capsys.readouterr().err


def test_candidates_of_a_rehearsal_are_all_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qf.Schema({"sex": ["f", "m"]}).save(tmp_path / "schema.json")
    asked = [
        "plan",
        str(tmp_path / "schema.json"),
        "--structure",
        "chain",
        "--rehearse",
        "--records",
        "10",
        "--epsilon",
    ]
    for epsilons in ("1,,2", "", "1,"):
        assert main([*asked, epsilons]) == 1
        assert "leaves one empty" in capsys.readouterr().err
    assert main([*asked, "1", "--unit", "person:user:3", "--repeats", "1"]) == 0
    shown = capsys.readouterr().out
    assert "records      10 (guessed); the unit is any one 'user', of whom at most 3 rows are counted\n" in shown
    assert "2 cells; the total is left out, since the tables' sums tell it" in shown
