"""Results on disk: tidy Parquet, one row a measurement, so that a run goes on where the last one ended.

A figure's rows are in ``FIGURE.parquet`` and, until they are gathered there, in ``FIGURE.parts/``, one file for each
group of trials that was finished. Every file is written whole and renamed into place, so an interrupted run loses the
group at hand and nothing else. A row that is there twice (a run that was stopped while gathering, two runs at once) is
read once. Several processes may use a folder: writing and gathering wait for one another.

Where pyarrow is missing, files are CSV with the same columns; either kind is read, and :func:`merge` takes in what was
run in other folders, on other machines.
"""

import csv
import hashlib
import io
import json
import os
import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from experiments.trials import Row, Trial
from quietfield.errors import Error, FileError
from quietfield.files import hold_lock, write_atomically

COLUMNS = (*Trial._fields, "measure", "value", "seconds")


class Store:
    """The results of one figure in a folder."""

    def __init__(self, folder: Path, figure: str) -> None:
        self.folder, self.figure = folder, figure
        self.kind = "parquet" if find_spec("pyarrow") else "csv"
        self.file = folder / f"{figure}.{self.kind}"
        self.parts = folder / f"{figure}.parts"

    def read(self) -> list[Row]:
        """All rows, each once."""
        # Another process may be gathering: what is gone when it is its turn is in a file that is read after it.
        parts = [rows for path in self._files() if (rows := _read(path)) is not None]
        found: dict[tuple[Trial, str], Row] = {}
        for rows in reversed(parts):
            for row in rows:
                found.setdefault((row.trial, row.measure), row)
        return list(found.values())

    def done(self) -> set[Trial]:
        """The trials that are finished."""
        return {row.trial for row in self.read()}

    def add(self, rows: Iterable[Row]) -> None:
        """Keep the rows of a finished group."""
        with self._alone():
            self.parts.mkdir(exist_ok=True)
            _write(self.parts / f"{time.strftime('%Y%m%d%H%M%S')}-{secrets.token_hex(4)}.{self.kind}", rows)

    def gather(self) -> None:
        """Put all parts into the one file, sorted, and take them away."""
        if not self.folder.exists():
            return
        with self._alone():
            parts = [path for path in self._files() if path != self.file and path.exists()]
            if parts:
                _write(self.file, sorted(self.read()))
                for path in parts:
                    path.unlink()
            self._clear()

    def _clear(self) -> None:
        """Take away what killed processes left, and the folder of parts if nothing else is in it.

        Whoever writes holds the lock, so nobody is writing what is unfinished here.
        """
        unfinished = [self.parts.glob(".*.tmp"), self.folder.glob(f".{self.figure}.*.tmp")]
        for path in (path for paths in unfinished for path in paths):
            with suppress(OSError):  # where there are no locks, one that is being written may be refused, and stays
                path.unlink()
        with suppress(OSError):  # it is not there, or a file of the system's or of somebody's is in it
            self.parts.rmdir()

    def _alone(self) -> AbstractContextManager[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return hold_lock(self.folder / f".{self.figure}.lock")

    def _files(self) -> list[Path]:
        """Parts from new to old, then what they are gathered into; the first of a row that is in several comes last."""
        try:
            names = os.listdir(self.parts)
        except FileNotFoundError:  # none yet, or another process has just gathered them
            names = []
        parts = sorted(self.parts / name for name in names if name.endswith((".parquet", ".csv")) and name[0] != ".")
        return [*reversed(parts), *(self.folder / f"{self.figure}.{kind}" for kind in ("csv", "parquet"))]


def merge(folder: Path, others: Iterable[Path], figures: Iterable[str]) -> int:
    """Take the results of other folders into this one, and their lines of ``runs.jsonl``; how many trials were new.

    A trial that both have is taken from this folder, whole: no measurement is repeated, none is mixed.
    """
    listed = list(figures)
    count = 0
    for other in others:
        if not other.is_dir():
            raise FileError(f"there is no folder {other} to take results from; check the path after --from.")
        if other.resolve() == folder.resolve():
            continue
        for figure in listed:
            store = Store(folder, figure)
            done = store.done()
            new = [row for row in Store(other, figure).read() if row.trial not in done]
            if new:
                store.add(new)
                store.gather()
                count += len({row.trial for row in new})
        known = runs(folder)
        _log(folder, [line for line in runs(other) if line not in known])
    return count


def _write(path: Path, rows: Iterable[Row]) -> None:
    listed = list(rows)
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows((*row.trial, *row[1:]) for row in listed)
        write_atomically(path, text.getvalue().encode())
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {
        name: [getattr(row.trial, name) for row in listed]
        if name in Trial._fields
        else [getattr(row, name) for row in listed]
        for name in COLUMNS
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=_schema()), sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes())


