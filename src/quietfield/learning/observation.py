"""The observation model: how records become the noisy tables of a release, and how far those scatter around a model.

A table sums one or more cliques, which are then tied. A record x adds to its cell i the number of these cliques in
which it has that cell,

    X_i = sum over cliques c of [x_c = i],        m_i = E X_i,        V_i = Var X_i,

and N records and the noise give y = n + noise with mean N m_i and variance N V_i plus that of the noise. Of a single
clique V = m (1 - m). Tied cliques of one record depend on each other (who stays at home in one hour stays in the
next), so that V also has their covariances; it is the derivative of m_i by the log-potential of the cell that the
tied cliques share, and :func:`cell_moments` computes it so. Where N is not public it is estimated from the same noisy
tables, and y - N m has the error of that estimate too. Records that a unit weighs count for less than 1, and a release
does not tell how much less: with N the sum of their weights, N V is an upper bound there.

The learners weigh each cell by :func:`independent_variance`, which leaves the covariances out: the last step of the
default learner accounts for all of them at once (``learning/map.py``), and its figures were measured so.

Everything that counts made-up records, simulates noise or compares a table with a model is built on this module. Real
records are counted, and real noise is drawn, in ``curator/`` alone.

Glossary: y noisy tables, N records, m shares of a table's cells (summed over tied cliques), V as above.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quietfield.domain import Clique, Domain
from quietfield.errors import CannotLearn, Error
from quietfield.inference import engine
from quietfield.inference.tree import Tree
from quietfield.privacy.noise import Laplace, Noise
from quietfield.releases.parts import Table, interaction_of
from quietfield.releases.release import Release

if TYPE_CHECKING:
    from quietfield.models.model import Model

_LEAST_VARIANCE = 1e-200  # stands for 0, to which the variance of discrete noise of a tiny scale rounds
_ROUNDING = 1e-9  # relative, of sums of counts; generous
_MOST_WORK = 2**31  # bytes that inference may go through for exact covariances: a few seconds
_RECORDS = 2**16  # simulated for covariances where that is too much
_GIBBS = 2**12  # the same where records are drawn by Gibbs sampling


# Noise.


def noise_variance(noise: Noise) -> float:
    """The variance of some noise, never 0: it is divided by."""
    return max(noise.variance, _LEAST_VARIANCE)


def draw_noise(noise: Noise, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Draw noise for simulations, in counts. It comes from a seed, so it protects nobody.

    Args:
        noise: its kind and scale, continuous or in steps.
        shape: of the array that is drawn.
        random: where the numbers come from.

    Returns:
        An array of floats with the distribution that ``noise.log_density`` states; multiples of the step if any.

    >>> import numpy as np
    >>> from quietfield.privacy.noise import Gaussian
    >>> noise = Gaussian(0.5, step=1)
    >>> drawn = draw_noise(noise, (100_000,), np.random.default_rng(0))
    >>> round(noise.variance, 3), bool(abs(drawn.var() - noise.variance) < 0.01)
    (0.215, True)
    """
    if noise.step:
        return draw_steps(noise, shape, random) * float(noise.step)
    return (random.laplace if isinstance(noise, Laplace) else random.normal)(0.0, noise.scale, shape)


