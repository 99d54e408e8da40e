"""Ctrl-C ends a command wherever it is: in foreign code, while modules load, in callbacks that ignore exceptions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.files import TEMPORARY, remove_temporary, write_atomically

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")

BEGIN = """
import gc, hashlib, os, signal, sys, time
from quietfield.cli.interrupts import Interrupts
from quietfield.files import TEMPORARY, remove_temporary

def leave():
    os.write(1, b"left")
    os._exit(130)

def wait():
    for _ in range(400):
        time.sleep(0.02)
    print("never told")

with Interrupts(leave):
    print("ready", flush=True)
"""
CASES = {
    "foreign code, which sees no exception": ('hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)', "left"),
    "a module that loads": (
        "try:\n    import loads_slowly\n    wait()\nexcept KeyboardInterrupt:\n    print(loads_slowly.whole)",
        "True",
    ),
    "a callback that ignores exceptions": (
        "gc.callbacks.append(lambda *_: time.sleep(0.3))\ntry:\n    gc.collect()\n    gc.callbacks.clear()\n"
        '    wait()\nexcept KeyboardInterrupt:\n    print("told")',
        "told",
    ),
    "callbacks that always ignore exceptions": (
        "gc.callbacks.append(lambda *_: time.sleep(0.01))\nwhile True:\n    gc.collect()",
        "left",
    ),
    "work with its own way to be interrupted": (
        "signal.signal(signal.SIGINT, lambda *_: None)\ntime.sleep(1.8)\nprint('done')",
        "done",
    ),
    "an exception that is caught, and a second signal": (
        "try:\n    wait()\nexcept KeyboardInterrupt:\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "        wait()\n    except KeyboardInterrupt:\n        wait()",
        "left",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_within_a_second_or_two(case: str, tmp_path: Path) -> None:
    body, said = CASES[case]
    (tmp_path / "loads_slowly.py").write_text("import time\nfor _ in range(30):\n    time.sleep(0.02)\nwhole = True\n")
    script = BEGIN + "".join(f"    {line}\n" for line in body.splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out.decode().strip() == said
    assert err == b""
    assert time.monotonic() - asked < 5
    assert process.returncode == (130 if said == "left" else 0)


def test_outside_of_it_signals_are_as_before() -> None:
    from quietfield.cli.interrupts import Interrupts

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), sys.unraisablehook
    with Interrupts(lambda: None), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before


def test_other_signals_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from quietfield.cli import interrupts

    monkeypatch.setattr(interrupts, "PATIENCE", 0.05)
    left: list[bool] = []
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        with interrupts.Interrupts(lambda: left.append(True)):
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0.3)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]
    assert not left


INTERRUPTED = """
import os, signal, sys, threading, time

def interrupt(loaded, later):
    while loaded not in sys.modules:
        time.sleep(0.001)
    time.sleep(later)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, args=(sys.argv.pop(1), float(sys.argv.pop(1))), daemon=True).start()
from quietfield.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("loaded", "later"), [("jaxlib", 0.0), ("jax._src.lib", 0.0), ("quietfield.learning.naive", 0.6)]
)
def test_the_first_fit_of_a_command(loaded: str, later: float, tmp_path: Path) -> None:
    """While JAX is loaded, and while it compiles: 130, one word, and no file."""
    domain = qf.Domain({f"x{i}": 4 for i in range(40)})
    tables = {c: np.full((4, 4), 50.0) for c in qf.structures.chain(domain)}
    qf.Release.from_tables(domain, tables, noise=qf.Laplace(3.0), total=800).save(tmp_path / "r.qfr")
    command = [
        sys.executable,
        "-c",
        INTERRUPTED,
        loaded,
        str(later),
        "fit",
        "r.qfr",
        "--out",
        "m.qfm",
        "--method",
        "naive",
    ]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")
    assert os.listdir(tmp_path) == ["r.qfr"]


def test_it_ends_where_nobody_reads_any_more() -> None:
    """In a pipeline, Ctrl-C ends what reads before what writes."""
    reads, writes = os.pipe()
    os.close(reads)
    script = "from quietfield import cli\ncli._run = lambda *_: cli.INTERRUPTED\ncli.main()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, "--json"], stdout=subprocess.PIPE, stderr=writes, timeout=60, check=False
        )
    finally:
        os.close(writes)
    assert done.returncode == 130
    assert json.loads(done.stdout) == {"error": "Interrupted.", "exit_code": 130}


def test_what_is_being_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def killed(*_: object) -> None:
        seen.append(os.listdir(tmp_path))
        remove_temporary()
        seen.append(os.listdir(tmp_path))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", killed)
        with pytest.raises(qf.Error, match="No space left"):
            write_atomically(tmp_path / "a.txt", b"whole")
    assert len(seen[0]) == 1
    assert seen[1] == []
    assert not TEMPORARY
    write_atomically(tmp_path / "a.txt", b"whole")
    remove_temporary()
    assert (tmp_path / "a.txt").read_bytes() == b"whole"
