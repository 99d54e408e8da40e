"""Run by test_crashes.py: release after release in forked processes that are killed at every kind of moment.

Usage: python crashing.py FOLDER KILLS SEED. Prints one JSON object; exits with 1 at the first broken promise.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np

import quietfield as qf
from quietfield.curator.ledger import Ledger
from quietfield.errors import BudgetExceeded, FileError

SCHEMA = qf.Schema({"a": [0, 1], "b": [0, 1]})
DATA = np.array([[0, 1], [1, 1], [0, 0]])
POINTS = ["commit-before", "commit-after", "rename-before", "rename-after", "sync-before", "sync-after", "insert-after"]
EPSILON = Fraction(1, 100)
AT_ONCE = 2


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def inject(point: str, turn: int) -> None:
    """Make this process kill itself at a point, the given number of passages from now."""
    where, when = point.split("-")
    left = [turn]

    def around(action, *arguments, **named):
        left[0] -= 1
        if left[0] == 0 and when == "before":
            die()
        result = action(*arguments, **named)
        if left[0] == 0:
            die()
        return result

    if where in ("commit", "insert"):
        word = "COMMIT" if where == "commit" else "INSERT"

        class Connection(sqlite3.Connection):
            def execute(self, sql, *arguments):
                if sql.startswith(word):
                    return around(super().execute, sql, *arguments)
                return super().execute(sql, *arguments)

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, factory=Connection, **k)
    elif where == "rename":
        replace = os.replace
        os.replace = lambda *a, **k: around(replace, *a, **k)
    else:
        fsync = os.fsync
        os.fsync = lambda *a, **k: around(fsync, *a, **k)


def work(folder: Path) -> None:
    """Release and save until killed or out of budget."""
    while True:
        try:
            release = qf.release(
                DATA, SCHEMA, [("a", "b")], epsilon=EPSILON, unit=qf.Rows(1), ledger=folder / "budget.db"
            )
        except BudgetExceeded:
            os._exit(0)
        release.save(folder / f"{release.id}.qfr")


def start(folder: Path, point: str | None, turn: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            if point is not None:
                inject(point, turn)
            work(folder)
        except BaseException as error:  # noqa: BLE001  # a forked child must never fall through into the parent's code
            print(f"child failed: {error!r}", file=sys.stderr, flush=True)
            os._exit(3)
    return pid


def ended(pid: int, patience: float) -> int | None:
    """The status of a child that ended by itself, or None if it still runs when patience is over."""
    limit = time.monotonic() + patience
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() >= limit:
            return None
        time.sleep(0.001)


def examine(folder: Path, seen: dict[str, str]) -> Ledger:
    """Every file that can be read as a release, under whatever name, has its charge; no more is spent than allowed."""
    # Files first: a charge comes before its file, so a ledger read later must know every file seen earlier.
    for path in folder.iterdir():
        if path.name not in seen and path.name != "budget.db" and not path.name.startswith("budget.db-"):
            try:
                seen[path.name] = qf.Release.load(path).id
            except FileError:
                if not path.name.endswith(".tmp") and path.exists():
                    raise SystemExit(f"{path.name} is half a release") from None
    book = Ledger(folder / "budget.db")
    charges = book.charges
    charged = {charge.release for charge in charges}
    if not set(seen.values()) <= charged:
        raise SystemExit("a readable release without its charge")
    if sum((charge.cost for charge in charges), Fraction(0)) > book.total:
        raise SystemExit("more spent than the total")
    return book


def main(folder: Path, kills: int, seed: int) -> dict[str, object]:
    draw = random.Random(seed)
    done: Counter[str] = Counter()
    readable = spent = ledgers = 0
    while done.total() < kills:  # a ledger is used until it is empty, then the next one
        ledgers += 1
        place = folder / str(ledgers)
        place.mkdir()
        Ledger.create(place / "budget.db", epsilon=EPSILON * draw.randrange(100, 400), unit=qf.Rows(1))
        seen: dict[str, str] = {}
        empty = False
        while done.total() < kills and not empty:
            children = {}
            for _ in range(AT_ONCE):
                point = draw.choice([*POINTS, None, None, None])
                children[start(place, point, draw.randrange(1, 4))] = point
            time.sleep(draw.uniform(0.0, 0.06))
            for pid, point in children.items():
                status = ended(pid, 300.0 if point else 0.0)  # one with a point is to die there, by its own hand
                by = point
                if status is None:
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so this is still our child
                    status, by = os.waitpid(pid, 0)[1], None
                if os.WIFSIGNALED(status):
                    done[by or "random moment"] += 1
                elif os.WEXITSTATUS(status) == 0:
                    empty = True
                else:
                    raise SystemExit("a child failed")
            book = examine(place, seen)
        readable += len(seen)
        spent += len(book.charges)
    return {
        "kills": done.total(),
        "by": dict(done),
        "ledgers": ledgers,
        "readable releases": readable,
        "charges": spent,
    }


if __name__ == "__main__":
    warm = qf.release(DATA, SCHEMA, [("a", "b")], epsilon=1, unit=qf.Rows(1), ledger=None)  # load everything once
    warm.save(Path(sys.argv[1]) / "warm.qfr")
    qf.Release.load(Path(sys.argv[1]) / "warm.qfr")
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
