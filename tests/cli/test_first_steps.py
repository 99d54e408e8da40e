"""What somebody meets who tries the commands for the first time: each mistake names the way on."""

import sqlite3
from fractions import Fraction

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.curator.synthesis import plan_synthesis
from quietfield.files import temporary_neighbour

PAY = ["--epsilon", "4", "--delta", "1e-7", "--unit", "rows:1"]


@pytest.fixture
def people(tmp_path):
    rows = np.random.default_rng(0).integers(0, 2, (3000, 2))
    path = tmp_path / "people.csv"
    path.write_text("smokes,coughs\n" + "".join(f"{'yn'[a]},{'yn'[b]}\n" for a, b in rows))
    return path


def test_a_release_of_something_else_is_not_continued(people, tmp_path, capsys):
    out, name = tmp_path / "made.csv", "0123456789abcdef" * 2
    words = ["--header", *PAY, "--no-ledger", "--no-report", "--out", str(out), "--id", name]
    assert main(["synthesize", str(people), *words]) == 0
    out.unlink()
    assert main(["synthesize", str(people), *words]) == 0
    assert "it is continued, and nothing is charged" in capsys.readouterr().err
    other = tmp_path / "other.csv"
    other.write_text("height,weight\n1,2\n")
    assert main(["synthesize", str(other), *words]) == 1
    assert "made under this id, and differs in columns" in capsys.readouterr().err
    changed = [word if word != "4" else "5" for word in words]
    assert main(["synthesize", str(people), *changed]) == 1
    assert "differs in epsilon" in capsys.readouterr().err
    changed = [word if word != "rows:1" else "rows:2" for word in words]
    assert main(["synthesize", str(people), *changed]) == 1
    assert "differs in unit" in capsys.readouterr().err


def test_what_is_known_of_some_columns_leaves_no_other_out(people, tmp_path, capsys):
    rules, out = tmp_path / "known.json", tmp_path / "made.csv"
    qf.Schema({"smokes": qf.Labels(["n", "y"])}).save(rules)
    words = ["synthesize", str(people), "--header", *PAY, "--no-ledger", "--no-report", "--out", str(out)]
    assert main([*words, "--known", str(rules)]) == 0
    assert set(out.read_text().splitlines()[0].replace('"', "").split(",")) == {"smokes", "coughs"}
    schema = qf.Schema(
        {"smokes": qf.Labels(["n", "y"]), "coughs": qf.Labels(["n", "y"])}, impossible=[{"smokes": "y", "coughs": "y"}]
    )
    schema.save(rules)
    assert main([*words, "--known", str(rules), "--force"]) == 1
    assert "discover a schema first" in capsys.readouterr().err


def test_an_interrupted_release_says_so_again_when_it_is_continued(people, tmp_path, capsys, interrupt_second_round):
    wide = tmp_path / "wide.csv"
    rows = np.random.default_rng(0).integers(0, 2, (3000, 6))
    wide.write_text("a,b,c,d,e,f\n" + "".join(",".join("yn"[x] for x in row) + "\n" for row in rows))
    words = ["synthesize", str(wide), "--header", *PAY, "--no-ledger", "--no-report", "--out", str(tmp_path / "m.csv")]
    words += ["--id", "0123456789abcdef" * 2]
    with interrupt_second_round():
        code = main(words)
    if code == 0:
        pytest.skip("nothing was chosen twice")
    assert code == 130
    capsys.readouterr()
    assert main(words) == 0
    assert "not all that was paid is spent" in capsys.readouterr().err


def test_a_dry_run_tells_what_numbers_take_and_warns_of_many_columns(tmp_path, capsys):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(100)) + "\n" + ",".join(["1"] * 100) + "\n")
    words = ["synthesize", str(path), "--header", "--epsilon", "1", "--delta", "1e-7", "--unit", "rows:1"]
    assert main([*words, "--no-ledger", "--out", str(tmp_path / "made.csv"), "--dry-run"]) == 0
    said = capsys.readouterr()
    plan = plan_synthesis(path, header=True, epsilon=1, delta="1e-7", unit=qf.Rows(1)).discovery
    needed = plan.least_of_kinds
    assert needed["numbers"] > plan.least_values
    assert f"{needed['numbers']:,} numbers or {needed['dates']:,} dates" in said.out
    assert "100 columns share a tenth of the budget" in said.err


