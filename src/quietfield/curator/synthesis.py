"""From a raw table to a private model and its synthetic records, in one step that is paid once.

What nobody has described is discovered, the tables are chosen, all of it under one charge; then a model is learned from
the release alone. Only the discovery and :class:`quietfield.curator.steps.Steps` see records.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.cliques import Structure
from quietfield.curator.charging import Price, Receipt, charge_ledger, open_ledger
from quietfield.curator.counting import is_in_database, lines, open_engine
from quietfield.curator.counting.sources import is_read_once
from quietfield.curator.discovery import (
    DiscoveryPlan,
    Forms,
    check_source,
    column_kinds,
    column_storage,
    known_schema,
    plan_discovery,
    run_discovery,
)
from quietfield.curator.ledger import Ledger
from quietfield.curator.mechanism import NoiseKind
from quietfield.curator.policy import read_policy
from quietfield.curator.publish import charge_and_publish
from quietfield.curator.release import check_fit, open_records, plan_any
from quietfield.curator.request import check_request
from quietfield.curator.steps import StepPlan, plan_steps
from quietfield.errors import Error, TooLarge
from quietfield.learning import fit
from quietfield.models.model import Model
from quietfield.models.verification import check_learned_from
from quietfield.privacy import accounting
from quietfield.privacy.calibration import check_budget
from quietfield.privacy.planning import warn_of_budget
from quietfield.privacy.units import Neighbours, Unit, statistics
from quietfield.releases.description import summarize_promise
from quietfield.releases.parts import Discovery, ReleaseContent
from quietfield.releases.release import Release
from quietfield.schema import Cuts, Dates, Labels, Schema
from quietfield.status import show_status
from quietfield.study.choice import Choice
from quietfield.text import facts_html, join_names, plural

if TYPE_CHECKING:
    import pyarrow as pa

    from quietfield.curator.discovery.plan import Known
    from quietfield.curator.publish import ReleasePlan

_FEWEST_CELLS = 100  # of the largest table to choose, below which less memory will not do
_DISCOVERY = Fraction(1, 10)  # of the budget, for what nobody has described
_THRESHOLDS = Fraction(1, 10)  # of delta


@dataclass(frozen=True, repr=False)
class Synthesis:
    """A release, the model that was learned from it, and how its attributes are columns again."""

    release: Release
    model: Model
    schema: Schema

    @classmethod
    def load(cls, release: Release, model: str | Path) -> "Synthesis":
        """A synthesis that was made before.

        Raises:
            OtherRelease: The model was learned from another release.
            FileError: The file is not there, or is no model.
            Error: The release has no schema.
        """
        learned = Model.load(model)
        check_learned_from(learned, release)
        if release.schema is None:
            raise Error("this release has no schema, so its attributes cannot be made columns again.")
        return cls(release, learned, release.schema)

    def __repr__(self) -> str:
        return "\n".join([f"Synthesis: {self._caption}", *(f"  {name:<9} {text}" for name, text in self._facts())])

    def _repr_html_(self) -> str:
        return facts_html(f"Synthesis: {self._caption}", self._facts())

    @property
    def _caption(self) -> str:
        return f"{plural(len(self.schema), 'column')}, {plural(len(self.release.parts), 'noisy table')}"

    def _facts(self) -> list[tuple[str, str]]:
        left = () if self.schema.discovered is None else tuple(self.schema.discovered["left_out"])
        facts = [("columns", join_names(self.schema)), ("promise", summarize_promise(self.release))]
        facts += [("left out", join_names(left))] if left else []
        return [*facts, ("records", ".records() draws some; .release, .model and .schema tell more")]

    def records(self, n: int | None = None, seed: int | None = None) -> "pa.Table":
        """Draw synthetic records with the columns and types of the source, spread evenly (see :meth:`Model.sample`).

        Args:
            n: How many; by default as many as the release counted.
            seed: The same seed gives the same records.

        Returns:
            An Arrow table. :func:`quietfield.write_records` writes files, with a data card.
        """
        return self.model.records(n, seed, self.schema, even=self.model.inference == "exact")


@dataclass(frozen=True)
class SynthesisPlan:
    """A synthesis before any record is read: what is discovered, how tables are chosen, and what it costs."""

    choice: Any
    discovery: DiscoveryPlan | None
    steps: "StepPlan | ReleasePlan | None"  # None where the schema is not known yet
    price: Price

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and hardly meant."""
        text = warn_of_budget(self.price.epsilon, self.price.delta)
        return () if text is None else (text,)


