"""A model against records: NOT PRIVATE, for the curator's eyes alone; or one noisy score, paid from a ledger.

The mean log-likelihood of records needs no more than their tables:  sum over cliques of theta_C . n_C / n  -  A(theta).

The noisy score is a sum over records of their log-probability, clipped to a public interval [low, high] and set on
a grid of :data:`~quietfield.privacy.units.GRID` steps; one row adds at most GRID steps to it, and one to the number of
rows, which is released beside it; k rows of one person add k times as much. Both get exact noise through the same
mechanism as tables do.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from math import inf, isfinite, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from quietfield.cliques import Structure
from quietfield.curator import WARNING, mechanism
from quietfield.curator.charging import Price, Receipt, charge_ledger, open_ledger
from quietfield.curator.counting import count, is_in_database, lines, open_engine
from quietfield.curator.counting.sources import check_columns
from quietfield.curator.counting.tally import ArrayEngine
from quietfield.curator.ledger import Ledger
from quietfield.curator.sequences import Log
from quietfield.domain import Clique
from quietfield.errors import Error
from quietfield.models.model import Model
from quietfield.privacy import accounting
from quietfield.privacy.units import GRID, CountedTable, Person, Rows, Statistics, Unit, check_unit, statistics
from quietfield.releases.checks import check_same
from quietfield.releases.parts import Payment
from quietfield.schema import Schema
from quietfield.text import plural


@dataclass(frozen=True)
class TableError:
    """One table of the model beside the records' own. NOT PRIVATE.

    ``distance`` is the total variation, ``expected`` what chance alone makes of it in so many records, were the model
    right; ``largest`` is the largest difference of a share and ``labels`` its cell.
    """

    attributes: Clique
    distance: float
    expected: float
    largest: float
    labels: tuple[Any, ...]


@dataclass(frozen=True, repr=False)
class ConfidentialScore:
    """A model against records. NOT PRIVATE.

    ``mean_log_likelihood`` is in nats per record, minus infinity if records have a combination that the model rules out
    (``impossible`` counts them).
    """

    records: int
    mean_log_likelihood: float
    impossible: int
    mean_error: float
    p95_error: float
    tables: tuple[TableError, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON, with the warning first."""
        return {
            "warning": WARNING,
            "records": self.records,
            "mean_log_likelihood": self.mean_log_likelihood if isfinite(self.mean_log_likelihood) else None,
            "impossible": self.impossible,
            "mean_error": self.mean_error,
            "p95_error": self.p95_error,
            "tables": [
                {
                    "attributes": list(table.attributes),
                    "distance": table.distance,
                    "expected_by_chance": table.expected,
                    "largest_error": table.largest,
                    "labels": list(table.labels),
                }
                for table in self.tables
            ],
        }

    def lines(self) -> list[str]:
        """In words, for the curator's terminal."""
        said = [
            WARNING,
            f"records        {self.records:,}",
            f"log-likelihood {self.mean_log_likelihood:.4f} nats per record"
            + (f" ({plural(self.impossible, 'record')} cannot occur in the model)" if self.impossible else ""),
            f"error          {self.mean_error:.3%} on average, {self.p95_error:.3%} is above 19 of 20 cells",
        ]
        for table in sorted(self.tables, key=lambda table: -table.distance)[:10]:
            cell = ", ".join(map(str, table.labels))
            said.append(
                f"{' × '.join(table.attributes)}: distance {table.distance:.2%} (by chance {table.expected:.2%}), "
                f"most at {cell}: {table.largest:.2%}"
            )
        return [*said, WARNING]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def confidential_score(model: Model, source: Any, schema: Schema) -> ConfidentialScore:
    """Compare a model with records, held out or those that it was learned from. NOT PRIVATE: no noise is added.

    Args:
        model: The model.
        source: The records, as :func:`quietfield.release` takes them. Those that the schema drops are not counted.
        schema: How their columns become the attributes of the model.

    Returns:
        The mean log-likelihood, and how far the model's tables are from those of the records. NOT PRIVATE.

    Raises:
        Error: The schema and the model have different attributes or labels, or no record is left to score.

    >>> import quietfield as qf
    >>> schema = qf.Schema({"a": [0, 1], "b": [0, 1]})
    >>> model = qf.Model(schema.domain, {("a", "b"): [[0.0, 0.0], [0.0, 0.0]]})
    >>> found = confidential_score(model, {"a": [0, 1, 1, 0], "b": [0, 1, 1, 1]}, schema)
    >>> found.records, round(found.mean_log_likelihood, 3)
    (4, -1.386)
    """
    _check(model, schema)
    cliques = _counted_cliques(model)
    wanted = statistics(Structure(tuple(cliques)), schema.domain, Rows(1), "add_remove", True)
    counts = count(source, schema, wanted, Rows(1))
    n = int(counts.total or 0)
    if n == 0:
        raise Error("no record is left to score: the schema drops all of them, or there are none.")
    tables = dict(zip(cliques, counts.tables, strict=True))
    gaps, found = [], []
    for clique, table in tables.items():
        share = model.marginal(clique)
        gap = np.abs(table / n - share)
        cell = np.unravel_index(gap.argmax(), gap.shape)
        labels = tuple(model.domain.labels(name)[int(i)] for name, i in zip(clique, cell, strict=True))
        chance = 0.5 * float(np.sqrt(2 / np.pi * share * (1 - share) / n).sum())
        found.append(TableError(clique, 0.5 * float(gap.sum()), chance, float(gap.max()), labels))
        gaps.append(gap.ravel())
    impossible = 0
    for clique, mask in model.domain.masks:
        stored = next(c for c in cliques if set(c) == set(clique))
        table = tables[stored].transpose([stored.index(name) for name in clique])
        impossible = max(impossible, int(table[~mask].sum()))
    score = sum(float((theta * tables[clique]).sum()) for clique, theta in model.potentials.items()) / n
    cells = np.concatenate(gaps)
    return ConfidentialScore(
        records=n,
        mean_log_likelihood=-inf if impossible else score - model.log_partition(),
        impossible=impossible,
        mean_error=float(cells.mean()),
        p95_error=float(np.quantile(cells, 0.95)),
        tables=tuple(found),
    )


