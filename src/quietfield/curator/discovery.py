"""Discover a schema and pay for it: labels, cut points and periods of columns that nobody has described.

What is public is planned first: the names and kinds of columns, what is known of them, the unit. The rest is asked of
the records, and every question is a histogram: disjoint sets of values, and how many rows fall into each. A unit adds
at most k rows, chosen by that unit's rows alone, and a row adds 1 to at most one set. So if one unit comes or goes, all
counts together move by at most k (L1 and L2: at worst all k rows fall into one set), and if one unit replaces another,
by at most 2 k (L1) and by the root of 2 k^2 (L2). Noise of a scale that keeps the question's share of the loss is added
by OpenDP, and whatever is decided, which question comes next included, is decided from noisy counts.

Of each column there are these questions, whose losses add up to the column's share:

* what the values are (nothing, whole numbers, other numbers, dates, other texts): 1/8;
* then, of numbers, one for each level of a tree of intervals: 7 times 1/8; of dates, likewise: 5 times 7/40;
* of other texts, one for all values, of which those are published whose noisy counts reach a threshold: 7/8, and the
  delta of the threshold (:mod:`quietfield.privacy.thresholds`).

Which of the last three is asked follows from the first answer; each costs the same, so that the sum is known before.
"""

import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import inf, isinf
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from quietfield.curator import mechanism, partitions
from quietfield.curator.charging import Price, Receipt, charge_ledger, open_ledger
from quietfield.curator.counting import lines
from quietfield.curator.counting.coding import NAN, Column
from quietfield.curator.counting.reading import arrow_kind, attempt, duckdb_type, hide_details
from quietfield.curator.counting.sources import check_columns, check_kind, is_a, open_empty
from quietfield.curator.ledger import Ledger
from quietfield.curator.sequences import Log
from quietfield.errors import Error
from quietfield.privacy import accounting, calibration
from quietfield.privacy.noise import Gaussian, Laplace
from quietfield.privacy.thresholds import smallest_threshold
from quietfield.privacy.units import Neighbours, Person, Rows, Unit
from quietfield.schema import DROP, FILL_IN, Attribute, Labels, Schema
from quietfield.status import show_status
from quietfield.text import join_names, plural, type_name

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
#: The first question's answers, in order.
CLASSES = ("missing", "plain", "spelled", "fraction", "date", "text")
#: A column holds numbers, or dates, if so many of its values are; it has labels if these cover so many.
MOST, COVERED = 0.9, 0.2
#: The most labels of a column, and the most characters of one: whatever is longer is an "other".
MOST_LABELS, MOST_CHARACTERS = 1000, 100
#: The share of a column's loss that the first question takes, and that of all others together.
FIRST, REST = Fraction(1, 8), Fraction(7, 8)
#: The most values that are handed to the mechanism at once.
BATCH = 50_000
#: A whole number as texts spell labels, and numbers that are codes, since they begin with zeros.
PLAIN, PADDED = "0|-?[1-9][0-9]{0,17}", r"[ \t]*[+-]?0[0-9].*"


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
        if not low < high:
            raise Error(f"a Range goes from a lower number to a higher one, not from {self.low!r} to {self.high!r}.")

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Both ends, as they are written."""
        low, high = (Fraction(repr(end)) if isinstance(end, float) else Fraction(end) for end in (self.low, self.high))
        return low, high


#: What is known of a column: its rule, what it holds, its range, or that it is to be left out (None).
Known = Attribute | Sequence[str] | Sequence[int] | int | Holds | Range | None


@dataclass(frozen=True)
class ColumnPlan:
    """A column whose rule is discovered: its kind, what it is known to hold (None for nothing), and its range."""

    name: str
    kind: str
    holds: Holds | None
    within: tuple[Fraction, Fraction] | None = None

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
        return None if self.promised is None else calibration.warn_of_budget(*self.promised)

    @property
    def rows(self) -> int:
        """The most rows of one unit."""
        return int(self.unit.rows or 1)

    def scale(self, share: Fraction) -> float:
        """The scale of noise of a question that takes this share of a column's loss."""
        loss = self.epsilon if self.epsilon is not None else self.rho
        assert loss is not None
        l1, l2_squared = histogram_sensitivity(self.unit, self.neighbours)
        return mechanism.histogram_scale(self.noise, loss * share / len(self.columns), l1, l2_squared)

    def cutoff(self, scale: float) -> int:
        """The noisy count from which a label is published, at this scale of noise."""
        takers = sum(column.takes_threshold for column in self.columns)
        assert self.threshold is not None
        return smallest_threshold(self.noise, scale, self.rows, self.threshold / takers)


