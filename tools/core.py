"""The trusted core: all of quietfield that the promise of a release rests on. ``python tools/core.py [--write]``.

Three lists stand in ``pyproject.toml``: the core; the readers, which open and count a source; and what handles public
or noisy numbers alone. Without an option this checks them: every import of a module in the core, wherever it stands,
leads to the core again, every import of a public one to the core or to others of its list, and every import of a reader
to one of the three; and no modules import each other in a circle. ``--write`` also writes the lists, with the lines of
each module, into ``docs/architecture.md``.
"""

import ast
import re
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
CORE, MODULES = "core", "modules"  # the parts of the page that this writes
#: The lists, by name: what each is called, and what its modules may import.
TITLES = {
    "core": "the core",
    "readers": "readers: what opens and counts a source",
    "public": "public: what handles public or noisy numbers alone",
}
ALLOWED = {"core": ("core",), "readers": ("core", "readers", "public"), "public": ("core", "public")}


def read_lists() -> dict[str, list[str]]:
    """The modules of the core, the readers and what is public, as ``pyproject.toml`` names them."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quietfield"]


def file_of(module: str) -> Path:
    """The file of a module."""
    path = ROOT.joinpath("src", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def lines_of(module: str) -> int:
    """The number of lines of a module."""
    return len(file_of(module).read_text().splitlines())


def find_violations(lists: dict[str, list[str]]) -> list[str]:
    """The imports that lead out of the lists or in a circle, and the listed modules that are not there."""
    graph = grimp.build_graph("quietfield", exclude_type_checking_imports=True, cache_dir=None)
    listed = [module for modules in lists.values() for module in modules]
    missing = [f"{module} is listed and does not exist" for module in listed if module not in graph.modules]
    outside = [
        f"{module} imports {imported}"
        for name, modules in lists.items()
        for module in modules
        if module in graph.modules
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if imported not in {module for one in ALLOWED[name] for module in lists[one]}
        and imported != "quietfield"  # which holds the version and lazily loaded names
    ]
    return missing + outside + find_circle(graph)


def find_circle(graph: grimp.ImportGraph) -> list[str]:
    """Modules that import each other in a circle, wherever the imports stand."""
    try:
        TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1])) + ", which is a circle"]
    return []


def table(title: str, modules: list[str]) -> str:
    """One list as a table for the page."""
    rows = [f"| `{module.removeprefix('quietfield.')}` | {lines_of(module):,} |" for module in modules]
    total = sum(lines_of(module) for module in modules)
    head = [f"| {title} | lines |", "|---|---|"]
    return "\n".join([*head, *rows, f"| **{len(modules)} modules** | **{total:,}** |"])


def module_table() -> str:
    """Every module, with the first sentence of its docstring."""
    rows = []
    for path in sorted((ROOT / "src" / "quietfield").rglob("*.py")):
        name = str(path.relative_to(ROOT / "src" / "quietfield"))
        text = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].replace("\n", " ")
        if not name.startswith("__") and not (path.name == "__init__.py" and len(path.read_text()) < 300):
            plain = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", text)
            rows.append(f"| `{name}` | {plain} |")
    return "\n".join(["| module | holds |", "|---|---|", *rows])


def page(lists: dict[str, list[str]]) -> str:
    """The page as it should be."""
    text = PAGE.read_text()
    tables = "\n\n".join(table(TITLES[name], modules) for name, modules in lists.items())
    for name, content in ((CORE, tables), (MODULES, module_table())):
        start, end = f"<!-- {name}: written by tools/core.py, checked by the tests -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n\n{content}\n\n{end}{rest.partition(end)[2]}"
    return text


def main() -> int:
    lists = read_lists()
    violations = find_violations(lists)
    for violation in violations:
        print(f"An import that may not be: {violation}.", file=sys.stderr)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(lists))
    elif PAGE.read_text() != page(lists):
        print("docs/architecture.md lists other modules; run python tools/core.py --write.", file=sys.stderr)
        return 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
