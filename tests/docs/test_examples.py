"""What the documentation shows, works: its Python, its commands, and the examples in docstrings.

In Markdown, ``python`` blocks run in order and share their names, and in ``console`` blocks the lines that begin with
``$ quietfield`` run; all of a page in one empty folder. What is not meant to run stands in another kind of block.
"""

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from quietfield.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCE = ROOT / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.glob("quietfield/**/*.py"))
]


class Block(NamedTuple):
    kind: str
    line: int
    text: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, with the line that each begins on; indented ones (in lists, tabs) too."""
    fence, kind, start, indent, lines = "", "", 0, 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if not fence:
            if found := re.match(r"^( *)(`{3,}|~{3,}) *([\w+-]*)", line):
                indent, fence, kind = len(found[1]), found[2], found[3]
                start, lines = number + 1, []
        elif line.strip() == fence:
            yield Block(kind, start, "\n".join(lines) + "\n")
            fence = ""
        else:
            lines.append(line[indent:] if not line[:indent].strip() else line)
    assert not fence, f"the block that begins on line {start - 1} has no end"


def commands(text: str) -> list[str]:
    """The commands of a console block, with continued lines joined."""
    joined = re.sub(r"\\\n *(> )?", "", text)
    return [line[2:] for line in joined.splitlines() if line.startswith("$ quietfield")]


def run_page(page: Path, folder: Path) -> int:
    """Run what a page shows in a folder; the number of things that ran."""
    ran = 0
    names: dict[str, Any] = {"__name__": "__main__"}
    shim = folder / ".bin" / "quietfield"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m quietfield "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"}
    for block in blocks(page.read_text()):
        where = f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}, line {block.line}"
        if block.kind == "python" and ">>>" in block.text:
            test = doctest.DocTestParser().get_doctest(block.text, names, where, str(page), block.line - 1)
            said: list[str] = []
            failed = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False).failed
            names.update(test.globs)
            assert not failed, "".join(said)
            ran += 1
        elif block.kind == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            ran += 1
        elif block.kind == "console":
            for command in commands(block.text):
                code, said = run_command(command, folder, environment)
                assert code == 0, f"{where}: $ {command}\n{said}"
                ran += 1
    return ran


def run_command(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a command and what it said. What needs no shell runs here: what it compiles, others find."""
    if re.search(r"[|<>&;*?$`~#]", command):
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        return main(shlex.split(command)[1:]), said.getvalue()


FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUIETFIELD_POLICY", "")  # a page may set it, and what it was comes back
    monkeypatch.delenv("QUIETFIELD_POLICY")
    run_page(page, tmp_path)


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if module == "quietfield.__main__":
        return
    loaded = importlib.import_module(module)
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(loaded, optionflags=FLAGS).failed == 0


@pytest.mark.parametrize(
    "shown",
    [
        "```python\nx = 1\n```\ntext\n```python\nassert x == 2\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
        "```console\n$ quietfield no-such-command\n```\n",
        "1. a list\n\n    ```python\n    raise ValueError\n    ```\n",
    ],
)
def test_a_wrong_page_fails(shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(shown)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, ValueError)):
        run_page(page, tmp_path)


def test_a_right_page_passes_and_shares_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\nopen('a', 'w').close()\n```\n```python\n>>> x + 1\n2\n>>> y = 5\n```\n"
        "```python title='more'\nassert y == 5\n```\n```sh\nnot run\n```\n"
        "```console\n$ pip not run\n$ quietfield \\\n    --version && test -f a\nquietfield 0\n```\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run_page(page, tmp_path) == 4
