"""Counting by brute force, in plain Python, from the words of the documentation: what every engine is compared with."""

import datetime
import hashlib
import itertools
import re
from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np

from quietfield.privacy.units import GRID, ROWS_KEY, Person, Statistics, Unit
from quietfield.schema import Attribute, Cuts, Dates, Labels, NumberForm, Schema

Record = dict[str, Any]


def is_null(value: Any) -> bool:
    return value is None or value == "" or value != value


def whole(value: Any) -> int | None:
    if isinstance(value, bool | datetime.date):
        return None
    if isinstance(value, str):
        stripped = value.strip(" \t")
        match = re.fullmatch(r"([+-]?[0-9]{1,18})(\.0*)?", stripped, re.ASCII)
        return int(match[1]) if match else None
    if isinstance(value, float):
        return int(value) if abs(value) < 1e15 and value == int(value) else None
    if isinstance(value, Decimal) and not (abs(value) < 2**63 and value == int(value)):
        return None
    return int(value)


def beside(value: str, form: NumberForm) -> float | None:
    """A number with something between thousands, before or after it."""
    blanks = " \t\u00a0\u2009\u202f"
    left = value.strip(" \t")
    sign, left = (left[0], left[1:]) if left[:1] in ("+", "-") else ("", left)
    before, after = form.before.strip(), form.after.strip()
    if before and left.startswith(before):
        left = left.removeprefix(before).lstrip(blanks)
        if not sign and left[:1] in ("+", "-"):
            sign, left = left[0], left[1:]
    if after and left.endswith(after):
        left = left.removesuffix(after).rstrip(blanks)
    whole, point, places = left.partition(form.decimal)
    for other in {" ": "\u00a0\u2009\u202f", "'": "’"}.get(form.groups or "", ""):
        whole = whole.replace(other, form.groups or "")
    first, *more = whole.split(form.groups) if form.groups else [whole]
    digits = [first, *more, places]
    if not all(part.isascii() and (part.isdigit() or not part) for part in digits) or not (whole or places):
        return None
    if more and (not 1 <= len(first) <= 3 or any(len(part) != 3 for part in more)):
        return None
    return float(f"{sign}{first}{''.join(more)}{'.' if point else ''}{places}")


def number(value: Any, form: NumberForm = NumberForm()) -> float | None:  # noqa: B008  # it is frozen
    if isinstance(value, bool | datetime.date):
        return None
    if isinstance(value, str) and (form.thousands or form.before or form.after):
        return beside(value, form)
    if isinstance(value, str) and form.decimal == ",":
        left, comma, right = value.strip(" \t").partition(",")
        if "." in right or ("." in left and not re.fullmatch(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+([eE].*)?", left, re.ASCII)):
            return None
        value = left.replace(".", "") + (comma and "." + right)
    if isinstance(value, str):
        plain = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value.strip(" \t"), re.ASCII)
        found = float(value) if plain else None
        return None if found is None or abs(found) >= 1e308 else found
    found = float(value)
    return None if abs(found) == float("inf") else found


def moment_of(value: str, written: str, years_from: int) -> datetime.datetime | None:
    """A date in a form other than ISO's, with or without a time."""
    forms = {"dd": "%d", "mm": "%m", "yyyy": "%Y", "yy": "%y", "month": "%B", "mon": "%b"}
    form = re.sub("yyyy|yy|month|mon|mm|dd", lambda part: forms[part[0]], written)
    match = re.fullmatch(r"([^:]*?)(?:[ T]([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)(?: ?([ap]m))?)?", value, re.ASCII | re.I)
    if match is None or not value.isascii() or re.search(r"\s\s|^\s|\s$|[^\S ]", value):
        return None
    day, clock, half = match.groups()
    if written.isalpha() and len(day) != len(written):
        return None
    if not re.search("[0-9]{4}" if "yyyy" in written else "(?<![0-9])[0-9]{2}(?![0-9])", day):
        return None
    for name in (form, form.replace("%B", "%b"), form.replace("%b", "%B")):
        seconds = ":%S" if (clock or "").count(":") == 2 else ""
        try:
            moment = datetime.datetime.strptime(day, name)
            time = datetime.datetime.strptime(
                f"{clock or '0:00'}{half or ''}", f"%I:%M{seconds}%p" if half else f"%H:%M{seconds}"
            )
        except ValueError:
            continue
        if "yyyy" not in written:
            years = range(years_from, years_from + 100)
            try:
                moment = moment.replace(year=next(year for year in years if year % 100 == moment.year % 100))
            except ValueError:
                return None
        return datetime.datetime.combine(moment.date(), time.time())
    return None


def seconds(value: Any, written: str = "yyyy-mm-dd", years_from: int = 1969) -> int | None:
    if isinstance(value, str) and written != "yyyy-mm-dd":
        value = moment_of(value, written, years_from)
    if isinstance(value, str):
        if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value, re.ASCII) or value != value.strip():
            return None
        try:
            value = datetime.datetime.fromisoformat(value)
            value = (value - (value.utcoffset() or datetime.timedelta())).replace(tzinfo=None)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, datetime.datetime):
        moment = value
    elif isinstance(value, datetime.date):
        moment = datetime.datetime(value.year, value.month, value.day)
    else:
        return None
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)


