"""What a curator fills in: the lines of the form of a schema as its file has them, and cliques by clicks."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

from quietfield.errors import Error
from quietfield.schema import DROP, Cuts, Dates, Labels

#: The types of columns that a rule can give back to synthetic records; text, which may spell anything, is not said.
KINDS = {rule.kind: rule for rule in (Labels, Cuts, Dates)}
TYPES = {kind: set(rule.types) - {"text"} for kind, rule in KINDS.items()}
#: How a rule that was discovered reads texts: the form has no fields for it, and it is kept as it was found.
WRITTEN = (
    "decimal", "thousands", "before", "after", "places", "zeros", "written", "years_from", "clock", "time", "missing",
    "stored", "gaps",
)  # fmt: skip
#: Kinds of columns whose labels are whole numbers where they look like it.
NUMBERS = ("integer", "number")


def tidy(attributes: Iterable[str], cliques: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Cliques without those that others hold, and each attribute that none holds by itself.

    >>> tidy("abcd", [("a",), ("b", "a"), ("a", "b")])
    (('a', 'b'), ('c',), ('d',))
    """
    order = list(attributes)
    sets = {frozenset(clique) for clique in cliques}
    kept = [c for c in sets if c and not any(c < other for other in sets)]
    kept += [frozenset({name}) for name in order if not any(name in c for c in kept)]
    listed = [tuple(sorted(c, key=order.index)) for c in kept]
    return tuple(sorted(listed, key=lambda c: (len(c) == 1, [order.index(name) for name in c])))


def join(attributes: Iterable[str], cliques: Iterable[Iterable[str]], chosen: Iterable[str]) -> Any:
    """Cliques with some attributes joined; or apart, where they are joined already.

    >>> join("abc", [("a", "b", "c")], "ab")
    (('a', 'c'), ('b', 'c'))
    >>> join("abc", [("a", "b")], "bc")
    (('a', 'b'), ('b', 'c'))
    """
    order, wanted = list(attributes), frozenset(chosen)
    sets = [frozenset(clique) for clique in cliques]
    if len(wanted) == 2 and any(wanted <= clique for clique in sets):
        apart = [part for c in sets for part in ([c - {name} for name in wanted] if wanted <= c else [c])]
        return tidy(order, apart)
    if wanted in sets:
        return tidy(order, [c for c in sets if c != wanted])
    return tidy(order, [*sets, wanted])


def is_filled(item: Mapping[str, Any]) -> bool:
    """Whether a line of the form of a schema is of a column that is used, and says what values it has."""
    return bool(item["use"] and any(item[field] for field in ("labels", "cuts", "start")))


def read_rule(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A line of the form of a schema, of a column of some kind, as the schema's file has it."""
    found: dict[str, Any] = {"name": item["name"] or item["column"], "kind": item["kind"]}
    if found["name"] != item["column"]:
        found["column"] = item["column"]
    numbers = kind in NUMBERS
    if item["kind"] == "labels":
        found["labels"] = _labels(item["labels"], numbers)
        if not found["labels"]:
            raise Error(f"attribute {found['name']!r}: list its values, one per line, or do not use the column.")
    elif item["kind"] == "cuts":
        found["cuts"] = [_number(text, found["name"]) for text in re.split(r"[\s,;]+", item["cuts"].strip()) if text]
        if not found["cuts"]:
            raise Error(f"attribute {found['name']!r}: write its cut points, such as 18, 40, 65, or do not use it.")
        bounds = {name: item.get(name, "") for name in ("least", "most")}
        found |= {name: _number(text, found["name"]) for name, text in bounds.items() if text}
    else:
        found |= {name: item[name] for name in ("period", "start", "end")}
    if kind in TYPES[item["kind"]]:  # for synthetic records; counting does not look at it
        found["type"] = kind
    if item.get("written"):
        known = {one.name for one in fields(KINDS[item["kind"]])}
        found |= {name: value for name, value in item["written"].items() if name in known}
    if "gaps" in found:  # which were found with other cut points, if these have been edited
        try:
            Cuts(found["cuts"], least=found.get("least"), most=found.get("most"), gaps=found["gaps"])
        except Error:
            del found["gaps"]
    whole = bool(found.get("labels")) and all(isinstance(label, int) for label in found["labels"])
    for policy in ("null", "unknown"):
        text = item[policy].strip() or DROP
        found[policy] = int(text) if whole and re.fullmatch(r"-?\d+", text) else text
    return found


def _labels(text: str, numbers: bool) -> list[str | int]:
    """Labels as they are pasted: one per line, or separated by commas, semicolons or tabs on one line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) == 1:
        lines = [part.strip() for part in re.split("[,;\t]", lines[0]) if part.strip()]
    if numbers and all(re.fullmatch(r"-?\d{1,18}", line) for line in lines):
        return [int(line) for line in lines]
    return list(lines)


def _number(text: str, name: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise Error(f"attribute {name!r}: a cut point is a number such as 18 or 2.5, not {text[:40]!r}.")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def read_whole(text: object, what: str) -> int:
    """A whole number as it is typed."""
    if not re.fullmatch(r"[1-9]\d{0,8}", str(text)):
        raise Error(f"{what} is a whole number from 1 to 999,999,999, not {str(text)[:40]!r}.")
    return int(str(text))
