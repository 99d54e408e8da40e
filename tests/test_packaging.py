"""A wheel made from this checkout installs into an empty environment and works there, on its own."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
GIGABYTE = 10**9


def pip(python: Path | str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run(python: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed package far from the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(python), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    probe = pip(sys.executable, "download", "--no-deps", "--dest", folder / "probe", "iniconfig")
    if probe.returncode != 0:
        pytest.skip("no package index can be reached from here")
    done = pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, root)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("quietfield-*.whl")
    return built


@pytest.fixture(scope="module")
def analyst(root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment into which the core alone was installed."""
    folder = tmp_path_factory.mktemp("analyst") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    done = pip(python, "install", "-c", root / "constraints.txt", wheel)
    assert done.returncode == 0, done.stderr
    return python


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"quietfield", wheel.name.split("-py3")[0] + ".dist-info"}
    assert "quietfield/py.typed" in names
    assert [name for name in names if name.endswith(".html")], "the report's templates are part of the package"
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".ipynb"))]


def test_an_analyst_needs_less_than_a_gigabyte(analyst: Path, tmp_path: Path) -> None:
    taken = size(analyst.parents[1])
    print(f"analyst's environment: {taken / GIGABYTE:.2f} GB")
    assert taken < GIGABYTE
    code = """
import quietfield as qf
release = qf.Release.from_tables(qf.Domain({"a": 2, "b": 2}), {("a", "b"): [[500, 90], [110, 300]]}, qf.Laplace(2.0))
release.save("a.qfr")
model = qf.fit(qf.Release.load("a.qfr"))
model.save("a.qfm")
print(qf.load("a.qfm").marginal("a"), len(model.sample(10, seed=0)))
try:
    qf.release({"a": [0]}, qf.Schema({"a": 2}), ["a"], epsilon=1, unit=qf.Rows(1), ledger=None)
except qf.Error as error:
    assert "quietfield[curator]" in str(error), error
else:
    raise AssertionError("the curator's libraries are there")
"""
    done = run(analyst, "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(analyst, "-m", "quietfield", "query", "a.qfm", "a", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_demonstration_runs_from_a_fresh_install(root: Path, wheel: Path, analyst: Path, tmp_path: Path) -> None:
    done = pip(analyst, "install", "-c", root / "constraints.txt", f"quietfield[curator] @ {wheel.as_uri()}")
    assert done.returncode == 0, done.stderr
    taken = size(analyst.parents[1])
    print(f"curator's environment: {taken / GIGABYTE:.2f} GB")
    where = run(analyst, "-c", "import quietfield; print(quietfield.__file__)", folder=tmp_path)
    assert str(root) not in where.stdout
    done = run(analyst.with_name("quietfield"), "demo", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
