"""Long steps as commands in processes of their own, which go on without the page and without the server.

A job is known by the file that it writes. Files are whole or absent, so a job whose process has ended is done where its
file is there, and has failed where it is not: nothing else has to be kept, whoever was killed meanwhile.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from quietfield.files import hold_lock, write_atomically

#: Where a folder keeps what the studio knows of its jobs.
STATE = ".quietfield-studio"
#: The environment variable by which a job is told a passphrase, which stands on no command line and in no file.
PASSPHRASE = "QUIETFIELD_STUDIO_PASSPHRASE"


@dataclass(frozen=True)
class Job:
    """A command, as far as it got."""

    state: Literal["none", "running", "done", "failed"]
    command: tuple[str, ...] = ()
    seconds: float = 0.0
    output: str = ""
    errors: str = ""

    @property
    def text(self) -> str:
        """The command as one types it."""
        return command_text(self.command)


def command_text(command: "tuple[str, ...] | list[str]") -> str:
    """A command as one types it.

    >>> command_text(["release", "my visits.csv", "--epsilon", "1"])
    "quietfield release 'my visits.csv' --epsilon 1"
    """
    return shlex.join(["quietfield", *command])


class Jobs:
    """The jobs of one folder. Commands run in that folder, and name files as seen from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / STATE
        self.children: dict[int, subprocess.Popen[bytes]] = {}

    def find(self, target: str) -> Job:
        """The job that writes a file, or one in the state ``"none"``."""
        place = self._place(target)
        try:
            known = json.loads((place / "job.json").read_bytes())
        except OSError:
            return Job("done" if (self.folder / target).exists() else "none")
        there, running = (self.folder / target).exists(), self._runs(known)
        texts = [_read(place / name) for name in ("output", "errors")]
        state: Literal["running", "done", "failed"] = "running" if running else "done" if there else "failed"
        return Job(state, tuple(known["command"]), time.time() - known["started"], *texts)

    def start(self, target: str, command: list[str], passphrase: str | None = None) -> Job:
        """Start the job that writes a file, unless it runs or the file is there: whoever asks twice starts one."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        place = self._place(target)
        with hold_lock(self.root / "lock"):
            job = self.find(target)
            if job.state in ("running", "done"):
                return job
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(mode=0o700)
            environment = os.environ | ({} if passphrase is None else {PASSPHRASE: passphrase})
            with open(place / "output", "wb") as output, open(place / "errors", "wb") as errors:
                child = subprocess.Popen(
                    [sys.executable, "-m", "quietfield", *command],
                    cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                    start_new_session=True,  # it outlives the server, and Ctrl-C in the terminal is not for it
                )  # fmt: skip
            self.children[child.pid] = child
            known = {"command": command, "pid": child.pid, "born": _born(child.pid), "started": time.time()}
            write_atomically(place / "job.json", json.dumps(known).encode(), confidential=True)
        return self.find(target)

    def running(self) -> list[str]:
        """The commands that run now."""
        found = []
        for file in self.root.glob("*/job.json"):
            known = json.loads(file.read_bytes())
            if self._runs(known):
                found.append(command_text(known["command"]))
        return found

    def _place(self, target: str) -> Path:
        return self.root / hashlib.sha256(os.path.normpath(target).encode()).hexdigest()[:32]

    def _runs(self, known: dict[str, Any]) -> bool:
        child = self.children.get(known["pid"])
        if child is not None:
            return child.poll() is None
        return known["born"] is not None and _born(known["pid"]) == known["born"]


def _born(pid: int) -> float | None:
    """When a process began, which tells it from a later one of the same number; None for one that has ended."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
