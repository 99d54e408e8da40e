"""The demonstration runs, shows commands that work, and refuses a folder with something in it."""

import re
import shlex
from pathlib import Path

import pytest

from quietfield import Release
from quietfield.cli import main


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a folder"
    assert main(["demo", "--rows", "300", "--folder", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} >= {"visits.csv", "schema.json", "budget.db", "visits.qfr"}
    release = Release.load(folder / "visits.qfr")
    assert release.epsilon == 1
    assert list(release.tables) == [("age", "smokes"), ("smokes", "visits")]
    rows = re.findall(r"^ +(no|yes) +(\d) +(-?\d+) +(\d+)$", shown, re.MULTILINE)
    assert [float(noisy) for _, _, noisy, _ in rows] == release.tables["smokes", "visits"].ravel().tolist()
    assert sum(int(true) for *_, true in rows) == 300
    commands = [shlex.split(line)[2:] for line in shown.splitlines() if line.startswith("$ quietfield")]
    assert [words[0] for words in commands] == ["ledger", "release", "verify"]
    assert main(commands[-1]) == 0
    assert main(["ledger", "show", str(folder / "budget.db")]) == 0
    assert "epsilon 1 of 4 is spent" in capsys.readouterr().out


def test_made_up_records_follow_the_seed_and_the_noise_does_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["demo", "--rows", "50", "--seed", "7", "--folder", str(tmp_path / name)]) == 0
    assert main(["demo", "--rows", "50", "--seed", "8", "--folder", str(tmp_path / "c")]) == 0
    records = [(tmp_path / name / "visits.csv").read_bytes() for name in "abc"]
    assert records[0] == records[1] != records[2]
    noisy = [Release.load(tmp_path / name / "visits.qfr").tables for name in "ab"]
    # All 16 cells agree by chance with probability below (1/4)**16: each of two Laplace draws of scale 2.
    assert any((noisy[0][clique] != noisy[1][clique]).any() for clique in noisy[0])


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["demo", "--folder", str(tmp_path)]) == 1
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_ends_where_a_command_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quietfield.curator.publish.release", fails)
    folder = tmp_path / "demo"
    assert main(["demo", "--folder", str(folder)]) == 1
    assert not (folder / "visits.qfr").exists()