def histogram_sensitivity(unit: Unit, neighbours: str) -> tuple[int, int]:
    """How far one unit moves all counts of a histogram together: L1, and L2 squared.

    >>> histogram_sensitivity(Rows(3), "add_remove"), histogram_sensitivity(Rows(3), "replace")
    ((3, 9), (6, 18))
    """
    rows, times = int(unit.rows or 1), 2 if neighbours == "replace" else 1
    return times * rows, times * rows**2


def discover(
    source: Any,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: "Ledger | str | Path | None",
    known: "Schema | Mapping[str, Known] | None" = None,
    neighbours: Neighbours = "add_remove",
    noise: mechanism.NoiseKind = "laplace",
    header: bool = False,
    progress: bool = False,
) -> Schema:
    """Discover labels, cut points and periods of a source's columns, with differential privacy, and pay for it.

    Text labels are those whose noisy counts reach a threshold; all others become ``other``, and missing values, where
    they are many, ``missing``. Numbers are cut so that cells hold about the same, while a value that is very common (0,
    99) has a cell of its own. Dates are cut into periods. Columns of free text and identifiers are left out. What the
    schema says of all this is in :attr:`Schema.discovered`, with what was paid. Edit it, and release with it.

    Args:
        source: A path, a :class:`CsvFile` or :class:`StatFile`, a frame, an Arrow, DuckDB or Ibis table.
        epsilon: What is promised.
        delta: What is promised with it. Labels of texts that are not known cannot be discovered without one.
        unit: Whom the promise protects: ``Rows(1)``, ``Person("user", rows=3)``. A person's own columns are left out.
        ledger: The budget that pays (a path will do). None, which must be said, pays nothing.
        known: What is public, and costs nothing: a schema, or by column a rule, a :class:`Range`, what the column holds
            (``"categories"``, ``"integers"``, ``"numbers"`` or ``"dates"``), or None to leave it out.
        neighbours: ``"add_remove"`` or ``"replace"``, as in :func:`quietfield.release`.
        noise: ``"laplace"``, or ``"gaussian"``, which needs a ``delta``.
        header: Affirm that the first line of a CSV file holds names, which are published.
        progress: Whether a line on the error stream shows that it goes on.

    Returns:
        The schema, which may be published.

    Raises:
        BudgetExceeded: It costs more than remains in the ledger.
        PolicyRefused: The policy in force does not allow it.
        Error: A request or a source that cannot be used, or that no column is left. Unless the message says that the
            charge stands, nothing was charged.

    >>> import quietfield as qf
    >>> people = {"smokes": ["yes", "no"] * 5000, "note": [f"text {i}" for i in range(10000)]}
    >>> schema = discover(people, epsilon=1, delta=1e-6, unit=qf.Rows(1), ledger=None)
    >>> schema.domain.labels("smokes"), list(schema.discovered["left_out"])
    (('no', 'yes', 'other'), ['note'])
    """
    if lines.is_lines(source):
        lines.check_header(source, header)
    elif header:
        raise Error("header=True is for CSV files, which this source is not.")
    plan = plan_discovery(
        column_kinds(source),
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        known=known,
        neighbours=neighbours,
        noise=noise,
    )
    if plan.warning is not None:
        warnings.warn(plan.warning, stacklevel=2)
    return charge_and_discover(source, plan, open_ledger(ledger), progress=progress)


