"""Rows that a count writes to disk are this user's alone, and are removed: by the count, or by the next one."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

sys.path.insert(0, str(Path(__file__).parent))
import extremes
import frames
import reference

from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator.counting import count, describe_spilling, duckdb_engine
from quietfield.curator.counting.duckdb_engine import PersonRows
from quietfield.errors import Unreadable
from quietfield.privacy.units import GRID, Person, Unit, statistics
from quietfield.schema import Labels, Schema

HOLDING = """
import sys, time
from quietfield.curator.counting.duckdb_engine import spill_folder
with spill_folder() as folder:
    folder.mkdir()
    (folder / "rows.tmp").write_text("Smith, 1970")
    print(folder.parent, flush=True)
    time.sleep(60)
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


@contextmanager
def on_disk() -> Iterator[list[PersonRows]]:
    """Counts in here write every row of a person to disk; where they wrote them."""
    made: list[PersonRows] = []

    def make() -> PersonRows:
        made.append(PersonRows(0))
        return made[-1]

    with mock.patch.object(duckdb_engine, "PersonRows", make):
        yield made


def assert_same(source: pa.Table, schema: Schema, structure: Structure, unit: Unit) -> None:
    asked = statistics(structure, schema.domain, unit, "add_remove", True)
    tables, total = reference.count(frames.records(source), schema, asked, unit)
    found = count(source, schema, asked, unit)
    assert found.total == total
    for expected, actual in zip(tables, found.tables, strict=True):
        np.testing.assert_array_equal(actual, expected)


@given(frames.problems())
def test_rows_on_disk_are_counted_as_by_plain_python(problem: Any) -> None:
    with on_disk():
        assert_same(*problem)


