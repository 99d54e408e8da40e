"""Learners: likelihoods against integrals, solvers against scipy, fits against known truths."""

from dataclasses import replace
from itertools import combinations, pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import quietfield as qf
from quietfield import structures
from quietfield.errors import Error
from quietfield.learning.naive import project_onto_simplex
from quietfield.learning.observation import count_codes
from quietfield.learning.prior import Curvature


def make(domain, structure, count, noise, seed=0, strength=1.0, total="known"):
    """(truth, release): a random model, a population of it and its noisy tables."""
    random = np.random.default_rng(seed)
    structure = structures.Structure.of(structure, domain)
    potentials = {}
    for group in structure.groups:
        potentials.update(dict.fromkeys(group, strength * random.normal(size=domain.table_shape(group[0]))))
    truth = qf.Model(domain, {c: potentials[c] for c in structure})
    codes = truth.sample(count, seed=seed).codes.astype(int)
    tables = {}
    for group in structure.groups:
        shape = domain.table_shape(group[0])
        counts = np.zeros(shape)
        for clique in group:
            np.add.at(counts, tuple(codes[:, domain.position(name)] for name in clique), 1)
        spread = random.laplace if isinstance(noise, qf.Laplace) else random.normal
        tables[group[0]] = counts + spread(0, noise.scale, shape)
    known = {"total": count} if total == "known" else {}
    return truth, qf.Release.from_tables(domain, tables, noise=noise, ties=structure.ties or None, **known)


def test_normal_laplace_equals_its_integral():
    from quietfield.learning.likelihood import information, information_table, noisy_normal

    def log_density(z, v, b, gaussian=False):
        return noisy_normal(
            *(np.atleast_1d(x).astype(float) for x in np.broadcast_arrays(z, v, b)), np.atleast_1d(gaussian)
        )

    for z, v, b in ((0.0, 1.0, 1.0), (7.0, 4.0, 0.5), (-300.0, 2000.0, 24.0), (3.0, 1e-5, 2.0)):

        def density(n, z=z, v=v, b=b):
            return stats.norm.pdf(n, 0, v**0.5) * stats.laplace.pdf(z - n, 0, b)

        width = 12 * v**0.5
        expected = integrate.quad(density, -width, width, points=sorted({0.0, np.clip(z, -width, width)}), limit=500)[0]
        found = log_density(z, v, b)
        assert found.log[0] == pytest.approx(np.log(expected), abs=1e-6)
        for gaussian in (False, True):
            found, h = log_density(z, v, b, gaussian), 1e-4
            by_z = (log_density(z + h * b, v, b, gaussian).log - log_density(z - h * b, v, b, gaussian).log) / (
                2 * h * b
            )
            by_v = (log_density(z, v + h * v, b, gaussian).log - log_density(z, v - h * v, b, gaussian).log) / (
                2 * h * v
            )
            np.testing.assert_allclose(found.by_error, by_z, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(found.by_variance, by_v, rtol=1e-4, atol=1e-7)
    grid, values = information_table()
    assert 0.36 < np.exp(np.interp(np.log(1.0), grid, values)) < 0.38  # by quadrature at v = b^2; 1/(1+v) would say 0.5
    assert np.exp(values[0]) == pytest.approx(1, abs=0.01)  # pure Laplace noise: 1/b^2
    assert (np.exp(values) <= 1 / (1 + np.exp(grid)) + 1e-6).all()
    b = np.array([1e-2, 1e-4, 1e-7])  # noise far below the sampling error: normal, to the last digits
    np.testing.assert_allclose(
        log_density(1.5, 2.0, b, np.zeros(3, bool)).log, stats.norm.logpdf(1.5, 0, 2.0**0.5), atol=1e-3
    )
    assert (1 / information(np.full(3, 2.0), b, np.zeros(3, bool)) >= 2.0).all()


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.1, 3))
def test_projection_is_the_nearest_distribution(values, mass):
    found = project_onto_simplex(np.array(values), mass)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(mass)
    start = np.full(len(values), mass / len(values))
    best = optimize.minimize(
        lambda x: ((x - values) ** 2).sum(), start, bounds=[(0, None)] * len(values), method="SLSQP",
        constraints={"type": "eq", "fun": lambda x: x.sum() - mass},
    )  # fmt: skip
    assert ((found - values) ** 2).sum() <= best.fun + 1e-6


