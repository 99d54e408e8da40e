"""The private report: right, marked everywhere, readable by its owner alone, and never in place of a public one."""

import json
import stat

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.curator import WARNING
from quietfield.curator.confidential_report import true_tables
from tests.report.reading import read


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Records in a file, their schema, a release of them and a model."""
    folder = tmp_path_factory.mktemp("private")
    schema = qf.Schema({"sex": ["f", "m"], "smokes": ["no", "yes"]})
    people = ["f,no"] * 400 + ["f,yes"] * 100 + ["m,no"] * 300 + ["m,yes"] * 200
    (folder / "people.csv").write_text("\n".join(["sex,smokes", *people]) + "\n")
    schema.save(folder / "schema.json")
    release = qf.release(folder / "people.csv", schema, [("sex", "smokes")], epsilon=1, unit=qf.Rows(1), ledger=None)
    release.save(folder / "people.qfr")
    model = qf.Model(schema.domain, {("sex", "smokes"): np.log([[0.4, 0.2], [0.2, 0.2]])})
    model.save(folder / "people.qfm")
    return folder, schema, release, model


def test_true_tables_are_those_of_the_records(made):
    folder, schema, release, _ = made
    tables, total = true_tables(folder / "people.csv", schema, release)
    np.testing.assert_allclose(tables[0], [[0.4, 0.1], [0.3, 0.2]])
    assert total == 1000


def test_it_says_how_far_the_model_is_and_is_marked_everywhere(made, tmp_path):
    folder, schema, release, model = made
    out = tmp_path / "confidential.html"
    qf.write_confidential_report(out, folder / "people.csv", schema, release, model)
    page = read(out.read_text())
    row = page.classed("list")[0].all("tbody")[0].all("tr")[0]
    assert row.all("td")[1].text == "10.0%"  # half of |0.2 - 0.1| + |0.2 - 0.3|
    assert row.all("td")[-1].text in (
        "f, yes: 20.00% learned, 10.00% true",
        "m, no: 20.00% learned, 30.00% true",
    )
    shares = {table.all("caption")[0].text: table for table in page.classed("shares")}
    found = [[cell.text for cell in line.all("td")[1:]] for line in shares["smokes"].all("tbody")[0].all("tr")]
    assert found == [["60.0%", "70.0%"], ["40.0%", "30.0%"]]
    stamps = page.classed("stamp")
    assert [stamp.text for stamp in stamps] == [WARNING, WARNING]
    assert page.classed("watermark")[0].text == "NOT PRIVATE"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_no_records_are_no_error(made, tmp_path):
    _, schema, release, model = made
    nobody = np.zeros((0, 2), dtype=np.int64)
    qf.write_confidential_report(tmp_path / "confidential.html", nobody, schema, release, model)
    assert "0 records were counted" in read((tmp_path / "confidential.html").read_text()).text


def test_another_schema_is_refused(made, tmp_path):
    folder, _, release, model = made
    other = qf.Schema({"sex": ["f", "m"], "smokes": ["no", "yes", "unknown"]})
    with pytest.raises(qf.Error, match="the schema and the release differ in 'smokes'"):
        qf.write_confidential_report(tmp_path / "confidential.html", folder / "people.csv", other, release, model)
    assert list(tmp_path.iterdir()) == []


def words(folder, out, *more: str) -> list[str]:
    model = ["--model", str(folder / "people.qfm")]
    return ["report", str(folder / "people.qfr"), *model, "--out", str(out), *more]


def test_the_command_writes_either(made, tmp_path, capsys):
    folder, *_ = made
    public, private = tmp_path / "public.html", tmp_path / "confidential.html"
    assert main(words(folder, public, "--title", "People & more")) == 0
    assert "written" in capsys.readouterr().out
    assert "NOT PRIVATE" not in read(public.read_text()).all("main")[0].text
    assert read(public.read_text()).all("h1")[0].text == "People & more"
    given = ["--confidential", "--records", str(folder / "people.csv"), "--schema", str(folder / "schema.json")]
    assert main(words(folder, private, *given)) == 0
    assert WARNING in capsys.readouterr().out
    assert WARNING in read(private.read_text()).text


def test_a_private_report_has_a_name_of_its_own(made, tmp_path, monkeypatch):
    folder, *_ = made
    monkeypatch.chdir(tmp_path)
    given = ["--confidential", "--records", str(folder / "people.csv"), "--schema", str(folder / "schema.json")]
    command = ["report", str(folder / "people.qfr"), "--model", str(folder / "people.qfm")]
    assert main([*command, *given]) == 0
    assert main(command) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "confidential-report.html"}


def test_mistakes_get_one_sentence_and_write_nothing(made, tmp_path, capsys):
    folder, *_ = made
    out, mine = tmp_path / "report.html", tmp_path / "mine.html"
    mine.write_text("<html>mine</html>")
    (tmp_path / "bad.json").write_text(json.dumps({"a": 2}))
    mistakes = [
        (words(folder, out, "--confidential"), "go together"),
        (words(folder, out, "--records", str(folder / "people.csv")), "go together"),
        (words(folder, out, "--level", "95"), "between 0 and 1"),
        (words(folder, mine), "is there already"),
        (words(folder, mine, "--force"), "not a quietfield report"),
        (words(folder, tmp_path / "no" / "r.html"), "cannot write"),
        (["report", str(tmp_path / "absent.qfr"), "--out", str(out)], "cannot read"),
        (["report", str(folder / "people.qfm"), "--out", str(out)], "not a quietfield release"),
        (["report", str(folder / "people.qfr"), "--model", str(folder / "people.qfr"), "--out", str(out)], "model"),
    ]
    for command, message in mistakes:
        assert main(command) == 1, command
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    assert not out.exists()
    assert mine.read_text() == "<html>mine</html>"
    assert main(words(folder, out)) == 0
    assert main(words(folder, out)) == 1
    assert main(words(folder, out, "--force")) == 0
