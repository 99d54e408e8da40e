"""The set-up behind the Makefile: it installs once, again when something changed, and trusts no failed install."""

import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Installs = list[str]


@pytest.fixture
def environment(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, working on a copy of the project in a folder with a space in its name."""
    copy = tmp_path / "a checkout"
    (copy / "tools").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "tools/environment.py"):
        shutil.copy(root / name, copy / name)
    spec = importlib.util.spec_from_file_location("environment", copy / "tools" / "environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert copy == module.ROOT
    return module


@pytest.fixture
def installs(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Installs:
    """The extras that pip was asked for, with pip itself left out."""
    done: Installs = []

    def run(*command: str | Path) -> None:
        if "venv" in command:
            environment.PYTHON.parent.mkdir(parents=True, exist_ok=True)
            environment.PYTHON.touch()
        elif "-e" in command:
            assert "constraints.txt" in command
            done.append(str(command[-1]))

    monkeypatch.setattr(environment, "run", run)
    monkeypatch.setattr(environment, "usable", lambda: environment.PYTHON.exists())
    return done


@pytest.fixture
def ask(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    def call(extras: str) -> int:
        monkeypatch.setattr("sys.argv", ["environment.py", extras])
        return environment.main()

    return call


def test_installs_once_and_more_when_more_is_asked(ask: Callable[[str], int], installs: Installs) -> None:
    assert [ask("curator"), ask("curator"), ask("curator,dev"), ask("dev"), ask("curator")] == [0] * 5
    assert installs == [".[curator]", ".[curator,dev]"]


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_installs_again_when_the_versions_change(
    environment: ModuleType, ask: Callable[[str], int], installs: Installs, name: str
) -> None:
    ask("curator,dev")
    file = environment.ROOT / name
    file.write_text(file.read_text().replace("opendp", "opendp-next"))
    ask("curator")
    assert installs == [".[curator,dev]", ".[curator]"]
    ask("dev")  # what was there before the change does not count
    assert installs[2:] == [".[dev]"]


def test_settings_of_tools_do_not_count(environment: ModuleType, ask: Callable[[str], int], installs: Installs) -> None:
    ask("curator")
    file = environment.ROOT / "pyproject.toml"
    file.write_text(file.read_text() + "\n[tool.planted]\nx = 1\n")
    ask("curator")
    assert len(installs) == 1


@pytest.mark.parametrize(
    ("error", "code"), [(subprocess.CalledProcessError(1, ["pip"]), 1), (KeyboardInterrupt(), 130)]
)
def test_a_failed_install_is_not_believed(
    environment: ModuleType,
    ask: Callable[[str], int],
    installs: Installs,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
) -> None:
    ask("curator")
    works = environment.run

    def fails(*command: str | Path) -> None:
        if "-e" in command:
            raise error

    monkeypatch.setattr(environment, "run", fails)
    assert ask("curator,dev") == code
    assert not environment.STAMP.exists()
    assert environment.installed() == set()
    monkeypatch.setattr(environment, "run", works)
    assert ask("curator,dev") == 0
    assert installs == [".[curator]", ".[curator,dev]"]


@pytest.mark.parametrize("stamp", ["", "{", "{}", json.dumps({"key": "old", "extras": ["curator"]})])
def test_a_damaged_or_old_stamp_is_not_believed(
    environment: ModuleType, ask: Callable[[str], int], installs: Installs, stamp: str
) -> None:
    ask("curator")
    environment.STAMP.write_text(stamp)
    ask("curator")
    assert len(installs) == 2


def test_a_moved_checkout_installs_again(
    environment: ModuleType, ask: Callable[[str], int], monkeypatch: pytest.MonkeyPatch, installs: Installs
) -> None:
    ask("curator")
    moved = environment.ROOT.with_name("moved")
    environment.ROOT.rename(moved)
    for name in ("ROOT", "VENV", "PYTHON", "STAMP", "LOCK"):
        old = getattr(environment, name)
        monkeypatch.setattr(environment, name, moved / old.relative_to(moved.with_name("a checkout")))
    ask("curator")
    assert len(installs) == 2


def test_two_at_once_install_once(environment: ModuleType, installs: Installs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["environment.py", "curator"])
    begun, go = threading.Event(), threading.Event()
    works = environment.run

    def slow(*command: str | Path) -> None:
        begun.set()
        assert go.wait(300)
        works(*command)

    monkeypatch.setattr(environment, "run", slow)
    codes: list[int] = []
    first, second = (threading.Thread(target=lambda: codes.append(environment.main())) for _ in range(2))
    first.start()
    assert begun.wait(300)
    second.start()
    second.join(0.3)
    assert second.is_alive()  # it waits
    go.set()
    first.join(300)
    second.join(300)
    assert codes == [0, 0]
    assert installs == [".[curator]"]


def test_a_broken_environment_is_not_usable(environment: ModuleType) -> None:
    assert not environment.usable()
    environment.PYTHON.parent.mkdir(parents=True)
    environment.PYTHON.symlink_to("/nowhere/python3")
    assert not environment.usable()
    assert not environment.satisfied({"curator"})


def test_constraints_are_exact_and_name_no_address(root: Path) -> None:
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 100
    for line in lines:
        name, _, version = line.partition("==")
        assert name.replace("-", "").replace("_", "").replace(".", "").isalnum(), line
        assert version.replace(".", "").isalnum(), line


def test_make_without_a_new_enough_python_says_so(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a checkout"
    (copy / "bin").mkdir(parents=True)
    shutil.copy(root / "Makefile", copy)
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    (copy / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (copy / "bin" / "python3").chmod(0o755)
    done = subprocess.run(
        [make, "demo"], cwd=copy, env={"PATH": str(copy / "bin")}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "No Python 3.11 or newer was found" in done.stderr
