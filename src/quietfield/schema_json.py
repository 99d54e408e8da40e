"""The JSON form of a Schema: checked with pydantic, refused with words that say what to write instead."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError

from quietfield.errors import Error, FileError, names
from quietfield.schema import DROP, FILL_IN, FORMAT, Attribute, Cuts, Dates, Labels, Period, Schema

_Label = StrictStr | StrictInt


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Attribute(_Strict):
    name: StrictStr = Field(min_length=1)
    column: StrictStr | None = None
    null: _Label = DROP
    unknown: _Label = DROP


class _Labels(_Attribute):
    kind: Literal["labels"]
    labels: list[_Label] = Field(min_length=1)


class _Cuts(_Attribute):
    kind: Literal["cuts"]
    cuts: list[StrictInt | StrictFloat] = Field(min_length=1)


class _Dates(_Attribute):
    kind: Literal["dates"]
    period: Period
    start: StrictStr
    end: StrictStr


class _Schema(_Strict):
    format: Literal["quietfield-schema"]
    version: Literal[1]
    attributes: list[Annotated[_Labels | _Cuts | _Dates, Field(discriminator="kind")]] = Field(min_length=1)
    impossible: list[dict[str, _Label | list[_Label]]] = []


RULE_KEYS = ("labels", "cuts", "period", "start", "end")
EXAMPLES = {
    "labels": '{"name": "sex", "kind": "labels", "labels": ["f", "m"], "null": "drop", "unknown": "drop"}',
    "cuts": '{"name": "age", "kind": "cuts", "cuts": [18, 40, 65], "null": "not said", "unknown": "drop"}',
    "dates": '{"name": "seen", "kind": "dates", "period": "month", "start": "2024-01-01", "end": "2025-01-01"}',
}


def read(data: Any) -> Schema:
    """A Schema from its JSON form."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FileError(
            f'this is not a schema: expected an object with "format": "{FORMAT}"; start with `quietfield schema`.'
        )
    if data.get("version") != 1:
        raise FileError(f"this schema has version {data.get('version')!r}; this quietfield reads version 1.")
    unfilled = _unfilled(data)
    if unfilled:
        raise FileError(
            f"this schema is still to be filled in for {names(unfilled, 20)}: replace each {FILL_IN!r}, "
            f"for instance {EXAMPLES['labels']}, or take the attribute out."
        )
    try:
        parsed = _Schema.model_validate(data)
    except ValidationError as error:
        problems = [_problem(data, detail) for detail in error.errors(include_url=False)]
        raise FileError("this schema cannot be used: " + "; ".join(problems[:5]) + ".") from None
    rules: dict[str, Attribute] = {}
    for item in parsed.attributes:
        if item.name in rules:
            raise FileError(f"this schema has the attribute {item.name!r} twice; give each its own name.")
        shared: dict[str, Any] = {"column": item.column, "null": item.null, "unknown": item.unknown}
        try:
            if isinstance(item, _Labels):
                rules[item.name] = Labels(tuple(item.labels), **shared)
            elif isinstance(item, _Cuts):
                rules[item.name] = Cuts(tuple(item.cuts), **shared)
            else:
                rules[item.name] = Dates(item.period, item.start, item.end, **shared)
        except Error as error:
            raise FileError(f"attribute {item.name!r}: {error}") from None
    return Schema(rules, parsed.impossible)


def _unfilled(data: dict[str, Any]) -> list[str]:
    attributes = data.get("attributes")
    listed = [item for item in attributes if isinstance(item, dict)] if isinstance(attributes, list) else []

    def blank(value: Any) -> bool:
        return value == FILL_IN or (isinstance(value, list) and FILL_IN in value)

    return [str(item.get("name")) for item in listed if any(blank(item.get(key)) for key in RULE_KEYS)]


def _problem(data: dict[str, Any], detail: Any) -> str:
    """One of pydantic's findings, in terms of attributes rather than of positions."""
    where, message = list(detail["loc"]), str(detail["msg"])
    attributes = data.get("attributes")
    if len(where) > 1 and where[0] == "attributes" and isinstance(attributes, list) and isinstance(where[1], int):
        item = attributes[where[1]]
        name = item.get("name") if isinstance(item, dict) else None
        title = f"attribute {name!r}" if name else f"attribute number {where[1] + 1}"
        rest = ".".join(str(part) for part in where[3 if len(where) > 2 and where[2] in EXAMPLES else 2 :])
        kind = item.get("kind") if isinstance(item, dict) else None
        example = EXAMPLES.get(str(kind), EXAMPLES["labels"])
        return f"{title}{f', {rest}' if rest else ''}: {message} (write for instance {example})"
    return f"{'.'.join(str(part) for part in where) or 'the file'}: {message}"