def synthesize(
    source: Any,
    schema: "Schema | Mapping[str, Known] | None" = None,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: "Ledger | str | Path | None",
    cliques: Any = "auto",
    neighbours: Neighbours = "add_remove",
    forms: Forms | None = None,
    header: bool = False,
    progress: bool = False,
) -> Synthesis:
    """Go from a raw table to a private model and synthetic records, with one charge and nothing to choose.

    Columns that the schema does not describe are discovered for a tenth of the budget, the tables to measure are chosen
    privately, and a model is learned from the noisy tables. Everything but the records of the source may be published.

    Args:
        source: Whatever :func:`quietfield.release` takes.
        schema: What is known of the columns: a :class:`Schema` of all of them, which costs nothing; or what
            :func:`quietfield.discover` takes as ``known``, which costs nothing if it says something of every column.
            None discovers every column.
        epsilon: What is promised.
        delta: What is promised with it: noise is then Gaussian, which serves far better, and needed to discover labels.
        unit: Whom the promise protects: ``Rows(1)``, ``Person("user", rows=3)``.
        ledger: The budget that pays. None, which must be said, pays nothing.
        cliques: ``"auto"`` or a :class:`Choice` has the tables chosen privately; or the tables, as in
            :func:`quietfield.release`.
        neighbours: ``"add_remove"`` or ``"replace"``.
        forms: How texts write numbers, dates and missing values, for discovery; what is not said is found out.
        header: Affirm that the first line of a CSV file holds names, which are published; for discovery.
        progress: Whether a line on the error stream shows what goes on.

    Returns:
        The release, the model and the schema; ``.records()`` draws from them.

    Raises:
        BudgetExceeded: It costs more than remains in the ledger.
        PolicyRefused: The policy in force does not allow it.
        Error: A request or a source that cannot be used. Unless the message says that the charge stands, nothing was
            charged. If tables were measured before it, the error has their release as its attribute ``release``; so has
            an interrupt.

    >>> import quietfield as qf
    >>> people = {"smokes": ["yes", "no", "no"] * 900, "coughs": ["yes", "no", "no"] * 900}
    >>> found = synthesize(people, epsilon=5, delta=1e-6, unit=qf.Rows(1), ledger=None)
    >>> found.records(3, seed=0).column_names
    ['smokes', 'coughs']
    """
    plan = plan_synthesis(
        source,
        schema,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        cliques=cliques,
        neighbours=neighbours,
        forms=forms,
        header=header,
    )
    policy = read_policy()
    if policy is not None and policy.signers:  # before the charge: a model cannot be learned, and the release were lost
        raise Error(
            "the policy in force has two persons sign a release before anything is made of it; make one with "
            "`quietfield synthesize --key FIRST.pem`, or with quietfield.release. Nothing was charged."
        )
    for text in plan.warnings:
        warnings.warn(text, stacklevel=2)
    release = None
    try:
        release = charge_and_release(source, plan, open_ledger(ledger), progress=progress)
        return learn(release, progress=progress)
    except (Exception, KeyboardInterrupt) as error:
        measured = getattr(error, "release", None)
        if release is None and isinstance(measured, ReleaseContent):
            release = Release.of(measured)
        if release is not None:
            error.release = release  # type: ignore[union-attr]  # paid for: it must not be lost
            error.add_note("The release is paid for, and not lost: it is this error's attribute `release`.")
        raise


