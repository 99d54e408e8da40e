"""What happens to a release that is paid for, when something else fails."""

import subprocess
import sys
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import main, outputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("a,b\n1,2\n2,1\n")
    qf.Schema({"a": [1, 2], "b": [1, 2]}).save("s.json")
    qf.Ledger.create("l.db", epsilon=10, unit=qf.Rows(1))
    return tmp_path


WHAT = ["release", "d.csv", "--schema", "s.json", "--structure", "chain", "--unit", "rows:1"]
SAID = [*WHAT, "--epsilon", "1", "--ledger", "l.db", "--out", "r.qfr"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_standard_output_is_no_reason_to_pay_again(folder: Path, flags: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "quietfield", *SAID, *flags], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 0
    assert done.stderr.decode() == "r.qfr is written; the standard output is not: No space left on device.\n"
    assert qf.Release.load("r.qfr").ledger is not None


@pytest.mark.parametrize(
    ("failure", "said"), [(KeyboardInterrupt(), "Error: Interrupted."), (MemoryError(), "Error: writing r.qfr failed.")]
)
def test_a_paid_release_is_kept_whatever_stops_its_writing(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException,
    said: str,
) -> None:
    written, failures = outputs._write_release, [failure]

    def once(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return written(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(outputs, "_write_release", once)
    assert main(SAID) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"{said} The release is made and the charge stands")
    (kept,) = folder.glob("r.qfr.*.qfr")
    assert kept.name in told
    assert qf.Release.load(kept).ledger is not None


def test_a_count_that_fails_says_that_it_was_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quietfield.curator import counting
    from quietfield.errors import Unreadable

    def fails(*_: object, **__: object) -> None:
        raise Unreadable("the data could not be read.")

    monkeypatch.setattr(counting, "count", fails)
    assert main(SAID) == 1
    assert capsys.readouterr().err == (
        "Error: the data could not be read. It was charged before the data were read, and the charge stands. "
        f"{outputs.NOTHING_KEPT}\n"
    )
    assert qf.Ledger("l.db").spent == 1
    assert not Path("r.qfr").exists()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(counting, "count", interrupted)
    assert main(SAID) == 130
    assert capsys.readouterr().err.startswith("It was charged before the data were read, and the charge stands.\n")


def test_a_disk_without_room_is_found_out_before_the_charge(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=16))
    assert main(SAID) == 1
    assert "16 bytes is free there" in capsys.readouterr().err
    assert qf.Ledger("l.db").spent == 0


def test_an_interrupted_score_says_that_it_was_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quietfield.curator import score as evaluate

    qf.Model(qf.Schema.load("s.json").domain, {("a",): [0.0, 1.0]}).save("m.qfm")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate.mechanism, "draw_noise", interrupted)
    asked = ["score", "m.qfm", "d.csv", "--schema", "s.json", "--epsilon", "1", "--ledger", "l.db"]
    assert main(asked) == 130
    assert capsys.readouterr().err.startswith("It was charged before the data were read, and the charge stands.\n")
    assert qf.Ledger("l.db").spent == 1


def test_one_id_is_charged_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "0123456789abcdef" * 2
    assert main([*SAID, "--id", name]) == 0
    assert qf.Release.load("r.qfr").id == name
    for out in ("again.qfr", "r.qfr"):
        assert main([*SAID[:-1], out, "--force", "--id", name]) == 1
        assert "already charged" in capsys.readouterr().err
    assert [charge.release for charge in qf.Ledger("l.db").charges] == [name]
    assert not (folder / "again.qfr").exists()
    left = str(qf.Ledger("l.db").remaining)
    qf.Ledger("l.db").charge("all that is left", epsilon=left, unit=qf.Rows(1), neighbours="add_remove")
    assert main([*SAID[:-1], "again.qfr", "--id", name]) == 1
    assert "already charged" in capsys.readouterr().err  # and not that the budget has run out: the release was made


@pytest.mark.parametrize("name", ["", "visits", "0123456789ABCDEF" * 2, "0" * 31, "0" * 33, "0" * 32 + "\n"])
def test_an_id_that_is_none_is_refused_and_costs_nothing(folder: Path, name: str) -> None:
    assert main([*SAID, "--id", name]) == 1
    assert qf.Ledger("l.db").charges == ()
