"""Domain: the attributes of a model, the values each can take, and the combinations that cannot occur.

A domain is public knowledge, written down by a person and never read from data. It is frozen and hashable, so that a
compiled inference routine can be looked up by it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, Self

from quietfield.errors import Error, FileError
from quietfield.files import MOST_IMPOSSIBLE, MOST_VALUES, JsonFile
from quietfield.text import facts_html, join_names, plural, suggest_names, type_name

if TYPE_CHECKING:
    import numpy as np

Label = str | int
Clique = tuple[str, ...]
#: One declared impossibility: the positions, attribute by attribute, that never occur together.
Zero = tuple[tuple[str, tuple[int, ...]], ...]

FORMAT = "quietfield-domain"
MOST_AXES = 64  # of an array, by numpy
MOST_FACTS = 30  # lines of a table in a notebook
MOST_LISTED = 12  # labels or attributes that are shown side by side


@dataclass(frozen=True, init=False, repr=False)
class Domain(JsonFile):
    """Ordered attributes and their values.

    ``attributes`` maps each name to a size (its labels are then ``0 .. size-1``) or to a list of labels, all strings
    or all integers. ``impossible`` lists combinations that never occur; each maps two or more attributes (or one) to a
    value or a list of values. They have probability zero in every marginal, answer and sample.

    >>> domain = Domain({"age": ["young", "old"], "visits": 3}, impossible=[{"age": "young", "visits": [1, 2]}])
    >>> domain.shape
    (2, 3)
    >>> domain.labels("age")
    ('young', 'old')
    """

    attributes: tuple[str, ...]
    _labels: tuple[tuple[Label, ...] | range, ...]  # 0, 1, 2, ... as a range, however they were given
    impossible: tuple[Zero, ...]

    def __init__(
        self,
        attributes: "Mapping[str, int | Sequence[Label]] | Domain",
        impossible: Iterable[Mapping[str, Label | Sequence[Label]]] = (),
    ) -> None:
        if isinstance(attributes, Domain):
            impossible = [*attributes.rules(), *impossible]
            attributes = dict(zip(attributes, attributes._labels, strict=True))
        if not isinstance(attributes, Mapping):
            raise Error(
                f"a Domain is made from a mapping of names to sizes or labels, not from {type_name(attributes)}; "
                'write for instance Domain({"age": 5, "sex": ["f", "m"]}).'
            )
        for name in attributes:
            if not isinstance(name, str) or not name:
                raise Error(f"an attribute's name must be a non-empty string, not {name!r}.")
            _check_text(name, "the name of an attribute")
        object.__setattr__(self, "attributes", tuple(attributes))
        listed: list[tuple[Label, ...] | range] = []
        room = MOST_VALUES
        for name, values in attributes.items():
            listed.append(_labels(name, values, room))
            room -= len(listed[-1])
        object.__setattr__(self, "_labels", tuple(listed))
        object.__setattr__(self, "impossible", ())
        if isinstance(impossible, Mapping | str) or not isinstance(impossible, Iterable):
            raise Error('impossible is a list of combinations, for instance [{"sex": "m", "pregnant": "yes"}].')
        zeros = {self._zero(rule) for rule in impossible}
        spanned = {tuple(name for name, _ in zero) for zero in zeros}
        self._check_impossible(sum(self.cells(clique) for clique in spanned), spanned)
        self._check_impossible(sum(prod(len(codes) for _, codes in zero) for zero in zeros), spanned)
        object.__setattr__(self, "impossible", tuple(sorted(zeros)))
        for clique, mask in self.masks:
            if not mask.any():
                raise Error(
                    f"every combination of {join_names(clique)} is declared impossible, so no record could exist; "
                    "leave at least one combination possible."
                )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.attributes)}

    @cached_property
    def _codes(self) -> dict[str, dict[Label, int]]:
        """The position of each label, for attributes whose labels are no positions themselves."""
        return {
            name: {label: i for i, label in enumerate(labels)}
            for name, labels in zip(self.attributes, self._labels, strict=True)
            if not isinstance(labels, range)
        }

    @cached_property
    def _tuples(self) -> dict[int, tuple[Label, ...]]:
        return {}

    @cached_property
    def _hash(self) -> int:
        return hash((self.attributes, self._labels, self.impossible))

    def __hash__(self) -> int:  # cached: a domain is the key of every compiled routine
        return self._hash

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute, in order."""
        return tuple(len(labels) for labels in self._labels)

    @cached_property
    def masks(self) -> "tuple[tuple[Clique, np.ndarray], ...]":
        """The impossible combinations as tables: per set of attributes, an array that is True where possible."""
        import numpy as np

        masks: dict[Clique, np.ndarray] = {}
        for zero in self.impossible:
            clique = tuple(name for name, _ in zero)
            mask = masks.setdefault(clique, np.ones(self.table_shape(clique), dtype=bool))
            mask[np.ix_(*(codes for _, codes in zero))] = False
        for mask in masks.values():
            mask.flags.writeable = False
        return tuple(masks.items())

    def mask_over(self, clique: Iterable[str]) -> "np.ndarray":
        """What is possible in a table over a clique, by the rules that speak of its attributes alone.

        Args:
            clique: Names of attributes.

        Returns:
            An array of truth values, True where possible, with axes in the order given.

        Raises:
            Error: A name is not an attribute.
        """
        import numpy as np

        names_ = tuple(clique)
        possible = np.ones(self.table_shape(names_), dtype=bool)
        for scope, mask in self.masks:
            if set(scope) <= set(names_):
                held = [name for name in names_ if name in scope]
                shape = [self.size(name) if name in scope else 1 for name in names_]
                possible &= mask.transpose([scope.index(name) for name in held]).reshape(shape)
        return possible

    def rules(self) -> list[dict[str, list[Label]]]:
        """The impossible combinations in the form in which they are declared."""
        return [{name: [self._values(name)[i] for i in codes] for name, codes in zero} for zero in self.impossible]

    def __reduce__(self) -> Any:  # a cached hash of strings is valid in one process only
        return Domain.from_json, (self.to_json(),)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def position(self, name: str) -> int:
        """The place of an attribute in the domain's order.

        Args:
            name: The name of an attribute.

        Returns:
            Its place, counted from 0.

        Raises:
            Error: It is not an attribute.
        """
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise Error(f"{name!r} is not an attribute{suggest_names(name, self.attributes)}.") from None

    def labels(self, name: str) -> tuple[Label, ...]:
        """The values of one attribute, in order.

        Args:
            name: The name of an attribute.

        Returns:
            Its labels, all strings or all integers.

        Raises:
            Error: It is not an attribute.
        """
        at = self.position(name)
        if at not in self._tuples:
            self._tuples[at] = tuple(self._labels[at])
        return self._tuples[at]

    def _values(self, name: str) -> "tuple[Label, ...] | range":
        """The values of one attribute; a range takes no memory, however long it is."""
        return self._labels[self.position(name)]

    def size(self, name: str) -> int:
        """The number of values of one attribute.

        Args:
            name: The name of an attribute.

        Returns:
            How many values it has.

        Raises:
            Error: It is not an attribute.
        """
        return self.shape[self.position(name)]

    def has_label(self, name: str, label: object) -> bool:
        """Whether a label is among the values of an attribute.

        Args:
            name: The name of an attribute.
            label: What may be one of its labels.

        Returns:
            True or False; something that is neither a string nor an integer is no label.

        Raises:
            Error: ``name`` is not an attribute.
        """
        values = self._values(name)
        if isinstance(values, range):
            return isinstance(label, int) and label in values
        return isinstance(label, str | int) and label in self._codes[name]

    def code(self, name: str, label: object) -> int:
        """The position of a label among the values of an attribute.

        Args:
            name: The name of an attribute.
            label: One of its labels.

        Returns:
            The label's position, counted from 0.

        Raises:
            Error: ``name`` is not an attribute, or ``label`` none of its labels.
        """
        values = self._values(name)
        if not isinstance(label, str):
            try:
                label = index(label)  # type: ignore[arg-type]  # numpy integers count as integers
            except TypeError:
                pass
        try:
            return values.index(label) if isinstance(values, range) else self._codes[name][label]  # type: ignore[arg-type, index]
        except (KeyError, TypeError, ValueError):
            raise Error(f"{label!r} is not a value of {name!r}; expected one of {join_names(values)}.") from None

    def codes(self, name: str, values: Label | Iterable[Label]) -> list[int]:
        """The positions of one label or of several.

        Args:
            name: The name of an attribute.
            values: One of its labels, or several.

        Returns:
            One position per label, in the order given.

        Raises:
            Error: ``name`` is not an attribute, or one of the labels none of its own.
        """
        listed = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
        return [self.code(name, value) for value in listed]

    def clique(self, attributes: str | Iterable[str]) -> Clique:
        """Check a set of attributes and return it as a tuple, in the order given.

        Args:
            attributes: The name of an attribute, or several.

        Returns:
            The names as a tuple.

        Raises:
            Error: A name is not an attribute, or is there twice.
        """
        if not isinstance(attributes, Iterable):
            raise Error(f"expected an attribute's name or several, not {attributes!r}.")
        clique = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        for name in clique:
            if name not in self:
                raise Error(f"clique {clique}: {name!r} is not an attribute{suggest_names(name, self.attributes)}.")
        if len(set(clique)) != len(clique):
            raise Error(f"clique {clique} names an attribute twice; name each attribute once.")
        return clique

    def table_shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """The shape of a table over a clique, its axes in the order given.

        Args:
            clique: Names of attributes.

        Returns:
            The number of values of each.

        Raises:
            Error: A name is not an attribute.
        """
        return tuple(self.shape[self.position(name)] for name in clique)

    def cells(self, clique: Iterable[str] | None = None) -> int:
        """The number of cells of a table over a clique (over all attributes by default).

        Args:
            clique: Names of attributes; None means all.

        Returns:
            How many cells the table has.

        Raises:
            Error: A name is not an attribute.
        """
        return prod(self.shape if clique is None else self.table_shape(clique))

    def project(self, attributes: Iterable[str]) -> "Domain":
        """The domain of some attributes, with the impossible combinations that speak of them alone.

        Args:
            attributes: Names of attributes, in the order that the new domain is to have.

        Returns:
            A new Domain.

        Raises:
            Error: A name is not an attribute, or is there twice.
        """
        kept = self.clique(attributes)
        rules = [rule for rule in self.rules() if all(name in kept for name in rule)]
        return Domain({name: self._values(name) for name in kept}, rules)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for JSON. Attributes are a list, since their order matters."""
        attributes: list[dict[str, Any]] = []
        for name, labels in zip(self.attributes, self._labels, strict=True):
            values = {"size": len(labels)} if isinstance(labels, range) else {"labels": list(labels)}
            attributes.append({"name": name, **values})
        return {"format": FORMAT, "version": 1, "attributes": attributes, "impossible": self.rules()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`; a plain ``{"attribute": size}`` mapping, as mbi writes it, will do too.

        Args:
            data: The dictionary.

        Returns:
            The domain.

        Raises:
            FileError: It is not the JSON of a domain, or of another version.
            Error: What it says cannot be a domain; see :class:`Domain`.
        """
        if not isinstance(data, Mapping):
            raise FileError('a domain in JSON is an object, for instance {"age": 5, "sex": 2}.')
        if data.get("format") != FORMAT:
            return cls(data)
        if data.get("version") != 1:
            raise FileError(f"this domain has version {data.get('version')!r}; this quietfield reads version 1.")
        try:
            attributes = {a["name"]: a["size"] if "size" in a else a["labels"] for a in data["attributes"]}
            if len(attributes) != len(data["attributes"]):
                raise FileError("this domain names an attribute twice; name each attribute once.")
            return cls(attributes, data.get("impossible", ()))
        except (KeyError, TypeError, AttributeError) as error:
            raise FileError(
                f"this domain is damaged: {error!r} where a list of named attributes was expected."
            ) from None

    def _zero(self, rule: Mapping[str, Label | Sequence[Label]]) -> Zero:
        if not isinstance(rule, Mapping) or not rule:
            raise Error(
                f"an impossible combination maps attributes to values, not {rule!r}; "
                'write for instance {"sex": "m", "pregnant": "yes"}.'
            )
        if len(rule) > MOST_AXES:
            raise Error(
                f"an impossible combination of {len(rule)} attributes is more than a table has axes for, {MOST_AXES}; "
                "declare it on fewer attributes."
            )
        zero = []
        for name in self.clique(rule):
            codes = self.codes(name, rule[name])
            if not codes:
                raise Error(f"the impossible combination {dict(rule)!r} lists no value of {name!r}; list at least one.")
            zero.append((name, tuple(sorted(set(codes)))))
        return tuple(sorted(zero, key=lambda part: self.position(part[0])))

    @staticmethod
    def _check_impossible(cells: int, cliques: Iterable[Clique]) -> None:
        if cells > MOST_IMPOSSIBLE:
            raise Error(
                f"the impossible combinations of {join_names(sorted(cliques))} span tables of {cells:,} cells in all, "
                f"more than {MOST_IMPOSSIBLE:,}; declare them on fewer attributes."
            )

    def _repr_html_(self) -> str:
        facts = [(name, _listing(self._values(name))) for name in self.attributes[:MOST_FACTS]]
        if len(self) > MOST_FACTS:
            facts.append(("…", plural(len(self) - MOST_FACTS, "more attribute")))
        never = [", ".join(f"{name}: {_listing(labels)}" for name, labels in rule.items()) for rule in self.rules()]
        facts += [("impossible", text) for text in never[:MOST_FACTS]]
        return facts_html(f"Domain of {plural(len(self), 'attribute')}", facts)

    def __repr__(self) -> str:
        shown = ", ".join(f"{a!r}: {n}" for a, n in list(zip(self.attributes, self.shape, strict=True))[:MOST_LISTED])
        more = f", ... {len(self)} in all" if len(self) > MOST_LISTED else ""
        zeros = f", impossible={len(self.impossible)}" if self.impossible else ""
        return f"Domain({{{shown}{more}}}{zeros})"