@pytest.mark.parametrize(
    "unit",
    [
        Person("who", rows=1),
        Person(("who", "number"), rows=2),
        Person("number", rows=3),
        Person("who", normalise=True),
        Person("number", normalise=True),
    ],
)
def test_every_person_is_in_one_part_however_many_there_are(unit: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(1)
    many = 9000
    people = {"who": [f"person-{choose.randrange(900)}" for _ in range(many)]}
    numbers = {"number": [choose.choice([0.0, -0.0, float(choose.randrange(400))]) for _ in range(many)]}
    data = {name: [choose.randrange(3) for _ in range(many)] for name in "ab"}
    monkeypatch.setattr(duckdb_engine, "BATCH", 2048)
    with on_disk() as made:
        assert_same(
            pa.table(data | people | numbers),
            Schema({"a": 3, "b": Labels((0, 1), null=7)}),
            Structure((("a", "b"),)),
            unit,
        )
    assert sum(map(bool, made[0]._pieces)) == duckdb_engine.PARTS
    assert max(map(len, made[0]._pieces)) > 1


@pytest.mark.slow
def test_persons_of_every_type_survive_the_disk() -> None:
    schema, unit = Schema({"x": 1, "y": 1}), Person("a", normalise=True)
    asked = statistics(Structure((("x", "y"),)), schema.domain, unit, "add_remove", True)
    columns = extremes.arrow_columns()
    with on_disk() as made:
        for name, (array, values) in columns.items():
            extremes.check_persons(lambda array=array: pa.table({"a": array}), "a", values)  # type: ignore[misc]
            same = pa.array(np.zeros(len(values), np.int8))
            total = count(pa.table({"a": array, "x": same, "y": same}), schema, asked, unit).total
            assert total is not None
            rows = Counter(value for value in values if not reference.is_null(value) and value != "\x00")
            if not any(isinstance(value, extremes.Beyond) for value in rows):
                assert total == sum(many * (GRID // many) for many in rows.values()), name
    assert len(columns) >= 55
    assert len(made) == 3 * len(columns)


def persons(many: int) -> pa.Table:
    """Two rows of each person, with names that are found again."""
    names = [f"{MARK}-{i // 2:07d}-{'x' * 40}" for i in range(many)]
    return pa.table({"a": pa.array(["x"] * many), "who": pa.array(names)})


def count_persons(source: Any) -> int | None:
    schema, unit = Schema({"a": ["x"]}), Person("who", rows=1)
    return count(source, schema, statistics(Structure((("a",),)), schema.domain, unit), unit).total


def written(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> bytes:
    """What a count writes to disk."""
    file = temporary / "seen"
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: file.open("w+b"))
    many = 400_000
    with on_disk():
        assert count_persons(persons(many).to_reader(2**14)) == many // 2
    return file.read_bytes()


def test_rows_on_disk_are_encrypted(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(monkeypatch, temporary)
    assert len(data) > 2**20
    assert MARK.encode() not in data


class Plain:
    """A cipher that leaves everything as it is."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == 32

    @staticmethod
    def generate_key(bits: int) -> bytes:
        return os.urandom(bits // 8)

    def encrypt(self, nonce: bytes, data: Any, more: None) -> bytes:
        return bytes(data)

    decrypt = encrypt


def test_without_encryption_rows_would_lie_in_the_clear(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "AESGCM", Plain)
    data = written(monkeypatch, temporary)
    assert len(data) > 2**20
    assert data.count(MARK.encode()) > 1000


def test_keys_and_nonces_are_used_once(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bytes, bytes]] = []

    class Noted(Plain):
        def __init__(self, key: bytes) -> None:
            self.key = key

        def encrypt(self, nonce: bytes, data: Any, more: None) -> bytes:
            seen.append((self.key, nonce))
            return bytes(data)

    monkeypatch.setattr(duckdb_engine, "AESGCM", Noted)
    for _ in range(2):
        written(monkeypatch, temporary)
    assert len(seen) > 2 * duckdb_engine.PARTS
    assert len(set(seen)) == len(seen)
    assert len({key for key, _ in seen}) == 2


def test_a_row_that_was_changed_on_disk_is_not_counted(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = PersonRows._read

    def change_and_read(self: PersonRows, pieces: list[tuple[int, int]]) -> Any:
        assert self._file is not None
        start, length = pieces[0]
        self._file.seek(start + length // 2)
        old = self._file.read(1)
        self._file.seek(start + length // 2)
        self._file.write(bytes([old[0] ^ 1]))
        return read(self, pieces)

    monkeypatch.setattr(PersonRows, "_read", change_and_read)
    with on_disk(), pytest.raises(Unreadable):
        count_persons(persons(1000))


def written_by_duckdb(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> bytes:
    """What DuckDB itself writes of rows that do not fit into memory."""
    monkeypatch.setattr(duckdb_engine, "PERSON_MEMORY", 40 * 10**6)
    with duckdb_engine.connect(gathers=True) as con:
        con.register("names", persons(800_000).select(["who"]))
        con.execute("CREATE TABLE kept AS SELECT * FROM names")
        found = b"".join(file.read_bytes() for file in temporary.rglob("rows/*") if file.is_file())
    assert left(temporary) == []
    return found


def test_what_duckdb_writes_is_encrypted(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written_by_duckdb(monkeypatch, temporary)
    assert len(data) > 2**20
    assert MARK.encode() not in data


def test_without_encryption_duckdb_would_write_in_the_clear(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect

    def plain(config: dict[str, Any]) -> Any:
        return connect(config={**config, "temp_file_encryption": False})

    monkeypatch.setattr(duckdb, "connect", plain)
    data = written_by_duckdb(monkeypatch, temporary)
    assert len(data) > 2**20
    assert data.count(MARK.encode()) > 1000


KILLED = """
import sys, time
import pyarrow as pa
from quietfield.curator.counting.duckdb_engine import PersonRows
rows = PersonRows(0)
rows.add(pa.record_batch({"who": ["Smith"] * 1000, "part": pa.array([3] * 1000, pa.uint8())}))
assert rows._file.tell() > 1000
print("written", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="a file without a name")
def test_nothing_is_left_of_a_count_that_is_killed(temporary: Path) -> None:
    running = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        assert running.stdout.readline() == "written\n"
        assert list(temporary.iterdir()) == []
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
    assert list(temporary.iterdir()) == []


FULL = """
import resource
import pyarrow as pa
from quietfield.curator.counting import count, duckdb_engine
from quietfield.errors import Unreadable
from quietfield.privacy.units import Person, statistics
from quietfield.schema import Schema
from quietfield.cliques import Structure

gather = duckdb_engine.PersonRows
duckdb_engine.PersonRows = lambda: gather(0)
many = 400_000
table = pa.table({"a": ["x"] * many, "who": [f"Smith-{i:040d}" for i in range(many)]})
schema, unit = Schema({"a": ["x"]}), Person("who", rows=1)
asked = statistics(Structure((("a",),)), schema.domain, unit)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    count(table.to_reader(2**14), schema, asked, unit)
except Unreadable as error:
    assert "Smith" not in str(error) and error.__context__ is None
    print("refused")
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk_ends_a_count_and_not_the_process(temporary: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "refused\n", "")
    assert list(temporary.iterdir()) == []


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
