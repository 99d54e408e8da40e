"""What a synthesis refuses before it is paid for, and what it keeps afterwards, whatever ends it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import quietfield as qf
from quietfield.cli import main
from quietfield.curator import synthesis

RNG = np.random.default_rng(5)
PEOPLE = {name: RNG.choice(["yes", "no", "maybe"], 4000, p=[0.5, 0.3, 0.2]).tolist() for name in ("a", "b", "c")}
ASKED = {"epsilon": 4, "delta": 1e-6, "unit": qf.Rows(1)}


def test_a_stream_that_can_be_read_once_is_refused_before_the_charge(tmp_path):
    """Its second reading would give no record: all would be noise, and paid for."""
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=4, delta=1e-6, unit=qf.Rows(1))
    table = pa.table(PEOPLE)
    with pytest.raises(qf.Error, match=r"read once.*stream\.read_all.*Nothing was charged"):
        qf.synthesize(table.to_reader(), ledger=ledger, **ASKED)
    assert not ledger.charges
    found = qf.synthesize(table, ledger=ledger, **ASKED)
    assert found.model.report.total == pytest.approx(4000, rel=0.1)


def test_tables_are_smaller_where_memory_is_little_and_nothing_that_is_paid_for_fails(monkeypatch):
    """Candidates of 2 ** 20 cells and more are held against memory."""
    columns = {f"n{i}": RNG.integers(0, 100, 4000).tolist() for i in range(20)}
    known = {name: qf.Cuts([*range(100)]) for name in columns if name != "n0"}
    monkeypatch.setattr("quietfield.curator.release.available_memory", lambda: 60 * 2**20)
    found = synthesis.charge_and_release(columns, synthesis.plan_synthesis(columns, known, **ASKED), None)
    assert any("for want of memory" in note for note in found.notes)
    assert all(part.values.size <= 5_000 for part in found.parts)


@pytest.mark.parametrize("place", ["learn", "Release.of"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_after_the_count_carries_the_release(place, error, monkeypatch):
    schema = qf.Schema({name: ["yes", "no", "maybe"] for name in PEOPLE})
    first = [True]
    original = qf.Release.of.__func__

    def fail(*_, **__):
        raise error

    def once(cls, content):
        if first.pop() if first else False:
            raise error
        return original(cls, content)

    if place == "learn":
        monkeypatch.setattr(synthesis, "learn", fail)
    else:
        monkeypatch.setattr(synthesis.Release, "of", classmethod(once))
    with pytest.raises(error) as caught:
        qf.synthesize(PEOPLE, schema, ledger=None, **ASKED)
    assert isinstance(caught.value.release, qf.Release)
    assert caught.value.release.check_promise()


def test_steps_that_fail_after_some_tables_give_them_as_a_release(monkeypatch):
    from quietfield.curator.steps import StepPlan

    publish = StepPlan.publish

    def broken(self, *given, **more):
        error = qf.Error("no")
        error.release = publish(self, *given, **more)
        raise error

    monkeypatch.setattr(StepPlan, "publish", broken)
    with pytest.raises(qf.Error, match="no") as caught:
        qf.synthesize(PEOPLE, ledger=None, **ASKED)
    assert isinstance(caught.value.release, qf.Release)


def test_a_release_without_a_schema_is_no_synthesis(tmp_path):
    domain = qf.Domain({"a": 2})
    release = qf.Release.from_tables(domain, {("a",): np.array([30.0, 60.0])}, noise=qf.Laplace(1))
    qf.fit(release).save(tmp_path / "m.qfm")
    with pytest.raises(qf.Error, match="no schema"):
        synthesis.Synthesis.load(release, tmp_path / "m.qfm")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_run_that_goes_on_writes_over_nobodys_file(ending, tmp_path, monkeypatch, capsys):
    """Without the data card that names it, a file at --out may be the source itself, or anybody's."""
    monkeypatch.chdir(tmp_path)
    table = pa.table(PEOPLE)
    parquet.write_table(table, "people.parquet")
    csv.write_csv(table, "people.csv")
    qf.Schema({name: ["yes", "no", "maybe"] for name in PEOPLE}).save("schema.json")
    qf.Ledger.create("budget.db", epsilon=4, delta=1e-6, unit=qf.Rows(1))
    words = ["synthesize", f"people.{ending}", "--schema", "schema.json", "--epsilon", "4", "--delta", "1e-6"]
    words += ["--unit", "rows:1", "--ledger", "budget.db", "--id", "0123456789abcdef" * 2, "--no-report", "--out"]
    if ending == "csv":
        words.insert(1, "--one-line-per-record")
    monkeypatch.setattr("quietfield.cli.synthesize.learn", _interrupt)
    other = "made.csv" if ending == "parquet" else "made.parquet"
    assert main([*words, other]) == 130
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    Path("people.qfr").write_bytes(Path("made.qfr").read_bytes())
    held = {name: Path(name).read_bytes() for name in ("people.csv", "people.parquet")}
    for taken in held:
        assert main([*words, taken]) == 1
    Path(other).write_text("my,own,notes\n")
    assert main([*words, other]) == 1
    assert main([*words, other, "--force"]) == 1
    assert Path(other).read_text() == "my,own,notes\n"
    assert held == {name: Path(name).read_bytes() for name in held}
    Path(other).unlink()
    capsys.readouterr()
    assert main([*words, other, "--structure", "chain"]) == 1
    assert "differs in tables" in capsys.readouterr().err
    assert main([*words, other]) == 0


def _interrupt(*_, **__):
    raise KeyboardInterrupt


def test_a_dry_run_names_the_tables_that_are_added(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    more = {name: [0] * 4000 for name in "de"}
    parquet.write_table(pa.table(PEOPLE | more), "people.parquet")
    qf.Schema({**{name: ["yes", "no", "maybe"] for name in PEOPLE}, "d": [0, 1], "e": [0, 1]}).save("schema.json")
    words = ["synthesize", "people.parquet", "--schema", "schema.json", "--epsilon", "4", "--delta", "1e-6"]
    words += ["--unit", "rows:1", "--no-ledger", "--out", "made.csv", "--dry-run"]
    assert main([*words, "--structure", "chain"]) == 0
    assert "6 tables; these attributes are also measured by themselves: 'a', 'b'" in capsys.readouterr().out
    assert main(words) == 0
    assert "chosen privately among " in capsys.readouterr().out