def plan_synthesis(
    source: Any,
    schema: "Schema | Mapping[str, Known] | None" = None,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    cliques: Any = "auto",
    neighbours: Neighbours = "add_remove",
    forms: Forms | None = None,
    header: bool = False,
) -> SynthesisPlan:
    """Check and plan a synthesis, asked for as in :func:`synthesize`, from names and types alone."""
    noise: NoiseKind = "laplace" if delta is None else "gaussian"
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "unit": unit, "neighbours": neighbours}
    if isinstance(schema, Schema):
        if forms is not None:
            raise Error("forms are for discovery; a Schema says itself how its columns are written.")
        steps = plan_any(schema, cliques, noise=noise, **asked)
        open_records(source, steps)
        return SynthesisPlan(cliques, None, steps, steps.price)
    if cliques != "auto" and not hasattr(cliques, "run"):
        raise Error(
            "tables are named by attributes, which are not known before the schema is; give a Schema with them."
        )
    if lines.is_lines(source):
        lines.check_header(source, header)
    lines.check_neighbours(source, unit, neighbours)
    budget, chance = check_budget(epsilon, delta, noise)
    kinds = column_kinds(source)
    told: dict[str, Any] = {"known": schema, "forms": forms, "storage": column_storage(source)}
    whole = known_schema(kinds, schema, unit, told["storage"])
    if whole is not None:  # which costs nothing
        return plan_synthesis(source, whole, cliques=cliques, **asked)
    if chance is None:
        discovery = plan_discovery(kinds, epsilon=budget * _DISCOVERY, unit=unit, neighbours=neighbours, **told)
        _check(source, discovery, cliques)
        return SynthesisPlan(cliques, discovery, None, _price(budget, None, None, discovery))
    taken = chance * _THRESHOLDS
    rho = accounting.payable_rho(budget, chance - taken)
    discovery = plan_discovery(
        kinds,
        rho=accounting.round_up(rho * _DISCOVERY, 1024),
        threshold=taken,
        noise=noise,
        unit=unit,
        neighbours=neighbours,
        **told,
    )
    _check(source, discovery, cliques)
    if discovery.threshold is None:
        rho = accounting.payable_rho(budget, chance)
    return SynthesisPlan(cliques, discovery, None, _price(budget, chance, rho, discovery))


def _check(source: Any, plan: DiscoveryPlan, choice: Any) -> None:
    """Refuse before the charge what would fail after it: the source, rules that are known, names that nothing has."""
    if is_read_once(source):
        raise Error(
            "this stream can be read once, and the records are read twice, to find out what columns hold and to count; "
            "give a table (stream.read_all()), a file, or a Schema of all columns. Nothing was charged."
        )
    check_source(source, plan)
    _check_database(source, plan)
    if isinstance(choice, Choice):
        possible = {*plan.known, *(column.name for column in plan.columns)}
        if missing := {name for clique in (*choice.include, *choice.weights) for name in clique} - possible:
            raise Error(
                f"the choice names {join_names(sorted(missing))}, which is no column that is discovered or known."
            )
    if plan.known:
        known = Schema(dict(plan.known))
        check_request(
            known,
            statistics(Structure(tuple((n,) for n in known)), known.domain, plan.unit, plan.neighbours, False),
            plan.unit,
        )


def _check_database(source: Any, plan: DiscoveryPlan) -> None:
    """Refuse what a database has no function for, by rules such as may be discovered: it counts no row."""
    if not is_in_database(source):
        return
    points = tuple(float(point) for point in range(100))
    for rule in (Cuts(points), Dates("year", "2000-01-01", "2001-01-01"), Labels(("a", "b"))):
        schema = Schema({column.name: rule for column in plan.columns})
        asked = Structure(tuple((name,) for name in schema))
        engine: Any = open_engine(source)
        engine.check(schema, statistics(asked, schema.domain, plan.unit, plan.neighbours, False), plan.unit)


def _price(epsilon: Fraction, delta: Fraction | None, rho: Fraction | None, plan: DiscoveryPlan) -> Price:
    return Price(
        epsilon, delta, rho, plan.unit, plan.neighbours, plan.noise, signable=True, threshold=plan.threshold
    )  # fmt: skip


