"""What a release and the model learned from it would be like, before anything is paid and without any record.

From the schema, the structure and a *guessed* number of records, releases of made-up people are drawn and models are
learned from them, at several epsilons. The people come from plausible models: random ones, from mild to strong
dependence. How wrong the learned models are is measured, not derived.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from quietfield.cliques import Structure
from quietfield.domain import Domain
from quietfield.drawing.charts import Series, crossing, curves_svg, curves_text
from quietfield.errors import Error, TooLarge
from quietfield.inference.plan import EliminationPlan, plan_elimination
from quietfield.memory import readable_bytes
from quietfield.models.sampling import check_whole
from quietfield.privacy import accounting, planning
from quietfield.privacy.calibration import Weights, choose_statistics
from quietfield.privacy.planning import TableNoise, format_points
from quietfield.privacy.units import Neighbours, Person, Rows, Statistics, Unit
from quietfield.schema import Schema
from quietfield.study.trials import run_trials
from quietfield.text import join_names, plural, table_html, type_name

if TYPE_CHECKING:
    from quietfield.study.trials import RehearsalErrors, Trial

Measure = Literal["mean", "p95", "single", "distance"]
#: The measures of error and what they are in words.
MEASURES: dict[Measure, str] = {
    "mean": "mean absolute error of a cell's share",
    "p95": "error that 19 of 20 cells stay below",
    "single": "mean absolute error of a share of one attribute",
    "distance": "mean total variation of a table",
}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: The standard deviation of the log-potentials of plausible models: mild, middling and strong dependence.
STRENGTHS = (0.5, 1.0, 2.0)


class NeededEpsilon(NamedTuple):
    """The smallest epsilon for an error, on average over the plausible models, and the least and most that one of them
    needs. Infinite where the largest epsilon tried was too small; a number below the smallest tried is that one."""

    epsilon: float
    low: float
    high: float
    note: str

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON; None where no epsilon that was tried will do."""
        return {name: None if value == inf else value for name, value in self._asdict().items()}


