"""Files take their names whole or not at all, and replace nothing but their own kind."""

import os
from pathlib import Path

import pytest

import quietfield as qf
from quietfield import files
from quietfield.cli import release as command
from quietfield.errors import FileError
from quietfield.files import put, take

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
    take(made, path)
    assert path.read_bytes() == b"new"
    made.write_bytes(b"newer")
    with pytest.raises(FileExistsError):
        take(made, path)
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
            put(made, path, replace=False)
    assert not path.exists()
    put(made, path, replace=False)  # nothing is in the way of another try
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
        take(made, path)
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
    put(made, path, replace=True)
    assert qf.Release.load(path).tables[("a",)].tolist() == [2.0, 1.0]
    model().save(made)
    with pytest.raises(FileError, match="out exists and is not a quietfield model, so it is not replaced"):
        put(made, path, replace=True)
    assert qf.Release.load(path).total == 3
    path.unlink()
    put(made, path, replace=True)
    model().save(made)
    put(made, path, replace=True)
    release([1.0, 2.0]).save(made)
    with pytest.raises(FileError, match="out exists and is not a quietfield release"):
        put(made, path, replace=True)
    assert qf.load(path).domain == DOMAIN


def test_a_model_that_appears_during_the_count_stays_and_the_release_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.qfr"
    model().save(out)  # after --force was looked at
    found = release([1.0, 2.0])
    with pytest.raises(FileError, match="it is kept in") as caught:
        command._kept(found, out, None, force=True, paid=True)
    assert qf.load(out).domain == DOMAIN
    (other,) = (path for path in tmp_path.iterdir() if path != out)
    assert str(other) in str(caught.value)
    assert qf.Release.load(other).total == 3