def _labels(name: str, values: int | Sequence[Label], room: int) -> tuple[Label, ...] | range:
    """Check one attribute's values, of which there may be as many as ``room`` is left for."""
    if isinstance(values, range) and values and values == range(len(values)):
        values = len(values)
    if isinstance(values, str | bytes | bool | Set | Mapping):  # a set has no order, and labels need one
        raise Error(f"attribute {name!r}: expected a size or a list of labels, not {values!r}.")
    if isinstance(values, Iterable):
        labels = tuple(values)
        if all(isinstance(v, str) for v in labels):
            for label in labels:
                _check_text(label, f"a label of {name!r}")  # type: ignore[arg-type]
        elif any(isinstance(v, bool) for v in labels):
            raise Error(f"attribute {name!r}: write truth values as strings, for instance ['no', 'yes'].")
        else:
            try:
                labels = tuple(index(v) for v in labels)  # type: ignore[arg-type]
            except TypeError:
                raise Error(f"attribute {name!r}: labels must be all strings or all integers.") from None
    else:
        try:
            size = index(values)
        except TypeError:
            raise Error(f"attribute {name!r}: expected a size or a list of labels, not {values!r}.") from None
        labels = ()
        if size > 0:
            _check_values(name, size, room)
            return range(size)
    _check_values(name, len(labels), room)
    if not labels:
        raise Error(f"attribute {name!r} has no values; every attribute needs at least one.")
    if len(set(labels)) != len(labels):
        twice = sorted((v for v, count in Counter(labels).items() if count > 1), key=str)
        raise Error(f"attribute {name!r} lists {join_names(twice)} more than once; labels must differ.")
    return range(len(labels)) if labels[0] == 0 and labels == tuple(range(len(labels))) else labels


def _check_values(name: str, size: int, room: int) -> None:
    if size > room:
        raise Error(
            f"attribute {name!r} brings the values of all attributes to more than {MOST_VALUES:,}, which is the most "
            "that a domain may have; group them."
        )


def _listing(labels: Sequence[object]) -> str:
    more = f", … {len(labels)} in all" if len(labels) > MOST_LISTED else ""
    return ", ".join(str(label) for label in labels[:MOST_LISTED]) + more


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no file could hold it
        raise Error(f"{what} is not valid Unicode text: {text!r}; write it in whole characters.") from None
