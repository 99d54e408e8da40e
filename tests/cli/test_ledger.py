"""``quietfield ledger``: its name is shown, what is no ledger is told calmly, and charges elsewhere are not in it."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


CREATE = ["ledger", "create", "budget.db", "--unit", "rows:1"]


def test_the_name_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, "--epsilon", "4", "--name", "visits\x1b[2J"]) == 0
    assert capsys.readouterr().out.startswith("Ledger of visits\\x1b[2J\n")
    assert main(["ledger", "show", "budget.db"]) == 0
    assert capsys.readouterr().out.startswith("Ledger of visits\\x1b[2J\nepsilon 0 of 4 is spent")
    assert main(["ledger", "create", "plain.db", "--unit", "rows:1", "--epsilon", "4"]) == 0
    assert capsys.readouterr().out.startswith("epsilon 0 of 4 is spent")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "for instance: quietfield ledger create budget.db --unit rows:1 --epsilon 4."),
        (["--accounting", "pure", "--epsilon", "1", "--delta", "1e-6"], "--delta and --rho go with --accounting zcdp"),
        (["--accounting", "pure", "--rho", "1"], "--delta and --rho go with --accounting zcdp"),
        (["--rho", "1"], "a zcdp ledger has --delta"),
        (["--accounting", "zcdp"], "--unit rows:1 --epsilon 2 --delta 1e-6."),
        (["--accounting", "zcdp", "--epsilon", "1"], "a zcdp ledger has --delta"),
        (["--accounting", "zcdp", "--epsilon", "1", "--rho", "1", "--delta", "1e-6"], "(not both)"),
        (["--accounting", "sum", "--epsilon", "1"], "'pure' or 'zcdp', not 'sum'"),
    ],
)
def test_a_total_that_is_not_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, *words]) == 1
    assert said in capsys.readouterr().err
    assert not Path("budget.db").exists()


def test_what_is_no_ledger_is_told_calmly(capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("age,sex\n3,f\n")
    schema = qf.Schema({"age": [3, 4], "sex": ["f", "m"]})
    schema.save("schema.json")
    qf.Model(schema.domain, {("age", "sex"): np.zeros((2, 2))}).save("m.qfm")
    asked = ["release", "people.csv", "--schema", "schema.json", "--structure", "chain", "--unit", "rows:1"]
    for path, kind in (("people.csv", ""), ("m.qfm", " but a model")):
        for words in (["ledger", "show", path], [*asked, "--epsilon", "1", "--ledger", path, "--out", "r.qfr"]):
            assert main(words) == 1
            said = capsys.readouterr().err
            assert said.startswith(f"Error: {path} is not a ledger{kind}. A ledger is a file that")
            assert "quietfield ledger show budget.db" in said
            assert "nothing may be released" not in said
    assert main(["ledger", "show", "absent.db"]) == 1
    assert "there is no ledger at absent.db" in capsys.readouterr().err
    assert main(["ledger", "show", "."]) == 1
    assert "there is no ledger at ." in capsys.readouterr().err


def test_a_ledger_that_is_damaged_is_still_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, "--epsilon", "4"]) == 0
    data = Path("budget.db").read_bytes()
    Path("budget.db").write_bytes(data[: len(data) // 2])
    assert main(["ledger", "show", "budget.db"]) == 1
    said = capsys.readouterr().err
    assert "damaged" in said
    assert "count what was released since as spent" in said
    assert "ledger create" not in said
    connection = sqlite3.connect("other.db")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    Path("empty.db").touch()  # what a full disk leaves
    for path in ("other.db", "empty.db"):
        assert main(["ledger", "show", path]) == 1
        said = capsys.readouterr().err
        assert f"{path} is not a ledger. A ledger is a file that" in said
        assert "restore it from a copy, and count what was released since as spent" in said


def test_a_release_that_this_ledger_did_not_pay_for_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("age\n3\n")
    schema = qf.Schema({"age": [3, 4]})
    for name in ("ours", "other"):
        book = qf.Ledger.create(f"{name}.db", epsilon=4, unit=qf.Rows(1))
        qf.release("people.csv", schema, [("age",)], epsilon=1, unit=qf.Rows(1), ledger=book).save(f"{name}.qfr")
    qf.release("people.csv", schema, [("age",)], epsilon=1, unit=qf.Rows(1), ledger=None).save("none.qfr")
    asked = ["ledger", "show", "ours.db", "--against"]
    assert main([*asked, "ours.qfr"]) == 0
    for name, said in (("other.qfr", "charged to another ledger"), ("none.qfr", "charged to no ledger")):
        capsys.readouterr()
        assert main([*asked, name, "ours.qfr"]) == 1
        assert capsys.readouterr().out.endswith(f"{name}: {said}\nours.qfr: charge 1\n")
        assert main([*asked, name, "ours.qfr", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["against"] == {name: said, "ours.qfr": "charge 1"}
