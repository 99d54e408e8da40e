"""Goodness of fit: whether a release and a model learned from it can both be right, from the release alone.

Two checks, each with a p-value by simulation and no appeal to large numbers:

* *Agreement of the tables.* Whatever the population, tables that share attributes must agree on them, table sums must
  agree with a public or noisy total, and impossible cells are empty. What is left is noise of a known distribution,
  so the p-value is exact. It is two-sided: too little noise is as wrong as too much.
* *Fit of the model.* Residuals y - N m, each against its spread from noise and sampling, compared with residuals of
  releases simulated from the model. Without refits the simulated residuals are around the truth and not around a fit,
  which makes them larger: the check then rings less often than it says. ``refits=`` learns from each simulated
  release, as was done with the real one, and is exact up to the model's own error.

A table summed to a set A of its axes, less its means along each of them, holds what it says of A and of no smaller
set, plus noise of the cells' variance times the number of cells that were summed: so every table gives an independent
measurement of the same numbers, and agreement is a sum of squares around weighted means.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod, sqrt

import numpy as np

from quietfield.domain import Clique
from quietfield.errors import CannotLearn, Error
from quietfield.learning import fit
from quietfield.learning.observation import (
    Moments,
    can_be_learned,
    count_codes,
    draw_noise,
    estimate_total,
    grow_counts,
    residuals,
    table_moments,
)
from quietfield.models.model import Model
from quietfield.models.sampling import check_whole
from quietfield.privacy.noise import Noise
from quietfield.releases.parts import interaction_of
from quietfield.releases.release import Release
from quietfield.releases.tables import signs_of
from quietfield.text import plural, table_html, type_name

BLIND = (
    "This check sees only what the tables show. Dependence between attributes that no table joins leaves no trace in "
    "them, nor do records that are missing alike from every table: a good fit does not prove the structure."
)
MOST_SHOWN = 30  # tables in a notebook
_ROUNDING = 1e-9  # relative, of sums of counts; generous
_DRAWS = 999  # of noise, for the agreement
_NUMBERS = 2**23  # of noise that are drawn together
_RECORDS = 50_000  # at most, per simulated release: more are imitated by scaling
_GIBBS = 2_000  # the same where records are drawn by Gibbs sampling


@dataclass(frozen=True)
class TableFit:
    """How one table fits: the root mean square of its residuals in units of their expected spread, and a p-value."""

    clique: Clique
    residual: float
    p_value: float


@dataclass(frozen=True)
class GoodnessOfFit:
    """What the checks found. ``p_value`` is the smaller of the two, doubled: how rare such a misfit is by chance."""

    p_value: float
    agreement: float | None  # p-value; None where no table says anything about another
    fit: float  # p-value
    redundancies: int  # how many numbers the tables measure more often than once
    noise_ratio: float | None  # spread of what must be noise, over the spread that the release states
    tables: tuple[TableFit, ...]  # worst first
    refits: int
    verdict: str
    blind: str = BLIND

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.blind}"

    def _repr_html_(self) -> str:
        agreement = "no table says anything about another" if self.agreement is None else f"p = {self.agreement:.2g}"
        rows = [(" × ".join(t.clique), f"{t.residual:.3g}", f"{t.p_value:.2g}") for t in self.tables[:MOST_SHOWN]]
        more = [f"{plural(len(self.tables) - MOST_SHOWN, 'table')} that fit better are left out."]
        notes = [f"Agreement of the tables: {agreement}. Fit of the model: p = {self.fit:.2g}.", self.blind]
        notes += more if len(self.tables) > MOST_SHOWN else []
        return table_html(self.verdict, ("table, worst first", "residuals (1 is expected)", "p"), rows, notes)


def goodness_of_fit(
    release: Release, model: Model, *, draws: int = 199, refits: int = 0, seed: int = 0
) -> GoodnessOfFit:
    """Whether a release and a model can both be right; needs no records.

    Args:
        release: The release.
        model: A model of the same attributes, learned from it or not.
        draws: How many simulated releases its residuals are compared with, at least 19.
        refits: How many simulated releases to learn from anew in place of that: slow, and more exact. Without refits
            the check rings less often than it says.
        seed: The seed of the simulation.

    Returns:
        A p-value, which tables speak against the model, and a verdict in words.

    Raises:
        Incomplete: The release waits for a signature.
        Error: The release has no tables, or other attributes or labels than the model.

    >>> import quietfield as qf
    >>> study = qf.simulate(attributes=3, states=3, records=2000)
    >>> check = goodness_of_fit(study.release, qf.fit(study.release))
    >>> check.p_value > 0.01, check.redundancies
    (True, 9)
    """
    if not isinstance(release, Release):
        raise Error(f"goodness of fit is of a Release and a model, not of {type_name(release)}.")
    if not isinstance(model, Model):
        raise Error(f"goodness of fit is of a release and a Model, not of {type_name(model)}.")
    release.check_complete()
    if not release.parts:
        raise Error("this release has no tables; there is nothing to compare with.")
    if {a: release.domain.labels(a) for a in release.domain} != {a: model.domain.labels(a) for a in model.domain}:
        raise Error("the release and the model have different attributes or labels; compare a model with its release.")
    draws, refits = check_whole("the number of draws", draws, 19), check_whole("the number of refits", refits, 0)
    seed = check_whole("a seed", seed, 0)
    agreement, ratio, redundancies = _agreement(release, seed)
    fit, tables = _fit(release, model, draws, refits, seed)
    ends = [p for p in (agreement, fit) if p is not None]
    p_value = min(1.0, len(ends) * min(ends))
    found = GoodnessOfFit(p_value, agreement, fit, redundancies, ratio, tables, refits, "")
    return replace(found, verdict=_verdict(found))


def _verdict(found: GoodnessOfFit) -> str:
    if found.p_value > 0.05:
        return f"Nothing speaks against the model: a misfit as large has probability {found.p_value:.2g} by chance."
    said = [f"The release and the model do not go together (p = {found.p_value:.2g})."]
    if found.agreement is not None and found.agreement <= 0.05:
        assert found.noise_ratio is not None
        said.append(
            f"Its tables differ from each other, or from the total, by {found.noise_ratio:.3g} times what their stated "
            "noise explains: the noise or the total is not as stated, the tables are of different populations, or "
            "combinations called impossible do occur. No model can mend that."
        )
    if found.fit <= 0.05:
        worst = ", ".join(" x ".join(t.clique) for t in found.tables[:3] if t.p_value <= 0.05)
        said.append(
            "The model leaves residuals that noise and sampling do not explain"
            + (f", most of all in {worst}" if worst else "")
            + ": its structure or ties do not hold, or it was learned from other tables."
        )
    return " ".join(said)


def _agreement(release: Release, seed: int) -> tuple[float | None, float | None, int]:
    """(p-value, spread over the stated spread, number of redundant measurements)."""
    random = np.random.default_rng([seed, 0])
    plain = [np.asarray(part.values, dtype=float)[None] / release.denominator for part in release.parts]
    total = np.array([0.0 if release.total is None else release.total])
    observed, count = _squares(release, plain, total, release.total_is_public)
    if not count:
        return None, None, 0
    cells = sum(part.values.size for part in release.parts)
    expected = np.concatenate([
        _squares(
            release,
            [draw_noise(part.noise, (rows, *part.values.shape), random) for part in release.parts],
            np.zeros(rows) if release.total_noise is None else draw_noise(release.total_noise, (rows,), random),
            release.total_is_public,
        )[0]
        for rows in _split(_DRAWS, max(1, _NUMBERS // cells))
    ])  # fmt: skip
    slack = _ROUNDING * count  # where there is next to no noise, sums differ by rounding alone
    above, below = (expected >= observed[0] - slack).sum(), (expected <= observed[0] + slack).sum()
    return min(1.0, 2 * float(1 + min(above, below)) / (_DRAWS + 1)), sqrt(float(observed[0]) / count), count


def _squares(release: Release, tables: list[np.ndarray], total: np.ndarray, public: bool) -> tuple[np.ndarray, int]:
    """(sum of squares of what must be noise alone, in units of its variance; how many), for rows of tables."""
    domain = release.domain
    largest = max(abs(float(part.values.max())) for part in release.parts) / release.denominator

    def variance(noise: Noise) -> float:
        return max(noise.variance, (_ROUNDING * (1 + largest)) ** 2)

    # Per set of attributes: measurements of what is its own (rows x cells) and the variances of a cell's noise.
    measured: dict[frozenset[str], list[tuple[np.ndarray, float]]] = {}
    squares, count = np.zeros(len(total)), 0
    compared = []
    for part, rows in zip(release.parts, tables, strict=True):
        clique = part.cliques[0]
        if part.interaction:
            compared.append((part, rows, tuple(range(len(clique)))))
        elif len(part.cliques) == 1 and not (mask := domain.mask_over(clique)).all():
            # Empty cells speak for themselves; taken out, they leave the others' noise independent of theirs.
            empty = rows[:, ~mask]
            squares = squares + (empty**2).sum(1) / variance(part.noise)
            count += empty.shape[1]
        elif part.excluded is None:
            # Tied cliques add up; only their number of records is known to be equal.
            wide = [i for i, name in enumerate(clique) if domain.size(name) > 1] if len(part.cliques) == 1 else []
            compared += [(part, rows, axes) for size in range(len(wide) + 1) for axes in combinations(wide, size)]
    often = Counter(frozenset(part.cliques[0][i] for i in axes) for part, _, axes in compared)
    for part, rows, axes in compared:
        key = frozenset(part.cliques[0][i] for i in axes)
        if key and often[key] == 1:
            continue  # nothing to compare it with
        ties = len(part.cliques)
        # The number of an interaction, spread over the cells of its attributes with signs, is what is their own.
        own = np.multiply.outer(rows, signs_of(len(axes)) / 2 ** len(axes)) if part.interaction else _own(rows, axes)
        cells = rows[0].size / own[0].size
        ordered = _put_in_order(own, [part.cliques[0][i] for i in axes])
        measured.setdefault(key, []).append((ordered / ties, variance(part.noise) * cells / ties**2))
    nothing: frozenset[str] = frozenset()
    if release.total is not None and release.total_noise is not None:
        measured.setdefault(nothing, []).append((total[:, None], variance(release.total_noise)))
    for key, found in measured.items():
        weights = np.array([1 / variance for _, variance in found])
        values = np.stack([value for value, _ in found])
        known = not key and public
        center = total[None, :, None] if known else np.tensordot(weights, values, 1)[None] / weights.sum()
        squares = squares + ((values - center) ** 2 * weights[:, None, None]).sum((0, 2))
        count += (len(found) - (0 if known else 1)) * prod(domain.size(name) - 1 for name in key)
    return squares, count


def _own(rows: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Each row's table summed to some axes, less its means along each of them."""
    table = rows.sum(tuple(i + 1 for i in range(rows.ndim - 1) if i not in axes))
    for axis in range(1, table.ndim):
        table = table - table.mean(axis, keepdims=True)
    return table


