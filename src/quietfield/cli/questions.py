"""How attributes and what is known of others are written on the command line, and what a mistyped one meant."""

import csv
from collections.abc import Iterable, Sequence

from quietfield.domain import Domain, Label
from quietfield.errors import Error
from quietfield.text import suggest_names


def attributes(names_: Iterable[str], domain: Domain) -> list[str]:
    """Attributes by name, ``age,smokes`` for two of them; one that is mistyped is told, with the one that was meant.

    Names may hold commas: then the text is split so that every part is an attribute. Where that can be done in several
    ways, and wherever one likes, names stand in quotes, as in CSV.

    >>> domain = Domain({"smokes": ["no", "yes"], "income, net": 3})
    >>> attributes(["smokes,income, net"], domain) == attributes(['"income, net"', "smokes"], domain)[::-1]
    True
    >>> attributes(["smoke"], domain)
    Traceback (most recent call last):
    quietfield.errors.Error: 'smoke' is not an attribute; did you mean 'smokes'? Expected one of 'smokes', ...
    """
    found: list[str] = []
    for text in names_:
        for name in _listed(text, domain):
            check(name, domain)
            if name in found:
                raise Error(f"{name!r} is named twice; name each attribute once.")
            found.append(name)
    return found


def _listed(text: str, domain: Domain) -> Sequence[str]:
    """The names in a text, which may not be attributes where no way to read it gives attributes alone."""
    in_quotes = _unquote(text) if '"' in text else None
    if in_quotes is not None and all(name in domain for name in in_quotes):
        return in_quotes
    parts = text.split(",")
    # The ways to read what follows each comma, from the end; two will do to see that there are several.
    ways: list[list[tuple[str, ...]]] = [[] for _ in parts] + [[()]]
    for i in reversed(range(len(parts))):
        for j in range(i + 1, len(parts) + 1):
            whole = ",".join(parts[i:j])
            name = whole if whole in domain else whole.strip()
            if name in domain:
                ways[i] += [(name, *rest) for rest in ways[j]]
        ways[i] = ways[i][:2]
    if len(ways[0]) > 1:
        one, other = (_is_quoted(way) for way in ways[0])
        raise Error(f"{text!r} can be read as {one} and as {other}; put the names in quotes, as here.")
    return ways[0][0] if ways[0] else in_quotes or [part.strip() for part in parts]


def _unquote(text: str) -> list[str] | None:
    """The fields of a line of CSV, or None if it is none."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), None)
    except csv.Error:
        return None


def _is_quoted(texts: Iterable[str]) -> str:
    """Texts as a line of CSV, each in quotes."""
    return ",".join('"' + text.replace('"', '""') + '"' for text in texts)


def evidence(given: Iterable[str], domain: Domain) -> dict[str, Label]:
    """What is known, from ATTRIBUTE=LABEL. Names and labels may hold = themselves; integers are written in digits.

    Where several ``=`` could be the one between them, it is the first with an attribute before it and a label of that
    attribute after it.

    >>> evidence(["age=65+"], Domain({"age": ["<65", "65+"]}))
    {'age': '65+'}
    """
    known: dict[str, Label] = {}
    for text in given:
        places = [i for i, letter in enumerate(text) if letter == "="]
        if not places:
            raise Error(f"--given {text!r} is not understood; write ATTRIBUTE=LABEL, for instance sex=f.")
        splits = [(text[:i], text[i + 1 :]) for i in places]
        named = [(name, label) for name, label in splits if name in domain]
        whole = [(name, value) for name, label in named for value in domain.labels(name) if str(value) == label]
        name, label = (whole or named or splits)[0]
        check(name, domain)
        if name in known:
            raise Error(f"--given names {name!r} twice; say once what is known of it.")
        if not whole:
            several = " Say --given once for each attribute." if "," in str(label) and "=" in str(label) else ""
            values = list(map(str, domain.labels(name)))
            raise Error(f"{label!r} is not a value of {name!r}{suggest_names(str(label), values)}.{several}")
        known[name] = label
    return known


def check(name: str, domain: Domain) -> None:
    """Refuse what is not an attribute, and say which may have been meant."""
    if name not in domain:
        domain.position(name)