def draw_steps(noise: Noise, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Draw discrete noise for simulations, in whole steps; exactly, but for the rounding of floats.

    Laplace noise is the difference of two geometric numbers. Gaussian noise is Laplace noise of scale t, kept with
    probability exp(-(|k| - sigma^2 / t)^2 / (2 sigma^2)) (Canonne, Kamath and Steinke 2020, Algorithm 3).
    """
    if not noise.step:
        raise Error(f"{noise!r} is continuous and has no steps; draw it with draw_noise.")
    if isinstance(noise, Laplace):
        return _draw_discrete_laplace(float(noise.exact / noise.step), prod(shape), random).reshape(shape)
    sigma = float(noise.exact / noise.step)
    scale = int(sigma) + 1
    drawn, have = np.empty(prod(shape), np.int64), 0
    while have < len(drawn):
        steps = _draw_discrete_laplace(scale, 2 * (len(drawn) - have), random)
        with np.errstate(over="ignore"):  # of tiny sigma: the chance is 0 then
            chance = np.exp(-0.5 * (np.abs(steps) / sigma - sigma / scale) ** 2)
        kept = steps[random.random(len(steps)) < chance][: len(drawn) - have]
        drawn[have : have + len(kept)] = kept
        have += len(kept)
    return drawn.reshape(shape)


def _draw_discrete_laplace(scale: float, size: int, random: np.random.Generator) -> np.ndarray:
    stop = -np.expm1(-1 / scale)
    return random.geometric(stop, size) - random.geometric(stop, size)


# Counts.


def count_codes(
    domain: Domain, clique: Clique, columns: Sequence[np.ndarray] | np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Count made-up records into the table of a clique.

    Args:
        domain: their attributes and values.
        clique: the attributes of the table; its axes follow their order.
        columns: the codes of each attribute, in the domain's order (an array of records by attributes, transposed).
        weights: what each record adds; 1 unless given.

    Returns:
        The table: integers, or floats where there are weights.

    >>> import numpy as np
    >>> codes = np.array([[0, 2], [1, 0], [1, 0]])
    >>> count_codes(Domain({"a": 2, "b": 3}), ("b", "a"), codes.T).tolist()
    [[0, 2], [0, 0], [1, 0]]
    """
    index = _cell_numbers(domain, clique, columns)
    return np.bincount(index, weights, domain.cells(clique)).reshape(domain.table_shape(clique))


def _cell_numbers(domain: Domain, clique: Clique, columns: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """The cell of each record, numbered in the order of the clique's table."""
    number = columns[domain.position(clique[0])].astype(np.int64)
    for name in clique[1:]:
        number *= domain.size(name)
        number += columns[domain.position(name)]
    return number


def grow_counts(counts: np.ndarray, shares: np.ndarray, records: float, total: float) -> np.ndarray:
    """What ``total`` records would count to, imitated from fewer: their deviations from what is expected are scaled.

    Mean and covariance are those of a count of so many records.
    """
    return total * shares + sqrt(total / records) * (counts - records * shares)


def find_counted_cells(domain: Domain, cliques: Sequence[Clique], excluded: tuple[int, ...] | None) -> np.ndarray:
    """Which cells of a table can hold a record: not one that was left out, nor one impossible in all its cliques."""
    counted = np.any([domain.mask_over(clique) for clique in cliques], axis=0) if domain.impossible else None
    if counted is None:
        counted = np.ones(domain.table_shape(cliques[0]), bool)
    if excluded is not None:
        counted[excluded] = False
    return counted


class RecordCount(NamedTuple):
    """N, public or estimated: with the variance of its error, and what one more in each cell of a table adds to it."""

    value: float
    variance: float  # 0 where N is public
    weights: tuple[float, ...]  # one per table


def estimate_records(release: Release) -> RecordCount:
    """N: the public number; or the mean of the noisy total and of all table sums, weighted by their noise.

    A table that ties k cliques sums to k N. A table with an uncounted cell says nothing of N by itself, nor does an
    interaction.

    Raises:
        CannotLearn: if it is not positive.
        Error: if the release tells nothing of it.
    """
    if release.total is not None and release.total_is_public:
        if not release.total > 0:
            raise CannotLearn(f"the public number of records is {release.total:g}: there is nothing to learn from.")
        return RecordCount(float(release.total), 0.0, (0.0,) * len(release.parts))
    evidence = []
    if release.total is not None and release.total_noise is not None:
        evidence.append((float(release.total), noise_variance(release.total_noise)))
    for part in release.parts:
        if _sums_to_records(part):
            sums, copies = float(part.values.sum()) / release.denominator, len(part.cliques)
            evidence.append((sums / copies, part.values.size * noise_variance(part.noise) / copies**2))
    if not evidence:
        raise Error("this release has neither a total nor a complete table, so the number of records is unknown.")
    precisions = [1 / variance for _, variance in evidence]
    total = sum(w * value for w, (value, _) in zip(precisions, evidence, strict=True)) / sum(precisions)
    if not total > 0:
        raise CannotLearn(
            f"the number of records is estimated as {total:.3g}, which is not positive: the noise is larger than the "
            "data, so no model can be learned from this release. Its curator could publish fewer tables, use a larger "
            "epsilon, release a total of its own, or make the total public."
        )
    variance = 1 / sum(precisions)
    weights = tuple(
        0.0 if not _sums_to_records(p) else len(p.cliques) / (p.values.size * noise_variance(p.noise)) * variance
        for p in release.parts
    )
    return RecordCount(total, variance, weights)


def _sums_to_records(part: Table) -> bool:
    return part.excluded is None and not part.interaction


def warn_of_noise(release: Release) -> str:
    """What to tell of a release whose tables hold little but noise.

    Args:
        release: The release that a model is learned from.

    Returns:
        A warning where the number of records is below three of its own standard errors, or where no table stands out
        from a flat one by more than noise does, with three standard errors of leeway; else an empty text.

    Raises:
        CannotLearn: The number of records is not positive.

    >>> import quietfield as qf
    >>> release = qf.Release.from_tables(qf.Domain({"a": 2}), {"a": [52.0, -8.0]}, noise=qf.Laplace(40.0))
    >>> warn_of_noise(release)[:79]
    'the number of records is estimated as 44, with a standard error of 80: it could'
    """
    records = estimate_records(release)
    error = sqrt(records.variance)
    more = "Use a larger epsilon, fewer tables or more records."
    if records.value < 3 * error:
        return (
            f"the number of records is estimated as {records.value:,.0f}, with a standard error of {error:,.0f}: it "
            f"could as well be 0, and this model is mostly noise. {more}"
        )
    if not any(_stands_out(release, part) for part in release.parts):
        return (
            "nothing in the tables stands out from their noise, so this model says little or nothing about the data. "
            f"{more}"
        )
    return ""


def _stands_out(release: Release, part: Table) -> bool:
    """Whether the cells of a table differ from each other by more than noise explains.

    The square of a normalised Laplace draw has variance 5, that of a normal one 2; the larger is taken.
    """
    if part.interaction:
        return bool(abs(part.values) / release.denominator > 3 * sqrt(noise_variance(part.noise)))
    counted = find_counted_cells(release.domain, part.cliques, part.excluded)
    values = part.values[counted] / release.denominator
    if values.size < 2:
        return True  # one cell is the number of records, which stands out or not by itself
    squares = float(((values - values.mean()) ** 2).sum()) / noise_variance(part.noise)
    return squares > values.size - 1 + 3 * sqrt(5 * values.size)


def estimate_total(release: Release) -> float:
    """N alone; see :func:`estimate_records`."""
    return estimate_records(release).value


def can_be_learned(release: Release) -> bool:
    """Whether the number of records comes out positive, without which there is no model."""
    try:
        return estimate_total(release) > 0
    except CannotLearn:
        return False


# What a model expects.


class Moments(NamedTuple):
    """What one record adds to each cell of a table: its mean m and its variance V."""

    shares: np.ndarray
    variance: np.ndarray


def independent_variance(total: Any, shares: Any, copies: Any = 1) -> Any:
    """N V of a single clique, N m (1 - m); of ``copies`` tied cliques as if they were alike and independent.

    Numbers, numpy and JAX arrays will do.
    """
    return total * shares * (1 - shares / copies)


def expect_shares(model: "Model", cliques: Sequence[Clique]) -> np.ndarray:
    """m: the expected share of each cell of a table, summed over tied cliques."""
    return sum((model.marginal(clique) for clique in cliques[1:]), model.marginal(cliques[0]))


def cell_moments(model: "Model", cliques: Sequence[Clique]) -> Moments:
    """Mean and variance of what one record of a model adds to each cell of a table.

    The variance is exact (as exact as the model's inference) for a single clique, and for tied ones that are cliques of
    the model unless their derivatives would take too long; then the covariances of tied cliques are estimated from
    65,536 simulated records, always the same.

    Args:
        model: the distribution of the records.
        cliques: those that the table sums.

    Returns:
        The moments, axes as in the first clique.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> alike = qf.Model(domain, {("a",): [0.0, 0.0], ("b",): [0.0, 0.0], ("a", "b"): [[9.0, -9.0], [-9.0, 9.0]]})
    >>> cell_moments(alike, [("a",), ("b",)]).variance.round(3).tolist()  # twice in a cell or never: not 0.5
    [1.0, 1.0]
    """
    shares = expect_shares(model, cliques)
    if len(cliques) == 1:
        return Moments(shares, np.maximum(independent_variance(1.0, shares), 0.0))
    variance = _exact_tied_variance(model, cliques)
    if variance is None or not np.isfinite(variance).all():  # potentials beyond what derivatives can do with
        variance = _simulated_tied_variance(model, cliques, shares)
    # Rounding, approximate inference and simulation stay within what a whole number from 0 to k of mean m can have.
    part = shares % 1
    return Moments(shares, np.clip(variance, part * (1 - part), np.maximum(shares * (len(cliques) - shares), 0.0)))


def _exact_tied_variance(model: "Model", cliques: Sequence[Clique]) -> np.ndarray | None:
    """V as the derivative of m by the shared log-potential of each cell, or None where that would take too long."""
    if not set(cliques) <= set(model.cliques):
        return None
    found: Any
    if model.inference == "exact":
        found = Tree.of(model.domain, model.cliques)
        work, together = found.plan.memory(log_space=True), found.together
    else:
        found = engine(model.domain, model.cliques, model.inference, **model.options)
        work, together = 64 * found.layout.size, found.together
    cells = model.domain.cells(cliques[0])
    if cells * work > _MOST_WORK:
        return None
    theta = found.layout.pack(model.potentials)
    settled = found.calibrate(theta) if model.inference == "exact" else found.settle(theta)
    variances = []
    for start in range(0, cells, together):
        rows = min(together, cells - start)
        tables = {c: np.zeros((rows, *model.domain.table_shape(c))) for c in model.cliques}
        for clique in cliques:
            tables[clique].reshape(rows, -1)[np.arange(rows), np.arange(start, start + rows)] = 1.0
        directions = found.layout.pack(tables, batch=True)
        moved = settled.along(directions)
        variances.append(np.einsum("ij,ij->i", directions, moved))
    return np.concatenate(variances).reshape(model.domain.table_shape(cliques[0]))


def _simulated_tied_variance(model: "Model", cliques: Sequence[Clique], shares: np.ndarray) -> np.ndarray:
    """V = m + E X (X - 1) - m^2, the middle term from simulated records."""
    records = _RECORDS if model.inference == "exact" else _GIBBS
    columns = model.sample(records, seed=0).codes.T
    cells = model.domain.cells(cliques[0])
    numbers = [_cell_numbers(model.domain, c, columns) + np.arange(records) * cells for c in cliques]
    cell, often = np.unique(np.concatenate(numbers), return_counts=True)  # X of one record, where it is not 0
    pairs = np.bincount(cell % cells, often * (often - 1.0), cells) / records
    return shares + pairs.reshape(shares.shape) - shares**2


# Residuals.


@dataclass(frozen=True, eq=False)
class Residuals:
    """One noisy table beside a model: what it expects, the variance of the count itself, and z, the residuals in
    standard deviations of noise, sampling and an estimated N together (NaN where nothing was counted)."""

    cliques: tuple[Clique, ...]
    noisy: np.ndarray
    expected: np.ndarray
    sampling: np.ndarray
    z: np.ndarray
    std: float  # of the noise
    interaction: bool = False  # one number, not a table

    @property
    def cells(self) -> int:
        return int(np.isfinite(self.z).sum())

    @property
    def mean_square(self) -> float:
        """Of z: 1 on average if the model is the true one. 0 where nothing was counted."""
        return float(np.nanmean(self.z**2)) if self.cells else 0.0

    @property
    def rms(self) -> float:
        return sqrt(self.mean_square)

    @property
    def exceeds_noise(self) -> bool:
        """Whether the residuals are larger than noise and sampling explain, with three standard errors of leeway.

        The square of a normalised Laplace draw has variance 5, that of a normal one 2; the larger is taken. For a
        p-value, see :func:`quietfield.study.goodness_of_fit.goodness_of_fit`.
        """
        return self.cells > 0 and self.mean_square > 1 + 3 * sqrt(5 / self.cells)


def table_moments(release: Release, model: "Model") -> list[Moments]:
    """What a model expects of each table of a release."""
    return [
        _interaction_moments(model, part.cliques[0]) if part.interaction else cell_moments(model, part.cliques)
        for part in release.parts
    ]


def _interaction_moments(model: "Model", clique: Clique) -> Moments:
    mean = interaction_of(model.marginal(clique))
    return Moments(mean, np.maximum(1 - mean**2, 0.0))


def residuals(release: Release, moments: Iterable[Moments]) -> list[Residuals]:
    """Every noisy table beside what a model expects of it.

    Args:
        release: the noisy tables.
        moments: what the model expects of one record, as :func:`table_moments` gives it.

    Returns:
        The residuals of each table. Of the true model, those of each cell have mean 0 and mean square 1.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"a": 2})
    >>> release = qf.Release.from_tables(domain, {("a",): [520.0, 480.0]}, noise=qf.Laplace(2.0), total=1000)
    >>> (found,) = residuals(release, table_moments(release, qf.Model(domain, {("a",): [0.0, 0.0]})))
    >>> found.z.round(2).tolist()  # 20 off, with a variance of 250 from sampling and of 8 from noise
    [1.25, -1.25]
    """
    records = estimate_records(release)
    found = []
    for part, (m, v), weight in zip(release.parts, moments, records.weights, strict=True):
        noisy, m, v = (np.atleast_1d(x) for x in (part.values / release.denominator, m, v))
        expected = records.value * m
        # An estimated N errs by the noise of this table too.
        noise = noise_variance(part.noise) * (1 - 2 * m * weight) + m**2 * records.variance
        least = (_ROUNDING * (1 + np.abs(expected))) ** 2
        z = (noisy - expected) / np.sqrt(np.maximum(noise + records.value * v, least))
        if not part.interaction:
            z[~find_counted_cells(release.domain, part.cliques, part.excluded)] = np.nan
        found.append(Residuals(part.cliques, noisy, expected, records.value * v, z, part.noise.std, part.interaction))
    return found
