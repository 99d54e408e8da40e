"""Only the curator's own code, the command line and the package's list of names may import the curator."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

MAY = {"quietfield", "quietfield.cli", "quietfield.curator", "quietfield.sklearn"}
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
