"""In a CSV file a row is a line: what a release of rows says, and what persons need the curator's word for."""

import csv
import gzip
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import quietfield as qf
from experiments.psgd import psgd
from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator.counting import count, lines
from quietfield.curator.score import dp_score
from quietfield.output.report import write_report
from quietfield.output.tables import people_tables
from quietfield.privacy.units import statistics

SCHEMA = qf.Schema({"ward": ["a", "b"]})
WARD = Structure((("ward",),))
PERSON = qf.Person("user", rows=1)
AFFIRMS = "provided that every record is one line of the file, as the curator affirms"


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """Two hundred people in ward a, and one of them whose text would be many people in ward b."""
    lines_of_text = [f"{i},b,-" for i in range(200)] + [f"made up {i},b,-" for i in range(1000)]
    with (tmp_path / "survey.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "ward", "text"])
        writer.writerows([i, "a", "well"] for i in range(200))
        writer.writerow(["200", "a", "\n".join(["", *lines_of_text, ""])])
    SCHEMA.save(tmp_path / "schema.json")
    return tmp_path / "survey.csv"


def made(source: Any, unit: Any, ledger: Any = None) -> qf.Release:
    return qf.release(source, SCHEMA, WARD, epsilon=1, unit=unit, ledger=ledger)


def test_persons_need_the_curators_word(survey: Path) -> None:
    ledger = qf.Ledger.create(survey.with_name("budget.db"), epsilon=1, unit=PERSON)
    model = qf.Model(SCHEMA.domain, {("ward",): [0.0, 0.0]})
    visits = qf.Sequences("user", "text", "ward", labels=["a", "b"])
    asks = [
        lambda: made(survey, PERSON, ledger),
        lambda: made(str(survey), qf.Person("user", rows=5), ledger),
        lambda: made(qf.CsvFile(survey, encoding="latin-1"), PERSON, ledger),
        lambda: made(survey.with_name("surv*.csv"), qf.Person("user", rows=1, kind="integer"), None),
        lambda: dp_score(model, survey, SCHEMA, epsilon=1, unit=PERSON, ledger=ledger),
        lambda: qf.release(
            visits.log(survey), visits.schema, visits.structure, epsilon=1, unit=visits.unit, ledger=None
        ),
    ]
    for ask in asks:
        with pytest.raises(qf.Error, match=r"read line by line.*one_line_per_record=True.*write_parquet"):
            ask()
    assert ledger.spent == 0
    found = made(qf.CsvFile(survey, one_line_per_record=True), PERSON, ledger)
    assert lines.AFFIRMED in found.notes
    assert found.promise is not None
    assert found.promise.protects == f"any one 'user', of whom at most 1 row is counted, {AFFIRMS}"
    scored = dp_score(model, qf.CsvFile(survey, one_line_per_record=True), SCHEMA, epsilon=1, unit=PERSON, ledger=None)
    assert scored.protects == found.promise.protects


def test_what_the_word_is_for(survey: Path) -> None:
    """One respondent moves a thousand counts and a hundred others: no reader could tell, so the curator has to."""
    asked = statistics(WARD, SCHEMA.domain, PERSON)
    assert count(survey, SCHEMA, asked, PERSON).tables[0].tolist() == [100, 1100]
    done = subprocess.run(
        [sys.executable, *shlex.split(lines.parquet_command(survey))[1:]], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert count(survey.with_suffix(".parquet"), SCHEMA, asked, PERSON).tables[0].tolist() == [201, 0]
    claim = made(survey.with_suffix(".parquet"), PERSON).promise
    assert claim is not None
    assert claim.protects == PERSON.describe()
    with survey.open("a") as file:
        file.write('300,b,"a quote that does not end\n301,b,well\n')
    refused = subprocess.run(
        [sys.executable, *shlex.split(lines.parquet_command(survey))[1:]], capture_output=True, check=False
    )
    assert refused.returncode != 0  # a reader of quoted fields must not swallow people silently


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        *((encoding, "visits.csv") for encoding in ("latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis")),
        *(("cp1252", name) for name in ("visits[1] of 'ours'.csv", "visits-*.csv", "visits.csv.gz")),
        ("utf-8", "visits[1] of 'ours'.csv"),
    ],
)
def test_the_command_that_converts_a_file_works(encoding: str, name: str, tmp_path: Path) -> None:
    text = "Name" if encoding == "shift_jis" else "Größe"
    content = f'user;{text}\r\n1;"two\nlines, ""quoted"""\r\n007;\r\n'.encode(encoding)
    path = tmp_path / name.replace("*", "1")
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    before = set(tmp_path.iterdir())
    command = shlex.split(lines.parquet_command(qf.CsvFile(tmp_path / name, delimiter=";", encoding=encoding)))
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (target,) = set(tmp_path.iterdir()) - before  # and no copy in another encoding is left behind
    assert parquet.read_table(target).to_pylist() == [
        {"user": "1", text: 'two\nlines, "quoted"'},
        {"user": "007", text: None},
    ]