@dataclass(frozen=True)
class Rehearsal:
    """What :func:`rehearse` found. Nothing in it comes from a record.

    ``table`` has a row for each kind of noise and epsilon; ``tables(epsilon)`` the noise of each released table;
    ``figures`` the cost of exact inference; ``trials`` every rehearsal; ``notes`` what to know about it all.
    """

    domain: Domain
    structure: Structure
    unit: Unit
    records: int
    epsilons: tuple[float, ...]
    delta: float | None
    noise: tuple[str, ...]
    figures: EliminationPlan
    seconds: float
    seconds_a_fit: float | None
    total_reason: str
    notes: tuple[str, ...]
    trials: "tuple[Trial, ...]" = field(repr=False)
    planned: Mapping[tuple[str, float], tuple[TableNoise, ...]] = field(repr=False)

    def tables(self, epsilon: float, noise: str | None = None) -> tuple[TableNoise, ...]:
        """The size, noise and expected error of each released table at one of the epsilons."""
        key = (self._kind(noise), float(epsilon))
        if key not in self.planned:
            raise Error(f"epsilon {epsilon!r} was not rehearsed; expected one of {join_names(self.epsilons)}.")
        return self.planned[key]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each kind of noise and epsilon: noise of a cell, and the errors of the learned model."""
        rows = []
        for kind in self.noise:
            for epsilon in self.epsilons:
                tables = self.planned[kind, epsilon]
                row: dict[str, Any] = {"noise": kind, "epsilon": epsilon, "cell_std": max(t.std for t in tables)}
                found = self._errors(kind, epsilon)
                for measure in MEASURES:
                    values = [getattr(errors, measure) for errors in found]
                    row[measure] = sum(values) / len(values) if values else None
                    row[f"{measure}_low"] = min(values, default=None)
                    row[f"{measure}_high"] = max(values, default=None)
                row["rehearsals"] = len(found)
                row["not_learned"] = sum(not t.learned for t in self.trials if (t.noise, t.epsilon) == (kind, epsilon))
                rows.append(row)
        return rows

    @property
    def sampling(self) -> dict[str, float] | None:
        """The errors that so many records have without any noise: no epsilon gets below."""
        if not self.trials:
            return None
        return {m: sum(getattr(t.sampling, m) for t in self.trials) / len(self.trials) for m in MEASURES}

    def epsilon_for(self, error: float, measure: Measure = "mean", noise: str | None = None) -> NeededEpsilon:
        """Which epsilon for this error? By interpolation (on logarithmic scales) between the rehearsed ones."""
        if measure not in MEASURES:
            raise Error(f"{measure!r} is not a measure of error; expected one of {join_names(MEASURES)}.")
        if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
            raise Error(f"an error is a share between 0 and 1, such as 0.02 for two percentage points, not {error!r}.")
        kind = self._kind(noise)
        if not self.trials:
            raise Error(f"no epsilon can be named: {self._missing}.")
        curves: dict[tuple[float, int], list[float]] = {}
        for trial in self.trials:
            if trial.noise == kind:
                curves.setdefault((trial.strength, trial.repeat), []).append(getattr(trial.errors, measure))
        mean = [sum(values) / len(values) for values in zip(*curves.values(), strict=True)]
        each = [crossing(self.epsilons, curve, error) for curve in curves.values()]
        found = NeededEpsilon(crossing(self.epsilons, mean, error), min(each), max(each), "")
        return found._replace(note=self._describe_needed(found, error, measure, len(each)))

    def _describe_needed(self, found: NeededEpsilon, error: float, measure: Measure, models: int) -> str:
        asked = f"{MEASURES[measure]} of {format_points(error)}"
        if not isfinite(found.epsilon):
            least = (self.sampling or {}).get(measure, 0.0)
            floor = (
                f"{plural(self.records, 'record')} are off by {format_points(least)} even without noise: only more "
                "would do"
                if least >= error
                else "try larger ones, fewer or smaller tables, or hope for more records"
            )
            return f"no epsilon up to {self.epsilons[-1]:g} gives a {asked}: {floor}."
        if found.epsilon <= self.epsilons[0]:
            return f"epsilon {self.epsilons[0]:g}, the smallest tried, already gives a {asked}; a smaller one may do."
        span = f"{found.low:.2g} to " + (f"{found.high:.2g}" if isfinite(found.high) else "more than was tried")
        return f"about epsilon {found.epsilon:.2g} for a {asked} ({span} over {plural(models, 'plausible model')})."

    def _errors(self, kind: str, epsilon: float) -> "list[RehearsalErrors]":
        return [trial.errors for trial in self.trials if (trial.noise, trial.epsilon) == (kind, epsilon)]

    @property
    def _missing(self) -> str:
        """Why nothing was rehearsed."""
        return next(note.rstrip(".") for note in self.notes if "nothing was rehearsed" in note)

    def _kind(self, noise: str | None) -> str:
        if noise is not None and noise not in self.noise:
            raise Error(f"{noise!r} noise was not rehearsed; expected one of {join_names(self.noise)}.")
        return self.noise[0] if noise is None else noise

    def series(self, measure: Measure = "mean") -> list[Series]:
        """Error against epsilon as curves in percentage points, one for each kind of noise."""
        found = []
        for kind in self.noise:
            rows = [row for row in self.table if row["noise"] == kind and row[measure] is not None]
            points = [tuple(100 * row[name] for row in rows) for name in (measure, f"{measure}_low", f"{measure}_high")]
            if rows:
                found.append(Series(f"{kind} noise", tuple(row["epsilon"] for row in rows), *points))
        return found

    def svg(self, measure: Measure = "mean", error: float | None = None) -> str:
        """The curve as a picture, with its spread over plausible models; ``error`` marks what it needs."""
        needed = None if error is None else self.epsilon_for(error, measure).epsilon
        marked = (needed, 100 * error) if needed is not None and error is not None and isfinite(needed) else None
        series = self.series(measure)
        if not series:
            raise Error(f"there is no curve: {self._missing}.")
        title = f"Error of the learned model, {plural(self.records, 'record')} (guessed)"
        return curves_svg(series, title=title, x="epsilon", y=f"{measure} error, percentage points", marked=marked)

    def plot(self, measure: Measure = "mean") -> str:
        """The curve as text."""
        series = self.series(measure)
        return curves_text(series, x="epsilon", y=f"{MEASURES[measure]}, percentage points") if series else ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "records": self.records,
            "unit": self.unit.to_json(),
            "delta": self.delta,
            "inference": self.figures.to_json(),
            "total": self.total_reason,
            "epsilons": self.table,
            "tables": [
                {"noise": kind, "epsilon": epsilon, "tables": [table.to_dict() for table in tables]}
                for (kind, epsilon), tables in self.planned.items()
            ],
            "sampling": self.sampling,
            "trials": [asdict(trial) for trial in self.trials],
            "seconds": self.seconds,
            "seconds_a_fit": self.seconds_a_fit,
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """The rehearsal in words, for a terminal."""
        cells = sum(table.cells for table in next(iter(self.planned.values())))
        said = [
            f"records      {self.records:,} (guessed); the unit is {self.unit.describe()}",
            f"tables       {len(self.structure.groups)}, {plural(cells, 'cell')}; the total is {self.total_reason}",
            f"inference    treewidth at most {self.figures.treewidth}, {readable_bytes(self.figures.bytes)}"
            + (f", about {self.seconds_a_fit:.2g} s per fit here" if self.seconds_a_fit is not None else ""),
            "",
            "                      a cell's noise        error of a share in the learned model",
            "noise     epsilon     std    of records     mean     19 of 20 below   one attribute   distance",
        ]
        for row in self.table:
            shares = [t.share_std for t in self.planned[row["noise"], row["epsilon"]] if t.share_std is not None]
            errors = [row[measure] for measure in ("mean", "p95", "single", "distance")]
            shown = [format_points(value) if value is not None else "-" for value in errors]
            said.append(
                f"{row['noise']:<9} {row['epsilon']:>7g} {row['cell_std']:>7.3g} {format_points(max(shares)):>13} "
                f"{shown[0]:>8} {shown[1]:>18} {shown[2]:>15} {shown[3]:>10}"
            )
        if self.sampling is not None:
            shown = [format_points(self.sampling[measure]) for measure in ("mean", "p95", "single", "distance")]
            said.append(f"{'without noise':<39} {shown[0]:>8} {shown[1]:>18} {shown[2]:>15} {shown[3]:>10}")
        return said

    def __repr__(self) -> str:
        return "\n".join(["Rehearsal", *self.lines(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        heads = ["noise", "epsilon", "std of a cell", "mean error", "19 of 20 below", "one attribute", "distance"]
        rows = []
        for row in self.table:
            values = [
                format_points(row[m]) if row[m] is not None else "–" for m in ("mean", "p95", "single", "distance")
            ]
            rows.append([row["noise"], f"{row['epsilon']:g}", f"{row['cell_std']:.3g}", *values])
        caption = f"Rehearsal for {plural(self.records, 'record')} (guessed)"
        return table_html(caption, heads, rows, self.notes, self.svg() if self.trials else "")


def rehearse(
    schema: Schema | Domain,
    cliques: Structure | Iterable[str | Iterable[str]],
    *,
    records: int,
    epsilons: Sequence[accounting.Number] = EPSILONS,
    unit: Unit = Rows(1),  # noqa: B008  # a frozen record
    neighbours: Neighbours = "add_remove",
    total: Literal["auto"] | bool = "auto",
    weights: Weights = None,
    noise: Literal["laplace", "gaussian", "both"] = "laplace",
    delta: accounting.Number | None = None,
    rows_each: int = 1,
    strengths: Sequence[float] = STRENGTHS,
    repeats: int = 2,
    seconds: float = 60.0,
    seed: int = 0,
    progress: bool = False,
) -> Rehearsal:
    """Rehearse a release at several epsilons, from what is public alone: no record is read, nothing is paid.

    Args:
        schema: The attributes: a Schema or a Domain.
        cliques: The tables that would be counted.
        records: A *guess* of the number of records: never count them for this.
        epsilons: The candidates.
        unit: Whom the release would protect; this and what follows as in :func:`quietfield.release`.
        neighbours: Which data sets could not be told apart.
        total: Whether the number of records would be counted.
        weights: Numbers by clique, ``"by_size"`` or ``"equal"``.
        noise: ``"laplace"``, ``"gaussian"``, or ``"both"``, which compares them.
        delta: The delta of Gaussian noise.
        rows_each: With ``Person(..., normalise=True)``, a guess of how many rows a person has.
        strengths: Standard deviations of the log-potentials of the plausible models.
        repeats: How many models of each strength are tried.
        seconds: After these no further model is begun, and one under way is given up; for the first they begin when its
            code is compiled.
        seed: The seed of models, populations and noise.
        progress: Whether a line on the error stream shows how far it is.

    Returns:
        The errors to expect at each epsilon, and what a fit would cost.

    Raises:
        Error: The arguments do not fit together, or no release could be made with them.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"smokes": 2, "coughs": 2, "age": 3})
    >>> chain = qf.structures.chain(domain)
    >>> seen = qf.rehearse(domain, chain, records=5000, epsilons=[0.1, 1, 10], strengths=[1.0], repeats=1)
    >>> seen.table[0]["mean"] > seen.table[2]["mean"]
    True
    >>> 0.1 <= seen.epsilon_for(0.01).epsilon <= 10
    True
    """
    started = time.perf_counter()
    if not isinstance(schema, Schema | Domain):
        raise Error(f"a rehearsal needs a Schema or a Domain, not {type_name(schema)}.")
    domain = schema.domain if isinstance(schema, Schema) else schema
    structure = Structure.of(cliques, domain)
    records, repeats = planning.check_guess(records), check_whole("repeats", repeats, 1)
    rows_each, seed = check_whole("the guessed rows of a person", rows_each, 1), check_whole("a seed", seed, 0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < inf:
        raise Error(f"seconds is how long rehearsals may take, a positive number, not {seconds!r}.")
    kinds = ("laplace", "gaussian") if noise == "both" else (noise,)
    exact = sorted({accounting.to_rational(epsilon, "epsilon") for epsilon in epsilons})
    if not exact:
        raise Error("name at least one epsilon to rehearse, for instance epsilons=[0.1, 1, 10].")
    if not strengths or not all(isinstance(s, int | float) and 0 < s < 100 for s in strengths):
        raise Error(f"strengths are numbers between 0 and 100, not {list(strengths)!r}.")
    counted: dict[str, Statistics] = {}
    reason = ""
    planned: dict[tuple[str, float], tuple[TableNoise, ...]] = {}
    noises: dict[tuple[str, float], Any] = {}
    behind = records / _share(structure, unit, rows_each)
    for kind in kinds:
        measured, shares = planning.allocate_budget(structure, domain, unit, neighbours, weights, kind, total)
        counted[kind], reason = choose_statistics(measured, domain, unit, neighbours, total, kind, shares)
        for epsilon in exact:
            key = (kind, float(epsilon))
            chance = delta if kind == "gaussian" or noise != "both" else None
            noises[key] = planning.calibrate_noise(
                counted[kind], epsilon=epsilon, delta=chance, noise=kind, weights=shares
            )
            planned[key] = planning.table_noises(counted[kind], noises[key], behind)
    figures = plan_elimination(domain, structure)
    largest = exact[-1]
    said = planning.warn_of_budget(largest, delta, noises[kinds[-1], float(largest)])
    notes = [] if said is None else [said]
    if (left := planning.warn_of_uncovered(domain, structure)) is not None:
        notes.append(left)
    notes.append(
        "made-up people from plausible models, not your data: read the errors as a range, and keep your guess of the "
        "number of records a guess"
    )
    trials: list[Trial] = []
    a_fit = None
    try:
        figures.check_memory(rows=len(exact))
    except TooLarge as refusal:
        notes.append(f"nothing was rehearsed: {refusal}")
    else:
        trials, a_fit, remarks = run_trials(
            domain, structure, unit, counted, noises, records=records, rows_each=rows_each, strengths=strengths,
            repeats=repeats, seconds=seconds, seed=seed, progress=progress,
        )  # fmt: skip
        notes += remarks
    return Rehearsal(
        domain=domain, structure=structure, unit=unit, records=records, noise=kinds, figures=figures, planned=planned,
        epsilons=tuple(float(epsilon) for epsilon in exact),
        delta=None if delta is None else float(accounting.to_probability(delta)),
        seconds=time.perf_counter() - started,
        seconds_a_fit=a_fit,
        total_reason=reason,
        notes=tuple(notes),
        trials=tuple(trials),
    )  # fmt: skip


def _share(structure: Structure, unit: Unit, rows_each: int) -> int:
    """By how much a record's weight is divided: K, if no edge is null."""
    if not (isinstance(unit, Person) and unit.normalise):
        return 1
    return rows_each * max(1, sum(len(clique) > 1 for clique in structure.cliques))
