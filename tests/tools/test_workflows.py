"""What GitHub would run: every step can be, the Pythons are those we promise, and faults would be seen."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

JOB = """
jobs:
  quick:
    strategy: {{matrix: {{os: [ubuntu-latest, macos-latest], python: ["3.11"]}}}}
    runs-on: ${{{{ matrix.os }}}}
    steps:
      - {step}
"""


@pytest.fixture(scope="module")
def workflows(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("workflows", root / "tools" / "workflows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(root: Path) -> str:
    return (root / ".github" / "workflows" / "test.yml").read_text()


def test_every_step_of_a_workflow_can_be_run(workflows: Any, text: str) -> None:
    steps = workflows.list_steps(text)
    assert {step.target for step in steps} >= {"lint", "test", "docs"}
    assert any(words[0] == ".ci/run" for step in steps for words in step.commands)
    assert [fault for step in steps for fault in step.faults()] == []


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("run: make no-such-target", "no-such-target"),
        ("run: make lint && .ci/no-such-script", "no-such-script"),
        ("run: pyproject.toml", "pyproject"),  # there, and no script
        ("run: sudo apt-get install -y chromium", "apt-get"),  # not on macOS
        ("run: make lint PYTHON=${{ matrix.pyton }}", "'pyton'"),
        ("uses: actions/checkout@main", "fixed version"),
        ("name: nothing", "or runs something"),
    ],
)
def test_a_step_that_cannot_be_run_would_be_seen(workflows: Any, step: str, fault: str) -> None:
    (found,) = workflows.list_steps(JOB.format(step=step))
    assert any(fault in said for said in found.faults())


def test_every_python_that_is_promised_is_tried(root: Path, text: str) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    promised = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: Python :: 3." in text]
    assert yaml.safe_load(text)["jobs"]["quick"]["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"