@dataclass(frozen=True)
class DPScore:
    """A noisy mean log-likelihood, which may be published: what it cost, and how far noise moves it.

    ``mean_log_likelihood`` is of log-probabilities clipped to [``low``, ``high``]; ``std`` is the standard deviation
    that the noise gives it; ``records`` is the noisy number of records. ``id`` names the score, and ``ledger`` the line
    that paid for it: :meth:`Ledger.missing` finds whether that line is still there.
    """

    mean_log_likelihood: float
    std: float
    records: float
    low: float
    high: float
    epsilon: Fraction
    delta: Fraction | None
    protects: str
    id: str
    ledger: Payment | None

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        return {
            "mean_log_likelihood": self.mean_log_likelihood,
            "noise_std": self.std,
            "records": self.records,
            "clipped_to": [self.low, self.high],
            "epsilon": float(self.epsilon),
            "delta": None if self.delta is None else float(self.delta),
            "protects": self.protects,
            "id": self.id,
            "ledger": None if self.ledger is None else asdict(self.ledger),
        }

    def lines(self) -> list[str]:
        """In words, for a terminal."""
        chance = "" if self.delta is None else f", delta {float(self.delta):g}"
        return [
            f"log-likelihood  {self.mean_log_likelihood:.4f} nats per record, give or take {self.std:.2g} (the noise's "
            "standard deviation)",
            f"records         about {self.records:.0f}",
            f"clipped to      {self.low:.4g} .. {self.high:.4g}",
            f"promise         epsilon {float(self.epsilon):g}{chance}",
            f"protects        {self.protects}",
        ]


def dp_score(
    model: Model,
    source: Any,
    schema: Schema,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    unit: Unit,
    ledger: Ledger | str | Path | None,
    noise: mechanism.NoiseKind = "laplace",
    clip: tuple[float, float] | None = None,
) -> DPScore:
    """The mean log-likelihood of records under a model, with differential privacy, paid from a ledger.

    Args:
        model: The model.
        source: Records that are read within this process: files, frames, columns, arrays of codes (these name no
            persons). Tables in a database are not.
        schema: How their columns become the attributes of the model.
        epsilon: What is promised.
        delta: What is promised with it, for Gaussian noise.
        unit: ``Rows(k)``, or ``Person(column, rows=k)``, of whom at most k rows are scored, those that a release would
            count. ``Person(column, normalise=True)`` is refused: its weights belong to the tables of a structure, and
            records are scored whole. A ledger for a person's column pays for either.
        ledger: The budget that pays (a path will do); None, which must be said, pays nothing.
        noise: ``"laplace"``, or ``"gaussian"``, which needs a ``delta``.
        clip: The interval that log-probabilities are cut to; choose it without a look at the records. By default it is
            where the log-probabilities of 4,000 samples of the model itself lie.

    Returns:
        The noisy mean, which may be published, and how far noise moves it.

    Raises:
        BudgetExceeded: It costs more than remains in the ledger.
        PolicyRefused: The policy in force does not allow it.
        Error: Arguments that do not fit; or, after the charge, the noise is larger than the number of records.

    >>> import quietfield as qf
    >>> schema = qf.Schema({"a": [0, 1]})
    >>> model = qf.Model(schema.domain, {("a",): [0.0, 1.0]})
    >>> people = {"a": [0, 1, 1] * 2000}
    >>> found = dp_score(model, people, schema, epsilon=1, unit=qf.Rows(1), ledger=None)
    >>> abs(found.mean_log_likelihood + 0.646) < 0.1
    True
    """
    _check(model, schema)
    low, high = _clip(model, clip)
    plan = mechanism.plan_noise(_summed(_rows(unit)), epsilon=epsilon, delta=delta, noise=noise)
    book = open_ledger(ledger)
    read = _reader(source, schema, unit)
    protects = lines.describe_unit(source, unit)
    model.log_partition()  # now: a model that is too large for inference is refused before anything is paid
    price = Price(plan.epsilon, plan.delta, plan.rho, unit, "add_remove", plan.kind)

    def work(receipt: Receipt) -> DPScore:
        codes = read()[:, [schema.domain.position(name) for name in model.domain]]
        clipped = np.clip(model.log_prob(codes), low, high)
        steps = np.clip(np.floor((clipped - low) / (high - low) * GRID), 0, GRID).astype(np.int64)
        (summed,), total = mechanism.draw_noise(plan, [steps.sum(keepdims=True, dtype=np.int64)], len(codes) * GRID)
        assert total is not None
        if total <= 0:
            raise Error("the noise is larger than the number of records, so there is no mean; pay a larger epsilon.")
        share = float(summed[0]) / total
        spread = [one.std for one in plan.noises]
        return DPScore(
            mean_log_likelihood=low + (high - low) * min(max(share, 0.0), 1.0),
            std=(high - low) * sqrt(spread[0] ** 2 + (share * spread[1]) ** 2) / (total / GRID),
            records=total / GRID,
            low=low,
            high=high,
            epsilon=plan.epsilon,
            delta=plan.delta,
            protects=protects,
            id=receipt.id,
            ledger=receipt.payment,
        )

    return charge_ledger(book, price, "score of a model on records", work)


