"""From counts to a release: what is public is planned, the ledger is charged, and only then is anything counted.

The order is the argument. Everything public is checked and planned first (a mistake there costs nothing), then it is
*charged*, then counted, and only then is noise drawn. Whether a count fails may depend on a record, which is a bit that
could be asked for again and again if it cost nothing; so whatever fails after the charge is not paid back. Times in
files are from before the count, so that they do not tell how long it took.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quietfield import __version__
from quietfield.cliques import Structure
from quietfield.curator import mechanism
from quietfield.curator.charging import Price, Receipt, charge_ledger
from quietfield.curator.ledger import Ledger
from quietfield.curator.request import Counts, check_request
from quietfield.files import canonical_json
from quietfield.privacy import accounting
from quietfield.privacy.calibration import Weights, choose_statistics
from quietfield.privacy.units import Neighbours, Statistics, Unit
from quietfield.releases.parts import PAPER_NOTE, Promise, ReleaseContent, Table, Total
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.schema import Schema


class Records(Protocol):
    """Records that were checked as far as names and types tell, and can be counted once they are paid for."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release has to say about where its counts come from."""
        ...

    @property
    def protects(self) -> str:
        """Whom the unit protects in such records, in words."""
        ...

    def count(self, *, progress: bool = False) -> Counts:
        """Count them. Whether this fails may depend on a record."""
        ...


class Plan(Protocol):
    """What is published and at what price: public, made before any record is read."""

    @property
    def price(self) -> Price:
        """What it costs."""
        ...

    @property
    def summary(self) -> str:
        """What is paid for, in a few public words."""
        ...

    def publish(
        self, records: Records, receipt: Receipt, protects: str, notes: Iterable[str], *, progress: bool = False
    ) -> ReleaseContent:
        """Count the records and add noise. It charges nothing: call it only under a charge of its price."""
        ...


@dataclass(frozen=True)
class ReleasePlan:
    """A release before any record is read: what is counted, what noise it gets, and why (or why not) a total.

    ``notes`` are what the release says of how it was planned.
    """

    schema: "Schema"
    structure: Structure
    unit: Unit
    statistics: Statistics
    noise: mechanism.NoisePlan
    total_reason: str
    notes: tuple[str, ...] = ()

    @property
    def price(self) -> Price:
        """What the release would cost."""
        noise = self.noise
        return Price(
            noise.epsilon, noise.delta, noise.rho, self.unit, self.statistics.neighbours, noise.kind, signable=True
        )

    @property
    def summary(self) -> str:
        """What is paid for, in a few public words."""
        return f"{plural(len(self.statistics.tables), 'table')}, {self.noise.kind} noise"

    def publish(
        self, records: Records, receipt: Receipt, protects: str, notes: Iterable[str], *, progress: bool = False
    ) -> ReleaseContent:
        """Count the records and add noise. It charges nothing: call it only under a charge of its price."""
        return add_noise(self, records.count(progress=progress), receipt, protects, notes)


def plan_release(
    schema: "Schema",
    cliques: Structure | Iterable[str | Iterable[str]],
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    neighbours: Neighbours = "add_remove",
    total: Literal["auto"] | bool = "auto",
    weights: Weights = None,
    noise: mechanism.NoiseKind = "laplace",
) -> ReleasePlan:
    """Check and plan a release from what is public alone."""
    structure = Structure.of(cliques, schema.domain)
    counted, reason = choose_statistics(structure, schema.domain, unit, neighbours, total, noise, weights)
    check_request(schema, counted, unit)
    canonical_json(unit.to_json())  # as the release file will write it
    plan = mechanism.plan_noise(counted, epsilon=epsilon, delta=delta, noise=noise, weights=weights)
    return ReleasePlan(schema, structure, unit, counted, plan, reason)


def charge_and_publish(
    records: Records, plan: Plan, ledger: Ledger | None, *, id: str | None = None, progress: bool = False
) -> ReleaseContent:
    """Charge the ledger, count the records and add noise, in this order.

    Args:
        records: What is counted; see :func:`quietfield.curator.release.open_records`.
        plan: What is published; see :func:`plan_release` and :func:`quietfield.curator.steps.plan_steps`.
        ledger: Who pays; None pays nothing.
        id: The name of the release, which a ledger pays for once; see :func:`charge_ledger`.
        progress: Whether to show progress that tells nothing of the records.

    Returns:
        The content of the release.

    Raises:
        BudgetExceeded: The ledger does not hold as much; nothing was charged or read.
        Error: The count failed; where a ledger was charged, the charge stands.
    """
    notes, protects = records.notes, records.protects  # now: once it is paid, nothing else is to fail

    def work(receipt: Receipt) -> ReleaseContent:
        return plan.publish(records, receipt, protects, notes, progress=progress)

    return charge_ledger(ledger, plan.price, plan.summary, work, id)


def add_noise(
    prepared: ReleasePlan, counts: Counts, receipt: Receipt, protects: str, notes: Iterable[str] = ()
) -> ReleaseContent:
    """The release of some counts: from here on nothing but noisy or public numbers is kept."""
    plan, counted, total = prepared.noise, prepared.statistics, counts.total
    noisy, noisy_total = mechanism.draw_noise(plan, counts.tables, total if counted.total else None)
    noises = plan.noises
    parts = tuple(
        Table(table.cliques, values, noise, table.l1, table.l2_squared, table.excluded, table.interaction)
        for table, values, noise in zip(counted.tables, noisy, noises, strict=False)
    )
    count = None
    if counted.total:
        assert noisy_total is not None
        count = Total(noisy_total, noises[-1], counted.total_l1)
    elif counted.known_total and total is not None:
        count = Total(total, None)
    notes = [f"the total is {prepared.total_reason}", *prepared.notes, *notes]
    if counted.neighbours == "paper":
        notes.insert(0, PAPER_NOTE)
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
    return ReleaseContent(
        domain=prepared.schema.domain,
        structure=prepared.structure,
        parts=parts,
        total_part=count,
        denominator=counted.denominator,
        promise=promise,
        **describe_origin(receipt, notes),
        schema=prepared.schema,
    )


def describe_origin(receipt: Receipt, notes: Iterable[str]) -> dict[str, Any]:
    """The fields of a release that say when and by whom it was paid for, with notes on how it came about."""
    return {
        "notes": (*notes, *(("no ledger was charged",) if receipt.payment is None else ())),
        "id": receipt.id,
        "created": receipt.created,
        "package": __version__,
        "ledger": receipt.payment,
        "policy": receipt.policy,
    }
