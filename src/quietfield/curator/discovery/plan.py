"""The plan of a discovery, from what is public alone: which columns are asked about, with what noise, at what price."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, Literal, get_args

from quietfield.curator import mechanism
from quietfield.curator.charging import Price
from quietfield.curator.discovery import partitions
from quietfield.errors import Error
from quietfield.privacy import accounting, calibration, planning
from quietfield.privacy.noise import Gaussian, Laplace
from quietfield.privacy.thresholds import smallest_threshold
from quietfield.privacy.units import CountedTable, Neighbours, Person, Rows, Statistics, Unit
from quietfield.schema import YEARS_FROM, Attribute, DateForm, Decimal, Labels, NumberForm, Schema, Thousands
from quietfield.schema.rules import check_marks, check_years_from
from quietfield.text import join_names, type_name

#: What a column may be said to hold, and by what kinds of columns it can be held.
Holds = Literal["categories", "integers", "numbers", "dates"]
HELD_BY = {
    "categories": ("text", "integer"),
    "integers": ("text", "integer", "number"),
    "numbers": ("text", "integer", "number"),
    "dates": ("text", "date", "time"),
}
#: What a kind of column holds by itself; texts may hold anything, and numbers may all be whole.
HELD: dict[str, Holds] = {"integer": "integers", "number": "numbers", "date": "dates", "time": "dates"}
#: Ends of a range, and one over its width, are no larger: floats compare them with values.
REACH = 10**300
#: The last word of a name that calls a column an identifier.
_IDENTIFIERS = {*("id", "ids", "uid", "uuid", "guid", "key", "nr", "no", "num", "ssn", "iban", "email", "phone")}
#: The share of a column's loss that the first question takes, and that of all others together.
FIRST, REST = Fraction(1, 8), Fraction(7, 8)


@dataclass(frozen=True)
class Range:
    """What is known of a column of numbers: where they lie. It is public, and makes cut points cheaper.

    >>> Range(0, 120)
    Range(low=0, high=120)
    """

    low: accounting.Number
    high: accounting.Number

    def __post_init__(self) -> None:
        try:
            low, high = self.ends
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            low = high = Fraction(0)
        if not low < high or max(-low, high, 1 / (high - low)) > REACH:
            raise Error(
                f"a Range goes from a lower number to a higher one, within what floats can tell, not from "
                f"{self.low!r:.60} to {self.high!r:.60}."
            )

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Both ends, as they are written."""
        low, high = (Fraction(repr(end)) if isinstance(end, float) else Fraction(end) for end in (self.low, self.high))
        return low, high


@dataclass(frozen=True)
class Forms:
    """How the texts of a source write numbers, dates and missing values, as far as that is public.

    What is not said is found out with everything else, and costs nothing more; only what can be read in two ways has to
    be said: ``01/02/2024``, ``1,234``, and which century ``24`` is of.

    Args:
        decimal: What stands before decimal places, ``"."`` or ``","``.
        dates: How dates are written that could be read in two ways, such as ``"dd/mm/yyyy"``.
        missing: Texts that stand for missing values, beside those that are common in columns of numbers and dates.
        thousands: What stands between thousands, ``","``, ``"."``, ``" "`` or ``"'"``.
        years_from: The first of the hundred years that years of two digits are of: ``1930`` for 1930 to 2029.

    Raises:
        Error: It is none of these.

    >>> Forms(decimal=",", missing=["k. A."])
    Forms(decimal=',', dates=None, missing=('k. A.',), thousands=None, years_from=1969)
    """

    decimal: Decimal | None = None
    dates: DateForm | None = None
    missing: tuple[str, ...] = ()
    thousands: Thousands | None = None
    years_from: int = YEARS_FROM

    def __post_init__(self) -> None:
        if self.thousands is not None and self.decimal is None:  # one of the two signs tells the other
            object.__setattr__(self, "decimal", {",": ".", ".": ","}.get(self.thousands))
        if self.dates is not None and self.dates not in get_args(DateForm):
            raise Error(f"dates is one of {join_names(get_args(DateForm))}, not {self.dates!r:.60}.")
        NumberForm(self.decimal or ("," if self.thousands == "." else "."), self.thousands).check()
        check_years_from(self.years_from)
        object.__setattr__(self, "missing", check_marks(self.missing))