def charge_and_release(
    source: Any, plan: SynthesisPlan, ledger: Ledger | None, *, id: str | None = None, progress: bool = False
) -> Release:
    """Charge the ledger once, then discover the schema, choose the tables and measure them.

    Raises:
        BudgetExceeded: The ledger does not hold as much; nothing was charged or read.
        Error: It failed; where a ledger was charged, the charge stands. If tables were measured before, the error has
            them as its attribute ``release`` (for :meth:`Release.of`), as has an interrupt.
    """
    if plan.steps is not None:
        records = open_records(source, plan.steps)
        return _as_release(charge_and_publish(records, plan.steps, ledger, id=id, progress=progress))
    found = plan.discovery
    assert found is not None
    price = plan.price
    protects, notes = lines.describe_unit(source, price.unit), tuple(lines.row_notes(source))

    def work(receipt: Receipt) -> ReleaseContent:
        schema = run_discovery(source, found, receipt=receipt, progress=progress)
        cost = found.epsilon if found.rho is None else found.rho
        assert cost is not None
        choice, told = _choice_within(plan.choice, schema)
        steps, limited = _steps_within(
            schema,
            choice,
            epsilon=price.epsilon,
            delta=price.delta,
            unit=price.unit,
            neighbours=found.neighbours,
            noise=found.noise,
            discovery=Discovery(cost, found.threshold),
        )
        told += limited
        assert schema.discovered is not None
        rare = [name for name in schema.discovered["left_out"] if name not in found.left_out]
        if rare:
            told = (f"columns left out, since what they hold was not found: {join_names(rare)}", *told)
        records = open_records(source, steps)
        return steps.publish(records, receipt, protects, (*notes, *told), progress=progress)

    columns = plural(len({*found.known, *(column.name for column in found.columns)}), "column")
    what = f"synthetic records: a schema of {columns} and tables chosen privately, {found.noise} noise"
    return _as_release(charge_ledger(ledger, price, what, work, id))


def _as_release(content: ReleaseContent) -> Release:
    """The release of what was published; an error or an interrupt meanwhile carries it, since it is paid for."""
    try:
        return Release.of(content)
    except (Exception, KeyboardInterrupt) as error:
        error.release = content  # type: ignore[union-attr]
        raise


def _steps_within(schema: Schema, choice: Any, **asked: Any) -> tuple[StepPlan, tuple[str, ...]]:
    """Steps for which this machine has room, with smaller tables if need be, and what there is to say of it.

    It is paid for, so that it is too late to refuse. Sizes of tables and memory are no secret.
    """
    told: tuple[str, ...] = ()
    while True:
        steps = plan_steps(schema, choice, **asked)
        try:
            check_fit(schema, steps.statistics)
            return steps, told
        except TooLarge:
            if not isinstance(choice, Choice) or choice.most_cells < _FEWEST_CELLS:
                raise
            choice = replace(choice, most_cells=choice.most_cells // 2)
            told = (f"tables of more than {choice.most_cells:,} cells were not to be chosen, for want of memory",)


def _choice_within(choice: Any, schema: Schema) -> tuple[Any, tuple[str, ...]]:
    """A choice for the columns that were discovered, and what there is to say of it: nothing may fail once it is paid.

    That a column was left out is published, so a table may be dropped because of it.
    """
    if choice == "auto":
        return Choice(), ()
    if not isinstance(choice, Choice):
        return choice, ()
    kept, dropped = choice.within(schema.domain)
    why = "tables or questions that were named are not in it, since columns were left out or cells are too many"
    return kept, (f"{why}: {join_names(dropped)}",) if dropped else ()


def learn(release: Release, *, progress: bool = False) -> Synthesis:
    """Learn a model of the records from a release alone: made-up records are to be like them."""
    assert release.schema is not None
    with show_status("learning", progress):
        model = fit(release, of="records")
    return Synthesis(release, model, release.schema)
