"""``release``: from records to a release, the one call that sees records.

The order is the argument. Everything public is checked and planned first (a mistake there costs nothing), then it is
*charged*, then counted, and only then is noise drawn. Whether a count fails may depend on a record, which is a bit that
could be asked for again and again if it cost nothing; so whatever fails after the charge is not paid back. Times in
files are from before the count, so that they do not tell how long it took.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quietfield.curator import mechanism
from quietfield.curator.charging import Price, Receipt, charge_ledger, open_ledger
from quietfield.curator.ledger import Ledger
from quietfield.errors import Error
from quietfield.files import canonical_json
from quietfield.privacy import accounting
from quietfield.privacy import calibration as planning
from quietfield.privacy.units import Neighbours, Person, Statistics, Unit, choose_statistics
from quietfield.releases.checks import PAPER_NOTE
from quietfield.releases.manifest import check_room
from quietfield.releases.parts import Promise, Table, Total
from quietfield.releases.release import Release
from quietfield.schema import Attribute, Labels, Schema
from quietfield.structures import Structure
from quietfield.text import join_names, plural


@dataclass(frozen=True)
class ReleasePlan:
    """A release before any record is read: what is counted, what noise it gets, and why (or why not) a total."""

    schema: Schema
    structure: Structure
    unit: Unit
    statistics: Statistics
    plan: mechanism.NoisePlan
    total_reason: str

    @property
    def price(self) -> Price:
        """What the release would cost."""
        plan = self.plan
        return Price(
            plan.epsilon, plan.delta, plan.rho, self.unit, self.statistics.neighbours, plan.kind, signable=True
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and hardly meant: an epsilon that promises nothing, attributes that no clique holds."""
        found = (
            planning.warn_of_budget(self.plan.epsilon, self.plan.delta),
            planning.warn_of_uncovered(self.schema.domain, self.structure),
        )
        return tuple(text for text in found if text is not None)


def plan_release(
    schema: Schema,
    cliques: "Structure | Iterable[str | Iterable[str]]",
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    neighbours: Neighbours = "add_remove",
    total: Literal["auto"] | bool = "auto",
    weights: Mapping[Any, accounting.Number] | None = None,
    noise: mechanism.NoiseKind = "laplace",
) -> ReleasePlan:
    """Check and plan a release from what is public alone."""
    from quietfield.curator.counting import check, check_memory

    if not isinstance(schema, Schema):
        raise Error(
            f"a release needs a Schema, not a {type(schema).__name__}; read one with Schema.load('schema.json')."
        )
    structure = Structure.of(cliques, schema.domain)
    counted, reason = choose_statistics(structure, schema.domain, unit, neighbours, total, noise)
    check(schema, counted, unit)
    check_memory(counted)
    check_room(schema.domain, structure)
    canonical_json(unit.to_json())  # as the release file will write it
    plan = mechanism.plan_noise(counted, epsilon=epsilon, delta=delta, noise=noise, weights=weights)
    return ReleasePlan(schema, structure, unit, counted, plan, reason)


def release(
    source: Any,
    schema: Schema,
    cliques: "Structure | Iterable[str | Iterable[str]]",
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: "Ledger | str | Path | None",
    neighbours: Neighbours = "add_remove",
    total: Literal["auto"] | bool = "auto",
    weights: Mapping[Any, accounting.Number] | None = None,
    noise: mechanism.NoiseKind = "laplace",
    progress: bool = False,
) -> Release:
    """Count the tables of ``cliques`` in ``source``, add noise, pay for it, and return what may be published.

    ``source`` is a path (CSV, Parquet, SPSS, Stata, SAS), a :class:`CsvFile` or :class:`StatFile` that says more about
    one, a frame, an Arrow, DuckDB or Ibis table, or arrays of codes.
    ``unit`` says whom the promise protects: ``Rows(1)``, ``Person("user", rows=3)``. ``ledger`` is the budget that pays
    (a path will do); None, which must be said, pays nothing and leaves the sum over releases to you.
    ``noise="gaussian"`` needs a ``delta``. ``weights`` maps cliques to numbers: weight 2 gets half the noise of weight
    1; ``()`` names the total.
    ``total="auto"`` releases a noisy total where no table tells it.

    The noise is exact and takes no seed. Epsilon means what you write: 0.1 is 1/10.

    >>> import numpy as np, quietfield as qf
    >>> schema = qf.Schema({"smokes": [0, 1], "coughs": [0, 1]})
    >>> people = {"smokes": np.array([0, 1, 1]), "coughs": np.array([0, 1, 0])}
    >>> out = release(people, schema, [("smokes", "coughs")], epsilon=1.0, unit=qf.Rows(1), ledger=None)
    >>> out.tables["smokes", "coughs"].shape
    (2, 2)
    """
    prepared = plan_release(
        schema,
        cliques,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        total=total,
        weights=weights,
        noise=noise,
    )
    book = open_ledger(ledger)
    for text in prepared.warnings:
        warnings.warn(text, stacklevel=2)
    return charge_and_count(source, prepared, book, progress=progress)