def _counted_cliques(model: Model) -> list[Clique]:
    """The model's cliques, those that rule combinations out, and attributes that stand alone."""
    found = {frozenset(clique): clique for clique in model.cliques}
    for clique in [*(clique for clique, _ in model.domain.masks), *((name,) for name in model.domain)]:
        if not any(set(clique) == known if len(clique) > 1 else set(clique) <= known for known in found):
            found[frozenset(clique)] = clique
    return list(found.values())


def _summed(rows: int) -> Statistics:
    """One number that a row changes by at most 1 (in steps of 1/GRID), and the number of rows."""
    most = Fraction(rows)
    number = CountedTable(((),), (1,), None, most, most**2)
    return Statistics((number,), True, False, GRID, "add_remove", 2 * most, 2 * most**2, most)


def _clip(model: Model, clip: tuple[float, float] | None) -> tuple[float, float]:
    if clip is None:
        drawn = model.log_prob(model.sample(4000, seed=0).codes)
        low, high = float(np.quantile(drawn, 0.001)), float(drawn.max())
        return (low, high) if high - low > 1e-6 else (low - 1.0, high)
    try:
        low, high = (float(end) for end in clip)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not (-inf < low < high <= 0):
        raise Error(f"clip is an interval of log-probabilities such as (-20, 0), not {clip!r}.")
    return low, high


def _check(model: Model, schema: Schema) -> None:
    if not isinstance(model, Model):
        raise Error(f"what is scored is a Model, not a {type(model).__name__}.")
    if not isinstance(schema, Schema):
        raise Error(f"records are read by a Schema, not by a {type(schema).__name__}.")
    check_same(model.domain, schema.domain, "the schema and the model", more=True)


def _rows(unit: Unit) -> int:
    """How many rows of one person are scored."""
    check_unit(unit)
    if unit.rows is None:
        raise Error(
            f"a score has no tables, so it knows no weights of 1/K: give Person({unit.column!r}, rows=k) (on the "
            f"command line person:{'+'.join(unit.columns)}:k), of whom at most k rows are scored; the same ledger pays."
        )
    return unit.rows


def _reader(source: Any, schema: Schema, unit: Unit) -> Callable[[], np.ndarray]:
    """What reads the records that are scored, as codes: confidential. What needs no look to be refused is refused here.

    Frames, lists and streams cannot be opened without a look at their values, so that waits until it is paid for.
    """
    person = unit if isinstance(unit, Person) else None
    if isinstance(source, np.ndarray):
        ArrayEngine(source).check(schema, unit)
        return lambda: _array_codes(source, schema)
    if isinstance(source, Log):
        raise Error("a score is of records, and a log of sequences has none; write its segments to a file first.")
    if is_in_database(source):
        raise Error("a score reads records within this process, and a database keeps them; write them to a file first.")
    lines.check_unit(source, unit)
    check_columns(source, [*(schema.column(name) for name in schema), *(person.columns if person is not None else ())])
    return lambda: open_engine(source).codes(schema, person)  # type: ignore[attr-defined]  # the engine of all that is left


def _array_codes(source: np.ndarray, schema: Schema) -> np.ndarray:
    """As a count reads an array: other numbers are unknown values, which become a label or drop their record."""
    known = (source >= 0) & (source < np.array(schema.domain.shape))
    unknown = [schema[name].unknown_code for name in schema]
    codes = np.where(known, source, [-1 if code is None else code for code in unknown]).astype(np.int64)
    return codes[(codes >= 0).all(axis=1)]
