"""The trusted core: everything of quietfield that making a release depends on. ``python tools/core.py [--write]``.

The list stands in ``pyproject.toml``. Without an option this checks it: every import of a listed module, wherever it
stands in the module, leads to a listed module again. ``--write`` also writes the list, with the lines of each module,
into ``docs/architecture.md``.
"""

import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- core: written by tools/core.py, checked by the tests -->", "<!-- /core -->"


def listed() -> list[str]:
    """The modules of the trusted core, as ``pyproject.toml`` names them."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quietfield"]["core"]


def file_of(module: str) -> Path:
    """The file of a module."""
    path = ROOT.joinpath("src", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def lines_of(module: str) -> int:
    """The number of lines of a module."""
    return len(file_of(module).read_text().splitlines())


def find_violations(modules: list[str]) -> list[str]:
    """The imports that lead out of the list, and the listed modules that are not there."""
    graph = grimp.build_graph("quietfield", exclude_type_checking_imports=True, cache_dir=None)
    missing = [f"{module} is listed and does not exist" for module in modules if module not in graph.modules]
    outside = [
        f"{module} imports {found}"
        for module in modules
        if module in graph.modules
        for found in sorted(graph.find_modules_directly_imported_by(module))
        if found not in modules and found != "quietfield"  # whose only content is the version and lazy names
    ]
    return missing + outside


def table(modules: list[str]) -> str:
    """The list as a table for the page."""
    rows = [f"| `{module.removeprefix('quietfield.')}` | {lines_of(module):,} |" for module in modules]
    total = sum(lines_of(module) for module in modules)
    return "\n".join(["| module | lines |", "|---|---|", *rows, f"| **{len(modules)} modules** | **{total:,}** |"])


def page(modules: list[str]) -> str:
    """The page as it should be."""
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    return f"{before}{START}\n\n{table(modules)}\n\n{END}{rest.partition(END)[2]}"


def main() -> int:
    modules = listed()
    violations = find_violations(modules)
    for violation in violations:
        print(f"The trusted core is left: {violation}.", file=sys.stderr)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(modules))
    elif PAGE.read_text() != page(modules):
        print("docs/architecture.md lists another core; run python tools/core.py --write.", file=sys.stderr)
        return 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
