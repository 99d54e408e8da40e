"""``release``: from a file, a frame or a database to a release, the one call that sees records.

The promise does not rest on this module but on the one below it: whatever a source is opened as, ``publish`` charges
the ledger before it is counted, and only noisy or public numbers leave it.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import quietfield  # by its public name: what decides on steps sees only what is published, and is no reader
from quietfield.cliques import MOST_INTERACTIONS, Structure
from quietfield.curator import counting
from quietfield.curator.charging import open_ledger
from quietfield.curator.counting import lines
from quietfield.curator.counting.sources import check_columns
from quietfield.curator.counting.tally import ArrayEngine
from quietfield.curator.ledger import Ledger
from quietfield.curator.mechanism import NoiseKind
from quietfield.curator.publish import ReleasePlan, charge_and_publish, plan_release
from quietfield.curator.request import Counts
from quietfield.curator.sequences import Log
from quietfield.curator.steps import StepPlan, plan_steps
from quietfield.errors import Error, TooLarge
from quietfield.memory import available_memory, readable_bytes
from quietfield.privacy import accounting
from quietfield.privacy.calibration import Weights
from quietfield.privacy.planning import allocate_budget, describe_added, warn_of_budget, warn_of_uncovered
from quietfield.privacy.units import Neighbours, Person, Statistics, Unit
from quietfield.releases.manifest import check_room
from quietfield.releases.release import Release
from quietfield.schema import Attribute, Labels, Schema
from quietfield.text import join_names

#: What a release takes at its peak for each cell: counts, their sums, noise, and the bytes of the file (measured: 46).
BYTES_PER_CELL = 48

if TYPE_CHECKING:
    from quietfield.study.choice import Choice


def release(
    source: Any,
    schema: Schema,
    cliques: "Structure | Choice | Literal['auto'] | Iterable[str | Iterable[str]]",
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: Ledger | str | Path | None,
    neighbours: Neighbours = "add_remove",
    total: Literal["auto"] | bool = "auto",
    weights: Weights = None,
    noise: NoiseKind = "laplace",
    progress: bool = False,
) -> Release:
    """Count the tables of ``cliques`` in ``source``, add noise, pay for it, and return what may be published.

    The noise is exact and takes no seed. Epsilon means what you write: 0.1 is 1/10.

    Args:
        source: A path (CSV, Parquet, SPSS, Stata, SAS), a :class:`CsvFile` or :class:`StatFile` that says more about
            one, a frame, an Arrow, DuckDB or Ibis table, or arrays of codes.
        schema: How columns become attributes.
        cliques: The tables to count: sets of attributes, or a :class:`Structure`; ``"auto"`` or a :class:`Choice` has
            them chosen privately, as a part of what epsilon pays for.
        epsilon: What is promised.
        delta: What is promised with it, for Gaussian noise.
        unit: Whom the promise protects: ``Rows(1)``, ``Person("user", rows=3)``.
        ledger: The budget that pays (a path will do). None, which must be said, pays nothing and leaves the sum over
            releases to you.
        neighbours: Which data sets cannot be told apart: ``"add_remove"``, those with and without a unit;
            ``"replace"``, those of one size, which is then public. ``"paper"`` publishes the size too, which tells data
            sets apart: no promise is made.
        total: Whether the number of records is counted as well; ``"auto"`` counts it where no table tells it.
        weights: Numbers by clique, ``()`` for the total: weight 2 gets half the noise of weight 1. With
            ``"by_size"`` larger tables get less noise, such that the sum of the errors of all cells is least. Without
            any, Gaussian noise measures attributes by themselves, too, or the interactions of yes-or-no attributes in
            place of tables, where that makes better models (see
            :func:`quietfield.privacy.planning.allocate_budget`); ``"equal"`` measures what is asked for alone.
        noise: ``"laplace"``, or ``"gaussian"``, which needs a ``delta``.
        progress: Whether a line on the error stream shows that it goes on.

    Returns:
        The release: noisy tables, and what they promise.

    Raises:
        BudgetExceeded: It costs more than remains in the ledger.
        PolicyRefused: The policy in force does not allow it.
        TooLarge: A table does not fit into memory.
        Error: A request or a source that cannot be counted. Unless the message says that the charge stands, nothing was
            charged.

    >>> import numpy as np, quietfield as qf
    >>> schema = qf.Schema({"smokes": [0, 1], "coughs": [0, 1]})
    >>> people = {"smokes": np.array([0, 1, 1]), "coughs": np.array([0, 1, 0])}
    >>> out = release(people, schema, [("smokes", "coughs")], epsilon=1.0, unit=qf.Rows(1), ledger=None)
    >>> out.tables["smokes", "coughs"].shape
    (2, 2)
    """
    asked: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "unit": unit, "neighbours": neighbours, "noise": noise
    }  # fmt: skip
    plan = plan_any(schema, cliques, total=total, weights=weights, **asked)
    book = open_ledger(ledger)
    for text in warn_of_plan(plan):
        warnings.warn(text, stacklevel=2)
    return Release.of(charge_and_publish(open_records(source, plan), plan, book, progress=progress))


def plan_any(
    schema: Schema,
    cliques: Any,
    *,
    total: Literal["auto"] | bool = "auto",
    weights: Weights = None,
    **asked: Any,
) -> ReleasePlan | StepPlan:
    """Plan what :func:`release` is asked for: given tables, or tables that are chosen privately.

    Raises:
        Error: The request cannot be planned.
    """
    if not isinstance(schema, Schema):
        raise Error(
            f"a release needs a Schema, not a {type(schema).__name__}; read one with Schema.load('schema.json')."
        )
    if not isinstance(cliques, str) and not hasattr(cliques, "run"):
        structure = Structure.of(cliques, schema.domain)
        measured, weights = allocate_budget(
            structure, schema.domain, asked["unit"], asked["neighbours"], weights, asked["noise"], total
        )
        plan = plan_release(schema, measured, total=total, weights=weights, **asked)
        check_fit(schema, plan.statistics)
        check_learnable(plan.statistics)
        return replace(plan, notes=describe_added(structure, measured))
    if total != "auto" or weights is not None:
        raise Error("total and weights are for given tables; tables that are chosen privately have weights of theirs.")
    if isinstance(cliques, str):
        if cliques != "auto":
            raise Error(f"cliques are 'auto', a Structure or sets of attributes, not {cliques!r}.")

        cliques = quietfield.Choice()
    steps = plan_steps(schema, cliques, **asked)
    check_fit(schema, steps.statistics)
    return steps


def check_fit(schema: Schema, statistics: Statistics) -> None:
    """Refuse tables that this machine or a file has no room for; asked once, before anything is charged."""
    check_room(schema, statistics.tables)
    if statistics.cells < 2**20:
        return
    needed, free = BYTES_PER_CELL * statistics.cells, available_memory()
    if needed > free:
        raise TooLarge(
            f"a release of {statistics.cells:,} cells takes about {readable_bytes(needed)}, and {readable_bytes(free)} "
            "is free here; take fewer or smaller cliques, or a machine with more memory."
        )


def check_learnable(statistics: Statistics) -> None:
    """Refuse interactions that no model could be learned from; asked once, before anything is charged."""
    if not any(table.interaction for table in statistics.tables):
        return
    if (numbers := sum(prod(table.shape) for table in statistics.tables)) > MOST_INTERACTIONS:
        raise TooLarge(
            f"this release would hold {numbers:,} numbers, some of them interactions that are measured apart: models "
            f"are learned from up to {MOST_INTERACTIONS:,} of these; release tables instead."
        )
    if all(table.interaction for table in statistics.tables) and not (statistics.total or statistics.known_total):
        raise Error(
            "interactions alone do not tell how many records there are, and no model could be learned from them; have "
            "the total counted (total=True), or add a table."
        )


def warn_of_plan(plan: ReleasePlan | StepPlan) -> tuple[str, ...]:
    """What is allowed and hardly meant: an epsilon that promises nothing, attributes that no clique holds."""
    if isinstance(plan, StepPlan):
        texts = [warn_of_budget(plan.epsilon, plan.delta)]
    else:
        texts = [
            warn_of_budget(plan.noise.epsilon, plan.noise.delta, plan.noise.noises),
            warn_of_uncovered(plan.schema.domain, plan.structure),
        ]
    return tuple(text for text in texts if text is not None)


@dataclass(frozen=True)
class OpenRecords:
    """A source that was checked for a plan, as far as names and types tell."""

    source: Any
    plan: ReleasePlan | StepPlan

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(lines.row_notes(self.source))

    @property
    def protects(self) -> str:
        return lines.describe_unit(self.source, self.plan.unit)

    def count(self, *, progress: bool = False) -> Counts:
        return counting.count(self.source, self.plan.schema, self.plan.statistics, self.plan.unit, progress=progress)


def open_records(source: Any, plan: ReleasePlan | StepPlan) -> OpenRecords:
    """Check a source from its names and types alone, before anything is charged.

    Raises:
        Error: The source is not there, or lacks columns of the types asked for.
    """
    _check_source(source, plan)
    return OpenRecords(source, plan)


def _check_source(source: Any, plan: ReleasePlan | StepPlan) -> None:
    """Refuse data that is not there or lacks the columns asked for, from names and types alone: no record is read."""
    if isinstance(source, np.ndarray):
        ArrayEngine(source).check(plan.schema, plan.unit)
        return
    lines.check_neighbours(source, plan.unit, plan.statistics.neighbours)
    lines.check_unit(source, plan.unit)
    if isinstance(source, Log):
        read = {name: source.sequences.schema.domain.labels(name) for name in source.sequences.schema}
        asked = {name: plan.schema.domain.labels(name) for name in plan.statistics.attributes}
        if other := [name for name, labels in asked.items() if read.get(name) != labels]:
            raise Error(
                f"these sequences have no {join_names(other)} with these values; release with sequences.schema."
            )
        check_columns(source, source.sequences.check_unit(plan.unit).columns)
        _check_database(source, plan)
        return
    persons = plan.unit.columns if isinstance(plan.unit, Person) else ()
    wanted = [plan.schema.column(name) for name in plan.statistics.attributes]
    held_as_codes = check_columns(source, [*wanted, *persons])
    words = [name for name in plan.statistics.attributes if _is_words(plan.schema[name])]
    coded = [name for name in words if plan.schema.column(name) in held_as_codes]
    if coded:
        raise Error(
            f"the file holds codes for {join_names(coded)}, and the schema lists words, which no code is; read the "
            "labels of the file (StatFile(path, values='labels') or --values labels), or list codes."
        )
    _check_database(source, plan)


def _check_database(source: Any, plan: ReleasePlan | StepPlan) -> None:
    """Refuse what a database has no function for: it counts no row."""
    if counting.is_in_database(source):
        engine: Any = counting.open_engine(source)
        engine.check(plan.schema, plan.statistics, plan.unit)


def _is_words(rule: Attribute) -> bool:
    """Whether all labels of a rule are texts that spell no number."""
    return isinstance(rule, Labels) and not any(isinstance(v, int) or v.strip("+-").isdigit() for v in rule.values)