def charge_and_count(source: Any, prepared: ReleasePlan, ledger: Ledger | None, *, progress: bool = False) -> Release:
    """Check the source, charge the ledger, count and add noise, in this order."""
    from quietfield.curator.counting import count, lines

    _check_source(source, prepared)
    # Now: once it is paid, nothing else is to fail.
    notes, protects = lines.notes(source), lines.describe_unit(source, prepared.unit)
    what = f"{plural(len(prepared.statistics.tables), 'table')}, {prepared.plan.kind} noise"

    def work(receipt: Receipt) -> Release:
        counts = count(source, prepared.schema, prepared.statistics, prepared.unit, progress=progress)
        return _noised(prepared, counts.tables, counts.total, receipt, protects, notes)

    return charge_ledger(ledger, prepared.price, what, work)


def _check_source(source: Any, prepared: ReleasePlan) -> None:
    """Refuse data that is not there or lacks the columns asked for, from names and types alone: no record is read."""
    from quietfield.curator.counting import lines
    from quietfield.curator.counting.arrays import ArrayEngine
    from quietfield.curator.counting.checks import check_columns
    from quietfield.curator.sequences import Log

    if isinstance(source, np.ndarray):
        ArrayEngine(source).check(prepared.schema, prepared.unit)
        return
    lines.check_neighbours(source, prepared.statistics)
    lines.check_unit(source, prepared.unit)
    if isinstance(source, Log):
        read = {name: source.sequences.schema.domain.labels(name) for name in source.sequences.schema}
        asked = {name: prepared.schema.domain.labels(name) for name in prepared.statistics.attributes}
        if other := [name for name, labels in asked.items() if read.get(name) != labels]:
            raise Error(
                f"these sequences have no {join_names(other)} with these values; release with sequences.schema."
            )
        check_columns(source, source.sequences.checked(prepared.unit).columns)
        return
    persons = prepared.unit.columns if isinstance(prepared.unit, Person) else ()
    wanted = [prepared.schema.column(name) for name in prepared.statistics.attributes]
    held_as_codes = check_columns(source, [*wanted, *persons])
    words = [name for name in prepared.statistics.attributes if _is_words(prepared.schema[name])]
    coded = [name for name in words if prepared.schema.column(name) in held_as_codes]
    if coded:
        raise Error(
            f"the file holds codes for {join_names(coded)}, and the schema lists words, which no code is; read the "
            "labels of the file (StatFile(path, values='labels') or --values labels), or list codes."
        )


def _is_words(rule: Attribute) -> bool:
    """Whether all labels of a rule are texts that spell no number."""
    return isinstance(rule, Labels) and not any(isinstance(v, int) or v.strip("+-").isdigit() for v in rule.values)


def _noised(
    prepared: ReleasePlan,
    tables: Any,
    total: int | None,
    receipt: Receipt,
    protects: str,
    notes: Iterable[str],
) -> Release:
    """The release of some counts: from here on nothing but noisy or public numbers is kept."""
    from quietfield import __version__

    plan, counted = prepared.plan, prepared.statistics
    noisy, noisy_total = mechanism.draw_noise(plan, tables, total if counted.total else None)
    noises = plan.noises
    parts = tuple(
        Table(table.cliques, values, noise, table.l1, table.l2_squared, table.excluded)
        for table, values, noise in zip(counted.tables, noisy, noises, strict=False)
    )
    count = None
    if counted.total:
        assert noisy_total is not None
        count = Total(noisy_total, noises[-1], counted.total_l1)
    elif counted.known_total and total is not None:
        count = Total(total, None)
    notes = [f"total: {prepared.total_reason}", *notes]
    if counted.neighbours == "paper":
        notes.insert(0, PAPER_NOTE)
    if receipt.payment is None:
        notes.append("no ledger was charged")
    unit = prepared.unit
    promise = Promise(
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=plan.rho,
        l1=counted.l1,
        l2_squared=counted.l2_squared,
        unit=unit.to_json(),
        protects=protects,
        neighbours=counted.neighbours,
    )
    return Release(
        domain=prepared.schema.domain,
        structure=prepared.structure,
        parts=parts,
        total_part=count,
        denominator=counted.denominator,
        promise=promise,
        notes=tuple(notes),
        id=receipt.id,
        created=receipt.created,
        package=__version__,
        ledger=receipt.payment,
        policy=receipt.policy,
    )
