"""``Schema``: the attributes of a domain, each with the rule that makes it from a column."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from quietfield.domain import Domain, Label
from quietfield.errors import Error
from quietfield.files import JsonFile
from quietfield.schema.rules import DROP, FILL_IN, FORMAT, Attribute, Labels, _integer, rule_from_json

Rule = Attribute | Sequence[Label] | int


@dataclass(frozen=True, init=False, repr=False)
class Schema(JsonFile):
    """Attributes by name, each with the rule that makes it from a column.

    A list stands for :class:`Labels`, a number n for the labels ``0 .. n-1``.

    >>> from quietfield.schema import Cuts
    >>> schema = Schema({"age": Cuts([18, 40, 65]), "sex": ["f", "m"], "code": [0, 1, 2]})
    >>> schema.domain.shape
    (4, 2, 3)

    ``discovered`` tells, for people, what :func:`quietfield.discover` paid for the rules; it is kept in the file and
    changes nothing about how records are read, so that schemas are equal whatever it says.
    """

    attributes: tuple[tuple[str, Attribute], ...]
    domain: Domain
    discovered: Mapping[str, Any] | None = field(compare=False)

    def __init__(
        self,
        attributes: Mapping[str, Rule],
        impossible: Iterable[Mapping[str, Any]] = (),
        *,
        discovered: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(attributes, Mapping) or not attributes:
            raise Error(
                'a Schema maps names of attributes to rules, for instance {"age": Cuts([18, 65]), "sex": ["f", "m"]}.'
            )
        rules = {}
        for name, rule in attributes.items():
            try:
                rules[name] = rule if isinstance(rule, Attribute) else Labels(_list_labels(rule))
            except Error as error:
                raise Error(f"attribute {name!r}: {error}") from None
        object.__setattr__(self, "attributes", tuple(rules.items()))
        object.__setattr__(self, "domain", Domain({name: rule.labels for name, rule in rules.items()}, impossible))
        object.__setattr__(self, "discovered", discovered)

    @cached_property
    def _rules(self) -> dict[str, Attribute]:
        return dict(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        self.domain.position(name)
        return self._rules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self.attributes)

    def column(self, name: str) -> str:
        """The column that an attribute is read from.

        Args:
            name: The name of an attribute.

        Returns:
            The name of the column.

        Raises:
            Error: It is not an attribute.
        """
        return self[name].column or name

    @property
    def drops(self) -> tuple[str, ...]:
        """The attributes for which some value would drop the whole record."""
        return tuple(name for name, rule in self.attributes if DROP in (rule.null, rule.unknown))

    def list_rules(self) -> list[dict[str, Any]]:
        """The rules of all attributes, for JSON: what releases and models keep of a schema, beside their domain."""
        listed = []
        for name, rule in self.attributes:
            column = {"column": rule.column} if rule.column else {}
            known = {key: value for key, value in (("type", rule.type), ("stored", rule.stored)) if value}
            marks = {"missing": list(rule.missing)} if rule.missing else {}
            shared = {"null": rule.null, "unknown": rule.unknown, **marks, **known}
            listed.append({"name": name, **column, "kind": rule.kind, **rule.content(), **shared})
        return listed

    @classmethod
    def from_rules(cls, listed: Sequence[Mapping[str, Any]], domain: Domain) -> "Schema":
        """The inverse of :meth:`list_rules`, for whoever compares the two: the form of ``listed`` is not checked.

        Args:
            listed: The rules.
            domain: The attributes that they make.

        Returns:
            The schema.

        Raises:
            Error: A rule is none, or they make other attributes.
        """
        made = cls({item["name"]: rule_from_json(item) for item in listed}, domain.rules())
        if made.domain != domain:
            raise Error("the rules of the columns make other attributes than there are.")
        return made

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        impossible = self.domain.to_json()["impossible"]
        paid = {} if self.discovered is None else {"discovered": dict(self.discovered)}
        return {"format": FORMAT, "version": 1, **paid, "attributes": self.list_rules(), "impossible": impossible}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The inverse of :meth:`to_json`, with errors that say which attribute to mend and how.

        Args:
            data: The dictionary.

        Returns:
            The schema.

        Raises:
            FileError: It is not the JSON of a schema, or something in it is still to be filled in.
        """
        from quietfield.schema import form  # pydantic takes a while to load

        rules, impossible, discovered = form.read(data)
        return cls(rules, impossible, discovered=discovered)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {rule.kind} ({len(rule.labels)})" for name, rule in self.attributes[:12])
        return f"Schema({{{shown}{f', ... {len(self)} in all' if len(self) > 12 else ''}}})"


def starter(columns: Iterable[tuple[str, str]], origin: str) -> dict[str, Any]:
    """The JSON of a schema to fill in, from names and types alone.

    Types are text, integer, number, boolean, date or time; text, which may spell anything, is not written down.
    ``origin`` says where the names are from, for whoever reads the file.
    """
    attributes = []
    for name, kind in columns:
        if kind == "number":
            rule: dict[str, Any] = {"kind": "cuts", "cuts": FILL_IN}
        elif kind in ("date", "time"):
            rule = {"kind": "dates", "period": "month", "start": FILL_IN, "end": FILL_IN}
        else:
            rule = {"kind": "labels", "labels": FILL_IN}
        known = {} if kind == "text" else {"type": kind}
        attributes.append({"name": name, "column": name, **rule, "null": DROP, "unknown": DROP, **known})
    return {"format": FORMAT, "version": 1, "columns_from": origin, "attributes": attributes, "impossible": []}


def _list_labels(rule: Sequence[Label] | int) -> Any:
    if isinstance(rule, bool | str) or rule is None:
        raise Error(f"expected Labels, Cuts, Dates, a list of labels or a number of them, not {rule!r}.")
    return rule if isinstance(rule, Iterable) else range(_integer(rule))
