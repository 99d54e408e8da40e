"""Results on disk: tidy Parquet, one row a measurement, so that a run goes on where the last one ended.

A figure's rows are in ``FIGURE.parquet`` and, until they are gathered there, in ``FIGURE.parts/``, one file for each
group of trials that was finished. Every file is written whole and renamed into place, so an interrupted run loses the
group at hand and nothing else. A row that is there twice (a run that was stopped while gathering) is read once.
"""

import json
import platform
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quietfield.errors import Error, FileError
from quietfield.experiments.trials import Row, Trial
from quietfield.files import write_atomically

COLUMNS = (*Trial._fields, "measure", "value", "seconds")


class Store:
    """The results of one figure in a folder."""

    def __init__(self, folder: Path, figure: str) -> None:
        self.folder, self.figure = folder, figure
        self.file = folder / f"{figure}.parquet"
        self.parts = folder / f"{figure}.parts"

    def read(self) -> list[Row]:
        """All rows, each once."""
        found: dict[tuple[Trial, str], Row] = {}
        for path in self._files():
            for row in _read(path):
                found.setdefault((row.trial, row.measure), row)
        return list(found.values())

    def done(self) -> set[Trial]:
        """The trials that are finished."""
        return {row.trial for row in self.read()}

    def add(self, rows: Iterable[Row]) -> None:
        """Keep the rows of a finished group."""
        self.parts.mkdir(parents=True, exist_ok=True)
        _write(self.parts / f"{time.strftime('%Y%m%d%H%M%S')}-{secrets.token_hex(4)}.parquet", rows)

    def gather(self) -> None:
        """Put all parts into the one file, sorted, and take them away."""
        parts = sorted(self.parts.glob("*.parquet"))
        if parts:
            _write(self.file, sorted(self.read()))
            for path in parts:
                path.unlink()
            self.parts.rmdir()

    def _files(self) -> list[Path]:
        return [*([self.file] if self.file.exists() else []), *sorted(self.parts.glob("*.parquet"))]


def _write(path: Path, rows: Iterable[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    listed = list(rows)
    columns: dict[str, Any] = {
        name: [getattr(row.trial, name) for row in listed]
        if name in Trial._fields
        else [getattr(row, name) for row in listed]
        for name in COLUMNS
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=_schema()), sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes())


def _read(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise FileError(f"{path} cannot be read as Parquet; remove it to run its trials again.") from None
    if tuple(table.column_names) != COLUMNS:
        raise FileError(f"{path} does not hold the results of trials; expected the columns {', '.join(COLUMNS)}.")
    width = len(Trial._fields)
    return [
        Row(Trial(*values[:width]), *values[width:])
        for values in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


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
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "runs.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


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
    import os
    from importlib.metadata import version

    import jax

    from quietfield import __version__

    devices = jax.devices()
    return {
        "quietfield": __version__,
        "python": platform.python_version(),
        "jax": version("jax"),
        "system": sys.platform,
        "cores": os.cpu_count(),
        "device": devices[0].device_kind if devices[0].platform != "cpu" else f"cpu ({platform.machine()})",
    }


def check_folder(folder: Path) -> Path:
    """A folder to write to, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"cannot make the folder {folder}: {error.strerror}; choose another with --out.") from None
    return folder