def charge_and_discover(source: Any, plan: DiscoveryPlan, ledger: Ledger | None, *, progress: bool = False) -> Schema:
    """Check the source, charge the ledger and carry out a plan, in this order.

    Args:
        source: The records.
        plan: What is asked of them.
        ledger: Who pays; None pays nothing.
        progress: Whether a line on the error stream shows that it goes on.

    Returns:
        The schema.
    """
    check_source(source, plan)

    def work(receipt: Receipt) -> Schema:
        return run_discovery(source, plan, receipt=receipt, progress=progress)

    what = f"a schema, discovered from {plural(len(plan.columns), 'column')}"
    return charge_ledger(ledger, plan.price, what, work)


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
    if neighbours not in ("add_remove", "replace"):
        raise Error(f"a discovery has add_remove or replace neighbours, not {neighbours!r}.")
    given, said = _read_known(known, kinds)
    rules = dict(given.attributes) if given is not None else {}
    ruled = {given.column(name) for name in given} if given is not None else set()
    persons = unit.columns if isinstance(unit, Person) else ()
    columns, left_out = [], {}
    for name, kind in kinds.items():
        if name in ruled:
            continue
        if name in said and said[name] is None:
            left_out[name] = "it was to be left out"
        elif name in persons:
            left_out[name] = "it names the persons who are protected"
        elif kind == "boolean":
            rules[name] = Labels(("false", "true"), null="missing", unknown="missing")
        elif not name or kind == "other":
            left_out[name] = "its type holds nothing that a rule reads" if name else "it has no name"
        else:
            columns.append(_plan_column(name, kind, said.get(name)))
    if not columns:
        raise Error("nothing is left to discover: every column is known or left out. Write the schema, which is free.")
    impossible = given.to_json()["impossible"] if given is not None else []
    plan = DiscoveryPlan(
        tuple(columns), rules, impossible, left_out, tuple(kinds), noise, None, None, None, None, unit, neighbours
    )
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
            "one person's takes a delta. Give one such as 1e-6, or say what is known: labels, or that a column holds "
            '"integers", "numbers" or "dates".'
        )
    # Now, so that a scale that cannot be drawn is refused before anything is charged.
    scale = plan.scale(REST)
    plan.scale(REST / partitions.DATE_LEVELS)
    plan.scale(FIRST)
    if takers:
        plan.cutoff(scale)
    return plan


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
    rho = accounting.zcdp_rho(budget, chance - (threshold or 0))
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
        raise Error(f"the data has no column {join_names(missing)}, of which something is said to be known.")
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


def column_kinds(source: Any) -> dict[str, str]:
    """The names and kinds of a source's columns, from names and types alone: no record is read.

    Args:
        source: Whatever :func:`discover` takes.

    Returns:
        The kind of each column: text, integer, number, boolean, date, time, or other for what no rule reads.

    Raises:
        Error: The source has no named columns, or would have to be opened to know them.

    >>> column_kinds({"a": ["x", "y"], "b": np.array([1, 2])})
    {'a': 'text', 'b': 'integer'}
    """
    if isinstance(source, Log):
        raise Error("a log of sequences has a schema of its own: sequences.schema.")
    if isinstance(source, np.ndarray):
        raise Error("an array of codes has no columns with names; give a frame or a dictionary of columns.")
    check_kind(source)
    empty = hide_details(lambda: open_empty(source))
    if empty is None:
        raise Error(
            f"the columns of {type_name(source)} are not known before it is opened; give a file, or a frame in memory."
        )

    def kind_of(name: str) -> str:
        kind = attempt(lambda: empty.read([name]).kinds[0])
        return "other" if kind is None or duckdb_type(kind) is None else arrow_kind(kind)

    return {name: "integer" if name in empty.coded else kind_of(name) for name in empty.columns}


def check_source(source: Any, plan: DiscoveryPlan) -> None:
    """Refuse a source that cannot be used for a plan, from names and types alone.

    Args:
        source: Whatever :func:`discover` takes.
        plan: The plan.

    Raises:
        Error: The source is not there, lacks columns, or names no persons that can be told apart.
    """
    lines.check_unit(source, plan.unit)
    persons = plan.unit.columns if isinstance(plan.unit, Person) else ()
    check_columns(source, [*(column.name for column in plan.columns), *persons])