#: What is known of a column: its rule, what it holds, its range, or that it is to be left out (None).
Known = Attribute | Sequence[str] | Sequence[int] | int | Holds | Range | None


@dataclass(frozen=True)
class Storage:
    """What the type of a column says beside its kind: as what it is stored (None if unknown), and if it has nulls."""

    type: str | None = None
    nullable: bool = True

    @property
    def limits(self) -> tuple[int, int] | None:
        """The least and the most that a type of whole numbers can hold; None for other types.

        >>> Storage("uint8").limits
        (0, 255)
        """
        match = re.fullmatch("(u?)int([0-9]+)", self.type or "")
        if match is None:
            return None
        signs = 0 if match[1] else 2 ** (int(match[2]) - 1)
        return -signs, 2 ** int(match[2]) - 1 - signs


@dataclass(frozen=True)
class ColumnPlan:
    """A column whose rule is discovered: its kind, what it is known to hold (None for nothing), and its range."""

    name: str
    kind: str
    holds: Holds | None
    within: tuple[Fraction, Fraction] | None = None
    storage: Storage = Storage()

    @property
    def takes_threshold(self) -> bool:
        """Whether labels may have to be discovered."""
        return self.holds == "categories" or (self.holds is None and self.kind == "text")


@dataclass(frozen=True)
class DiscoveryPlan:
    """A discovery before any record is read: which columns are asked about, with what noise, and what that costs.

    ``epsilon`` (Laplace noise) or ``rho`` (Gaussian noise) is what all questions cost together, and ``threshold`` the
    delta that thresholds spend beside it. ``promised`` is epsilon and delta, where the plan was made for these.
    """

    columns: tuple[ColumnPlan, ...]
    known: Mapping[str, Attribute]
    impossible: Sequence[Mapping[str, Any]]
    left_out: Mapping[str, str]
    order: tuple[str, ...]
    noise: mechanism.NoiseKind
    epsilon: Fraction | None
    rho: Fraction | None
    threshold: Fraction | None
    promised: tuple[Fraction, Fraction | None] | None
    unit: Unit
    neighbours: Neighbours
    forms: Forms = Forms()

    @property
    def price(self) -> Price:
        """What it costs; an error for a part of something larger, whose price is that of the whole."""
        if self.promised is None:
            raise Error("this plan is a share of a larger charge, and has no epsilon and delta of its own.")
        epsilon, delta = self.promised
        rho = self.rho
        if delta is not None and self.epsilon is not None:  # Laplace: (epsilon, delta) is delta-approximate zCDP
            rho = self.epsilon**2 / 2
        return Price(epsilon, delta, rho, self.unit, self.neighbours, self.noise, threshold=self.threshold)

    @property
    def warning(self) -> str | None:
        """What there is to say about an epsilon or a delta that promises next to nothing, or about much noise."""
        return None if self.promised is None else planning.warn_of_budget(*self.promised)

    @property
    def advice(self) -> str | None:
        """Which columns may be identifiers, by their names alone; None where none is."""
        named = [column.name for column in self.columns if column.holds != "categories" and is_identifier(column.name)]
        if not named:
            return None
        return (
            f"by name, these may be identifiers: {join_names(named)}. Numbers that identify are modelled as any "
            "others, and texts that do are left out but share the budget; leave out what is one (--leave-out, in "
            "Python known={name: None})."
        )

    @property
    def label_threshold(self) -> int | None:
        """About how many rows have to have a text in common for it to become a label; None where none is asked for."""
        return None if self.threshold is None else self.cutoff(self.scale(REST))

    @property
    def least_values(self) -> int:
        """About how many values a column has to have for its rule to be discovered."""
        return ceil(partitions.LEAST_CELL * self.std(self.scale(FIRST)))

    @property
    def least_of_kinds(self) -> dict[str, int]:
        """About how many numbers and dates columns of these have to have: numbers for two cells, dates for a period."""
        numbers, dates = (self.std(self.scale(REST / n)) for n in (partitions.NUMBER_LEVELS, partitions.DATE_LEVELS))
        needed = {"numbers": 2 * partitions.LEAST_CELL * numbers, "dates": partitions.LEAST_CELL * dates}
        return {what: max(self.least_values, ceil(many)) for what, many in needed.items()}

    def std(self, scale: float) -> float:
        """The standard deviation of noise of a scale."""
        return (Laplace if self.noise == "laplace" else Gaussian)(scale, Fraction(1)).std

    @property
    def rows(self) -> int:
        """The most rows of one unit."""
        return int(self.unit.rows or 1)

    def scale(self, share: Fraction) -> float:
        """The scale of noise of a question that takes this share of a column's loss."""
        loss = self.epsilon if self.epsilon is not None else self.rho
        assert loss is not None
        l1, l2_squared = map(Fraction, histogram_sensitivity(self.unit, self.neighbours))
        table = CountedTable(((),), (1,), None, l1, l2_squared)
        histogram = Statistics((table,), False, False, 1, self.neighbours, l1, l2_squared, Fraction(0))
        plan, _ = mechanism.plan_step(histogram, self.noise, loss * share / len(self.columns))
        return plan.scales[0]

    def cutoff(self, scale: float) -> int:
        """The noisy count from which a label is published, at this scale of noise."""
        takers = sum(column.takes_threshold for column in self.columns)
        assert self.threshold is not None
        return smallest_threshold(self.noise, scale, self.rows, self.threshold / takers)


