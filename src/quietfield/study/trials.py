"""Rehearsals: a release and a fit of made-up people, as a real release would be, to see how wrong it ends.

A rehearsal draws a plausible model, a population from it, counts it as the unit says, adds simulated noise of the
planned scales and learns a model from that alone. The noise comes from a seed: nothing is protected here, and nobody is
in it.

Glossary: N records, n tables in steps of 1/denominator, y = n + noise, mu true shares.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.learning import fit
from quietfield.learning.observation import can_be_learned, count_codes, draw_steps, grow_counts
from quietfield.models.model import Model
from quietfield.privacy.noise import Noise
from quietfield.privacy.units import GRID, Person, Statistics, Unit
from quietfield.releases.parts import Table, Total, interaction_of
from quietfield.releases.release import Release
from quietfield.status import show_status
from quietfield.study.simulation import NOTE
from quietfield.text import plural

if TYPE_CHECKING:
    from numpy.random import Generator

#: Above this many records, the sampling error of so many is scaled to that of all: its covariance stays exact.
MOST_RECORDS = 300_000


@dataclass(frozen=True)
class RehearsalErrors:
    """How far a model's marginals are from the true ones, over all cells of the released tables.

    ``mean`` and ``p95`` are the mean and the 95th percentile of the absolute error of a share, ``single`` the mean for
    single attributes, ``distance`` the mean total variation of a table.
    """

    mean: float
    p95: float
    single: float
    distance: float


def draw_plausible_model(domain: Domain, structure: Structure, strength: float, random: "Generator") -> Model:
    """A model with log-potentials of a standard deviation; tied cliques share theirs."""
    tables = {}
    for group in structure.groups:
        table = random.normal(0.0, strength, domain.table_shape(group[0]))
        tables.update(dict.fromkeys(group, table))
    return Model(domain, {clique: tables[clique] for clique in structure.cliques})


@dataclass(frozen=True, eq=False)
class Population:
    """Made-up people as they would be counted: tables and total in steps, and their own error (no noise)."""

    model: Model
    statistics: Statistics
    structure: Structure
    tables: list[np.ndarray]
    total: int
    sampling: RehearsalErrors


def populate(
    model: Model,
    structure: Structure,
    statistics: Statistics,
    unit: Unit,
    records: int,
    rows_each: int,
    random: "Generator",
) -> Population:
    """Draw people from a model and count them as a release would; their own error is that of ``structure``."""
    domain = model.domain
    drawn = min(records, MOST_RECORDS)
    codes = model.sample(drawn, seed=int(random.integers(2**62))).codes
    weights, codes = _weights(codes, domain, statistics, unit, rows_each)
    growth = records / drawn
    whole = int(weights.sum())
    shares = {}
    for clique in (clique for table in statistics.tables for clique in table.cliques):
        counted = count_codes(domain, clique, codes.T, weights)
        if growth > 1:
            counted = np.maximum(grow_counts(counted, model.marginal(clique), whole, growth * whole), 0.0)
        shares[clique] = counted
    total = round(whole * growth)
    tables = []
    for table in statistics.tables:
        summed = np.rint(sum(shares[clique] for clique in table.cliques)).astype(np.int64)
        if table.excluded is not None:
            summed[table.excluded] = 0
        if table.interaction:
            summed = interaction_of(summed)
        tables.append(summed)
    own = {clique: shares[clique] / shares[clique].sum() for clique in structure.cliques}
    numbers = tuple(table.clique for table in statistics.tables if table.interaction)
    measured = Structure(tuple(shares), structure.ties, numbers)
    return Population(model, statistics, measured, tables, total, measure_errors(model, own))


def _weights(
    codes: np.ndarray, domain: Domain, statistics: Statistics, unit: Unit, rows_each: int
) -> tuple[np.ndarray, np.ndarray]:
    """What each row adds, in steps: 1, or floor(GRID / K) with K over the edges of its person that are not null."""
    if not (isinstance(unit, Person) and unit.normalise):
        return np.ones(len(codes)), codes
    edges = np.zeros(len(codes), dtype=np.int64)
    for clique, cell in statistics.edges:
        empty = np.zeros(len(codes), dtype=bool)
        if cell is not None:
            empty = np.all([codes[:, domain.position(a)] == code for a, code in zip(clique, cell, strict=True)], axis=0)
        edges += ~empty
    person = np.arange(len(codes)) // rows_each
    each = np.bincount(person, edges).astype(np.int64)[person]
    kept = edges > 0
    return (GRID // np.maximum(each, 1))[kept].astype(float), codes[kept]


def add_simulated_noise(population: Population, planned: Sequence[Noise], random: "Generator") -> Release:
    """A release of a population, with simulated noise."""
    statistics = population.statistics
    parts = tuple(
        Table(
            table.cliques,
            n + draw_steps(noise, n.shape, random),
            noise,
            excluded=table.excluded,
            interaction=table.interaction,
        )
        for table, n, noise in zip(statistics.tables, population.tables, planned, strict=False)
    )
    total = None
    if statistics.total:
        added = int(draw_steps(planned[-1], (1,), random)[0])
        total = Total(population.total + added, planned[-1])
    elif statistics.known_total:
        total = Total(population.total, None)
    return Release(
        population.model.domain, population.structure, parts, total, denominator=statistics.denominator, notes=(NOTE,)
    )


def measure_errors(truth: Model, found: dict[Clique, np.ndarray] | Model) -> RehearsalErrors:
    """How far shares by clique (or a model's) are from a true model's."""
    shares = found.marginals() if isinstance(found, Model) else found
    gaps = [np.abs(shares[clique] - truth.marginal(clique)) for clique in shares]
    single = []
    for name in dict.fromkeys(name for clique in shares for name in clique):
        clique = min((c for c in shares if name in c), key=len)
        axes = tuple(i for i, other in enumerate(clique) if other != name)
        single.append(np.abs(shares[clique].sum(axis=axes) - truth.marginal(name)))
    cells = np.concatenate([gap.ravel() for gap in gaps])
    return RehearsalErrors(
        float(cells.mean()),
        float(np.quantile(cells, 0.95)),
        float(np.concatenate(single).mean()),
        float(np.mean([0.5 * gap.sum() for gap in gaps])),
    )


@dataclass(frozen=True)
class Trial:
    """One rehearsed release and fit: the errors of the learned model and, beside them, of the people without noise.

    ``learned`` is False where the noise left no positive number of records: then the errors are those of a model that
    knows nothing.
    """

    noise: str
    epsilon: float
    strength: float
    repeat: int
    errors: RehearsalErrors
    sampling: RehearsalErrors
    learned: bool


class TimeUp(Exception):  # it ends a fit and is no error of anyone
    """The time for rehearsals is over."""


def run_trials(
    domain: Domain,
    structure: Structure,
    unit: Unit,
    counted: Mapping[str, Statistics],
    planned: Mapping[tuple[str, float], Sequence[Noise]],
    *,
    records: int,
    rows_each: int,
    strengths: Sequence[float],
    repeats: int,
    seconds: float,
    seed: int,
    progress: bool = False,
) -> tuple[list[Trial], float | None, list[str]]:
    """Trials for every plausible model that there was time for, at all epsilons; seconds per fit; and notes.

    The models of one population are learned side by side. A model is tried at all epsilons and kinds of noise or at
    none, so that the curves stay comparable.
    """
    deadline = time.perf_counter() + seconds
    trials: list[Trial] = []
    wanted = [(strength, repeat) for repeat in range(repeats) for strength in strengths]
    spent: list[float] = []
    for i, (strength, repeat) in enumerate(wanted):
        begun = time.perf_counter()
        if begun > deadline or (len(spent) > 1 and begun + spent[-1] > deadline):
            break
        with show_status(f"rehearsal: plausible model {i + 1} of {len(wanted)} ...", progress):
            truth = draw_plausible_model(domain, structure, strength, np.random.default_rng([seed, i, 0]))
            found: list[Trial] = []
            try:
                for kind, statistics in counted.items():
                    people = np.random.default_rng([seed, i, 1])  # the same people whatever the noise
                    population = populate(truth, structure, statistics, unit, records, rows_each, people)
                    keys = [key for key in planned if key[0] == kind]
                    releases = [
                        add_simulated_noise(population, planned[key], np.random.default_rng([seed, i, 2]))
                        for key in keys
                    ]
                    models = _learn(releases, deadline if spent else None, seconds)
                    for (_, epsilon), model in zip(keys, models, strict=True):
                        known = Model(domain, _nothing(domain, structure)) if model is None else model
                        wrong = measure_errors(known, truth)  # over the tables that are asked for
                        found.append(
                            Trial(kind, epsilon, strength, repeat, wrong, population.sampling, model is not None)
                        )
            except TimeUp:
                break
        trials += found
        spent.append(time.perf_counter() - begun)
    notes = []
    done = len(spent)
    if done < len(wanted):
        what = f"{done} of {len(wanted)} plausible models were rehearsed" if done else "nothing was rehearsed"
        notes.append(f"{what} in the {seconds:g} s allowed; allow more with seconds=... (--seconds)")
    lost = sum(not trial.learned for trial in trials)
    if lost:
        notes.append(
            f"in {lost} of {plural(len(trials), 'rehearsal')} the noise left no positive number of records and nothing "
            "could be learned: they count as a model that knows nothing"
        )
    # The first one compiles; the others tell what a fit takes.
    return trials, (min(spent[1:]) / len(planned) if len(spent) > 1 else None), notes


def _learn(releases: Sequence[Release], deadline: float | None, seconds: float) -> list[Model | None]:
    """Models, or None for each release that none can be learned from. Without a deadline, the time begins after the
    first round, which compiles."""

    def look(_: object) -> None:
        nonlocal deadline
        if deadline is None:
            deadline = time.perf_counter() + seconds
        elif time.perf_counter() > deadline:
            raise TimeUp

    usable = [i for i, release in enumerate(releases) if can_be_learned(release)]
    if not usable:
        return [None] * len(releases)
    # Another one stands in for what cannot be used: a batch of another size would be compiled anew.
    models = fit([releases[i if i in usable else usable[0]] for i in range(len(releases))], callback=look)
    return [model if i in usable else None for i, model in enumerate(models)]


def _nothing(domain: Domain, structure: Structure) -> dict[Clique, np.ndarray]:
    return {clique: np.zeros(domain.table_shape(clique)) for clique in structure.cliques}
