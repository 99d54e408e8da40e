"""Rows that a count writes to disk are this user's alone, and are removed: by the count, or by the next one."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator.counting import count, describe_spilling, duckdb_engine
from quietfield.curator.counting.tally import BATCH
from quietfield.privacy.units import Person, statistics
from quietfield.schema import Schema

HOLDING = """
import sys, time
from quietfield.curator.counting.duckdb_engine import spill_folder
with spill_folder() as folder:
    folder.mkdir()
    (folder / "rows.tmp").write_text("Smith, 1970")
    print(folder.parent, flush=True)
    time.sleep(3600)  # until it is killed
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def left(folder: Path) -> list[Path]:
    return sorted(folder.glob(duckdb_engine.PREFIX + "*"))


@pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")
def test_what_a_killed_count_left_is_removed_and_what_another_uses_is_not(temporary: Path) -> None:
    running = subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        folder = Path(running.stdout.readline().strip())
        assert left(temporary) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o700
        duckdb_engine.remove_leftovers()
        assert left(temporary) == [folder]
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert (folder / "rows" / "rows.tmp").exists()
        schema, unit = Schema({"a": ["x"]}), Person("who", rows=1)
        asked = statistics(Structure((("a",),)), schema.domain, unit)
        assert count({"a": ["x"], "who": ["p"]}, schema, asked, unit).total == 1
        assert left(temporary) == []
    finally:
        running.kill()
        running.stdout.close()


def test_nothing_else_is_removed(temporary: Path) -> None:
    others = [temporary / "quietfield-demo-1", temporary / "quietfield-spill-made", temporary / "quietfield-spill-a b"]
    for other in others:
        other.mkdir()
    (temporary / "target").mkdir()
    (temporary / "target" / duckdb_engine.LOCK).touch()
    (temporary / "quietfield-spill-link").symlink_to(temporary / "target")
    with duckdb_engine.spill_folder() as one, duckdb_engine.spill_folder() as two:
        assert one != two
        assert one.parent.exists()
        assert two.parent.exists()
    assert all(other.exists() for other in [*others, temporary / "target" / duckdb_engine.LOCK])
    assert len(left(temporary)) == 3


def test_a_failure_removes_the_folder(temporary: Path) -> None:
    def stopped() -> None:
        with duckdb_engine.spill_folder() as folder:
            folder.mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert left(temporary) == []


@pytest.mark.parametrize(("unit", "told"), [("rows:1", False), ("person:who:2", True)])
def test_the_plan_says_that_persons_may_go_to_disk(
    temporary: Path, capsys: pytest.CaptureFixture[str], unit: str, told: bool
) -> None:
    (temporary / "rows.csv").write_text("a,who\n")
    Schema({"a": ["x"]}).save(temporary / "schema.json")
    (temporary / "cliques.json").write_text('[["a"]]')
    given = {"schema": "schema.json", "structure": "cliques.json", "out": "out.qfr"}
    paths = [part for name, file in given.items() for part in (f"--{name}", str(temporary / file))]
    asked = ["release", str(temporary / "rows.csv"), *paths, "--epsilon", "1", "--unit", unit, "--no-ledger"]
    assert main([*asked, "--one-line-per-record", "--dry-run"]) == 0
    assert (describe_spilling() in capsys.readouterr().out) == told


MARK = "MARKED-PERSON"


def spilled(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> tuple[int, int]:
    """Count persons in little memory: how many bytes lay in temporary files meanwhile, and how often the mark."""
    seen = {"bytes": 0, "marks": 0}

    def batches(result: Any) -> Iterator[Any]:
        for batch in result.to_arrow_reader(BATCH):
            held = []
            for file in temporary.rglob("*"):
                if file.is_file() and file.parent.name == "rows":
                    with suppress(FileNotFoundError):  # DuckDB removes what it has read back, at any time
                        held.append(file.read_bytes())
            seen["bytes"] = max(seen["bytes"], sum(map(len, held)))
            seen["marks"] = max(seen["marks"], sum(data.count(MARK.encode()) for data in held))
            yield batch

    monkeypatch.setattr(duckdb_engine, "PERSON_MEMORY", "40MB")
    monkeypatch.setattr(duckdb_engine, "_batches", batches)
    many = 400_000
    who = pa.array([f"{MARK}-{i // 2:07d}-{'x' * 40}" for i in range(many)])
    schema, unit = Schema({"a": ["x"]}), Person("who", rows=1)
    asked = statistics(Structure((("a",),)), schema.domain, unit)
    counts = count(pa.table({"a": pa.array(["x"] * many), "who": who}).to_reader(), schema, asked, unit)
    assert counts.total == many // 2
    assert left(temporary) == []
    return seen["bytes"], seen["marks"]


def test_rows_on_disk_are_encrypted(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, marks = spilled(monkeypatch, temporary)
    assert size > 2**20
    assert marks == 0


def test_without_encryption_rows_would_lie_in_the_clear(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect

    def plain(config: dict[str, Any]) -> Any:
        return connect(config={**config, "temp_file_encryption": False})

    monkeypatch.setattr(duckdb, "connect", plain)
    size, marks = spilled(monkeypatch, temporary)
    assert size > 2**20
    assert marks > 1000


def test_a_count_works_where_duckdb_refuses_to_change_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Jupyter without ipywidgets, where no bar can be shown either."""
    real = duckdb_engine.duckdb.connect

    class Connection:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def execute(self, text: str, *arguments: Any) -> Any:
            if "enable_progress_bar" in text:
                raise duckdb_engine.duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return self.inner.execute(text, *arguments)

    monkeypatch.setattr(duckdb_engine.duckdb, "connect", lambda **settings: Connection(real(**settings)))
    with duckdb_engine.connect() as con:
        assert con.execute("SELECT 1").fetchone() == (1,)
