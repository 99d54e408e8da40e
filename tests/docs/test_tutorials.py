"""The tutorials: notebooks that run, with outputs, and the pages of the site that show them."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorial").glob("*.ipynb"))
each = pytest.mark.parametrize("file", NOTEBOOKS, ids=[file.stem for file in NOTEBOOKS])


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_two() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["curator-and-analyst", "researcher"]


@each
def test_the_page_is_what_the_notebook_gives(file: Path, tool: ModuleType) -> None:
    assert file.with_suffix(".md").read_text() == tool.page(nbformat.read(file, 4)), "run python tools/notebooks.py"


@each
def test_the_outputs_are_those_of_one_run_without_errors(file: Path) -> None:
    notebook = nbformat.read(file, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2


@each
def test_nothing_tells_of_a_machine(file: Path) -> None:
    for text in (file.read_text(), file.with_suffix(".md").read_text()):
        assert not re.search(r"(?<![\w.\]])/(tmp|home|root|work|usr|opt|Users)/", text)
        assert not re.search(r"site-packages|\.venv", text)


@each
def test_every_file_that_is_linked_exists(file: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", file.with_suffix(".md").read_text())
    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_what_is_not_shown_is_left_out(tool: ModuleType) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", metadata={"secret": 1}, id="a")])
    stream = nbformat.v4.new_output
    notebook.cells[0].outputs = [
        stream("stream", name="stderr", text="no such feature\n"),
        stream("stream", name="stdout", text="a\n"),
        stream("stream", name="stdout", text="b\n"),
    ]
    tidied = tool.tidy(notebook)
    assert [output.text for output in tidied.cells[0].outputs] == ["a\nb\n"]
    assert tidied.cells[0].metadata == {}
    assert tool.page(tidied) == "```py\n1\n```\n\n```text\na\nb\n```\n"


def test_what_runs_them_is_in_the_dev_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"nbclient", "nbformat", "ipykernel"} <= set(extras["dev"])


@pytest.mark.slow
@each
def test_the_notebook_runs(file: Path, tool: ModuleType) -> None:
    pytest.importorskip("nbclient")
    ran = tool.execute(file)  # an error in a cell is raised
    assert [cell.source for cell in ran.cells] == [cell.source for cell in nbformat.read(file, 4).cells]
