"""Files take their names whole or not at all, and replace nothing but their own kind."""

import builtins
import io
import os
import sqlite3
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield import files
from quietfield.archives import put_in_place
from quietfield.cli import main, outputs
from quietfield.errors import FileError
from quietfield.files import take_name

DOMAIN = qf.Domain({"a": 2})


def release(values: list[float]) -> qf.Release:
    return qf.Release.from_tables(DOMAIN, {("a",): values}, noise=qf.Laplace(1.0), total=3)


def model() -> qf.Model:
    return qf.Model(DOMAIN, {("a",): [0.0, 1.0]})


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", link)


@pytest.mark.usefixtures("without_links")
def test_without_links_a_free_name_is_taken_and_another_stays(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "out"
    made.write_bytes(b"new")
    take_name(made, path)
    assert path.read_bytes() == b"new"
    made.write_bytes(b"newer")
    with pytest.raises(FileExistsError):
        take_name(made, path)
    assert path.read_bytes() == b"new"


@pytest.mark.usefixtures("without_links")
@pytest.mark.parametrize("wrong", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_name_that_was_claimed_is_given_back(
    tmp_path: Path, wrong: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = tmp_path / "made", tmp_path / "out"
    release([1.0, 2.0]).save(made)

    def replace(*_: object) -> None:
        raise wrong

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "replace", replace)
        with pytest.raises((FileError, KeyboardInterrupt)):
            put_in_place(made, path, replace=False)
    assert not path.exists()
    put_in_place(made, path, replace=False)  # nothing is in the way of another try
    assert qf.Release.load(path).total == 3


@pytest.mark.usefixtures("without_links")
def test_an_interrupt_after_the_file_has_its_name_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path, before = tmp_path / "made", tmp_path / "out", os.replace
    made.write_bytes(b"whole")

    def replace(*paths: Path) -> None:
        before(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        take_name(made, path)
    assert path.read_bytes() == b"whole"


@pytest.mark.usefixtures("without_links")
def test_a_ledger_that_could_not_be_named_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "replace", replace)
        with pytest.raises(FileError, match="No space left"):
            qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=qf.Rows(1))
    assert not list(tmp_path.iterdir())
    qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=qf.Rows(1))
    with pytest.raises(FileError, match="never overwritten"):
        qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=qf.Rows(1))


def test_an_archive_replaces_its_own_kind_alone(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "out"
    release([1.0, 2.0]).save(path)
    release([2.0, 1.0]).save(made)
    put_in_place(made, path, replace=True)
    assert qf.Release.load(path).tables[("a",)].tolist() == [2.0, 1.0]
    model().save(made)
    with pytest.raises(FileError, match="out exists and is not a quietfield model, so it is not replaced"):
        put_in_place(made, path, replace=True)
    assert qf.Release.load(path).total == 3
    path.unlink()
    put_in_place(made, path, replace=True)
    model().save(made)
    put_in_place(made, path, replace=True)
    release([1.0, 2.0]).save(made)
    with pytest.raises(FileError, match="out exists and is not a quietfield release"):
        put_in_place(made, path, replace=True)
    assert qf.load(path).domain == DOMAIN


def test_a_model_that_appears_during_the_count_stays_and_the_release_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.qfr"
    model().save(out)  # after --force was looked at
    found = release([1.0, 2.0])
    with pytest.raises(FileError, match="it is kept in") as caught:
        outputs.keep_release(found, out, None, force=True, paid=True)
    assert qf.load(out).domain == DOMAIN
    (other,) = (path for path in tmp_path.iterdir() if path != out)
    assert str(other) in str(caught.value)
    assert qf.Release.load(other).total == 3


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[int]]]:
    """The modes that the files of a folder were seen with, looked at after every call that makes or renames one.

    New files get every permission that is asked for: the umask, which usually takes some away, is 0.
    """
    modes: dict[str, set[int]] = {}

    def watch(module: Any, name: str) -> None:
        call = getattr(module, name)

        def watched_call(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            for file in tmp_path.iterdir():
                modes.setdefault(file.name, set()).add(stat.S_IMODE(file.stat().st_mode))
            return result

        monkeypatch.setattr(module, name, watched_call)

    for module, name in ((builtins, "open"), (io, "open"), (sqlite3, "connect")):
        watch(module, name)
    for name in ("open", "link", "replace", "fsync"):
        watch(os, name)
    before = os.umask(0)
    yield modes
    os.umask(before)


def test_what_must_not_leave_the_room_is_its_owners_from_the_start(
    watched: dict[str, set[int]], tmp_path: Path
) -> None:
    from quietfield.curator.ledger_file import open_connection
    from quietfield.releases.keys import create_keys

    schema, data = qf.Schema({"a": 2}), np.array([[0], [1], [1]])
    book = qf.Ledger.create(tmp_path / "budget.db", epsilon=9, unit=qf.Rows(1))
    made = qf.release(data, schema, [("a",)], epsilon=1, unit=qf.Rows(1), ledger=book)
    qf.write_confidential_report(tmp_path / "confidential.html", data, schema, made, model())
    create_keys(tmp_path / "key.pem")
    with open_connection(
        book.path
    ) as connection:  # while a charge is written, SQLite keeps a journal beside the ledger
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO charges SELECT number + 1, 'x', time, epsilon, delta, cost, threshold, what, digest "
            "FROM charges"
        )
        open(os.devnull).close()
        connection.execute("ROLLBACK")
    for name in ("budget.db", "budget.db-journal", "confidential.html", "key.pem"):
        assert name in watched
    for name in (".budget.db.", ".confidential.html."):
        assert any(file.startswith(name) for file in watched)
    assert watched.pop("key.pub.pem") == {0o644}
    assert watched == {name: {0o600} for name in watched}