def test_newton_finds_the_maximum_that_scipy_finds():
    import jax
    import jax.numpy as jnp

    from quietfield.learning.newton import Local, ascend, solve

    random = np.random.default_rng(0)
    matrix = random.normal(size=(30, 8))
    target = random.random(30)

    def value(x):
        return jnp.vdot(target, matrix @ x) - jnp.logaddexp(0, matrix @ x).sum() - 0.1 * jnp.vdot(x, x)

    def local(x):
        p = jax.nn.sigmoid(matrix @ x)
        return Local(
            value(x),
            matrix.T @ (target - p) - 0.2 * x,
            lambda d: matrix.T @ (p * (1 - p) * (matrix @ d)) + 0.2 * d,
            jnp.ones(8),
        )

    with jax.enable_x64(True):
        found = ascend(local, value, jnp.zeros(8), steps=50, gain=1e-14)
        best = optimize.minimize(lambda x: -float(value(x)), np.zeros(8), tol=1e-12)
        np.testing.assert_allclose(found.theta, best.x, atol=1e-5)
        spd = matrix.T @ matrix
        solved = solve(lambda p: spd @ p, jnp.ones(8), jnp.diag(spd), 1e-12, 100)
        np.testing.assert_allclose(solved, np.linalg.solve(spd, np.ones(8)), atol=1e-8)
    from quietfield.learning.conjugate import conjugate_gradients

    rows = np.concatenate([np.ones((1, 8)), random.normal(size=(3, 8)), np.zeros((1, 8))])  # the same in numpy, by rows
    solved = conjugate_gradients(lambda p: p @ spd, rows, lambda r: r / np.diag(spd), 1e-12, 100)
    np.testing.assert_allclose(solved, np.linalg.solve(spd, rows.T).T, atol=1e-8)
    alone = conjugate_gradients(lambda p: p @ spd, rows[1], lambda r: r / np.diag(spd), 1e-12, 100)
    np.testing.assert_allclose(alone, solved[1], atol=1e-8)
    near = solved + 1e-14 * random.normal(size=solved.shape)  # a good guess is returned as it is
    np.testing.assert_array_equal(
        conjugate_gradients(lambda p: p @ spd, rows[:4], lambda r: r / np.diag(spd), 1e-8, 0, near[:4]), near[:4]
    )


def test_the_preconditioner_knows_what_tables_share(monkeypatch):
    """Against the matrix itself; without the effects that tables share, the condition is several times worse."""
    from quietfield.learning import conjugate, problem
    from quietfield.learning.prior import Curvature, Prior
    from quietfield.learning.smoothness import Smoothness

    monkeypatch.setattr(problem, "DENSE", 0)
    domain = qf.Domain({"a": 4, "b": 3, "c": 3, "d": 5, "e": 1})
    cliques = (("e",), ("b",), ("d", "e"), ("c", "b"), ("a", "b", "c"), ("b", "d", "c"))
    groups = tuple((clique,) for clique in cliques)

    def condition() -> float:
        shape = problem.Shape(domain, groups, (True,) * 6, (None,) * 6, cliques)
        random = np.random.default_rng(0)
        variances = random.uniform(0.5, 2.0, (2, 6))
        curvature = Curvature(
            shape.at(random.normal(size=shape.size)),
            np.full(shape.size, 1e4),
            Prior(shape, variances, variances, Smoothness.none(shape)),
        )
        matrix = curvature(np.eye(shape.size))
        inverse = curvature.preconditioner(shape.centre(np.eye(shape.size))[1])
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-10)
        values, vectors = np.linalg.eigh(inverse)
        assert values[6] > 1e-6 > np.abs(values[:6]).max()  # a constant in a table is none of its business
        root = vectors[:, 6:] * np.sqrt(values[6:])
        found = np.linalg.eigvalsh(root.T @ matrix @ root)
        right = np.stack([shape.centre(row)[1] for row in random.normal(size=(2, shape.size))])
        solved = curvature.solve(right, 1e-10, 300, start=right)
        np.testing.assert_allclose(solved @ matrix, right, atol=1e-6)
        return float(found[-1] / found[0])

    full = condition()
    within = conjugate._sets_within
    monkeypatch.setattr(
        conjugate, "_sets_within", lambda tables: [[s for s in sets if len(s) == 1 or s == set(table)]
                                                   for table, sets in zip(tables, within(tables), strict=True)]
    )  # fmt: skip
    assert 3 * full < condition()