def test_a_release_of_rows_protects_lines_and_says_so(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        1: "any one line of the file (a record with line breaks in it is several)",
        3: "any one person, who is promised to have at most 3 lines of the file",
    }
    for rows, words in expected.items():
        found = made(survey, qf.Rows(rows))
        assert found.promise is not None
        assert found.promise.protects == words
        assert lines.NOTE in found.notes
        elsewhere = made({"ward": ["a"]}, qf.Rows(rows))
        assert elsewhere.promise is not None
        assert elsewhere.promise.protects == qf.Rows(rows).describe()
        assert "line" not in elsewhere.promise.protects
        assert lines.NOTE not in elsewhere.notes
        out = survey.with_name("survey.qfr")
        found.save(out)
        assert main(["verify", str(out)]) == 0
        assert f"protects {words}" in capsys.readouterr().out
        write_report(survey.with_name("report.html"), found)
        assert words[1:] in survey.with_name("report.html").read_text()
        assert any(words in line for line in people_tables(qf.fit(found), release=found).statement)
        # As releases said before: the unit of the promise is the same.
        replace(found, promise=replace(found.promise, protects=qf.Rows(rows).describe())).save(out)
        qf.Release.load(out).check_promise()


def test_an_affirmation_stands_in_report_and_statement(survey: Path) -> None:
    found = made(qf.CsvFile(survey, one_line_per_record=True), PERSON)
    found.save(survey.with_name("survey.qfr"))
    found = qf.Release.load(survey.with_name("survey.qfr"))
    write_report(survey.with_name("report.html"), found)
    assert AFFIRMS in survey.with_name("report.html").read_text()
    assert any(AFFIRMS in line for line in people_tables(qf.fit(found), release=found).statement)


def test_the_command_line_asks_for_it(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, schema = survey.with_name("survey.qfr"), str(survey.with_name("schema.json"))
    said = ["--schema", schema, "--structure", '[["ward"]]', "--epsilon", "1", "--no-ledger", "--out", str(out)]
    for more in ([], ["--dry-run"]):
        assert main(["release", str(survey), *said, "--unit", "person:user:1", *more]) == 1
        assert "--one-line-per-record" in capsys.readouterr().err
    for more in ([], ["--json"]):
        assert main(["release", str(survey), *said, "--unit", "rows:1", "--dry-run", *more]) == 0
        assert "any one line of the file" in capsys.readouterr().out
    assert not out.exists()
    config = survey.with_name("release.toml")
    config.write_text('unit = "person:user:1"\none-line-per-record = true\n')
    assert main(["release", str(survey), *said, "--config", str(config)]) == 0
    assert AFFIRMS in capsys.readouterr().out
    assert lines.AFFIRMED in qf.Release.load(out).notes
    assert main(["release", "x.sav", *said, "--unit", "rows:1", "--one-line-per-record"]) == 1
    assert "--one-line-per-record is for CSV files" in capsys.readouterr().err


def test_a_check_tells_of_line_breaks(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["inspect", str(survey), "--schema", str(survey.with_name("schema.json"))]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "2 of 1,402 lines hold an odd number of quotes: a text with line breaks in it" in shown
    assert lines.parquet_command(survey) in shown
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["odd_quotes"] == 2
    survey.write_text('user,ward,text\n1,a,"say ""no"""\n')
    assert main(asked) == 0
    assert "odd number" not in capsys.readouterr().out


def test_psgd_reads_no_files(survey: Path) -> None:
    asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "population": 200, "ledger": None}
    for source in (survey, qf.CsvFile(survey), qf.StatFile("survey.sav")):
        with pytest.raises(qf.Error, match=f"not a {type(source).__name__}"):
            psgd(source, SCHEMA.domain, [("ward",)], **asked)


def test_it_is_said_or_not() -> None:
    with pytest.raises(qf.Error, match="one_line_per_record is True or False, not 'yes'"):
        qf.CsvFile("survey.csv", one_line_per_record="yes")  # type: ignore[arg-type]
