"""The configuration file: what it says is done, what is said at the command line wins, and mistakes are told."""

import json
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import main

CSV = "age,sex\n" + "20,f\n70,m\n30,f\n" * 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with records, a schema and a ledger, whose own name would be a pattern."""
    folder = tmp_path / "study [2024]"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "people-1.csv").write_text(CSV)
    (folder / "data" / "people-2.csv").write_text(CSV)
    qf.Schema({"age": qf.Cuts([65]), "sex": ["f", "m"]}).save(folder / "schema.json")
    qf.Ledger.create(folder / "budget.db", epsilon=3, unit=qf.Rows(1))
    return folder


def write(folder: Path, text: str) -> str:
    (folder / "release.toml").write_text(text)
    return str(folder / "release.toml")


WHOLE = """
data = "data/people-*.csv"
schema = "schema.json"
structure = [["age", "sex"]]
epsilon = 0.1
unit = { kind = "rows", rows = 1 }
ledger = "budget.db"
out = "people.qfr"
total = true
"""


def test_a_file_says_all(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["release", "--config", write(folder, WHOLE)]) == 0
    release = qf.Release.load(folder / "people.qfr")
    assert release.promise is not None
    assert release.promise.epsilon * 10 == 1  # as written, and not the nearest float
    assert release.total is not None
    assert float(qf.Ledger(folder / "budget.db").remaining) == 2.9


def test_the_command_line_wins(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(folder, WHOLE)
    out = str(tmp_path / "other.qfr")
    said = ["--epsilon", "1/2", "--out", out, "--structure", "chain", "--total", "no", "--json"]
    assert main(["release", "--config", file, *said]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == out
    release = qf.Release.load(out)
    assert release.epsilon == 0.5
    assert release.total is None
    assert not (folder / "people.qfr").exists()


def test_who_pays_can_be_said_anew(folder: Path, tmp_path: Path) -> None:
    file = write(folder, WHOLE)
    assert main(["release", "--config", file, "--no-ledger"]) == 0
    assert qf.Ledger(folder / "budget.db").remaining == 3
    free = write(folder, WHOLE.replace('ledger = "budget.db"', "no-ledger = true"))
    out = ["--out", str(tmp_path / "paid.qfr")]
    assert main(["release", "--config", free, "--ledger", str(folder / "budget.db"), *out]) == 0
    assert float(qf.Ledger(folder / "budget.db").remaining) == 2.9
    assert main(["release", "--config", file, "--ledger", str(folder / "budget.db"), "--no-ledger", *out]) == 1


def test_a_dry_run_pays_nothing_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "--config", write(folder, WHOLE), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "nothing was paid; the data are there and were not looked at" in shown
    assert "epsilon 1/10" in shown or "epsilon 0.1" in shown
    assert qf.Ledger(folder / "budget.db").remaining == 3
    assert not (folder / "people.qfr").exists()


def test_data_and_structure_as_files(folder: Path) -> None:
    (folder / "cliques.json").write_text('[["age", "sex"]]')
    file = write(folder, WHOLE.replace('[["age", "sex"]]', '"cliques.json"').replace("people-*.csv", "people-1.csv"))
    assert main(["release", "--config", file]) == 0


@pytest.mark.parametrize("weights", ["equal", "by_size", "weights.json"])
def test_weights_are_a_word_or_a_file(folder: Path, weights: str) -> None:
    (folder / "weights.json").write_text('[[["age", "sex"], 2]]')
    assert main(["release", "--config", write(folder, WHOLE + f"weights = '{weights}'\n"), "--dry-run"]) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("epsilom = 1", "no setting 'epsilom'; did you mean 'epsilon'?"),
        ("colour = 'red'", "no setting 'colour'; expected some of 'against', 'data', 'delimiter', 'delta', 'encoding'"),
        ("force = true", "no setting 'force'; it is said on the command line"),
        ("dry-run = true", "no setting 'dry-run'; it is said on the command line"),
        ("noise = ['laplace']", "noise is a text or a number, not a list or a table"),
        ("no_ledger = 'yes'", "no_ledger is true or false, not 'yes'"),
        ("delta = 2024-01-01", "delta is a text or a number, not a date"),
        ("x = = 1", "is not TOML"),
        ("[release]\nepsilon = 1", "no setting 'release'"),
    ],
)
def test_mistakes_are_told_and_cost_nothing(
    folder: Path, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["release", "--config", write(folder, WHOLE + line + "\n")]) == 1
    shown = capsys.readouterr()
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert qf.Ledger(folder / "budget.db").remaining == 3


def test_what_is_missing_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "--config", write(folder, WHOLE.replace("epsilon = 0.1", ""))]) == 2
    assert "--epsilon" in capsys.readouterr().err
    assert main(["release", "--config", str(folder / "absent.toml")]) == 1
    assert "absent.toml" in capsys.readouterr().err
    (folder / "latin.toml").write_bytes(b"data = '\xe9'")
    assert main(["release", "--config", str(folder / "latin.toml")]) == 1
    assert "not UTF-8" in capsys.readouterr().err


def test_the_file_itself_is_not_overwritten(folder: Path) -> None:
    file = write(folder, WHOLE.replace("people.qfr", "release.toml"))
    assert main(["release", "--config", file, "--force"]) == 1
    assert "epsilon" in Path(file).read_text()


@pytest.mark.parametrize("listed", ["'start.json'", "['start.json', 'people.qfr']"])
def test_options_that_may_be_repeated_are_a_text_or_a_list(folder: Path, listed: str) -> None:
    assert main(["ledger", "anchor", str(folder / "budget.db"), "--out", str(folder / "start.json")]) == 0
    assert main(["release", "--config", write(folder, WHOLE)]) == 0
    said = write(folder, WHOLE + f"against = {listed}\n")
    assert main(["release", "--config", said, "--out", str(folder / "second.qfr")]) == 0
    assert main(["release", "--config", write(folder, WHOLE + "against = 'none.qfr'\n"), "--dry-run"]) == 1