def test_effects_hold_what_tables_hold_and_each_of_them_once():
    """J and E P^-1 E' against the matrices themselves: overlapping tables, tied ones, an attribute of one value."""
    from quietfield.learning import problem
    from quietfield.learning.effects import basis_of, effect_count
    from quietfield.learning.prior import Prior
    from quietfield.learning.smoothness import Smoothness

    domain = qf.Domain({"a": 3, "b": 2, "c": 4, "d": 2, "e": 1, "f": 2, "g": 2})
    tables = [("a", "b", "c"), ("c", "b"), ("b",), ("b", "d"), ("e", "d"), ("e",)]
    groups = (*((clique,) for clique in tables), (("d", "f"), ("f", "g")))
    cliques = tuple(clique for group in groups for clique in group)
    shape = problem.Shape(domain, groups, (True,) * 7, (None,) * 7, cliques)
    random = np.random.default_rng(0)
    point, basis = shape.at(random.normal(size=shape.size)), basis_of(shape)
    effects = basis.to_effects.toarray()
    assert len(effects) == effect_count(shape) == 23 + 2 + 3  # of a, b and c; of d; of what is tied
    np.testing.assert_allclose(effects @ basis.homes.T.toarray(), np.eye(len(effects)), atol=1e-12)
    np.testing.assert_allclose(effects.T @ basis.covariance(point) @ effects, point.dense, atol=1e-12)
    variances = random.uniform(0.5, 2.0, (2, 7))
    smoothness = Smoothness(shape, random.uniform(0, 50, (2, 7)))
    prior = Prior(shape, variances, variances, smoothness)
    within = effects @ prior.variance(np.eye(shape.size)) @ effects.T
    np.testing.assert_allclose(np.diag(basis.variances(variances, smoothness)), within, atol=1e-12)


@pytest.mark.slow
def test_tables_that_overlap_much_and_hold_little_noise_are_learned_together(monkeypatch):
    """All triples of ten attributes: counts are so correlated that conjugate gradients do not solve for them."""
    from quietfield.learning import map as default

    random, names = np.random.default_rng(0), [f"x{i}" for i in range(10)]
    domain = qf.Domain(dict.fromkeys(names, 2))
    health = 2 * random.normal(size=(40_000, 1))
    codes = random.random((40_000, 10)) < 1 / (1 + np.exp(3.0 - health * np.linspace(0.8, 1.6, 10)))
    counts = {clique: count_codes(domain, clique, codes.astype(int).T) for clique in combinations(names, 3)}
    noisy = {clique: table + random.normal(0, 3, table.shape) for clique, table in counts.items()}
    release = qf.Release.from_tables(domain, noisy, noise=qf.Gaussian(3.0))

    def error() -> float:
        learned = qf.fit(release)
        return float(np.mean([np.abs(learned.marginal(c) - table / 40_000).sum() for c, table in counts.items()]))

    together = error()
    monkeypatch.setattr(default, "_MOST_EFFECTS", 0)  # each cell by itself
    assert together < 0.9 * error()
    monkeypatch.setattr(default, "_LEFT", np.inf)  # what conjugate gradients make of it
    assert together < 0.5 * error()


