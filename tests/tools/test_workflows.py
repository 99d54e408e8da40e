"""What GitHub would run: make has each target, the script of everything runs, and the Pythons are those we promise."""

import os
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml


def read_jobs(text: str) -> dict[str, Any]:
    """The jobs of a workflow."""
    return yaml.safe_load(text)["jobs"]


def list_commands(jobs: dict[str, Any]) -> list[list[str]]:
    """The commands of all steps that run one, as words."""
    return [shlex.split(step["run"]) for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.fixture
def jobs(root: Path) -> dict[str, Any]:
    return read_jobs((root / ".github" / "workflows" / "test.yml").read_text())


def has_target(root: Path, words: list[str]) -> bool:
    """Whether make knows what it is asked for; nothing is run."""
    done = subprocess.run([*words, "--dry-run"], cwd=root, capture_output=True, text=True, check=False)
    return done.returncode == 0


def test_make_has_every_target_that_a_workflow_asks_for(root: Path, jobs: dict[str, Any]) -> None:
    asked = [words for words in list_commands(jobs) if words[0] == "make"]
    assert {words[1] for words in asked} >= {"lint", "test", "docs"}
    assert all(has_target(root, words) for words in asked)
    assert not has_target(root, ["make", "no-such-target"])


def test_the_script_of_everything_can_be_run(root: Path, jobs: dict[str, Any]) -> None:
    (script,) = [words[0] for words in list_commands(jobs) if words[0].startswith(".ci/")]
    assert os.access(root / script, os.X_OK)
    subprocess.run(["bash", "-n", script], cwd=root, check=True)


def test_every_python_that_is_promised_is_tried(root: Path, jobs: dict[str, Any]) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    promised = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: Python :: 3." in text]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"