def _read(path: Path) -> list[Row] | None:
    """The rows of a file, or None if there is none."""
    if path.suffix == ".csv":
        return _read_csv(path)
    if not path.exists():
        return None
    if not find_spec("pyarrow"):
        raise FileError(f"reading {path} needs pyarrow; install it, or choose another folder with --out.")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # All at once: Arrow would open it several times, and another process may replace it in between. With threads,
        # reading from memory may abort the process when it ends.
        table = pq.read_table(pa.BufferReader(path.read_bytes()), use_threads=False)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException):
        raise FileError(f"{path} cannot be read as Parquet; remove it to run its trials again.") from None
    if tuple(table.column_names) != COLUMNS:
        raise FileError(f"{path} does not hold the results of trials; expected the columns {', '.join(COLUMNS)}.")
    width = len(Trial._fields)
    return [
        Row(Trial(*values[:width]), *values[width:])
        for values in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


def _read_csv(path: Path) -> list[Row] | None:
    kinds = {"states": int, "records": int, "model": int, "population": int, "replication": int}
    kinds_of: list[Callable[[str], Any]] = [
        kinds.get(name, float if name in ("epsilon", "value", "seconds") else str) for name in COLUMNS
    ]
    width = len(Trial._fields)
    try:
        names, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines())
        if tuple(names) != COLUMNS:
            raise ValueError
        found = [[kind(text) for kind, text in zip(kinds_of, line, strict=True)] for line in lines]
    except FileNotFoundError:
        return None
    except (ValueError, csv.Error):
        raise FileError(f"{path} does not hold the results of trials; remove it to run its trials again.") from None
    return [Row(Trial(*values[:width]), *values[width:]) for values in found]


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"states": pa.int32(), "records": pa.int64(), "epsilon": pa.float64(), "value": pa.float64()}
    kinds |= dict.fromkeys(("model", "population", "replication"), pa.int32()) | {"seconds": pa.float32()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])


def log_run(folder: Path, figure: str, command: str, trials: int, seconds: float, jobs: int) -> None:
    """Add a line to ``runs.jsonl``: what was run, with which versions, on what kind of machine, and for how long."""
    line = {
        "figure": figure,
        "command": command,
        "trials": trials,
        "seconds": round(seconds, 1),
        "jobs": jobs,
        "when": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        **machine(),
    }
    _log(folder, [line])


def _log(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if text:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "runs.jsonl", "ab", buffering=0) as file:  # in one piece, beside other processes
            file.write(text.encode())


def runs(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``runs.jsonl``."""
    path = folder / "runs.jsonl"
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        raise FileError(f"{path} is damaged: a line of it is not JSON; mend or remove it.") from None


def machine() -> dict[str, Any]:
    """Versions and the kind of machine; nothing that names it."""
    from importlib.metadata import version

    import jax

    from quietfield import __version__

    devices = jax.devices()
    return {
        "quietfield": __version__,
        "learners": learners(),
        "python": platform.python_version(),
        "jax": version("jax"),
        "system": sys.platform,
        "cores": os.cpu_count(),
        "device": devices[0].device_kind if devices[0].platform != "cpu" else f"cpu ({platform.machine()})",
    }


def learners() -> str:
    """Which build of the learners this is: the start of a digest of their source, the same in every checkout."""
    from quietfield import learning

    digest = hashlib.sha256()
    for path in sorted(Path(learning.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def check_folder(folder: Path) -> Path:
    """A folder that can be written to, or made; it is made when there is something to put into it."""
    above = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        reason = "you may not write there" if above.is_dir() else f"{above} is no folder"
        raise Error(f"cannot write results to the folder {folder}: {reason}; choose another with --out.")
    return folder
