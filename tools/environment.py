"""Make the virtual environment that the Makefile's targets run in: ``python3 tools/environment.py curator,dev``.

Runs on a bare Python 3.11+. Does nothing when the extras asked for are there already. One install runs at a time, in
however many terminals; one that fails or is interrupted is begun again by the next call.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
LOCK = ROOT / ".venv.lock"


def main() -> int:
    extras = set(sys.argv[1].split(","))
    if satisfied(extras):
        return 0
    with locked():
        if satisfied(extras):  # someone else installed it while we waited
            return 0
        try:
            install(extras)
        except subprocess.CalledProcessError as error:
            print(f"\nSetting up .venv failed (exit {error.returncode}); the reason stands above.", file=sys.stderr)
            print("Without a network, see docs/installation.md. Then run the same command again.", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nInterrupted; run the same command again to go on.", file=sys.stderr)
            return 130
    return 0


def key() -> str:
    """A digest of all that decides what is installed. The place counts: an editable install points to it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [project["project"], project["build-system"], (ROOT / "constraints.txt").read_text(), str(ROOT)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def installed() -> set[str]:
    """The extras that are there, as pyproject.toml and constraints.txt want them now."""
    try:
        stamp = json.loads(STAMP.read_text())
        return set(stamp["extras"]) if stamp["key"] == key() else set()
    except (OSError, ValueError, KeyError):
        return set()


def satisfied(extras: set[str]) -> bool:
    return extras <= installed() and PYTHON.exists()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    import fcntl

    with open(LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another set-up of .venv to end ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install(extras: set[str]) -> None:
    have = installed()
    STAMP.unlink(missing_ok=True)
    if not usable():
        create()
    listed = ",".join(sorted(extras))
    print(f"Installing quietfield[{listed}] into .venv; the first time takes some minutes ...", flush=True)
    # Relative paths: pip splits some options at spaces, and the checkout's own path may have them.
    exact = ["-c", "constraints.txt", "--build-constraint", "constraints.txt"]
    run(PYTHON, "-m", "pip", "install", "--quiet", "--upgrade", "-c", "constraints.txt", "pip")
    run(PYTHON, "-m", "pip", "install", "--quiet", *exact, "-e", f".[{listed}]")
    temporary = STAMP.with_suffix(".tmp")
    temporary.write_text(json.dumps({"key": key(), "extras": sorted(have | extras)}))
    os.replace(temporary, STAMP)


def usable() -> bool:
    """Whether there is an environment that still runs; its Python may have been removed, or its making cut short."""
    if not PYTHON.exists():
        return False
    code = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([PYTHON, "-c", code], stderr=subprocess.DEVNULL, cwd=ROOT, check=False).returncode == 0


def create() -> None:
    try:
        import ensurepip  # noqa: F401  # Debian takes it out of Python and into python3-venv
    except ImportError:
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", VENV)
        try:
            run(sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "-c", "constraints.txt", "pip")
        except subprocess.CalledProcessError:
            print("This Python has no ensurepip; on Debian or Ubuntu: apt install python3-venv", file=sys.stderr)
            raise
    else:
        run(sys.executable, "-m", "venv", "--clear", VENV)


def run(*command: str | Path) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([str(part) for part in command], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main())
