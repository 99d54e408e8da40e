"""What GitHub would run, looked at and run here: ``python tools/workflows.py [TARGET ...]``.

Every step of a workflow is an action of a fixed version, a make target that the Makefile has, a script of ours that can
be run, or an installation of Debian's packages on a machine that has them. Without an argument this lists the steps and
fails where one is none of these, or where a step names a setting that its job does not have. With names of make
targets, it also runs the steps that ask for these, by this Python in place of the workflow's.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION = re.compile(r"[\w-]+/[\w-]+@v\d+")


@dataclass(frozen=True)
class Step:
    """One step of a job."""

    job: str
    machines: tuple[str, ...]
    settings: tuple[str, ...]  # that the job's matrix has
    content: dict[str, Any]

    @property
    def commands(self) -> list[list[str]]:
        """What the step runs, as words; nothing for an action."""
        return [shlex.split(part) for line in self.content.get("run", "").splitlines() for part in line.split("&&")]

    def faults(self) -> Iterator[str]:
        """What GitHub would stumble over."""
        for name in re.findall(r"\$\{\{\s*matrix\.(\w+)", str(self.content)):
            if name not in self.settings:
                yield f"the matrix has no {name!r}"
        if "uses" in self.content and not ACTION.fullmatch(self.content["uses"]):
            yield f"{self.content['uses']!r} is no action of a fixed version"
        if ("uses" in self.content) == bool(self.commands):
            yield "a step is an action, or runs something"
        for words in self.commands:
            if not self.is_runnable(words):
                yield f"{shlex.join(words)!r} is no target of make, no script of ours and no package of the machine's"

    def is_runnable(self, words: list[str]) -> bool:
        """Whether a command is one of those that a step may run; make is asked without running anything."""
        if words[0] == "make":
            return run([*words, "--dry-run"]).returncode == 0
        if words[:2] == ["sudo", "apt-get"]:
            return all(machine.startswith("ubuntu-") for machine in self.machines)
        script = ROOT / words[0]
        inside = script.resolve().is_relative_to(ROOT) and script.is_file() and os.access(script, os.X_OK)
        return inside and run(["bash", "-n", str(script)]).returncode == 0

    @property
    def target(self) -> str | None:
        """The make target that the step asks for, if it does."""
        return next((words[1] for words in self.commands if words[0] == "make"), None)


def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the checkout."""
    return subprocess.run(words, cwd=ROOT, check=False, **({"capture_output": True} | options))


def list_steps(text: str) -> list[Step]:
    """The steps of all jobs of a workflow."""
    found = []
    for name, job in yaml.safe_load(text)["jobs"].items():
        matrix = job.get("strategy", {}).get("matrix", {})
        machines = matrix.get("os", [job["runs-on"]])
        found += [Step(name, tuple(machines), tuple(matrix), step) for step in job["steps"]]
    return found


def main() -> int:
    failed = False
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for step in list_steps(path.read_text()):
            shown = step.content.get("uses") or step.content.get("run", "")
            print(f"{path.name}  {step.job:<14} {shown}")
            for fault in step.faults():
                print(f"  {fault}", file=sys.stderr)
                failed = True
            if step.target in sys.argv[1:]:
                words = [
                    f"PYTHON={sys.executable}" if word.startswith("PYTHON=") else word for word in step.commands[0]
                ]
                failed |= run(words, capture_output=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