@pytest.mark.usefixtures("without_links")
def test_a_name_is_claimed_for_its_owner_alone(watched: dict[str, set[int]], tmp_path: Path) -> None:
    qf.Ledger.create(tmp_path / "budget.db", epsilon=9, unit=qf.Rows(1))
    assert watched["budget.db"] == {0o600}


def seconds(created: str) -> float:
    return datetime.fromisoformat(created).timestamp()


def test_no_file_tells_how_long_a_count_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that lasts an hour by the clock of the files: nothing that may be published bears a later time."""
    from quietfield.curator import charging

    monkeypatch.chdir(tmp_path)
    schema = qf.Schema({"a": 2})
    schema.save("schema.json")
    Path("people.csv").write_text("a\n" + "0\n1\n1\n" * 100)  # many, since noise must not outweigh them
    begun = "2024-05-01T12:00:00Z"  # far from the time at which the files are made
    monkeypatch.setattr(charging, "now", lambda: begun)
    assert main(["ledger", "create", "b.db", "--epsilon", "9", "--unit", "rows:1"]) == 0
    asked = ["--schema", "schema.json", "--structure", '[["a"]]', "--epsilon", "1", "--unit", "rows:1"]
    assert main(["release", "people.csv", *asked, "--ledger", "b.db", "--out", "r.qfr"]) == 0
    loaded = qf.Release.load("r.qfr")
    loaded.save("again.qfr")
    assert main(["release", "people.csv", *asked, "--no-ledger", "--out", "again.qfr", "--force"]) == 0
    assert main(["fit", "r.qfr", "--out", "m.qfm"]) == 0
    assert main(["export", "r.qfr", "--out", "noisy"]) == 0
    assert main(["export", "m.qfm", "--release", "r.qfr", "--out", "people"]) == 0
    assert main(["export", "m.qfm", "--release", "r.qfr", "--format", "xlsx", "--out", "people.xlsx"]) == 0
    assert main(["report", "r.qfr", "--model", "m.qfm", "--out", "report.html"]) == 0
    written = [Path(name) for name in ("again.qfr", "r.qfr", "m.qfm", "people.xlsx", "report.html")]
    written += [file for folder in ("noisy", "people") for file in Path(folder).iterdir()]
    asked = ["--schema", "schema.json", "--epsilon", "1", "--unit", "rows:1", "--no-ledger", "--copies", "2"]
    assert main(["synthesize", "people.csv", *asked, "--out", "drawn.csv"]) == 0
    written += [path for path in Path.cwd().iterdir() if path.name.startswith("drawn")]
    assert len(written) == 17
    assert {file.name: file.stat().st_mtime for file in written} == {file.name: seconds(begun) for file in written}
    # Reading a file moves the time of its last access, if the system keeps one; these were not read since.
    assert {Path(name).stat().st_atime for name in ("again.qfr", "report.html", "people.xlsx")} == {seconds(begun)}
    for name in ("r.qfr", "m.qfm", "people.xlsx"):
        with zipfile.ZipFile(name) as archive:
            assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_ledger_is_not_touched_after_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time tells when the charge was made, as its line does, and nothing of the count that follows."""
    from quietfield.curator import counting

    book = qf.Ledger.create(tmp_path / "b.db", epsilon=9, unit=qf.Rows(1))
    count, found = counting.count, []

    def watched_count(*arguments: Any, **options: Any) -> Any:
        found.append(book.path.stat().st_mtime_ns)
        return count(*arguments, **options)

    monkeypatch.setattr(counting, "count", watched_count)
    qf.release(np.array([[0], [1]]), qf.Schema({"a": 2}), [("a",)], epsilon=1, unit=qf.Rows(1), ledger=book)
    assert found == [book.path.stat().st_mtime_ns]
    assert [file.name for file in tmp_path.iterdir()] == ["b.db"]
    assert qf.Ledger(book.path).spent == 1
    assert found == [book.path.stat().st_mtime_ns]


@pytest.mark.parametrize("created", ["yesterday", "2024-05-01", "2024-05-01T12:00:00+02:00"])
def test_a_release_of_no_time_is_refused(created: str) -> None:
    with pytest.raises(FileError, match="the time of a release is written as"):
        replace(release([1.0, 2.0]), created=created)