def run_discovery(
    source: Any, plan: DiscoveryPlan, *, receipt: Receipt | None = None, progress: bool = False
) -> Schema:
    """Carry out a plan. It charges nothing: call it only under a charge that covers the plan's price.

    Args:
        source: The records.
        plan: What is asked of them.
        receipt: The receipt of the charge, which the schema will name.
        progress: Whether a line on the error stream shows that it goes on.

    Returns:
        The schema, with what was paid for it.

    Raises:
        Error: No column is left, or the source cannot be read.
    """
    from quietfield.curator.counting.duckdb_engine import DuckEngine, connect
    from quietfield.curator.counting.values import count_values, count_values_by_person

    wanted = [column.name for column in plan.columns]
    ask = _Questions(plan)

    def work() -> dict[str, _Finding]:
        engine = DuckEngine(_stream(source))
        with show_status("Reading records ...", progress), connect(gathers=True) as con:
            if isinstance(plan.unit, Person):
                columns = count_values_by_person(con, engine, wanted, plan.unit)
            else:
                columns = count_values(con, engine, wanted)
            return {one.name: ask.find_rule(_Values(con, columns[one.name]), one) for one in plan.columns}

    found = hide_details(work)
    rules = {**plan.known, **{name: one.rule for name, one in found.items() if one.rule is not None}}
    left_out = {**plan.left_out, **{name: one.said for name, one in found.items() if one.rule is None}}
    if not rules:
        raise Error("no column is left: none has values that are common enough. Pay a larger epsilon, or write rules.")
    order = {name: i for i, name in enumerate(plan.order)}
    listed = sorted(rules.items(), key=lambda item: order[item[1].column or item[0]])
    told = {name: one.facts for name, one in found.items() if one.rule is not None}
    return Schema(dict(listed), plan.impossible, discovered=_provenance(source, plan, receipt, told, left_out))