@pytest.mark.parametrize("noise", [qf.Laplace(30.0), qf.Gaussian(40.0)])
def test_matrices_and_iterations_find_the_same_model(noise, monkeypatch):
    """Small problems solve with matrices, large ones by conjugate gradients; nested tables, impossible cells."""
    from quietfield.learning import problem

    domain = qf.Domain({"a": 3, "b": 3, "c": 4, "d": 3}, [{"a": 0, "d": 1}])
    cliques = [("a", "b"), ("b", "c"), ("d", "a"), ("c",), ("a",)]
    truth, release = make(domain, cliques, 20_000, noise)
    by_matrix = qf.fit(release)
    monkeypatch.setattr(problem, "DENSE", 0)
    problem.shape_of.cache_clear()
    by_iteration = qf.fit(release, probes=400, tolerance=1e-3, conjugate=200)
    problem.shape_of.cache_clear()
    assert truth.kl(by_matrix) < 0.05
    for clique in truth.cliques:
        np.testing.assert_allclose(by_iteration.marginal(clique), by_matrix.marginal(clique), atol=4e-3)


@pytest.mark.parametrize("method", ["map", "naive"])
def test_with_little_noise_and_many_records_the_truth_is_found(method):
    """Tables of one to three attributes, nested and overlapping, of unequal sizes, one attribute of a single value."""
    domain = qf.Domain({"a": 3, "b": 2, "c": 4, "d": 2, "e": 1}, [{"a": 0, "d": 1}])
    cliques = [("a", "b", "c"), ("c", "d"), ("b",), ("d", "a"), ("e", "b")]
    truth, release = make(domain, cliques, 200_000, qf.Laplace(2.0), strength=0.7)
    model = qf.fit(release, method, **({"regularisation": 1e-6} if method == "naive" else {}))
    assert truth.kl(model) < 2e-3
    assert model.marginal(("a", "d"))[0, 1] == 0
    assert model.report.total == 200_000
    assert model.report.converged, model.report
    for clique in truth.cliques:
        np.testing.assert_allclose(model.marginal(clique), truth.marginal(clique), atol=0.01)


def test_the_default_uses_no_truth_and_beats_naive_at_every_lambda():
    """One seeded problem; the benchmark does this over many."""
    domain = qf.Domain({f"x{i}": 5 for i in range(6)})
    truth, release = make(domain, structures.chain(domain, 2), 2000, qf.Laplace(20.0), seed=1)
    best = min(truth.kl(qf.fit(release, "naive", regularisation=lam)) for lam in (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1))
    model = qf.fit(release)
    assert truth.kl(model) < 1.02 * best
    again = qf.fit(release)
    assert all(np.array_equal(model.potentials[c], again.potentials[c]) for c in model.cliques)


def test_gaussian_noise_ties_and_an_unknown_total():
    domain = qf.Domain(dict.fromkeys("abcdef", 3))
    chain = structures.chain(domain, homogeneous=True)
    truth, release = make(domain, chain, 50_000, qf.Gaussian(15.0), total="unknown")
    assert release.total is None
    model = qf.fit(release)
    assert model.report.total == pytest.approx(50_000, rel=0.01)
    assert truth.kl(model) < 2e-3
    first, *others = structures.Structure.of(chain).ties[0]
    assert all(np.array_equal(model.potentials[first], model.potentials[other]) for other in others)


@pytest.fixture(scope="module")
def sequences():
    """(truth, release) of a time-homogeneous chain whose edge from 0 to 0 was not counted."""
    domain = qf.Domain({f"t{i}": 4 for i in range(5)})
    names = domain.attributes
    edges = list(pairwise(names))
    random = np.random.default_rng(0)
    edge, first = random.normal(size=(4, 4)) + np.diag([2.5, 1.5, 1.5, 1.5]), random.normal(size=4)
    truth = qf.Model(domain, {("t0",): first, **dict.fromkeys(edges, edge)})
    shares = [truth.marginal("t0"), sum(truth.marginal(clique) for clique in edges)]
    tables = [30_000 * m + random.laplace(0, 10, m.shape) for m in shares]
    tables[1][0, 0] = 7.0
    release = qf.Release.from_tables(domain, {("t0",): tables[0], edges[0]: tables[1]}, qf.Laplace(10.0), ties=[edges])
    parts = tuple(replace(p, excluded=(0, 0)) if p.values.ndim == 2 else p for p in release.parts)
    return truth, replace(release, parts=parts)


