"""The JSON form of a Schema: checked with pydantic, refused with words that say what to write instead."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from quietfield.errors import Error, FileError
from quietfield.schema.rules import (
    DROP,
    FILL_IN,
    FORMAT,
    YEARS_FROM,
    Attribute,
    Clock,
    ColumnType,
    DateForm,
    Decimal,
    Period,
    Thousands,
    TimeForm,
    rule_from_json,
)
from quietfield.text import join_names

_Label = StrictStr | StrictInt


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Attribute(_Strict):
    name: StrictStr = Field(min_length=1)
    column: StrictStr | None = None
    null: _Label = DROP
    unknown: _Label = DROP
    missing: list[StrictStr] = []
    type: ColumnType | None = None
    stored: StrictStr | None = None


class _Labels(_Attribute):
    kind: Literal["labels"]
    labels: list[_Label] = Field(min_length=1)


class _Cuts(_Attribute):
    kind: Literal["cuts"]
    cuts: list[StrictInt | StrictFloat] = Field(min_length=1)
    least: StrictInt | StrictFloat | None = None
    most: StrictInt | StrictFloat | None = None
    gaps: list[Annotated[list[StrictInt | StrictFloat], Field(min_length=2, max_length=2)]] = []
    decimal: Decimal = "."
    thousands: Thousands | None = None
    before: StrictStr = ""
    after: StrictStr = ""
    places: StrictInt | None = None
    zeros: StrictBool = True


class _Dates(_Attribute):
    kind: Literal["dates"]
    period: Period
    start: StrictStr
    end: StrictStr
    written: DateForm = "yyyy-mm-dd"
    years_from: StrictInt = YEARS_FROM
    clock: Clock = 24
    time: TimeForm = " hh:mm:ss"


class _Schema(_Strict):
    format: Literal["quietfield-schema"]
    version: Literal[1]
    columns_from: StrictStr | None = None  # for people: where the names of columns were read
    discovered: dict[str, Any] | None = None  # for people: what was paid for rules that were not written by hand
    attributes: list[Annotated[_Labels | _Cuts | _Dates, Field(discriminator="kind")]] = Field(min_length=1)
    impossible: list[dict[str, _Label | list[_Label]]] = []


RULE_KEYS = ("labels", "cuts", "period", "start", "end")
#: What each field holds, in words.
FIELDS = {
    "columns_from": "a text that says where the names of columns are from",
    "discovered": "an object that says what was paid",
    "attributes": "a list of one attribute or more",
    "impossible": 'a list of combinations such as {"sex": "m", "pregnant": ["yes"]}',
    "name": "a text that is not empty",
    "column": "the name of a column, a text",
    "null": 'a label, or "drop"',
    "unknown": 'a label, or "drop"',
    "missing": 'a list of texts that stand for missing values, such as "-"',
    "type": 'what the column holds: "text", "integer", "number", "boolean", "date" or "time"',
    "stored": 'the Arrow type that the column had, such as "int8"',
    "kind": '"labels", "cuts" or "dates"',
    "labels": "a list of texts or whole numbers",
    "cuts": "a list of numbers",
    "least": "a number below the cut points that no value is below",
    "most": "a number not below the cut points that no value is above",
    "gaps": "a list of pairs of numbers between which there are none, such as [-99, 18]",
    "decimal": '"." or ","',
    "thousands": 'what stands between thousands: ",", ".", " " or "\'"',
    "before": 'a text that stands before numbers, such as "$"',
    "after": 'a text that stands after numbers, such as " %"',
    "places": "how many decimal places numbers have, a whole number from 0 to 6",
    "zeros": "false where zeros at the end of decimal places are left off, else true",
    "written": "how texts write dates: " + ", ".join(f'"{form}"' for form in get_args(DateForm)),
    "clock": "12 where AM or PM follows a time, else 24",
    "time": "how a time follows a date: " + ", ".join(f'"{form}"' for form in get_args(TimeForm)),
    "years_from": "the first of the hundred years that years of two digits are of, such as 1930",
    "period": '"year", "month", "week", "day" or "hour"',
    "start": 'a date such as "2024-01-01"',
    "end": 'a date such as "2025-01-01"',
}
EXAMPLES = {
    "labels": '{"name": "sex", "kind": "labels", "labels": ["f", "m"], "null": "drop", "unknown": "drop"}',
    "cuts": '{"name": "age", "kind": "cuts", "cuts": [18, 40, 65], "null": "not said", "unknown": "drop"}',
    "dates": '{"name": "seen", "kind": "dates", "period": "month", "start": "2024-01-01", "end": "2025-01-01"}',
}


def read(data: Any) -> tuple[dict[str, Attribute], list[dict[str, Any]], dict[str, Any] | None]:
    """The rules of a schema by attribute, its impossible combinations and what was paid for it, from its JSON form."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FileError(
            f'this is not a schema: expected an object with "format": "{FORMAT}"; start with `quietfield schema`.'
        )
    if data.get("version") != 1:
        raise FileError(f"this schema has version {data.get('version')!r}; this quietfield reads version 1.")
    unfilled = _list_unfilled(data)
    if unfilled:
        raise FileError(
            f"this schema is still to be filled in for {join_names(unfilled, 20)}: replace each {FILL_IN!r}, "
            f"for instance {EXAMPLES['labels']} or {EXAMPLES['cuts']}, or take the attribute out."
        )
    try:
        parsed = _Schema.model_validate(data)
    except ValidationError as error:
        found = _problems(data, error.errors(include_url=False))
        raise FileError(f"this schema cannot be used: {found}") from None
    rules: dict[str, Attribute] = {}
    for item in parsed.attributes:
        if item.name in rules:
            raise FileError(f"this schema has the attribute {item.name!r} twice; give each its own name.")
        try:
            rules[item.name] = rule_from_json(item.model_dump(exclude_none=True))
        except Error as error:
            raise FileError(f"attribute {item.name!r}: {error}") from None
    return rules, parsed.impossible, parsed.discovered


