"""Long work shows one line on a terminal, and nothing anywhere else."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.status import is_terminal, show_status

pty = pytest.importorskip("pty")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    domain = qf.Domain({"sex": ["f", "m"], "smokes": ["no", "yes"]})
    tables = {("sex", "smokes"): [[500, 90], [310, 200]]}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1100)
    release.save("r.qfr")
    qf.fit(release).save("m.qfm")
    qf.Schema({"sex": ["f", "m"], "smokes": ["no", "yes"]}).save("schema.json")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other side of a terminal that is the error stream."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        yield ours
    os.close(ours)


COMMANDS = {
    "report": (["report", "r.qfr", "--model", "m.qfm"], "goodness of fit"),
    "compare": (["compare", "r.qfr", "--methods", "naive"], "distances"),
    "export": (["export", "m.qfm", "--out", "tables"], "margins of error"),
    "query": (["query", "m.qfm", "sex"], "error bars"),
    "preview": (
        ["preview", "schema.json", "--structure", "chain", "--records", "50", "--epsilon", "1", "--repeats", "1"],
        "plausible model 1 of",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_takes_long_shows_what_it_does(
    name: str, files: None, terminal: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = COMMANDS[name]
    assert main(words) == 0
    sys.stderr.flush()
    assert expected in os.read(terminal, 10**6).decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_terminal_nothing_is_shown(
    name: str, files: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMMANDS[name][0]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_terminal()


def test_a_call_in_python_is_silent_on_a_terminal_too_unless_asked(files: None, terminal: int) -> None:
    release, model = qf.Release.load("r.qfr"), qf.load("m.qfm")
    os.set_blocking(terminal, False)
    for progress in (False, True):
        qf.write_report("report.html", release, model, progress=progress)
        qf.people_tables(model, progress=progress)
        qf.compare(release, models={"m": model}, progress=progress)
        qf.preview(model.domain, [("sex",)], records=50, epsilons=[1], repeats=1, progress=progress)
        sys.stderr.flush()
        if not progress:
            with pytest.raises(BlockingIOError):
                os.read(terminal, 1)
    assert os.read(terminal, 10**6)


def test_work_within_work_shares_the_line(terminal: int) -> None:
    with show_status("outer", True), show_status("inner", True) as update:
        update("still inner")
    with show_status("after", True):
        pass
    sys.stderr.flush()
    shown = os.read(terminal, 10**6).decode()
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 2  # the cursor is hidden twice, and always back
