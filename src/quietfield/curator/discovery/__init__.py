"""Discover a schema and pay for it: labels, cut points and periods of columns that nobody has described.

What is public is planned first: the names and kinds of columns, what is known of them, the unit. The rest is asked of
the records, and every question is a histogram: disjoint sets of values, and how many rows fall into each. A unit adds
at most k rows, chosen by that unit's rows alone, and a row adds 1 to at most one set. So if one unit comes or goes, all
counts together move by at most k (L1 and L2: at worst all k rows fall into one set), and if one unit replaces another,
by at most 2 k (L1) and by the root of 2 k^2 (L2). Noise of a scale that keeps the question's share of the loss is added
by OpenDP, and whatever is decided, which question comes next included, is decided from noisy counts.

Of each column there are these questions, whose losses add up to the column's share:

* what the values are (nothing, whole numbers, other numbers, dates, other texts) and how they are written: 1/8;
* then, of numbers, one for each level of a tree of intervals: 7 times 1/8; of dates, likewise: 5 times 7/40;
* of other texts, one for all values, of which those are published whose noisy counts reach a threshold: 7/8, and the
  delta of the threshold (:mod:`quietfield.privacy.thresholds`).

Which of the last three is asked follows from the first answer; each costs the same, so that the sum is known before.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from quietfield import __version__
from quietfield.curator.charging import Receipt, charge_ledger, open_ledger
from quietfield.curator.counting import lines
from quietfield.curator.counting.reading import arrow_kind, attempt, duckdb_type, hide_details
from quietfield.curator.counting.sources import check_columns, check_kind, is_a, open_empty
from quietfield.curator.discovery.plan import DiscoveryPlan as DiscoveryPlan
from quietfield.curator.discovery.plan import Forms as Forms
from quietfield.curator.discovery.plan import Known, Storage
from quietfield.curator.discovery.plan import known_schema as known_schema
from quietfield.curator.discovery.plan import plan_discovery as plan_discovery
from quietfield.curator.discovery.questions import Finding, Questions, Values
from quietfield.curator.ledger import Ledger
from quietfield.curator.mechanism import NoiseKind
from quietfield.curator.sequences import Log
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.units import Neighbours, Person, Unit
from quietfield.schema import Schema
from quietfield.schema.rules import is_stored
from quietfield.status import show_status
from quietfield.text import plural, type_name


def discover(
    source: Any,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: "Ledger | str | Path | None",
    known: "Schema | Mapping[str, Known] | None" = None,
    forms: Forms | None = None,
    neighbours: Neighbours = "add_remove",
    noise: NoiseKind = "laplace",
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
        forms: How texts write numbers, dates and missing values, where that is known; else it is found out.
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
        storage=column_storage(source),
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        known=known,
        forms=forms,
        neighbours=neighbours,
        noise=noise,
    )
    if plan.warning is not None:
        warnings.warn(plan.warning, stacklevel=2)
    return charge_and_discover(source, plan, open_ledger(ledger), progress=progress)


def charge_and_discover(
    source: Any, plan: DiscoveryPlan, ledger: Ledger | None, *, id: str | None = None, progress: bool = False
) -> Schema:
    """Check the source, charge the ledger and carry out a plan, in this order."""
    check_source(source, plan)

    def work(receipt: Receipt) -> Schema:
        return run_discovery(source, plan, receipt=receipt, progress=progress)

    what = f"a schema, discovered from {plural(len(plan.columns), 'column')}"
    return charge_ledger(ledger, plan.price, what, work, id)


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


def column_storage(source: Any) -> dict[str, Storage]:
    """As which types a source stores its columns, and which may hold nulls, from names and types alone.

    Args:
        source: A source of which :func:`column_kinds` knows the columns.

    Returns:
        What is known of each column beyond what is usual; CSV files and lists, which have no types, tell nothing.

    >>> column_storage({"a": ["x", "y"], "b": np.array([1, 2], np.int8)})["b"]
    Storage(type='int8', nullable=False)
    """
    empty = hide_details(lambda: open_empty(source))
    assert empty is not None
    # What has no types of its own is read as texts, and some types are what records have anyway.
    typed = not (lines.is_lines(source) or isinstance(source, Mapping) or is_a(source, "pandas.DataFrame"))
    usual = {"int64", "double", "bool", "date32[day]", *(() if typed else ("string",))}

    def store(name: str) -> Storage:
        kind = str(attempt(lambda: empty.read([name]).kinds[0]))
        return Storage(kind if is_stored(kind) and kind not in usual else None, name not in empty.never_null)

    return {name: store(name) for name in empty.columns}


def check_source(source: Any, plan: DiscoveryPlan) -> None:
    """Refuse a source that cannot be used for a plan, from names and types alone.

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

    Raises:
        Error: No column is left, or the source cannot be read.
    """
    from quietfield.curator.counting.duckdb_engine import DuckEngine, connect
    from quietfield.curator.values import count_values, count_values_by_person

    wanted = [column.name for column in plan.columns]
    ask = Questions(plan)

    def work() -> dict[str, Finding]:
        engine = DuckEngine(_stream(source, wanted, plan.unit))
        with show_status("Reading records ...", progress), connect(gathers=True) as con:
            if isinstance(plan.unit, Person):
                columns = count_values_by_person(con, engine, wanted, plan.unit)
            else:
                columns = count_values(con, engine, wanted)
            return ask.find_rules({one: Values(con, columns[one.name], plan.forms.missing) for one in plan.columns})

    found = hide_details(work)
    rules = {**plan.known, **{name: one.rule for name, one in found.items() if one.rule is not None}}
    left_out = {**plan.left_out, **{name: one.said for name, one in found.items() if one.rule is None}}
    if not rules:
        needed = f"A column needs about {plan.least_values:,} values"
        if plan.label_threshold is not None:
            needed += f", and a text {plan.label_threshold:,} records that have it in common"
        raise Error(
            f"no column is left: there are too few records for this epsilon, or none has values that are common "
            f"enough. {needed}. Say what the columns hold in a schema, which costs nothing (--schema, or --known for "
            "some of them; quietfield schema starts one), or pay a larger epsilon."
        )
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
        "policy": None if receipt is None or receipt.policy is None else asdict(receipt.policy),
        "columns": {name: dict(facts) for name, facts in columns.items()},
        "left_out": dict(left_out),
    }


def _stream(source: Any, wanted: Sequence[str], unit: Unit) -> Any:
    """A source that DuckDB reads; the rows of a table in a database come here in batches."""
    if not is_a(source, "ibis.Table"):
        return source
    from quietfield.curator.counting.databases import without_strange_values  # ibis is there where its tables are

    persons = unit.columns if isinstance(unit, Person) else ()
    return hide_details(lambda: without_strange_values(source, wanted, persons).to_pyarrow_batches())