def text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        found = whole(value)
        return None if found is None else str(found)
    return str(value)


def code(rule: Attribute, value: Any) -> int | None:
    numbers = isinstance(rule, Cuts) or (isinstance(rule, Labels) and isinstance(rule.values[0], int))
    spelled = isinstance(value, str) and value.strip(" \t").lower() in ("nan", "+nan", "-nan")
    if is_null(value) or (numbers and spelled) or text(value) in rule.missing:
        return rule.null_code
    found: int | None = None
    if isinstance(rule, Labels):
        wanted = whole(value) if isinstance(rule.values[0], int) else text(value)
        found = rule.values.index(wanted) if wanted in rule.values else None
    elif isinstance(rule, Cuts):
        size = number(value, rule.form)
        found = None if size is None else sum(size >= point for point in rule.points)
    elif isinstance(rule, Dates):
        moment = seconds(value, rule.written, rule.years_from)
        inside = moment is not None and rule.limits[0] <= moment < rule.limits[-1]
        found = sum(moment >= limit for limit in rule.limits) - 1 if inside and moment is not None else None
    return rule.unknown_code if found is None else found


def weighted(
    records: list[Record], schema: Schema, statistics: Statistics, unit: Unit
) -> list[tuple[dict[str, int], int]]:
    """The records that count, as codes, each with its weight."""
    kept: dict[Any, list[dict[str, int]]] = defaultdict(list)
    for position, record in enumerate(records):
        coded = {name: code(schema[name], record[schema.column(name)]) for name in statistics.attributes}
        who: Any = position
        if isinstance(unit, Person):
            read = {None: lambda value: value, "integer": lambda value: None if is_null(value) else whole(value)}
            who = tuple(read[kind](record[name]) for name, kind in zip(unit.columns, unit.kinds, strict=True))
        if isinstance(unit, Person) and any(is_null(part) for part in who):
            continue
        if all(value is not None for value in coded.values()):
            kept[who].append(coded)  # type: ignore[arg-type]
    found = []
    for who, rows in kept.items():
        if not isinstance(unit, Person):
            found += [(row, 1) for row in rows]
        elif unit.rows is not None:
            found += [(row, 1) for row in sorted(rows, key=lambda row: digest(who, row, statistics))[: unit.rows]]
        else:
            edges = {id(row): sum(tuple(row[a] for a in c) != cell for c, cell in statistics.edges) for row in rows}
            total = sum(edges.values())
            found += [(row, GRID // total) for row in rows if edges[id(row)]]
    return found


def digest(who: Any, row: dict[str, int], statistics: Statistics) -> str:
    parts = [ROWS_KEY, *(str(text(part)) for part in who), *(str(row[name]) for name in statistics.attributes)]
    return hashlib.md5("|".join(parts).encode()).hexdigest()


def count(records: list[Record], schema: Schema, statistics: Statistics, unit: Unit) -> tuple[list[np.ndarray], int]:
    """All tables and the total."""
    rows = weighted(records, schema, statistics, unit)
    tables = []
    for counted in statistics.tables:
        table = np.zeros(counted.shape, dtype=np.int64)
        for clique, (row, weight) in itertools.product(counted.cliques, rows):
            cell = tuple(row[name] for name in clique)
            if cell != counted.excluded:
                table[cell] += weight
        tables.append(table)
    return tables, sum(weight for _, weight in rows)