def test_files_of_databases_and_texts_name_the_way_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = sqlite3.connect("h.sqlite")
    connection.execute("CREATE TABLE visits (a)")
    connection.close()
    assert main(["synthesize", "h.sqlite", *PAY, "--no-ledger", "--out", "m.csv"]) == 1
    assert "sqlite://h.sqlite#TABLE" in capsys.readouterr().err
    (tmp_path / "x.txt").write_text("a,b\n1,2\n")
    for words in (["synthesize", "x.txt", *PAY, "--no-ledger", "--out", "m.csv"], ["schema", "x.txt"]):
        assert main([*words, "--header"]) == 1
        assert "--delimiter ','" in capsys.readouterr().err


def test_of_is_for_one_method(tmp_path, capsys):
    assert main(["fit", "r.qfr", "--of", "records", "--method", "naive", "--out", str(tmp_path / "m.qfm")]) == 1
    assert "--of is for the method map." in capsys.readouterr().err


def test_a_refusal_in_rho_tells_epsilon(tmp_path):
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=1, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    with pytest.raises(qf.BudgetExceeded, match=r"rho 2 \(epsilon 5\) is asked for"):
        ledger.check(epsilon=5, delta="1e-6", rho=Fraction(2), unit=qf.Rows(1), neighbours="add_remove")


def test_a_temporary_name_that_is_not_there_is_not_removed(tmp_path, monkeypatch):
    """A file system for reading alone complains about that, and by a name that nobody knows."""

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    with temporary_neighbour(tmp_path / "b.csv"):
        pass


def test_error_bars_have_the_digits_that_tell_their_ends_apart(tmp_path, capsys):
    domain = qf.Domain({"a": ["x", "y"]})
    noise, counts = qf.Laplace(50.0), np.array([3_000_000.0, 997_000_000.0])
    release = qf.Release.from_tables(domain, {("a",): counts}, noise=noise, total=1_000_000_000)
    qf.fit(release).save(tmp_path / "m.qfm")
    assert main(["query", str(tmp_path / "m.qfm"), "a"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("x"))
    low, _, high = line.split()[-3:]
    assert low != high


def test_a_release_says_how_many_records_it_counted(people, tmp_path, capsys):
    qf.Schema({"smokes": ["y", "n"], "coughs": ["y", "n"]}).save(tmp_path / "s.json")
    words = ["release", str(people), "--schema", str(tmp_path / "s.json"), "--structure", "chain", "--epsilon", "5"]
    assert main([*words, "--unit", "rows:1", "--no-ledger", "--out", str(tmp_path / "r.qfr")]) == 0
    said = capsys.readouterr().out
    assert "counted     about " in said
    assert "records, as the noisy tables say" in said


def test_lines_are_inspected_without_a_schema(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text('a;b\n1;2\n1;2;3\n"1;2\n')
    assert main(["inspect", str(path), "--delimiter", ";", "--encoding", "cp1252"]) == 0
    said = capsys.readouterr().out
    assert "NOT PRIVATE" in said
    assert "2 of 3 lines are broken" in said
    assert f"quietfield schema {path} --delimiter ';' --encoding cp1252 --out schema.json (and --header" in said
    path.write_text("a,b\n1,2\n")
    assert main(["inspect", str(path)]) == 0
    assert "All of 1 line" in capsys.readouterr().out


def test_a_wrong_choice_is_told_plainly(tmp_path, capsys):
    assert main(["fit", "r.qfr", "--method", "foo", "--out", str(tmp_path / "m.qfm")]) == 2
    said = capsys.readouterr().err
    assert "Value error" not in said
    assert "'foo' is not one of 'map'" in said
