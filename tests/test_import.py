"""Importing quietfield is light and quiet, and every public name is there."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import quietfield

HEAVY = {"jax", "numpy", "scipy", "pyarrow", "duckdb", "opendp", "pydantic", "typer", "rich", "networkx", "ibis"}


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)


def test_import_loads_no_heavy_part() -> None:
    loaded = {
        line.rsplit("|", 1)[1].strip().split(".")[0]
        for line in run("import quietfield", "-X", "importtime").stderr.splitlines()
        if line.startswith("import time:") and "|" in line
    }
    assert "quietfield" in loaded
    assert not loaded & HEAVY


def test_import_is_silent_and_quick() -> None:
    code = "import time; start = time.process_time(); import quietfield; print(time.process_time() - start)"
    done = run(code, "-W", "error")
    assert float(done.stdout) < 5  # seconds of the processor, which no other work makes longer; measured 0.04
    assert done.stderr == ""


@pytest.mark.parametrize("name", quietfield.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(quietfield, name)
    if name == "__version__":
        return
    module = quietfield._NAMES[name]
    if name in quietfield._MODULES:
        assert inspect.ismodule(value)
        assert value.__name__ == f"quietfield.{module}"
    else:
        assert value is getattr(sys.modules[f"quietfield.{module}"], name)
        assert value.__doc__, f"{name} is public and needs a docstring"


def test_every_public_name_may_be_the_first_that_is_used() -> None:
    """Modules that import each other in a circle load in one order and not in another."""
    code = (
        "import importlib, sys\n"
        "names = importlib.import_module('quietfield')._NAMES\n"
        "for name in names:\n"
        "    for module in [m for m in sys.modules if m.partition('.')[0] == 'quietfield']:\n"
        "        del sys.modules[module]\n"
        "    getattr(importlib.import_module('quietfield'), name)\n"
    )
    run(code)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(quietfield.__file__).with_suffix(".pyi").read_text())
    seen = {}
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign):
            assert ast.unparse(statement) == "__version__: str"
            continue
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name, "`import X as X` makes a name public for type checkers"
            module = (statement.module or "").removeprefix("quietfield").removeprefix(".")
            full = f"{module}.{alias.name}".removeprefix(".")
            seen[alias.name] = full if alias.name in quietfield._MODULES else module
    assert seen == quietfield._NAMES


def test_dir_and_star_import_give_the_public_names() -> None:
    assert dir(quietfield) == sorted(quietfield.__all__)
    assert set(quietfield.__all__) == {"__version__", *quietfield._NAMES}
    run(f"from quietfield import *; assert set({sorted(quietfield._NAMES)!r}) <= set(globals())")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        quietfield.nothing  # noqa: B018


def test_no_submodule_shares_the_name_of_a_public_function_or_class() -> None:
    submodules = {path.stem for path in Path(quietfield.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert not {name for name, module in quietfield._NAMES.items() if name != module} & submodules


def test_version_agrees_with_what_is_installed() -> None:
    from importlib.metadata import version

    assert version("quietfield") == quietfield.__version__
