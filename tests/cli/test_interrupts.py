"""Ctrl-C ends a command wherever it is: in foreign code, while modules load, in callbacks that ignore exceptions."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

import quietfield as qf
from quietfield.files import TEMPORARY, remove_temporary, write_atomically

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")

BEGIN = """
import gc, hashlib, os, signal, sys, time
from quietfield.cli import interrupts

def leave():
    os.write(1, b"left")
    os._exit(130)

def ready(said=[]):
    if not said:
        said.append(True)
        print("ready", flush=True)

def wait():
    ready()
    for _ in range(10_000):
        time.sleep(0.02)
    print("never told")

if not sys.argv[1:]:  # all but what is to be left: however slow the machine, nothing else ends it
    interrupts.PATIENCE = 600.0
with interrupts.Interrupts(leave):
"""
#: What is at work when the signal comes, which it says itself, and what is said in the end.
CASES = {
    "foreign code, which sees no exception": ('ready()\nhashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)', "left"),
    "a module that loads": (
        "try:\n    import loads_slowly\n    wait()\nexcept KeyboardInterrupt:\n    print(loads_slowly.whole)",
        "True",
    ),
    "a callback that ignores exceptions": (
        "gc.callbacks.append(lambda *_: (ready(), time.sleep(0.3)))\ntry:\n    gc.collect()\n    gc.callbacks.clear()\n"
        '    wait()\nexcept KeyboardInterrupt:\n    print("told")',
        "told",
    ),
    "callbacks that always ignore exceptions": (
        "gc.callbacks.append(lambda *_: (ready(), time.sleep(0.01)))\nwhile True:\n    gc.collect()",
        "left",
    ),
    "work with its own way to be interrupted": (
        "heard = []\nsignal.signal(signal.SIGINT, lambda *_: heard.append(True))\nready()\n"
        "while not heard:\n    time.sleep(0.02)\ntime.sleep(1.8)\nprint('done')",
        "done",
    ),
    "an exception that is caught, and a second signal": (
        "try:\n    wait()\nexcept KeyboardInterrupt:\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "        wait()\n    except KeyboardInterrupt:\n        wait()",
        "left",
    ),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_is_an_interrupt(number: signal.Signals) -> None:
    script = BEGIN + "    try:\n        wait()\n    except KeyboardInterrupt:\n        print('told')\n"
    for ignored in (False, True):
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            # Whatever the tests themselves were started with.
            preexec_fn=partial(signal.signal, number, signal.SIG_IGN if ignored else signal.SIG_DFL),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        if ignored:  # as nohup has it
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
        assert (out.decode().strip(), process.returncode) == ("told", 0)


def wait_for_work(process: "subprocess.Popen[bytes]") -> None:
    """Foreign code cannot say that it has begun, but it works."""
    begun = psutil.Process(process.pid).cpu_times().user
    while psutil.Process(process.pid).cpu_times().user < begun + 0.2:
        time.sleep(0.02)


@pytest.mark.parametrize("case", CASES)
def test_it_ends_wherever_it_is(case: str, tmp_path: Path) -> None:
    body, said = CASES[case]
    (tmp_path / "loads_slowly.py").write_text(
        "import time, __main__\n__main__.ready()\nfor _ in range(30):\n    time.sleep(0.02)\nwhole = True\n"
    )
    script = BEGIN + "".join(f"    {line}\n" for line in body.splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", script, *(["soon"] if said in ("left", "done") else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if "pbkdf2" in body:
        wait_for_work(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert out.decode().strip() == said
    assert err == b""
    assert process.returncode == (130 if said == "left" else 0)


@pytest.mark.parametrize("seen", [True, False])
def test_advice_is_said_once_whoever_ends_the_work(seen: bool) -> None:
    body = "wait()" if seen else 'ready()\nhashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)'
    script = BEGIN + "    with interrupts.advise('go on'):\n" + "".join(f"        {x}\n" for x in body.splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", script, *([] if seen else ["soon"])], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if not seen:
        wait_for_work(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert err.decode().splitlines()[0] == "go on"
    assert err.count(b"go on\n") == 1
    assert out == (b"" if seen else b"left")


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

def compiles():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        if frame.f_code.co_filename.endswith(os.path.join("jax", "_src", "compiler.py")):
            return True
        frame = frame.f_back
    return False

def interrupt(when):
    while not (compiles() if when == "compiles" else when in sys.modules):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, args=(sys.argv.pop(1),), daemon=True).start()
from quietfield.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("when", ["jaxlib", "jax._src.lib", "compiles"])
def test_the_first_fit_of_a_command(when: str, tmp_path: Path) -> None:
    """While JAX is loaded, and while it compiles: 130, one word, and no file."""
    domain = qf.Domain({f"x{i}": 4 for i in range(40)})
    tables = {c: np.full((4, 4), 50.0) for c in qf.structures.chain(domain)}
    qf.Release.from_tables(domain, tables, noise=qf.Laplace(3.0), total=800).save(tmp_path / "r.qfr")
    command = [
        sys.executable,
        "-c",
        INTERRUPTED,
        when,
        "fit",
        "r.qfr",
        "--out",
        "m.qfm",
        "--method",
        "naive",
    ]
    # What was compiled before would not be compiled.
    fresh = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=fresh, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")
    assert os.listdir(tmp_path) == ["r.qfr"]


def test_it_ends_where_nobody_reads_any_more() -> None:
    """In a pipeline, Ctrl-C ends what reads before what writes."""
    reads, writes = os.pipe()
    os.close(reads)
    script = "from quietfield import cli\ncli._run = lambda *_: cli.INTERRUPTED\ncli.main()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, "--json"], stdout=subprocess.PIPE, stderr=writes, timeout=300, check=False
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
