"""The observation model: counts against a slow reference, noise against its stated density, residuals of the truth.

Everything is drawn from fixed seeds, so nothing here fails by chance on one day and not on another. The rates that are
stated are those at which a new seed would fail though all is right.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quietfield as qf
from quietfield.cliques import Structure
from quietfield.errors import Error
from quietfield.learning import observation
from quietfield.learning.observation import (
    Moments,
    cell_moments,
    count_codes,
    draw_noise,
    draw_steps,
    find_counted_cells,
    grow_counts,
    residuals,
    table_moments,
)
from quietfield.privacy.noise import Gaussian, Laplace
from quietfield.privacy.units import GRID
from quietfield.releases.parts import Table, Total
from quietfield.releases.release import Release

EDGES = (("a", "b"), ("b", "c"), ("c", "d"))


# Counts.


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.permutations("abc"),
    st.integers(0, 30),
    st.sampled_from([np.uint8, np.int64]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_counting_agrees_with_a_slow_reference(sizes, order, records, dtype, weighted, seed):
    domain, random = qf.Domain(dict(zip("abc", sizes, strict=True))), np.random.default_rng(seed)
    codes = np.stack([random.integers(size, size=records) for size in sizes], 1).astype(dtype)
    weights = random.integers(1, 9, records).astype(float) if weighted else None
    for clique in (tuple(order), tuple(order[:2]), (order[2],)):
        expected = np.zeros(domain.table_shape(clique))
        for i, record in enumerate(codes):
            expected[tuple(record["abc".index(name)] for name in clique)] += 1 if weights is None else weights[i]
        found = count_codes(domain, clique, codes.T, weights)
        assert (found == expected).all()
        assert weighted or found.dtype == np.int64


def test_counts_of_more_records_have_their_mean_and_spread():
    """Of 4,000 pairs of correlated cells, means and covariances within 5 standard errors: fails 1 time in 10^6."""
    random, p = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    grown = np.array([grow_counts(n, p, 50, 800) for n in random.multinomial(50, p, 4000)])
    covariance = 800 * (np.diag(p) - np.outer(p, p))
    assert np.abs(grown.mean(0) - 800 * p).max() < 5 * np.sqrt(covariance.diagonal().max() / 4000)
    assert np.abs(np.cov(grown.T) / covariance - 1).max() < 5 * np.sqrt(2 / 4000) * 2


# Noise.

NOISES = [
    Laplace(3.0), Laplace(0.2, 1), Laplace(0.7, 1), Laplace(12.0, 1), Laplace(0.5, Fraction(1, 4)), Laplace(2e6, 1),
    Gaussian(5.0), Gaussian(0.25, 1), Gaussian(0.5, 1), Gaussian(1.0, 1), Gaussian(2.6, 1), Gaussian(8.5, 1),
    Gaussian(0.5, Fraction(1, 4)), Gaussian(1.0, Fraction(1, GRID)), Gaussian(40.0, 1), Gaussian(3e7, 1),
]  # fmt: skip


def fits_density(noise, drawn):
    """The p-value of a chi-square test of draws against ``noise.log_density``, in bins of 40 draws or more."""
    width = float(noise.step) or noise.scale / 500
    merged = max(1, round(noise.scale / width / 50))  # steps a bin: fine enough to see a shape
    reach = int(45 * noise.scale / width) + 2
    steps = np.arange(-reach, reach + 1) if reach < 10**6 else np.arange(-reach, reach + 1, merged)
    p = np.exp(noise.log_density(steps * width)) * width * (1 if reach < 10**6 else merged)
    if reach < 10**6:
        p = np.add.reduceat(p, np.arange(0, len(p), merged))
        edges = (np.append(steps[::merged], steps[-1] + 1) - 0.5) * width
    else:
        edges = np.append(steps - merged / 2, steps[-1] + merged / 2) * width
    seen = np.histogram(drawn, edges)[0]
    assert seen.sum() == len(drawn)
    assert p.sum() == pytest.approx(1, abs=1e-4)
    kept = p * len(drawn) >= 40
    seen, p = np.append(seen[kept], seen[~kept].sum()), np.append(p[kept], max(1 - p[kept].sum(), 0.0))
    if p[-1] * len(drawn) < 40:  # too rare to be tested alone
        seen, p = np.append(seen[:-2], seen[-2:].sum()), np.append(p[:-2], p[-2:].sum())
    return stats.chisquare(seen, p / p.sum() * seen.sum()).pvalue


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_simulated_noise_has_the_stated_distribution(noise):
    """At p < 1e-5, one of the sixteen fails one time in 6,000."""
    drawn = draw_noise(noise, (200, 1000), np.random.default_rng(1))
    assert drawn.shape == (200, 1000)
    assert fits_density(noise, drawn.ravel()) > 1e-5
    fourth = np.mean(drawn**4) / noise.variance**2
    assert drawn.var() == pytest.approx(noise.variance, rel=5 * np.sqrt((fourth - 1) / drawn.size))
    if noise.step:
        steps = draw_steps(noise, (5,), np.random.default_rng(1))
        assert steps.dtype == np.int64
        assert (np.round(drawn / float(noise.step)) * float(noise.step) == drawn).all()


@pytest.mark.parametrize(
    ("noise", "wrong"),
    [
        (Gaussian(0.5, 1), lambda random, n: np.rint(random.normal(0, 0.5, n))),
        (Gaussian(1.0, 1), lambda random, n: np.rint(random.normal(0, 1.0, n))),
        (Laplace(0.7, 1), lambda random, n: np.rint(random.laplace(0, 0.7, n))),
        (Laplace(12.0, 1), lambda random, n: random.geometric(1 / 12, n) - random.geometric(1 / 12, n)),
        (Gaussian(40.0, 1), lambda random, n: draw_noise(Gaussian(41.0, 1), (n,), random)),
        (Laplace(3.0), lambda random, n: random.normal(0, Laplace(3.0).std, n)),
    ],
    ids=["rounded normal", "rounded normal of 1", "rounded Laplace", "first-order rate", "scale off by 2.5%", "kind"],
)
def test_planted_faults_of_simulated_noise_are_caught(noise, wrong):
    assert fits_density(noise, wrong(np.random.default_rng(1), 200_000)) < 1e-5


def test_the_variance_of_discrete_gaussian_noise_is_not_that_of_a_rounded_normal():
    drawn = draw_noise(Gaussian(0.5, 1), (10**6,), np.random.default_rng(0))
    assert Gaussian(0.5, 1).variance == pytest.approx(0.2150, abs=1e-4)
    assert drawn.var() == pytest.approx(0.2150, abs=0.002)  # five standard errors; a rounded normal has 0.326


def test_noise_at_the_ends_of_its_range():
    random = np.random.default_rng(0)
    assert not draw_steps(Gaussian(1e-9, 1), (1000,), random).any()
    assert not draw_steps(Laplace(1e-9, 1), (1000,), random).any()
    for wide in (Gaussian(2.0**53, 1), Laplace(2.0**53, 1)):
        assert draw_steps(wide, (20_000,), random).std() == pytest.approx(wide.std, rel=0.05)
    assert draw_steps(Gaussian(3.0, 1), (0, 4), random).shape == (0, 4)
    with pytest.raises(Error, match="continuous"):
        draw_steps(Gaussian(3.0), (2,), random)


# What a model expects.


def chain_model(impossible=(), stay=1.5, sizes=3, inference="exact"):
    """A chain a-b-c-d in which everybody rather stays where they are, with one more attribute e."""
    domain = qf.Domain({**dict.fromkeys("abcd", sizes), "e": 2}, impossible)
    random = np.random.default_rng(3)
    step = random.normal(0, 0.4, (sizes, sizes)) + stay * np.eye(sizes)
    potentials = {**dict.fromkeys(EDGES, step), ("d", "e"): random.normal(0, 0.8, (sizes, 2))}
    return qf.Model(domain, potentials, inference=inference)


#: Impossible in every tied clique, and in one of them alone.
ALL_IMPOSSIBLE = [{x: 0, y: 2} for x, y in EDGES]
ONE_IMPOSSIBLE = [{"b": 2, "c": 0}, {"d": 1, "e": 1}]


def brute_force(model, cliques):
    """Mean and variance of what a record adds to each cell, over all records."""
    joint = model.marginal(tuple(model.domain))
    shape = model.domain.table_shape(cliques[0])
    added = np.zeros((*joint.shape, *shape))
    for record in np.ndindex(joint.shape):
        for clique in cliques:
            added[record][tuple(record[model.domain.position(name)] for name in clique)] += 1
    mean = np.tensordot(joint, added, joint.ndim)
    return Moments(mean, np.tensordot(joint, added**2, joint.ndim) - mean**2)


@pytest.mark.parametrize(
    ("impossible", "inference"),
    [((), "exact"), (ALL_IMPOSSIBLE, "exact"), (ONE_IMPOSSIBLE, "exact"), (ONE_IMPOSSIBLE, "loopy")],
)
def test_the_variance_of_a_tied_cell_is_that_of_all_records(impossible, inference):
    model = chain_model(impossible, inference=inference)  # a tree: loopy inference is exact too
    exact = chain_model(impossible)
    for cliques in (EDGES, EDGES[::2], (("a", "b"),), (("d", "e"),)):
        found, expected = cell_moments(model, cliques), brute_force(exact, cliques)
        assert found.shares == pytest.approx(expected.shares, abs=1e-5)
        assert found.variance == pytest.approx(expected.variance, abs=1e-4)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_variances_are_simulated_where_derivatives_will_not_do(monkeypatch, scale):
    """Too long; cliques that the model does not have; potentials beyond floats."""
    model = chain_model()
    model = qf.Model(model.domain, {c: scale * table for c, table in model.potentials.items()})
    expected = brute_force(model, EDGES).variance
    assert cell_moments(model, EDGES).variance == pytest.approx(expected, abs=0.03)
    monkeypatch.setattr(observation, "_MOST_WORK", 0)
    assert cell_moments(model, EDGES).variance == pytest.approx(expected, abs=0.03)
    apart = (("a", "c"), ("b", "d"))
    assert cell_moments(model, apart).variance == pytest.approx(brute_force(model, apart).variance, abs=0.03)


def test_cells_that_hold_no_record():
    domain = chain_model(ALL_IMPOSSIBLE).domain
    assert not find_counted_cells(domain, EDGES, None)[0, 2]
    assert find_counted_cells(domain, EDGES, None).sum() == 8
    assert find_counted_cells(chain_model(ONE_IMPOSSIBLE).domain, EDGES, (1, 1)).sum() == 8  # (2, 0) in two cliques
    assert find_counted_cells(chain_model(ONE_IMPOSSIBLE).domain, [("d", "e")], None).sum() == 5


# Residuals of the true model.

RECORDS, REPEATS = 80, 800
#: In standard errors, of the mean and the mean square of each cell and the mean square of all: 1,200 figures in all,
#: each beyond 5.5 one time in 26 million were it normal; skewed as they are, a run fails less than 1 time in 1,000.
TOLERANCE = 5.5
PLACES = {"tied": EDGES, "single": (("d", "e"),), "excluded": (("a", "e"),)}


def study(impossible):
    """(the true model, what each of many populations counts to): tied edges, a single clique, an excluded cell."""
    model = chain_model(impossible)
    codes = model.sample(RECORDS * REPEATS, seed=11).codes.T
    population = np.repeat(np.arange(REPEATS), RECORDS)
    counts = []
    for cliques in PLACES.values():
        table = np.zeros((REPEATS, *model.domain.table_shape(cliques[0])), np.int64)
        for clique in cliques:
            np.add.at(table, (population, *(codes["abcde".index(name)] for name in clique)), 1)
        counts.append(table)
    counts[2][:, 0, 1] = 0
    return model, counts


def releases(model, counts, noise, total, denominator):
    """Releases of these counts, as the curator would write them."""
    random = np.random.default_rng(12)
    structure = Structure(tuple(c for group in PLACES.values() for c in group), (EDGES,))
    shapes = [table.shape for table in counts]
    noisy = [n * denominator + draw_noise(noise, s, random) * denominator for n, s in zip(counts, shapes, strict=True)]
    off = draw_noise(noise, (REPEATS,), random) * denominator
    for i in range(REPEATS):
        parts = tuple(
            Table(cliques, values[i].copy(), noise, excluded=(0, 1) if name == "excluded" else None)
            for (name, cliques), values in zip(PLACES.items(), noisy, strict=True)
        )
        number = {
            "public": Total(RECORDS * denominator, None),
            "noisy": Total(float(RECORDS * denominator + off[i]), noise),
            "absent": None,
        }[total]
        yield Release(model.domain, structure, parts, number, denominator=denominator)


def worst_deviation(made, moments):
    """How many standard errors the mean and mean square of true residuals are from 0 and 1, at the worst."""
    z = np.array([np.concatenate([t.z.ravel() for t in residuals(release, moments)]) for release in made])
    z = z[:, np.isfinite(z).all(0)]
    figures = np.column_stack([z, z**2 - 1, (z**2 - 1).mean(1)])
    return float((np.abs(figures.mean(0)) / (figures.std(0) / np.sqrt(len(z)))).max()), z


KINDS = {
    "Laplace": (Laplace(4.0), 1),
    "Gaussian": (Gaussian(5.0), 1),
    "discrete Laplace": (Laplace(0.8, 1), 1),
    "discrete Gaussian": (Gaussian(0.6, 1), 1),
    "Laplace on a grid": (Laplace(3.0, Fraction(1, GRID)), GRID),
    "Gaussian on a coarse grid": (Gaussian(0.15, Fraction(1, 4)), 4),
}


CASES = [
    *(((), total) for total in ("public", "noisy", "absent")), (ALL_IMPOSSIBLE, "noisy"), (ONE_IMPOSSIBLE, "absent"),
]  # fmt: skip


@pytest.mark.parametrize(("impossible", "total"), CASES, ids=["public", "noisy", "absent", "tied zeros", "zeros"])
def test_residuals_of_the_true_model_have_mean_square_1(impossible, total):
    model, counts = study(impossible)
    moments = None
    for name, (noise, denominator) in KINDS.items():
        made = list(releases(model, counts, noise, total, denominator))
        moments = moments or table_moments(made[0], model)
        worst, z = worst_deviation(made, moments)
        assert worst < TOLERANCE, name
        # 9 tied cells, 6 and 6, one of them excluded; one is impossible in all tied cliques, or in a single one.
        assert z.shape[1] == 9 + 6 + 5 - bool(impossible)


@pytest.mark.parametrize(
    "fault",
    [
        lambda m, v: np.clip(m * (1 - m), 0, None),
        lambda m, v: m * np.clip(1 - m, 0, 1) if m.max() > 1 else v,
        lambda m, v: observation.independent_variance(1.0, m, 3) if m.sum() > 2 else v,
        lambda m, v: 1.5 * v,
    ],
    ids=["shares of tied cliques as one", "the same, clipped", "tied cliques as independent", "half as much again"],
)
def test_planted_faults_of_the_spread_are_caught(fault):
    model, counts = study(())
    made = list(releases(model, counts, Laplace(1.5), "public", 1))
    moments = [Moments(m, fault(m, v)) for m, v in table_moments(made[0], model)]
    assert worst_deviation(made, moments)[0] > TOLERANCE


def test_the_error_of_an_estimated_total_counts(monkeypatch):
    """Without it the residuals of an absent total would be larger than 1, most of all in large cells."""
    model, counts = study(())
    made = list(releases(model, counts, Laplace(6.0), "absent", 1))
    moments = table_moments(made[0], model)
    assert worst_deviation(made, moments)[0] < TOLERANCE
    real = observation.estimate_records
    monkeypatch.setattr(
        observation, "estimate_records", lambda r: observation.RecordCount(real(r).value, 0.0, (0.0,) * 3)
    )
    assert worst_deviation(made, moments)[0] > TOLERANCE


def test_the_true_model_of_nine_tied_edges_is_not_blamed():
    """Six populations, and 1% of each for an alarm: a run fails 1 time in 17; of a model that is wrong all ring."""
    domain = qf.Domain({f"t{i}": 4 for i in range(10)})
    edges = tuple((f"t{i}", f"t{i + 1}") for i in range(9))
    truth = qf.Model(domain, dict.fromkeys(edges, np.random.default_rng(0).normal(0, 0.5, (4, 4)) + 2 * np.eye(4)))
    wrong = qf.Model(domain, dict.fromkeys(edges, np.zeros((4, 4))))
    squares = []
    for seed in range(6):
        codes = truth.sample(20_000, seed=seed).codes.T
        table = np.sum([count_codes(domain, edge, codes) for edge in edges], axis=0).astype(float)
        table += np.random.default_rng(seed).laplace(0, 5.0, table.shape)
        release = qf.Release.from_tables(domain, {edges[0]: table}, qf.Laplace(5.0), total=20_000, ties=[edges])
        rows = qf.compare(release, models={"truth": truth, "wrong": wrong}).rows
        assert (rows[0].missed, rows[1].missed) == (0, 1)
        squares.append(rows[0].residual ** 2)
    assert np.mean(squares) == pytest.approx(1, abs=0.8)


def test_residuals_of_weighted_records_are_bounded():
    """N is a sum of weights of at most 1, so that the stated spread is an upper bound: see the module."""
    model, counts = study(())
    made = list(releases(model, [n / 4 for n in counts], Laplace(1e-3), "absent", 1))
    z = worst_deviation(made, table_moments(made[0], model))[1]
    assert (z**2).mean() == pytest.approx(1 / 4, abs=0.05)


def test_a_table_that_says_nothing_has_no_residual():
    """One cell and no total: N is that cell, and nothing is left to compare."""
    domain = qf.Domain({"a": 1, "b": 2})
    release = qf.Release.from_tables(domain, {("a",): [40.3]}, noise=qf.Laplace(2.0))
    (found,) = residuals(release, table_moments(release, qf.Model(domain, {("a",): [0.0]})))
    assert abs(found.z[0]) < 1e-3
    assert not found.exceeds_noise
