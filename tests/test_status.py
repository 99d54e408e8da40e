"""Long work shows one line on a terminal. Elsewhere most commands show nothing, and the longest some plain lines."""

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from threading import Thread

import pytest
from rich.status import Status

import quietfield as qf
from quietfield import status
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


class Terminal:
    """A terminal for the error stream, and what was shown on it."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w")
        self.parts: list[bytes] = []
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while part := os.read(self.ours, 2**16):
            self.parts.append(part)
            if part.endswith(b"\x04"):
                return

    def shown(self) -> str:
        """All that was written; this ends it."""
        self.stream.write("\x04")
        self.stream.flush()
        self.reader.join(120)
        return b"".join(self.parts)[:-1].decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    # A text is drawn when it is set: else one that is soon followed by another may fall between two frames.
    update = Status.update
    monkeypatch.setattr(Status, "update", lambda status, text: update(status, text, spinner="dots"))
    yield made
    made.stream.close()
    os.close(made.ours)


COMMANDS = {
    "report": (["report", "r.qfr", "--model", "m.qfm"], "goodness of fit"),
    "compare": (["compare", "r.qfr", "--methods", "naive"], "distances"),
    "export": (["export", "m.qfm", "--out", "tables"], "margins of error"),
    "query": (["query", "m.qfm", "sex"], "error bars"),
    "plan": (
        ["plan", "schema.json", "--structure", "chain", "--records", "50", "--epsilon", "1", "--rehearse"],
        "plausible model 1 of",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_takes_long_shows_what_it_does(name: str, files: None, terminal: Terminal) -> None:
    words, expected = COMMANDS[name]
    with redirect_stderr(terminal.stream):
        assert main(words) == 0
    assert expected in terminal.shown()


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_terminal_nothing_is_shown(
    name: str, files: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMMANDS[name][0]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_terminal()


def test_without_a_terminal_plain_lines_tell_of_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    with show_status("outer", True), show_status("at once", True) as update:
        for second in range(25):
            now[0] += 1
            update(f"second {second}")
    with show_status("after", True):
        pass
    assert capsys.readouterr().err == "outer\nsecond 9\nsecond 19\nafter\n"
    monkeypatch.setattr(sys, "stderr", None)
    with show_status("nobody reads this", True) as update:
        update("nor this")


def test_the_last_plain_line_is_said_though_another_was_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # the clock stands still, so that a slow machine says nothing early
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(status, "PAUSE", 0.05)
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    patience = time.perf_counter() + 30
    with show_status("first", True) as update:
        update("soon over")
        update("takes long")
        now[0] += status.PAUSE
        while "takes" not in said.getvalue() and time.perf_counter() < patience:
            time.sleep(0.01)
        update("over before it is said")
    time.sleep(4 * status.PAUSE)
    assert said.getvalue() == "first\ntakes long\n"


def test_a_call_in_python_is_silent_on_a_terminal_too(files: None, terminal: Terminal) -> None:
    release, model = qf.Release.load("r.qfr"), qf.Model.load("m.qfm")
    with redirect_stderr(terminal.stream):
        qf.write_report("report.html", release, model)
        qf.people_tables(model)
        qf.compare(release, models={"m": model})
        qf.rehearse(model.domain, [("sex",)], records=50, epsilons=[1], repeats=1)
    assert terminal.shown() == ""


def test_work_within_work_shares_the_line(terminal: Terminal) -> None:
    with redirect_stderr(terminal.stream):
        with show_status("outer", True), show_status("inner", True) as update:
            update("still inner")
        with show_status("after", True):
            pass
    shown = terminal.shown()
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 2  # the cursor is hidden twice, and always back


def test_a_line_that_nobody_can_read_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Closed())
    with show_status("counting", True) as say:
        say("learning")