@pytest.mark.parametrize("method", ["map", "cgm", "cgm-nlbp", "naive"])
def test_a_cell_that_was_not_counted_is_no_empty_cell(sequences, method):
    truth, release = sequences
    model = qf.fit(release, method, **({"regularisation": 1e-5} if method == "naive" else {}))
    assert model.report.converged
    assert truth.kl(model) < 2e-3


def test_naive_puts_what_is_left_into_a_cell_that_was_not_counted(sequences):
    from quietfield.learning.naive import Naive, project
    from quietfield.learning.problem import problem_of

    shape, data = problem_of(sequences[1], "exact", {})
    for learner in (Naive(), Naive(project=False)):
        target = learner.init(shape, data).extra[0]
        assert target[:4].sum() == pytest.approx(1, abs=0.01)
        assert target[4:].sum() == pytest.approx(4)
    assert project(shape, data.y / data.total)[4] == 0  # the cell itself holds noise alone


@pytest.mark.slow
def test_naive_finds_the_top_however_weak_the_regularisation():
    """Tables that contradict each other, so that parameters grow until inference leaves the range of floats."""
    domain = qf.Domain({f"x{i}": 4 for i in range(6)})
    random = np.random.default_rng(0)
    tables = {c: random.laplace(0, 200, (4, 4)) for c in structures.chain(domain, 2)}
    releases = [
        qf.Release.from_tables(domain, {c: y * k for c, y in tables.items()}, qf.Laplace(200.0), total=100)
        for k in (1.0, 0.1)
    ]
    model, mild = qf.fit(releases, "naive", regularisation=1e-3)
    assert model.report.converged
    assert max(abs(theta).max() for theta in model.potentials.values()) > 200
    for clique, y in tables.items():
        slope = project_onto_simplex(y.ravel() / 100) - model.marginal(clique).ravel()
        np.testing.assert_allclose(slope, 2 * 1e-3 * model.potentials[clique].ravel(), atol=1e-4)
    assert mild.report.converged


@pytest.mark.parametrize("method", ["map", "cgm", "cgm-nlbp", "naive"])
@pytest.mark.parametrize("noise", [qf.Laplace(1e-7), qf.Gaussian(1e-7), qf.Laplace(1e-4, step=1)])
def test_next_to_no_noise_is_no_trouble(method, noise):
    domain = qf.Domain({"a": 3, "b": 2, "c": 3})
    random = np.random.default_rng(0)
    counts = random.multinomial(20_000, random.dirichlet(np.full(18, 0.5))).reshape(3, 2, 3)
    tables = {("a", "b"): counts.sum(2), ("b", "c"): counts.sum(0)}
    release = qf.Release.from_tables(domain, tables, noise)
    model = qf.fit(release, method, **({"regularisation": 1e-6} if method == "naive" else {}))
    assert model.report.total == pytest.approx(20_000)
    assert model.report.converged
    assert qf.references.fit_true_tables(domain, tables).kl(model) < 1e-5
    if method == "map":
        low, high = model.interval(("a", "b"))
        share = counts.sum(2) / 20_000
        spread = np.sqrt(share * (1 - share) / 20_000)
        np.testing.assert_allclose(high - low, 2 * 1.645 * spread, rtol=0.15)


def test_loopy_inference_learns_where_exact_would_too():
    domain = qf.Domain({f"x{i}": 3 for i in range(9)})
    truth, release = make(domain, structures.grid(domain, 3), 20_000, qf.Laplace(12.0), strength=0.5)
    exact, loopy = qf.fit(release), qf.fit(release, inference="loopy")
    assert (loopy.inference, loopy.report.inference) == ("loopy", "loopy")
    as_exact = qf.Model(domain, loopy.potentials)
    assert truth.kl(as_exact) < 1.2 * truth.kl(exact) + 0.005