def _provenance(
    source: Any,
    plan: DiscoveryPlan,
    receipt: Receipt | None,
    columns: Mapping[str, Mapping[str, Any]],
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """What was paid for a schema and what was found, as plain JSON."""
    from quietfield import __version__

    def text(value: Fraction | None) -> str | None:
        return None if value is None else accounting.write_rational(accounting.round_up(value, 1024), "a budget")

    epsilon, delta = plan.promised if plan.promised is not None else (plan.epsilon, None)
    paid = receipt.payment if receipt is not None else None
    return {
        "id": None if receipt is None else receipt.id,
        "created": None if receipt is None else receipt.created,
        "package": __version__,
        "epsilon": text(epsilon),
        "delta": text(delta),
        "rho": text(plan.rho),
        "threshold_delta": text(plan.threshold),
        "noise": plan.noise,
        "unit": plan.unit.to_json(),
        "neighbours": plan.neighbours,
        "protects": lines.describe_unit(source, plan.unit),
        "ledger": None if paid is None else asdict(paid),
        "columns": {name: dict(facts) for name, facts in columns.items()},
        "left_out": dict(left_out),
    }


def _stream(source: Any) -> Any:
    """A source that DuckDB reads; the rows of a table in a database come here in batches."""
    return hide_details(source.to_pyarrow_batches) if is_a(source, "ibis.Table") else source


class _Values:
    """The values of one column, from a view of DuckDB that has each with its count. NOT PRIVATE."""

    def __init__(self, con: Any, column: Column) -> None:
        self._con, self._column, self._view = con, column, f"v{column.sql[1:]}"

    def classes(self) -> np.ndarray:
        """How many rows are of each of :data:`CLASSES`."""
        column, value = self._column, f"{self._column.sql}::VARCHAR"
        missing, padded, plain = column.is_null, "false", f"{column.integer} IS NOT NULL"
        if column.kind == "text":
            missing = f"({missing} OR regexp_full_match({value}, '{NAN}'))"
            padded, plain = (f"regexp_full_match({value}, '{pattern}')" for pattern in (PADDED, PLAIN))
        tests = (missing, plain, f"{column.integer} IS NOT NULL", f"{column.number} IS NOT NULL")
        cases = [f"WHEN {test} THEN {i}" for i, test in enumerate(tests)]
        cases.insert(2, f"WHEN {padded} THEN 5")
        cases.append(f"WHEN {column.seconds} IS NOT NULL THEN 4")
        query = f"SELECT CASE {' '.join(cases)} ELSE 5 END AS class, many FROM {self._view}"
        counts = np.zeros(len(CLASSES), np.int64)
        for number, many in self._con.execute(f"SELECT class, sum(many)::BIGINT FROM ({query}) GROUP BY 1").fetchall():
            counts[number] = many
        return counts

    def labels(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """The values that may be labels and how many rows have each, some at a time."""
        column = self._column
        query = f"SELECT {column.text} AS x, many FROM {self._view} WHERE NOT {column.is_null}"
        found = self._con.execute(f"SELECT x, sum(many)::BIGINT FROM ({query}) WHERE x IS NOT NULL GROUP BY 1")
        while rows := found.fetchmany(BATCH):
            kept = [(text, many) for text, many in rows if is_label(text)]
            yield [text for text, _ in kept], np.array([many for _, many in kept], np.int64)

    def numbers(self) -> "_Sorted":
        """The numbers, in order."""
        return self._sorted(self._column.number)

    def days(self) -> "_Sorted":
        """The dates and times, in order, in days since 1970."""
        return self._sorted(f"floor({self._column.seconds} / 86400)::DOUBLE")

    def _sorted(self, value: str) -> "_Sorted":
        query = f"SELECT {value} AS x, many FROM {self._view}"
        whole = f"SELECT x, sum(many)::BIGINT AS many FROM ({query}) WHERE x IS NOT NULL GROUP BY 1 ORDER BY 1"
        found = self._con.execute(whole).fetchnumpy()
        return _Sorted(np.asarray(found["x"], float), np.asarray(found["many"], np.int64))


class _Sorted:
    """Numbers in order and how many rows have each. NOT PRIVATE."""

    def __init__(self, values: np.ndarray, many: np.ndarray) -> None:
        self._values, self._below = values, np.concatenate([[0], np.cumsum(many)])

    def count(self, intervals: Sequence[partitions.Interval]) -> np.ndarray:
        """How many rows lie in each interval, from its lower end until before its upper end; no two may overlap."""
        if any(float(one[1]) > float(other[0]) for one, other in pairwise(intervals)):
            raise Error("intervals overlap, so that a row could count twice; report it.")
        lows, highs = (
            self._below[np.searchsorted(self._values, list(map(float, ends)))] for ends in zip(*intervals, strict=True)
        )
        return np.asarray(highs - lows)


@dataclass(frozen=True)
class _Finding:
    """What was found of a column, from noisy counts: its rule and some facts, or why there is none."""

    rule: Attribute | None
    said: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class _Questions:
    """The questions of a plan, each with its noise. All that leaves this class is noisy."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._first, self._levels = plan.scale(FIRST), plan.scale(REST / partitions.NUMBER_LEVELS)
        self._labels, self._dates = plan.scale(REST), plan.scale(REST / partitions.DATE_LEVELS)

    def find_rule(self, values: _Values, column: ColumnPlan) -> _Finding:
        """The rule of a column: first what it holds, then the cells of that."""
        counts = dict(zip(CLASSES, self._measure(self._first, values.classes()).tolist(), strict=True))
        std = self._std(self._first)
        present = sum(counts.values()) - counts["missing"]
        if present < partitions.LEAST_CELL * std:
            return _Finding(None, "it has too few values for this epsilon; write its rule if it is wanted")
        missing = counts["missing"] >= partitions.SIGNIFICANT * std
        numbers = counts["plain"] + counts["spelled"] + counts["fraction"]
        holds = column.holds
        if holds is None:
            is_numbers, is_dates = (many >= MOST * present for many in (numbers, counts["date"]))
            holds = "numbers" if is_numbers else "dates" if is_dates else "categories"
        facts = {"values": round(present), "missing": max(round(counts["missing"]), 0)}
        if holds == "categories":
            return self._find_labels(values, missing, present, facts)
        if holds == "dates":
            return self._find_dates(values, missing, facts)
        few = max(numbers / 100, partitions.SIGNIFICANT * std)
        whole, plain = holds == "integers" or counts["fraction"] <= few, counts["spelled"] <= few
        return self._find_numbers(values, column, missing, facts, whole=whole, plain=plain)

    def _find_labels(self, values: _Values, missing: bool, present: float, facts: dict[str, Any]) -> _Finding:
        cutoff, published = self._plan.cutoff(self._labels), {}
        for labels, counts in values.labels():
            noisy = self._measure(self._labels, counts)
            published.update({labels[i]: int(noisy[i]) for i in np.flatnonzero(noisy >= cutoff)})
        ranked = sorted(published, key=lambda label: (-published[label], label))[:MOST_LABELS]
        covered = sum(published[label] for label in ranked)
        if covered < COVERED * present:
            said = "no value is common enough to be published" if not ranked else "nearly all of its values are rare"
            return _Finding(
                None,
                f"{said}, as in free text and identifiers; name labels, or group its values, if it is wanted",
            )
        facts |= {"threshold": cutoff, "covered": round(min(covered / present, 1.0), 3)}
        return _Finding(_with_others(Labels(tuple(sorted(ranked))), missing), facts=self._told(self._labels, facts))

    def _find_numbers(
        self, values: _Values, column: ColumnPlan, missing: bool, facts: dict[str, Any], *, whole: bool, plain: bool
    ) -> _Finding:
        std = self._std(self._levels)
        leaves = partitions.grow_leaves(
            partitions.number_roots(whole, column.within),
            lambda leaf: partitions.split_number(leaf, whole),
            self._ask_levels(values.numbers(), self._levels, partitions.NUMBER_LEVELS),
            std,
            partitions.NUMBER_LEVELS,
        )
        rule = partitions.number_rule(leaves, std, plain=whole and plain)
        if rule is None:
            return _Finding(None, "it has too few numbers for this epsilon; write cut points if it is wanted")
        facts |= _describe_range(leaves, std)
        return _Finding(_with_others(rule, missing), facts=self._told(self._levels, facts))

    def _find_dates(self, values: _Values, missing: bool, facts: dict[str, Any]) -> _Finding:
        std = self._std(self._dates)
        leaves = partitions.grow_leaves(
            partitions.date_roots(),
            partitions.split_date,
            self._ask_levels(values.days(), self._dates, partitions.DATE_LEVELS),
            std,
            partitions.DATE_LEVELS,
        )
        rule = partitions.date_rule(leaves, std)
        if rule is None:
            return _Finding(None, "it has too few dates for this epsilon; write a period if it is wanted")
        return _Finding(_with_others(rule, missing), facts=self._told(self._dates, facts))

    def _ask_levels(self, values: "_Sorted", scale: float, levels: int) -> partitions.Measure:
        """What measures intervals, as often as there are levels that were paid for and no more."""
        left = levels

        def measure(intervals: Sequence[partitions.Interval]) -> list[float]:
            nonlocal left
            left -= 1
            if left < 0:
                raise Error("more questions were asked than were paid for; report it.")
            return list(map(float, self._measure(scale, values.count(intervals))))

        return measure

    def _measure(self, scale: float, counts: np.ndarray) -> np.ndarray:
        return mechanism.measure(self._plan.noise, scale, counts)

    def _std(self, scale: float) -> float:
        return (Laplace if self._plan.noise == "laplace" else Gaussian)(scale, Fraction(1)).std

    def _told(self, scale: float, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "noise_std": float(f"{self._std(scale):.4g}")}


def is_label(text: str) -> bool:
    """Whether a text may be published as a label: short, in one line, visible, and without a meaning of its own here.

    >>> is_label("Zürich"), is_label(" "), is_label("a\\tb"), is_label("x" * 101), is_label("drop")
    (True, False, False, False, False)
    """
    if len(text) > MOST_CHARACTERS or not text.strip() or text in (DROP, FILL_IN):
        return False
    return not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for letter in text)


def _with_others(rule: Attribute, missing: bool) -> Attribute:
    """A rule with a label for what it does not cover, and one for missing values where these are many."""
    other = _free_label("other", rule.own)
    return replace(rule, unknown=other, null=_free_label("missing", (*rule.own, other)) if missing else other)


def _free_label(word: str, taken: Sequence[Any]) -> str:
    """A word that is no label yet, in as many brackets as it takes."""
    while word in taken:
        word = f"({word})"
    return word


def _describe_range(leaves: Sequence[partitions.Leaf], std: float) -> dict[str, Any]:
    """Between which ends the numbers lie, as far as noisy counts tell; None for an end that was not found."""
    found = [leaf for leaf in leaves if leaf.count >= partitions.SIGNIFICANT * std]
    ends = (found[0].low, found[-1].high) if found else (-inf, inf)
    return {"range": [None if isinf(end) else partitions.plain_number(end) for end in ends]}