def _split(count: int, most: int) -> list[int]:
    """A number as a sum of parts that are at most so large."""
    return [min(most, count - start) for start in range(0, count, most)]


def _put_in_order(values: np.ndarray, names: list[str]) -> np.ndarray:
    """Rows of coefficients as vectors, the axes in the order of their names."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return values.transpose(0, *(1 + i for i in order)).reshape(len(values), -1)


def _fit(release: Release, model: Model, draws: int, refits: int, seed: int) -> tuple[float, tuple[TableFit, ...]]:
    """(p-value of all residuals together or the worst table, the fit of each table)."""
    moments = table_moments(release, model)
    observed = _misfit(release, moments)
    # Where noise is nearly all, some come out with a number of records below zero; the release at hand did not.
    simulated = [r for r in _simulate(release, model, moments, refits or draws, seed) if can_be_learned(r)]
    if not simulated:
        raise CannotLearn("the noise of this release is larger than its data, so that no fit to it can be checked.")
    if refits:
        method, how = (model.report.method, model.report.inference) if model.report else ("map", model.inference)
        learned = fit(simulated, method, inference=how)
        expected = np.array([_misfit(r, table_moments(r, m)) for r, m in zip(simulated, learned, strict=True)])
    else:
        # A public total is known in the simulations too; an estimated one is estimated in each.
        expected = np.array([_misfit(r, moments) for r in simulated])
    # Two summaries, of all tables and of the worst, each ranked among the simulations; the better rank of the two is
    # ranked in its turn, which makes up for having looked twice.
    both = np.vstack([observed, expected])
    cells = np.array([part.values.size for part in release.parts])
    standard = (both - expected.mean(0)) / np.maximum(expected.std(0), 1e-12)
    summaries = np.stack([both @ cells, standard.max(1)], 1)
    ranks = (summaries[None] >= summaries[:, None]).sum(1).min(1)  # of each among all: small is extreme
    p_value = float((ranks <= ranks[0]).sum()) / len(both)
    alone = (1 + (expected >= observed).sum(0)) / len(both)
    tables = [
        TableFit(part.cliques[0], float(np.sqrt(value)), float(p))
        for part, value, p in zip(release.parts, observed, alone, strict=True)
    ]
    return p_value, tuple(sorted(tables, key=lambda t: (t.p_value, -t.residual)))


def _misfit(release: Release, moments: list[Moments]) -> np.ndarray:
    """Per table, the mean square of the residuals."""
    return np.array([table.mean_square for table in residuals(release, moments)])


def _simulate(release: Release, model: Model, moments: list[Moments], count: int, seed: int) -> list[Release]:
    """Releases of populations of the model, with noise of the stated kind."""
    random = np.random.default_rng([seed, 1])
    total = estimate_total(release)
    records = max(1, min(round(total), _RECORDS if model.inference == "exact" else _GIBBS))
    found = []
    for _ in range(count):
        columns = model.sample(records, seed=int(random.integers(2**62)))._columns
        parts = []
        for part, (m, _variance) in zip(release.parts, moments, strict=True):
            counts = np.sum([count_codes(release.domain, clique, columns) for clique in part.cliques], axis=0)
            if part.interaction:
                counts = interaction_of(counts)
            values = grow_counts(counts, m, records, total)
            if part.excluded is not None:
                values[part.excluded] = 0.0
            values = values + draw_noise(part.noise, values.shape, random)
            parts.append(replace(part, values=values))
        whole_number = None
        if release.total_part is not None:
            noise = release.total_part.noise
            known = total if noise is None else total + float(draw_noise(noise, (1,), random)[0])
            whole_number = replace(release.total_part, value=known)
        found.append(
            Release(release.domain, release.structure, tuple(parts), whole_number, notes=("simulated from a model",))
        )
    return found