def test_the_total_is_weighed_from_all_that_is_known():
    from quietfield.learning.observation import estimate_total

    domain = qf.Domain({"a": 2, "b": 2})
    tables = {("a",): [60.0, 60.0], ("b",): [40.0, 40.0]}
    noise = {("a",): qf.Laplace(1.0), ("b",): qf.Laplace(2.0)}
    release = qf.Release.from_tables(domain, tables, noise=noise)
    assert estimate_total(release) == pytest.approx((120 / 4 + 80 / 16) / (1 / 4 + 1 / 16))
    release = qf.Release.from_tables(domain, tables, noise=noise, total=90.0, total_noise=qf.Laplace(0.5))
    assert estimate_total(release) == pytest.approx((120 / 4 + 80 / 16 + 90 / 0.5) / (1 / 4 + 1 / 16 + 1 / 0.5))
    release = qf.Release.from_tables(domain, tables, noise=noise, total=100)
    assert estimate_total(release) == 100


def test_pure_noise_gives_a_modest_model():
    domain = qf.Domain({"a": 4, "b": 4})
    random = np.random.default_rng(0)
    release = qf.Release.from_tables(
        domain, {("a", "b"): random.laplace(0, 500, (4, 4))}, noise=qf.Laplace(500.0), total=100
    )
    model = qf.fit(release)
    assert np.isfinite(model.log_partition())
    assert model.marginal(("a", "b")).max() < 0.2


def test_attributes_of_a_single_value_alone_are_certain():
    domain = qf.Domain({"a": 1, "b": 1})
    model = qf.fit(qf.Release.from_tables(domain, {("a",): [50.0], ("b",): [52.0]}, noise=qf.Laplace(1.0)))
    assert model.report.converged
    assert [end.tolist() for end in model.interval("a")] == [[1.0], [1.0]]


def test_a_fit_can_be_followed_and_interrupted():
    domain = qf.Domain({"a": 3, "b": 3})
    _, release = make(domain, [("a", "b")], 1000, qf.Laplace(5.0))
    seen = []
    whole = qf.fit(release, callback=seen.append)
    assert [report.rounds for report in seen] == list(range(1, len(seen) + 1))
    assert whole.report.converged
    assert not whole.report.advice

    def stop(report):
        raise KeyboardInterrupt

    part = qf.fit(release, callback=stop)
    assert not part.report.converged
    assert "interrupted" in part.report.advice
    assert whole.kl(part) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: qf.fit(r, "magic"), "'magic' is not a learning method; expected one of 'map'"),
        (lambda r: qf.fit(r, "naive", regularisation=0), "must be positive"),
        (lambda r: qf.fit(r, "naive", lam=0.1), "'lam'"),
    ],
)
def test_bad_calls_are_refused(call, message):
    domain = qf.Domain({"a": 2})
    release = qf.Release.from_tables(domain, {("a",): [5.0, 6.0]}, noise=qf.Laplace(1.0), total=11)
    with pytest.raises(Error, match=message):
        call(release)


def test_a_release_whose_total_is_not_positive_is_refused():
    domain = qf.Domain({"a": 2})
    release = qf.Release.from_tables(domain, {("a",): [-5.0, -6.0]}, noise=qf.Laplace(1.0))
    with pytest.raises(Error, match="not positive: the noise is larger than the data"):
        qf.fit(release)