def take_filled(data: Any) -> Any:
    """The JSON of a schema without the attributes that are still to be filled in; None if that leaves none.

    Raises:
        FileError: An attribute is filled in by half, so that what was typed would be lost.
    """
    attributes = data.get("attributes") if isinstance(data, dict) else None
    if not isinstance(attributes, list):
        return data  # which will be refused
    waiting = set(_list_unfilled(data))
    half = [
        str(item.get("name"))
        for item in attributes
        if isinstance(item, dict)
        and str(item.get("name")) in waiting
        # A draft says by which periods dates are counted.
        and any(item.get(key, FILL_IN) not in (FILL_IN, [FILL_IN]) for key in RULE_KEYS if key != "period")
    ]
    if half:
        raise FileError(
            f"the rule of {join_names(half, 20)} is filled in by half: fill in what is left, or take out each "
            f"{FILL_IN!r} that the rule does not need."
        )
    kept = [item for item in attributes if not (isinstance(item, dict) and str(item.get("name")) in waiting)]
    return {**data, "attributes": kept} if kept else None


def _list_unfilled(data: dict[str, Any]) -> list[str]:
    attributes = data.get("attributes")
    listed = [item for item in attributes if isinstance(item, dict)] if isinstance(attributes, list) else []
    return [str(item.get("name")) for item in listed if any(_is_blank(item.get(key)) for key in RULE_KEYS)]


def _is_blank(value: Any) -> bool:
    return value == FILL_IN or (isinstance(value, list) and FILL_IN in value)


def _problems(data: dict[str, Any], details: Iterable[Any]) -> str:
    """Pydantic's findings in plain words, about attributes rather than positions, with an example to follow."""
    found: dict[str, None] = {}
    example = ""
    for detail in details:
        where, about = list(detail["loc"]), ""
        item = _attribute_at(data, where)
        if item is not None:
            name = item.get("name") if isinstance(item, dict) else None
            about = f"attribute {name!r}: " if isinstance(name, str) and name else f"attribute number {where[1] + 1}: "
            kind = item.get("kind") if isinstance(item, dict) else None
            example = example or EXAMPLES.get(str(kind), EXAMPLES["labels"])
            where = where[3 if len(where) > 2 and where[2] in EXAMPLES else 2 :]
        found[about + _finding(where, detail)] = None  # once, whatever else was tried
    more = len(found) - 5
    said = "; ".join([*list(found)[:5], *([f"and {more} more"] if more > 0 else [])])
    return f"{said}. Write for instance {example}." if example else f"{said}."


def _attribute_at(data: dict[str, Any], where: list[Any]) -> Any:
    """What is written at the place of an attribute, or None for a finding about something else."""
    attributes = data.get("attributes")
    if len(where) < 2 or where[0] != "attributes" or not isinstance(attributes, list) or not isinstance(where[1], int):
        return None
    return attributes[where[1]]


def _finding(where: list[Any], detail: Any) -> str:
    """One finding about a field or what it holds, or about an attribute as a whole where no field is named."""
    field = str(where[0]) if where else ""
    kind, held = detail["type"], json.dumps(detail["input"], ensure_ascii=False, default=str)
    held = held if len(held) <= 40 else held[:39] + "…"
    if kind == "union_tag_not_found" or (kind == "missing" and field):
        return f"{field or 'kind'} is missing, which is {FIELDS[field or 'kind']}"
    if kind == "union_tag_invalid":
        return f"kind is {FIELDS['kind']}, not {json.dumps(detail['input'].get('kind'), default=str)}"
    if kind == "extra_forbidden":
        near = get_close_matches(field, FIELDS, 1)
        return f"{field!r} is not known here" + (f" (did you mean {near[0]!r}?)" if near else ", take it out")
    if not field:
        return f"it is {held}, and should be an object"
    within = len(where) > 1 and isinstance(where[1], int)
    return f"{field} is {FIELDS[field]}, and holds {held}" if within else f"{field} is {FIELDS[field]}, not {held}"
