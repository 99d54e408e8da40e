"""Only the curator's own code, the command line and the package's list of names may import the curator."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

MAY = {"quietfield", "quietfield.cli", "quietfield.curator", "quietfield.sklearn", "quietfield.studio"}
LINT = "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml on the package in a folder."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'src'); {LINT}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of the package to plant imports in."""
    shutil.copytree(root / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def test_nothing_crosses_the_border(root: Path) -> None:
    done = lint(root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("where", "planted"),
    [
        ("domain.py", "import quietfield.curator\n"),
        ("structures.py", "from quietfield.curator import planted\n"),
        ("planted.py", "def late():\n    from quietfield.curator.planted import secret\n"),
        ("inference/planted.py", "from quietfield import curator\n"),
    ],
)
def test_a_planted_import_is_found(copy: Path, where: str, planted: str) -> None:
    package = copy / "src" / "quietfield"
    (package / "curator" / "planted.py").write_text("secret = 1\n")
    assert lint(copy).returncode == 0
    file = package / where
    file.write_text((file.read_text() if file.exists() else "") + "\n" + planted)
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "quietfield.curator" in done.stdout
    assert f"quietfield.{where.removesuffix('.py').replace('/', '.')}" in done.stdout


@pytest.mark.parametrize("where", ["cli/planted.py", "curator/other.py"])
def test_those_who_may_do(copy: Path, where: str) -> None:
    package = copy / "src" / "quietfield"
    (package / where).write_text("import quietfield.curator\n")
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contract_names_only_those_who_may(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in settings["contracts"] if c["id"] == "border"]
    assert set(contract["protected_modules"]) == {"quietfield.curator", "quietfield.curator.**"}
    assert {name.removesuffix(".**") for name in contract["allowed_importers"]} <= MAY
    assert "quietfield.**" not in contract["allowed_importers"]
    assert not contract["as_packages"]
    assert not contract.get("ignore_imports")


def roundabout(package: Path) -> list[str]:
    """Ways into the curator that a check of import statements cannot see, in modules that may not enter."""
    tree = ast.parse((package / "__init__.py").read_text())
    (table,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "_NAMES"]
    private = {name for name, module in ast.literal_eval(table).items() if module.startswith("curator")}
    found = []
    for file in sorted(package.rglob("*.py")):
        module = ".".join(("quietfield", *file.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        if module == "quietfield" or any(module == may or module.startswith(f"{may}.") for may in MAY - {"quietfield"}):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "quietfield":
                found += [f"{module}: from quietfield import {a.name}" for a in node.names if a.name in private | {"*"}]
            elif isinstance(node, ast.Import):
                found += [f"{module}: import quietfield" for a in node.names if a.name == "quietfield"]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.fullmatch(r"(quietfield)?\.?curator(\.\w+)+|(quietfield)?\.curator", node.value):
                    found.append(f"{module}: {node.value!r}")
    return found


def test_no_way_round_the_border(root: Path) -> None:
    assert roundabout(root / "src" / "quietfield") == []


@pytest.mark.parametrize(
    "planted",
    [
        "import quietfield as qf\n",
        "from quietfield import *\n",
        "from quietfield import planted\n",
        "from importlib import import_module\nimport_module('quietfield.curator.publish')\n",
        "from importlib import import_module\nimport_module('.curator', 'quietfield')\n",
    ],
)
def test_a_planted_way_round_is_found(copy: Path, planted: str) -> None:
    package = copy / "src" / "quietfield"
    names = package / "__init__.py"
    names.write_text(names.read_text().replace("_NAMES = {", '_NAMES = {"planted": "curator.planted",', 1))
    (package / "domain.py").write_text((package / "domain.py").read_text() + "\n" + planted)
    (package / "cli" / "planted.py").write_text(planted)
    (found,) = roundabout(package)
    assert found.startswith("quietfield.domain: ")


# The trusted core


def core_tool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "tools" / "core.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def whole_copy(root: Path, copy: Path) -> Path:
    """A copy of the package with the tool that checks its core, and the page that lists it."""
    shutil.copytree(root / "tools", copy / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "docs").mkdir()
    shutil.copy(root / "docs" / "architecture.md", copy / "docs")
    return copy


def test_the_core_imports_nothing_but_itself_and_the_page_lists_it(root: Path) -> None:
    done = core_tool(root)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("where", "planted", "said"),
    [
        ("curator/publish.py", "def late():\n    from quietfield.learning import fit\n", "imports quietfield.learning"),
        ("privacy/noise.py", "from quietfield.curator.counting import lines\n", "imports quietfield.curator.counting"),
        ("curator/counting/lines.py", "from quietfield.models import model\n", "imports quietfield.models.model"),
        ("curator/charging.py", "from quietfield.releases import manifest\n", "imports quietfield.releases.manifest"),
        ("releases/manifest.py", "import quietfield.curator.release\n", "imports quietfield.curator.release"),
        ("domain.py", "def late():\n    from quietfield.cliques import Structure\n", "which is a circle"),
    ],
)
def test_what_leads_out_of_the_core_or_round_is_found(whole_copy: Path, where: str, planted: str, said: str) -> None:
    file = whole_copy / "src" / "quietfield" / where
    file.write_text(f"{file.read_text()}\n{planted}")
    done = core_tool(whole_copy)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_release_loads_what_is_listed_alone(root: Path, tmp_path: Path) -> None:
    """In a fresh process, from an array, a CSV file and a frame, as far as the file of the release."""
    lists = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["quietfield"]
    (tmp_path / "people.csv").write_text("a,b\n0,1\n1,1\n")
    code = (
        "import sys, json, numpy as np, quietfield as qf\n"
        "schema = qf.Schema({'a': 2, 'b': 2})\n"
        "ledger = qf.Ledger.create('budget.db', epsilon=9, unit=qf.Rows(1))\n"
        "for source in (np.array([[0, 1]]), 'people.csv', {'a': [0], 'b': [1]}):\n"
        "    qf.release(source, schema, [('a', 'b')], epsilon=1, unit=qf.Rows(1), ledger=ledger).save('r.qfr')\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('quietfield.')]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    packages = {"quietfield.curator", "quietfield.privacy", "quietfield.releases"}  # which hold no code
    assert set(json.loads(done.stdout)) <= {*lists["core"], *lists["readers"], *lists["public"], *packages}
    assert {*lists["core"]} <= {*json.loads(done.stdout)}  # and nothing of the core is there for show