@pytest.mark.parametrize("method", ["map", "naive"])
def test_a_release_that_says_nothing_gives_a_uniform_model_that_says_so(method):
    domain = qf.Domain({"a": 3, "b": 2})
    release = qf.Release.from_tables(domain, {("a", "b"): np.zeros((3, 2))}, noise=qf.Laplace(5.0), total=100)
    model = qf.fit(release, method)
    np.testing.assert_allclose(model.marginal(("a", "b")), 1 / 6, atol=1e-3)
    assert "says little or nothing about the data" in model.report.advice


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("map", {"rounds": "many"}, "rounds of the method 'map' is a whole number, not 'many'"),
        ("map", {"rounds": 0}, "at least 1"),
        ("map", {"rounds": 1}, "at least 2 rounds"),
        ("map", {"gain": float("nan")}, "gain .* is finite and not negative"),
        ("cgm", {"tolerance": -1.0}, "tolerance .* is finite and not negative"),
        ("map", {"speed": 1}, "has no option 'speed'; expected some of 'rounds'"),
        ("naive", {"regularisation": True}, "is a number, not True"),
        ("naive", {"project": 1}, "is True or False, not 1"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(method, options, words):
    release = qf.simulate("chain", attributes=3, states=2).release
    with pytest.raises(qf.Error, match=words):
        qf.fit(release, method, **options)


def test_a_public_total_of_zero_is_said_to_be_that():
    domain = qf.Domain({"a": 2})
    release = qf.Release.from_tables(domain, {("a",): [1.0, -1.0]}, noise=qf.Laplace(1.0), total=0)
    with pytest.raises(Error, match="public number of records is 0: there is nothing to learn from"):
        qf.fit(release)


def test_of_a_list_the_callback_hears_of_all_that_were_begun():
    releases = list(qf.simulate("chain", attributes=6, states=5, records=3000).releases(3))
    heard = []
    models = qf.fit(releases, callback=heard.append)
    assert [len(reports) for reports in heard] == sorted(len(reports) for reports in heard)
    assert [(r.rounds, r.objective) for r in heard[-1]] == [(m.report.rounds, m.report.objective) for m in models]


def test_an_interrupted_list_is_given_up_where_releases_were_not_begun():
    releases = list(qf.simulate("chain", attributes=6, states=5, records=3000).releases(3))

    def interrupt(reports):
        if reports[0].rounds == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        qf.fit(releases, callback=interrupt)
    model = qf.fit(releases[0], callback=lambda report: interrupt([report]))
    assert not model.report.converged
    assert "interrupted" in model.report.advice


def test_many_attributes_of_one_value_are_learned_at_once():
    domain = qf.Domain({f"x{i}": 1 for i in range(30)} | {"y": 2})
    release = qf.Release.from_tables(
        domain, {tuple(domain): np.array([30.0, 70.0]).reshape(domain.shape)}, noise=qf.Laplace(1.0)
    )
    assert qf.fit(release).marginal("y") == pytest.approx([0.3, 0.7], abs=0.05)


@pytest.mark.parametrize(
    ("tables", "scale"),
    [
        ({("a",): [99_999.0, 1.0]}, 3.0),
        ({("a",): [1000.0, 0.0]}, 0.01),
        ({("a", "b"): [[1000.0, 0.0], [0.0, 0.0]], ("a",): [1000.0, 0.0]}, 1e-9),
        ({("a", "b"): [[1000.0, 0.0], [0.0, 0.0]], ("a",): [1000.0, 0.0]}, 0.1),
    ],
)
def test_a_cell_that_holds_nearly_all_keeps_it(tables, scale):
    """Where shares hardly move with the parameters, the last step saw no data, and the prior undid the fit."""
    domain = qf.Domain({"a": 2, "b": 2})
    total = float(np.sum(next(iter(tables.values()))))
    for seed in range(12):
        random = np.random.default_rng(seed)
        noisy = {c: np.asarray(t) + random.laplace(0, scale, np.shape(t)) for c, t in tables.items()}
        model = qf.fit(qf.Release.from_tables(domain, noisy, noise=qf.Laplace(scale), total=total))
        assert model.marginal("a")[0] == pytest.approx(1, abs=2e-3)


def test_a_fit_of_the_records_against_scipy():
    """theta + u of the E-step's dual, by a general optimiser over all records."""
    from tests import brute_force

    domain = qf.Domain({"a": 3, "b": 2, "c": 4})
    _, release = make(domain, [("a",), ("a", "b"), ("b", "c")], 300, qf.Gaussian(2.5), strength=1.5)
    source, records = qf.fit(release), qf.fit(release, of="records")
    cliques = list(release.tables)
    cuts = np.cumsum([np.size(release.tables[c]) for c in cliques])[:-1]
    theta, y = (np.concatenate([np.ravel(x[c]) for c in cliques]) for x in (source.potentials, release.tables))

    def moved(u):
        parts = np.split(theta + u, cuts)
        return {c: part.reshape(domain.table_shape(c)) for c, part in zip(cliques, parts, strict=True)}

    def loss(u):
        p, log_z = brute_force.joint(domain, moved(u))
        shares = np.concatenate([brute_force.marginal(domain, p, c).ravel() for c in cliques])
        return 300 * log_z - u @ y + 0.5 * 2.5**2 * u @ u, 300 * shares - y + 2.5**2 * u

    best = optimize.minimize(loss, np.zeros_like(theta), jac=True, method="L-BFGS-B", options={"maxiter": 5000})
    expected, _ = brute_force.joint(domain, moved(best.x))
    found, before = (m.marginal(tuple(domain)) for m in (records, source))
    assert np.abs(found - expected).max() < 1e-4 < 1e-3 < np.abs(before - expected).max()


def test_records_are_learned_where_noise_is_small_beside_chance():
    """With much noise they are hardly known better than their source; with little they are, and no cell is empty."""
    domain = qf.Domain({"a": 6, "b": 6})
    for noise, least, most in ((qf.Laplace(0.5), 0.0, 0.6), (qf.Gaussian(0.1), 0.0, 0.6), (qf.Laplace(200.0), 0.98, 1)):
        truth, release = make(domain, [("a", "b")], 200, noise)
        counted = np.asarray(release.tables["a", "b"]) / 200 if noise.scale < 1 else truth.marginal(("a", "b"))
        source, records = (
            np.abs(qf.fit(release, of=of).marginal(("a", "b")) - counted).sum() for of in ("source", "records")
        )
        assert least * source <= records <= most * source + 1e-3
        assert qf.fit(release, of="records").marginal(("a", "b")).min() > 1e-5


def test_what_can_be_learned_is_named():
    _, release = make(qf.Domain({"a": 2}), [("a",)], 100, qf.Laplace(1.0))
    with pytest.raises(Error, match=r"of the 'source' of the records or of the 'records', not of 'people'"):
        qf.fit(release, of="people")


def test_fits_keep_blas_in_one_thread_and_give_the_others_back(monkeypatch):
    from quietfield.learning.learner import _openblas, one_blas_thread
    from quietfield.learning.map import Map

    if (found := _openblas("numpy.linalg._umath_linalg")) is None:
        pytest.skip("numpy's BLAS here is not OpenBLAS")
    (threads, put), step, seen = found, Map.step, []
    before = threads()
    monkeypatch.setattr(Map, "step", lambda *given: seen.append(threads()) or step(*given))
    try:
        put(2)
        qf.fit(qf.Release.from_tables(qf.Domain({"a": 2}), {("a",): [30, 40]}, noise=qf.Laplace(1.0)))
        assert set(seen) == {1}
        assert threads() == 2
        with pytest.raises(KeyError), one_blas_thread(), one_blas_thread():
            raise KeyError
        assert threads() == 2
    finally:
        put(before)


def test_fits_that_loopy_inference_led_astray_say_so():
    """Ten attributes that agree, all pairs joined: messages around so many loops hold that all of them are certain."""
    domain = qf.Domain({f"x{i}": 2 for i in range(10)})
    random, table = np.random.default_rng(0), np.array([[2250.0, 250.0], [250.0, 2250.0]])
    alike = {clique: table + random.laplace(0, 20.0, (2, 2)) for clique in structures.complete(domain)}
    release = qf.Release.from_tables(domain, alike, noise=qf.Laplace(20.0), total=5000)
    loopy, convex = (qf.fit(release, inference=kind).report for kind in ("loopy", "convex"))
    assert not loopy.converged
    assert "loopy inference went astray" in loopy.advice
    assert "'convex' inference, exact inference where it fits" in loopy.advice
    assert (convex.converged, convex.advice) == (True, "")


def test_a_joint_step_that_does_harm_is_not_taken():
    """Of large problems it is found by conjugate gradients, which end early: a planted one in the wrong direction."""
    release = qf.simulate("chain", attributes=4, states=16, records=200_000, epsilon=2.0, seed=1).release
    solve = Curvature.solve
    with mock.patch("quietfield.learning.map._join", lambda shape, data, measured, theta, *_: theta):
        without = qf.fit(release)
    assert qf.fit(release).kl(without) > 1e-6  # the step itself is taken

    def harmful(self, right, tolerance, most, operator=None, start=None):
        return (1 if operator is None else -3) * solve(self, right, tolerance, most, operator, start)

    with mock.patch.object(Curvature, "solve", harmful):
        assert qf.fit(release).kl(without) < 1e-12
