"""A release in several steps, each of which may depend on what the steps before have published.

A *procedure* decides what is measured and chosen next. It is given a :class:`Steps`, sees nothing but results that the
release will publish, and so need not be right (though it is Python, and trusted not to reach into private parts):
whatever it asks for, :class:`Steps` adds up what each step costs, exactly, and refuses the step that would go beyond
the budget. That budget was charged before a record was read. Each step, given the results before it, is epsilon_i-DP
(or rho_i-zCDP), and these add up, also where a step's cost is chosen as one goes along, since their sum is bounded
beforehand (Rogers et al. 2016; for zCDP Feldman and Zrnic 2021).

All tables that a procedure may ask for are counted in one pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from quietfield.cliques import Structure
from quietfield.curator import mechanism
from quietfield.curator.charging import Price, Receipt
from quietfield.curator.publish import Records, describe_origin
from quietfield.curator.request import Counts, check_request
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.files import canonical_json
from quietfield.privacy import accounting
from quietfield.privacy.calibration import Weights, check_budget
from quietfield.privacy.units import CountedTable, Neighbours, Person, Statistics, Unit, statistics
from quietfield.releases.parts import (
    Discovery,
    Promise,
    ReleaseContent,
    Replaced,
    Selection,
    Table,
    Total,
    interaction_of,
)
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.schema import Schema

#: No score is farther from 0, nor is what is expected of a table, so that no sum of 64 bits wraps around.
_FARTHEST = 2**60


class Procedure(Protocol):
    """What decides on the steps: it sees only what is published."""

    def tables(self, domain: Domain) -> Sequence[Clique]:
        """All tables that it may ask for, from public facts alone."""
        ...

    def run(self, steps: "Steps", *, progress: bool = False) -> None:
        """Ask for steps until it has enough."""
        ...


@dataclass(frozen=True)
class StepPlan:
    """A release in steps before any record is read: what may be asked for, and what it may cost in all."""

    schema: "Schema"
    procedure: Procedure
    unit: Unit
    statistics: Statistics
    kind: mechanism.NoiseKind
    epsilon: Fraction
    delta: Fraction | None
    rho: Fraction | None
    discovery: Discovery | None = None

    @property
    def price(self) -> Price:
        """What the release would cost, with the discovery of its schema if that is part of it."""
        return Price(
            self.epsilon,
            self.delta,
            self.rho,
            self.unit,
            self.statistics.neighbours,
            self.kind,
            signable=True,
            threshold=None if self.discovery is None else self.discovery.threshold,
        )

    @property
    def budget(self) -> Fraction:
        """What the steps may cost together: epsilon with Laplace noise, rho with Gaussian."""
        whole = self.epsilon if self.rho is None else self.rho
        return whole if self.discovery is None else whole - self.discovery.cost

    @property
    def summary(self) -> str:
        """What is paid for, in a few public words."""
        return f"tables chosen privately, {self.kind} noise"

    def publish(
        self, records: Records, receipt: Receipt, protects: str, notes: Iterable[str], *, progress: bool = False
    ) -> ReleaseContent:
        """Count the records once and carry the steps out. It charges nothing: see :class:`publish.Plan`.

        What was measured before something failed, or was interrupted, is the attribute ``release`` of what is raised.
        """
        steps = Steps(self, records.count(progress=progress))
        try:
            self.procedure.run(steps, progress=progress)
        except (Exception, KeyboardInterrupt) as stopped:
            if steps.tables:
                told = f"the steps ended early, tables: {len(steps.tables):,}; not all that was paid is spent"
                stopped.release = _release(self, steps, receipt, protects, [*notes, told])  # type: ignore[union-attr]
            raise
        return _release(self, steps, receipt, protects, notes)


def plan_steps(
    schema: "Schema",
    procedure: Procedure,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    neighbours: Neighbours = "add_remove",
    noise: mechanism.NoiseKind = "laplace",
    discovery: Discovery | None = None,
) -> StepPlan:
    """Check and plan a release in steps from what is public alone, or was published by a discovery before it."""
    if isinstance(unit, Person) and unit.normalise:
        raise Error(
            "tables cannot be chosen where a person's rows weigh 1/K, since K depends on the tables that are chosen; "
            "count at most k rows of each person: Person(column, rows=k)."
        )
    if neighbours == "paper":
        raise Error("a private choice makes a promise, and the paper's neighbours make none; use add_remove.")
    budget, chance = check_budget(epsilon, delta, noise)
    structure = Structure(tuple(procedure.tables(schema.domain)))
    structure.check(schema.domain)
    counted = statistics(structure, schema.domain, unit, neighbours, False)
    check_request(schema, counted, unit)
    canonical_json(unit.to_json())  # as the release file will write it
    taken = Fraction(0) if discovery is None else discovery.threshold or Fraction(0)
    rho = None if chance is None else accounting.payable_rho(budget, chance - taken)
    return StepPlan(schema, procedure, unit, counted, noise, budget, chance, rho, discovery)


class Steps:
    """What a procedure may do with records that were paid for: measure tables and choose among them, within a budget.

    Amounts are fractions of the budget.
    """

    def __init__(self, plan: StepPlan, counts: Counts) -> None:
        self._statistics = {frozenset(table.clique): table for table in plan.statistics.tables}
        self._counts = {frozenset(t.clique): c for t, c in zip(plan.statistics.tables, counts.tables, strict=True)}
        self._plan = plan
        self._spent = Fraction(0)
        self.public_total = counts.total if plan.statistics.known_total else None
        self._tables: list[Table] = []
        self._selections: list[Selection] = []
        self._replaced: list[Replaced] = []

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self._plan.schema.domain

    @property
    def kind(self) -> mechanism.NoiseKind:
        """The kind of noise."""
        return self._plan.kind

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets cannot be told apart."""
        return self._plan.statistics.neighbours

    @property
    def budget(self) -> Fraction:
        """What all steps may cost together: epsilon with Laplace noise, rho with Gaussian."""
        return self._plan.budget

    @property
    def tables(self) -> tuple[Table, ...]:
        """The noisy tables so far; what was paid for them cannot be taken back."""
        return tuple(self._tables)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The choices so far, likewise."""
        return tuple(self._selections)

    @property
    def left(self) -> Fraction:
        """The part of the budget that is left."""
        return 1 - self._spent / self.budget

    @property
    def sensitivity(self) -> int:
        """How far one unit moves the cells of a table in all (L1)."""
        return int(max(table.l1 for table in self._statistics.values()))

    def measure(
        self, cliques: Iterable[Clique], amount: Fraction, weights: Weights = None, *, interactions: bool = False
    ) -> list[Table]:
        """Publish noisy tables, or of each its interaction alone.

        Of a table that was measured before, the measurement with less noise stands. What the other cost stays spent.

        Args:
            cliques: Which, each once.
            amount: The part of the budget that all of them cost.
            weights: As in :func:`quietfield.release`.
            interactions: Whether the interactions are measured, of attributes of two values each.

        Returns:
            The noisy tables, in order.

        Raises:
            Error: It would cost more than is left, or a table may not be asked for.
        """
        wanted = [self._table(clique) for clique in cliques]
        if len({table.clique for table in wanted}) < len(wanted):
            raise Error("a step measures each table once.")
        before = {table.cliques[0]: table.interaction for table in self._tables}
        if any(before.get(table.clique, interactions) != interactions for table in wanted):
            raise Error("a table is measured again as a table, and an interaction as one: neither replaces the other.")
        if interactions and self.public_total is None and all(table.interaction for table in self._tables):
            raise Error(
                "interactions do not tell how many records there are, and no model could be learned from them; measure "
                "a table before them, a small one for instance."
            )
        names = tuple(table.clique for table in wanted)
        structure = Structure(names, interactions=names if interactions else ())
        structure.check(self.domain)
        part = statistics(structure, self.domain, self._plan.unit, self._plan.statistics.neighbours, False)
        noise, cost = mechanism.plan_step(part, self.kind, self._cost_of(amount), weights)
        self._spend(cost)
        counts = [self._counts[frozenset(clique)] for clique in names]
        noisy, _ = mechanism.draw_noise(noise, [interaction_of(one) for one in counts] if interactions else counts)
        measured = [
            Table(table.cliques, values, one, table.l1, table.l2_squared, interaction=table.interaction)
            for table, values, one in zip(part.tables, noisy, noise.noises, strict=True)
        ]
        for table in measured:
            table.values.flags.writeable = False
        standing = {table.cliques: table for table in self._tables}
        for table in measured:
            kept = min(standing.get(table.cliques, table), table, key=lambda one: one.noise.variance)
            for worse in (standing.get(table.cliques), table):
                if worse is not None and worse is not kept:
                    l1, l2_squared = worse.l1 or Fraction(0), worse.l2_squared or Fraction(0)
                    self._replaced.append(Replaced(worse.cliques[0], worse.noise, l1, l2_squared))
            standing[table.cliques] = kept
        self._tables = list(standing.values())
        return measured

    def choose(
        self,
        candidates: Sequence[Clique],
        expected: Sequence[np.ndarray],
        handicaps: np.ndarray,
        amount: Fraction,
        times: int,
        allowed: Callable[[Sequence[Clique]], Sequence[int]],
        groups: Mapping[str, np.ndarray] | None = None,
        weights: np.ndarray | None = None,
    ) -> list[Clique]:
        """Choose tables that are far from what is expected of them, one after the other, each by a noisy maximum.

        The score of a table is its weight times the sum over its cells of |count - expected|, all whole numbers, less a
        handicap that is public. One unit moves the counts of a table by at most :attr:`sensitivity` in all, and with
        them the score by that times the largest weight.

        Args:
            candidates: The tables to choose from.
            expected: What is expected of each, in counts, whole numbers.
            handicaps: What is taken off each score, whole numbers.
            amount: The part of the budget that all choices cost together.
            times: How many to choose, at most.
            allowed: Given what was chosen so far, the places of the candidates that may be chosen next; none ends it.
            groups: For attributes with many values, where runs of values begin that are added up beforehand.
            weights: What the distance of each is multiplied by, whole numbers; 1 if not given.

        Returns:
            The chosen tables, in order.

        Raises:
            Error: It would cost more than is left, or a table may not be asked for.
        """
        measured = {table.cliques[0] for table in self._tables}
        if again := [clique for clique in candidates if clique in measured]:
            raise Error(f"the table of {again[0]} is measured already; choose among those that are not.")
        factors = [1] * len(candidates) if weights is None else _check_whole(weights).tolist()
        move = self.sensitivity * max([1, *map(abs, factors)])
        scale = mechanism.plan_selection(self.kind, self._cost_of(amount) / times, move)
        cost = accounting.selection_cost(self.kind, Fraction(move), Fraction(scale))
        runs = groups or {}
        distances = [
            _distance(self._counts[self._key(clique)], table, [runs.get(name) for name in clique])
            for clique, table in zip(candidates, expected, strict=True)
        ]
        exact = [f * d - h for f, d, h in zip(factors, distances, _check_whole(handicaps).tolist(), strict=True)]
        # Numbers of 64 bits would wrap around; those that are cut off move no further than they did before.
        scores = np.array([min(max(score, -_FARTHEST), _FARTHEST) for score in exact], np.int64)
        chosen: list[Clique] = []
        for _ in range(times):
            places = list(allowed(chosen))
            if not places:
                break
            self._spend(cost)
            best = candidates[places[mechanism.select(self.kind, scale, scores[places])]]
            chosen.append(best)
            self._selections.append(Selection(best, len(places), len(self.tables), Fraction(move), Fraction(scale)))
        return chosen

    def _key(self, clique: Clique) -> frozenset[str]:
        return frozenset(self._table(clique).clique)

    def _table(self, clique: Clique) -> CountedTable:
        table = self._statistics.get(frozenset(clique))
        if table is None or table.clique != tuple(clique):
            raise Error(f"the table of {clique} is not one that was planned for.")
        return table

    def _cost_of(self, amount: Fraction) -> Fraction:
        cost = amount * self.budget
        if not 0 < cost <= self.budget - self._spent:
            raise Error(f"a step would cost {float(amount):.3g} of the budget, and {float(self.left):.3g} is left.")
        return cost

    def _spend(self, cost: Fraction) -> None:
        """Add up what is spent, before its noise is drawn."""
        if self._spent + cost > self.budget:
            raise Error("a step would go beyond the budget.")
        self._spent = accounting.round_up(self._spent + cost, accounting.EXACT_BITS)


def _distance(counts: np.ndarray, expected: np.ndarray, starts: Sequence[np.ndarray | None]) -> int:
    """The sum over cells of |count - expected|, after runs of values were added up.

    A procedure could raise what one unit does to this by repeating cells, so what it gives is checked: every cell is in
    one run, and tables have one shape.
    """
    for axis, begin in enumerate(starts):
        if begin is not None:
            begin = _check_whole(begin)
            if begin[0] != 0 or (np.diff(begin) < 1).any() or begin[-1] >= counts.shape[axis]:
                raise Error("runs of values begin at 0, and each after the one before.")
            counts = np.add.reduceat(counts, begin, axis=axis)
    if expected.shape != counts.shape:
        raise Error("what is expected of a table must have its shape.")
    if np.abs(_check_whole(expected).astype(float)).sum() > _FARTHEST:
        raise Error(f"what is expected of a table must be {_FARTHEST:.0e} at most: beyond it, sums wrap around.")
    return int(np.abs(counts - expected).sum())


def _check_whole(values: np.ndarray) -> np.ndarray:
    """Numbers of which each step is exact; differences of unsigned ones, for instance, are not."""
    if values.dtype != np.int64:
        raise Error("a procedure gives signed whole numbers of 64 bits: only those have a sensitivity that is proven.")
    return values


def _release(plan: StepPlan, steps: Steps, receipt: Receipt, protects: str, notes: Iterable[str]) -> ReleaseContent:
    """The release of all steps: noisy or public numbers alone."""
    numbers = tuple(part.cliques[0] for part in steps.tables if part.interaction)
    structure = Structure(tuple(part.cliques[0] for part in steps.tables), interactions=numbers)
    counted = statistics(structure, steps.domain, plan.unit, plan.statistics.neighbours, False)
    before = Fraction(0) if plan.discovery is None else plan.discovery.cost
    places = {table.cliques[0]: place for place, table in enumerate(steps.tables)}
    promise = Promise(
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=None if plan.rho is None else min(plan.rho, accounting.round_up(steps._spent + before, 1024)),
        l1=counted.l1,
        l2_squared=counted.l2_squared,
        unit=plan.unit.to_json(),
        protects=protects,
        neighbours=counted.neighbours,
    )
    if steps._replaced:
        again = plural(len({one.clique for one in steps._replaced}), "table")
        notes = [*notes, f"measured again: {again}; of each, the measurement with the least noise is here"]
    if numbers:
        notes = [*notes, f"measured apart: {plural(len(numbers), 'interaction')} of attributes"]
    known = steps.public_total
    total = "public, by the choice of neighbours"
    if known is None:
        told = len(numbers) < len(steps.tables)
        total = "left out, since the tables' sums tell it" if told else "left out"
    return ReleaseContent(
        domain=steps.domain,
        structure=structure,
        parts=steps.tables,
        total_part=None if known is None else Total(known, None),
        denominator=counted.denominator,
        promise=promise,
        # What was chosen and not measured before an interrupt is not told; its cost stays in what is spent.
        selections=tuple(one for one in steps.selections if places.get(one.chosen, -1) >= one.measured),
        replaced=tuple(steps._replaced),
        discovery=plan.discovery,
        schema=plan.schema,
        **describe_origin(receipt, [f"the total is {total}", *notes]),
    )
