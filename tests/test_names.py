"""Names in the source: none says "private" of a result, and no class shares its name with another."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import quietfield

SOURCE = Path(quietfield.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
#: A private key is a term of art; the rest are names of the library cryptography.
KEYS = {
    "private", "load_private", "Ed25519PrivateKey", "PrivateFormat", "private_bytes", "load_pem_private_key",
}  # fmt: skip
#: Where a variable may be called `private`, for a key.
OF_KEYS = {SOURCE / "releases" / "keys.py", SOURCE / "cli" / "key.py"}


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Every name that a module defines, uses or imports, and the options of its commands."""
    for node in ast.walk(tree):
        for field in ("id", "name", "attr", "arg", "asname"):
            if isinstance(value := getattr(node, field, None), str):
                yield value
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
            yield node.value.split()[0].rstrip(",")


def forbidden(path: Path, source: str) -> set[str]:
    allowed = KEYS if path in OF_KEYS else KEYS - {"private"}
    return {name for name in identifiers(ast.parse(source)) if "private" in name.lower()} - allowed


def duplicates(sources: dict[str, str]) -> dict[str, list[str]]:
    """Public classes that are defined in several places."""
    found = defaultdict(list)
    for place, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(place)
    return {name: places for name, places in found.items() if len(places) > 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_identifier_says_private(path: Path) -> None:
    assert forbidden(path, path.read_text()) == set(), "say dp_ or confidential"


@pytest.mark.parametrize(
    "source",
    ["def private_score(): ...", "x.not_private", "f(private=1)", "option('--not-private')", "class Private: ..."],
)
def test_an_identifier_that_says_private_would_be_seen(source: str) -> None:
    assert len(forbidden(SOURCE / "planted.py", source)) == 1


def test_one_class_name_is_one_class() -> None:
    assert duplicates({str(path.relative_to(SOURCE)): path.read_text() for path in FILES}) == {}
    assert duplicates({"a": "class Look: ...", "b": "class Look: ..."}) == {"Look": ["a", "b"]}