def is_identifier(name: str) -> bool:
    """Whether a column is an identifier by its name, as far as a short list of words tells.

    >>> [is_identifier(name) for name in ("id", "customerId", "PATIENT_NR", "Kundennummer", "paid", "key_skills")]
    [True, True, True, True, False, False]
    """
    words = re.sub("([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    last = next(iter(re.findall(r"[^\W_]+", words)[::-1]), "")
    return last in _IDENTIFIERS or last.endswith("nummer")


def histogram_sensitivity(unit: Unit, neighbours: str) -> tuple[int, int]:
    """How far one unit moves all counts of a histogram together: L1, and L2 squared.

    >>> histogram_sensitivity(Rows(3), "add_remove"), histogram_sensitivity(Rows(3), "replace")
    ((3, 9), (6, 18))
    """
    rows, times = int(unit.rows or 1), 2 if neighbours == "replace" else 1
    return times * rows, times * rows**2


def plan_discovery(
    kinds: Mapping[str, str],
    *,
    epsilon: accounting.Number | None = None,
    delta: accounting.Number | None = None,
    rho: Fraction | None = None,
    threshold: Fraction | None = None,
    noise: mechanism.NoiseKind = "laplace",
    unit: Unit,
    neighbours: Neighbours = "add_remove",
    known: "Schema | Mapping[str, Known] | None" = None,
    forms: Forms | None = None,
    storage: Mapping[str, Storage] | None = None,
) -> DiscoveryPlan:
    """Plan a discovery from what is public alone: the names and kinds of columns, and what is known of them.

    Args:
        kinds: The kind of each column (text, integer, number, boolean, date, time or other): see :func:`column_kinds`.
        epsilon: What is promised; with a ``delta`` and Gaussian noise, half of delta is for thresholds if any is used.
        delta: What is promised with it. With Laplace noise, all of it is for thresholds.
        rho: In place of both, for Gaussian noise: what the questions may cost, as a share of a larger charge.
        threshold: With ``rho``: the delta that thresholds may spend.
        noise: ``"laplace"`` or ``"gaussian"``.
        unit: Whom it protects: ``Rows(k)`` or ``Person(column, rows=k)``.
        neighbours: ``"add_remove"`` or ``"replace"``.
        known: What is public, as in :func:`discover`.
        forms: Likewise.
        storage: What else the types of columns say: see :func:`column_storage`.

    Returns:
        The plan, with its price.

    Raises:
        Error: Arguments that do not go together; texts without a delta; nothing that is left to discover.

    >>> plan = plan_discovery({"age": "integer", "sex": "text"}, epsilon=1, delta="1e-6", unit=Rows(1))
    >>> plan.epsilon, plan.threshold
    (Fraction(1, 1), Fraction(1, 1000000))
    """
    if not isinstance(unit, Rows | Person):
        raise Error(f"a unit is Rows(k) or Person(column, ...), not {unit!r}.")
    if unit.rows is None:
        raise Error(
            f"values are counted by rows, so weights of 1/K mean nothing here: give Person({unit.column!r}, rows=k), "
            "of whom at most k rows are counted; the same ledger pays."
        )
    if forms is not None and not isinstance(forms, Forms):
        raise Error(f"forms are Forms(decimal=..., dates=..., missing=...), not {type_name(forms)}.")
    if neighbours not in ("add_remove", "replace"):
        raise Error(f"a discovery has add_remove or replace neighbours, not {neighbours!r}.")
    columns, rules, left_out, impossible = _sort_columns(kinds, known, unit, storage or {})
    if not columns:
        raise Error(
            "nothing is left to discover: every column is known or left out. What is known is the schema, which costs "
            "nothing: release with it, or have quietfield synthesize take it (--known)."
        )
    plan = DiscoveryPlan(
        tuple(columns), rules, impossible, left_out, tuple(kinds), noise, None, None, None, None, unit, neighbours,
        forms or Forms(),
    )  # fmt: skip
    takers = [column.name for column in columns if column.takes_threshold]
    if rho is not None:
        if epsilon is not None or delta is not None or noise != "gaussian":
            raise Error("a share is given as rho (and threshold) of Gaussian noise, without epsilon and delta.")
        plan = replace(plan, rho=rho, threshold=threshold if takers else None)
    else:
        if epsilon is None or threshold is not None:
            raise Error("a discovery has an epsilon (and a delta), or a rho (and a threshold) as a share.")
        plan = _promise(plan, epsilon, delta, bool(takers))
    if takers and plan.threshold is None:
        raise Error(
            f"labels of {join_names(takers)} cannot be discovered with epsilon alone: to publish a label that may be "
            "one person's takes a delta. Give one such as 1e-6, or say what is known: labels (--schema or --known) "
            'or, in Python, that a column holds "integers", "numbers" or "dates".'
        )
    # Now, so that a scale that cannot be drawn is refused before anything is charged.
    scale = plan.scale(REST)
    plan.scale(REST / partitions.DATE_LEVELS)
    plan.scale(FIRST)
    if takers:
        plan.cutoff(scale)
    return plan


def known_schema(
    kinds: Mapping[str, str],
    known: "Schema | Mapping[str, Known] | None",
    unit: Unit,
    storage: Mapping[str, Storage],
) -> Schema | None:
    """The schema that is public where every column is known or left out; None where something is left to discover.

    Raises:
        Error: What is known is of no column, or there are no columns but those that are left out.

    >>> schema = known_schema({"age": "integer", "id": "text"}, {"age": [1, 2], "id": None}, Rows(1), {})
    >>> schema.domain.labels("age"), known_schema({"age": "integer"}, None, Rows(1), {})
    ((1, 2), None)
    """
    columns, rules, _, impossible = _sort_columns(kinds, known, unit, storage)
    if columns:
        return None
    if not rules:
        raise Error("no column is left: all of them are left out.")
    order = list(kinds)
    listed = sorted(rules.items(), key=lambda item: order.index(item[1].column or item[0]))
    return Schema(dict(listed), impossible)


def _sort_columns(
    kinds: Mapping[str, str],
    known: "Schema | Mapping[str, Known] | None",
    unit: Unit,
    storage: Mapping[str, Storage],
) -> tuple[list[ColumnPlan], dict[str, Attribute], dict[str, str], Sequence[Mapping[str, Any]]]:
    """Which columns are asked about, the rules of those that are known, why others are left out, what is impossible."""
    given, said = _read_known(known, kinds)
    rules = dict(given.attributes) if given is not None else {}
    ruled = {given.column(name) for name in given} if given is not None else set()
    persons = unit.columns if isinstance(unit, Person) else ()
    columns, left_out = [], {}
    for name, kind in kinds.items():
        stored = storage.get(name, Storage())
        if name in ruled:
            continue
        if name in said and said[name] is None:
            left_out[name] = "it was to be left out"
        elif name in persons:
            left_out[name] = "it names the persons who are protected"
        elif kind == "boolean":
            null = "missing" if stored.nullable else "false"  # which then does not occur
            rules[name] = Labels(("false", "true"), null=null, unknown=null, type="boolean", stored=stored.type)
        elif not name or kind == "other":
            left_out[name] = "its type holds nothing that a rule reads" if name else "it has no name"
        else:
            columns.append(replace(_plan_column(name, kind, said.get(name)), storage=stored))
    return columns, rules, left_out, given.to_json()["impossible"] if given is not None else []


def _promise(
    plan: DiscoveryPlan, epsilon: accounting.Number, delta: accounting.Number | None, thresholds: bool
) -> DiscoveryPlan:
    """The plan at an epsilon and a delta, of which a part is for thresholds where there are any."""
    if plan.noise == "laplace":
        budget, _ = calibration.check_budget(epsilon, None, "laplace")
        chance = accounting.to_probability(delta) if delta is not None and thresholds else None
        return replace(plan, epsilon=budget, threshold=chance, promised=(budget, chance))
    budget, chance = calibration.check_budget(epsilon, delta, plan.noise)
    assert chance is not None
    threshold = chance / 2 if thresholds else None
    rho = accounting.payable_rho(budget, chance - (threshold or 0))
    return replace(plan, rho=rho, threshold=threshold, promised=(budget, chance))


def _read_known(
    known: "Schema | Mapping[str, Known] | None", kinds: Mapping[str, str]
) -> tuple[Schema | None, dict[str, Any]]:
    """What is known: the rules, and by column what else is said (None for one to leave out)."""
    rules: Schema | None
    if isinstance(known, Schema):
        rules, said = known, {}
    elif isinstance(known, Mapping | None):
        listed: dict[str, Any] = dict(known or {})
        said = {name: listed.pop(name) for name in list(listed) if isinstance(listed[name], str | Range | None)}
        rules = Schema(listed) if listed else None
    else:
        raise Error(f"known is a Schema or a mapping of columns to what is known of them, not {type_name(known)}.")
    ruled = {name: rules.column(name) for name in rules} if rules is not None else {}
    if missing := [name for name in (*ruled.values(), *said) if name not in kinds]:
        raise Error(
            f"the data has no column {join_names(missing)}, which --leave-out or --known (in Python known) names; "
            "check its spelling (capital letters and spaces count)."
        )
    if taken := [name for name, column in ruled.items() if name != column and name in kinds]:
        raise Error(
            f"{join_names(taken)} is known as an attribute of another column, and there is a column of that name; "
            "give the attribute another name."
        )
    return rules, said


def _plan_column(name: str, kind: str, said: str | Range | None) -> ColumnPlan:
    within = said.ends if isinstance(said, Range) else None
    holds: Any = said if within is None else HELD.get(kind, "numbers")
    if holds is None:
        return ColumnPlan(name, kind, HELD.get(kind))
    if holds not in get_args(Holds):
        raise Error(f"column {name!r} is said to hold {holds!r:.60}; expected one of {join_names(get_args(Holds))}.")
    if kind not in HELD_BY[holds]:
        raise Error(f"column {name!r} is of kind {kind}, which cannot hold {holds}.")
    return ColumnPlan(name, kind, holds, within)
