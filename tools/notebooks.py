"""Run the tutorials and write them down: ``python tools/notebooks.py [name ...]``.

Each notebook of docs/tutorial/ is executed in an empty folder, its outputs are kept in it, and a page of the same name
is written beside it for the site. What belongs to a machine (times, paths, versions of the kernel) is left out.
``--check`` only says whether the pages are what the notebooks would give, and runs nothing.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

TUTORIALS = Path(__file__).resolve().parent.parent / "docs" / "tutorial"
SECONDS = 600


def main() -> int:
    asked = [name for name in sys.argv[1:] if not name.startswith("--")]
    files = [TUTORIALS / f"{name}.ipynb" for name in asked] or sorted(TUTORIALS.glob("*.ipynb"))
    stale = 0
    for file in files:
        if "--check" in sys.argv:
            if page(nbformat.read(file, 4)) != file.with_suffix(".md").read_text():
                print(f"{file.with_suffix('.md').name} is not what {file.name} gives; run python tools/notebooks.py")
                stale = 1
            continue
        print(f"running {file.name} ...", flush=True)
        notebook = execute(file)
        nbformat.write(notebook, file)
        file.with_suffix(".md").write_text(page(notebook))
    return stale


def execute(file: Path) -> Any:
    """The notebook with fresh outputs; an error in a cell is raised."""
    from nbclient import NotebookClient

    notebook = nbformat.read(file, 4)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    return tidy(notebook)


def tidy(notebook: Any) -> Any:
    """Without what tells of the machine or changes from run to run for no reason."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            # What libraries say on the error stream (a CPU without some feature, for instance) is the machine's.
            cell.outputs = joined(one for one in cell.outputs if one.get("name") != "stderr")
            for output in cell.outputs:
                output.pop("metadata", None)
                if output.output_type in ("execute_result", "display_data"):
                    output.metadata = {}
    return notebook


def joined(outputs: Iterable[Any]) -> list[Any]:
    """What was printed in several pieces, in one."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def page(notebook: Any) -> str:
    """The notebook as Markdown. Its code stands in ``py`` blocks: what runs is the notebook."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source.strip())
            continue
        parts.append(f"```py\n{cell.source.strip()}\n```")
        parts += [shown for output in cell.outputs if (shown := shown_as(output))]
    return "\n\n".join(parts) + "\n"


def shown_as(output: Any) -> str:
    """One output: a picture or a table where there is one, its text otherwise."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            flat = re.sub(r"\s*\n\s*", " ", "".join(data[kind]))
            return f'<div class="output">{flat}</div>'
    text = "".join(data.get("text/plain", "")).rstrip()
    return f"```text\n{text}\n```" if text else ""


if __name__ == "__main__":
    sys.exit(main())
