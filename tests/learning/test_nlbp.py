"""NLBP against convex solvers written from the definitions, the mode against the mean, EM against known truths."""

import itertools
from math import lgamma

import jax
import numpy as np
import pytest
from scipy import optimize

import quietfield as qf
from quietfield.errors import Error
from quietfield.learning.compiled import compile_step
from quietfield.learning.nlbp import Nlbp, Trace, recipe_of
from quietfield.learning.problem import problem_of
from tests.brute_force import joint, marginal

TREE = [("a", "b"), ("b", "c")]
JUNCTION = [("a", "b", "c"), ("c", "b", "d"), ("d",)]
TRIANGLE = [("a", "b"), ("b", "c"), ("c", "a")]
DOMAIN = qf.Domain({"a": 2, "b": 3, "c": 2, "d": 2})


def noisy(cliques, noise, total=200, seed=0, domain=DOMAIN, ties=None):
    """A release of noise around the tables of a random distribution, and random parameters to start from."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(np.prod(domain.shape))).reshape(domain.shape)
    tied = {tie[0]: tie for tie in ties or ()}
    tables = {c: total * sum(marginal(domain, p, each) for each in tied.get(c, (c,))) for c in cliques}
    tables = {c: t + random.laplace(0, 8, t.shape) for c, t in tables.items()}
    return qf.Release.from_tables(domain, tables, noise=noise, total=total, ties=ties)


def e_step(learner, release, inference="exact", seed=1, iterations=20_000):
    """(problem, theta, what NLBP found) for random theta."""
    shape, data = problem_of(release, inference, {})
    theta = 0.5 * np.random.default_rng(seed).normal(size=shape.size)
    trace = Trace(np.array(data.y), np.float64(1.0), np.float64(0.0))
    with jax.enable_x64(True):
        found = jax.jit(lambda d, t, s: learner.infer(shape, d, t, s, iterations, True))(data, theta, trace)
        return shape, data, theta, jax.tree.map(np.asarray, found)


def places(shape, domain=DOMAIN):
    """A matrix from the probabilities of all records to the shares of all cells, from the definition."""
    rows = []
    for group, sizes in zip(shape.groups, shape.table_shapes, strict=True):
        for cell in np.ndindex(sizes):
            row = np.zeros(domain.shape)
            for clique in group:
                index = [slice(None)] * len(domain)
                for name, code in zip(clique, cell, strict=True):
                    index[domain.position(name)] = code
                row[tuple(index)] += 1
            rows.append(row.ravel())
    return np.array(rows)


def smoothed(learner, data, z):
    return np.sqrt(z**2 + (learner.smooth * data.b) ** 2) / data.b


@pytest.mark.parametrize("cliques", [TREE, JUNCTION, TRIANGLE], ids=["tree", "junction tree", "triangle"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_nlbp_finds_what_a_convex_solver_finds(cliques, kind):
    """max over distributions q of N (theta.mu(q) + H(q)) + log p(y | N mu(q)): the entropy of tables is that of the
    distribution of largest entropy that has them, so the problem needs no junction tree to be written down."""
    noise = qf.Laplace(6.0) if kind == "laplace" else qf.Gaussian(6.0)
    release = noisy(cliques, noise)
    learner = Nlbp(smooth=0.2, tolerance=1e-8)
    shape, data, theta, found = e_step(learner, release)
    assert found.residual <= 1e-8
    at = places(shape)

    def loss(w):
        log_q = w - np.logaddexp.reduce(w)
        q = np.exp(log_q)
        n = data.total * at @ q
        z = data.y - n
        if kind == "laplace":
            fit, pull = smoothed(learner, data, z).sum(), z / np.sqrt(z**2 + (0.2 * data.b) ** 2) / data.b
        else:
            fit, pull = 0.5 * ((z / data.b) ** 2).sum(), z / data.b**2
        value = data.total * (q @ log_q) - theta @ n + fit
        slope = data.total * (log_q + 1) - data.total * at.T @ (theta + pull)
        return value, q * (slope - q @ slope)

    best = optimize.minimize(loss, np.zeros(at.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7})
    q = np.exp(best.x - np.logaddexp.reduce(best.x))
    np.testing.assert_allclose(found.n, data.total * at @ q, atol=1e-3)


def test_the_literal_algorithm_comes_as_close_to_the_kinked_solution_as_its_damping_allows():
    """Against the problem with |.| itself, as a linear program in the noise: SLSQP with one bound a cell."""
    release = noisy(TREE, qf.Laplace(6.0))
    shape, data, theta, _ = e_step(Nlbp(), release, iterations=1)
    at = places(shape)
    count, cells = at.shape[1], at.shape[0]

    def loss(x):
        q, t = np.maximum(x[:count], 1e-12), x[count:]
        value = data.total * (q @ np.log(q)) - data.total * theta @ (at @ q) + (t / data.b).sum()
        slope = np.concatenate([data.total * (np.log(q) + 1 - at.T @ theta), 1 / data.b])
        return value / data.total, slope / data.total

    wide = data.total * at
    eye = np.eye(cells)
    above = {
        "type": "ineq",
        "fun": lambda x: np.concatenate(
            [x[count:] - (data.y - wide @ x[:count]), x[count:] + data.y - wide @ x[:count]]
        ),
        "jac": lambda x: np.block([[wide, eye], [-wide, eye]]),
    }
    one = {"type": "eq", "fun": lambda x: x[:count].sum() - 1, "jac": lambda x: np.r_[np.ones(count), np.zeros(cells)]}
    q = np.full(count, 1 / count)
    start = np.concatenate([q, np.abs(data.y - wide @ q)])
    best = optimize.minimize(
        loss, start, jac=True, method="SLSQP", constraints=[above, one], bounds=[(0, None)] * (count + cells),
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert best.success
    exact = wide @ best.x[:count]
    gaps = {}
    for alpha, iterations in ((0.1, 500), (0.01, 5000), (0.001, 50_000)):
        found = e_step(Nlbp(smooth=0, damping=alpha), release, iterations=iterations)[3]
        gaps[alpha] = np.abs(found.n - exact).max()
        assert found.residual > 1e-3  # it never comes to rest
    assert gaps[0.001] < 0.1
    assert gaps[0.001] < gaps[0.01] < gaps[0.1] < 10
    settled = e_step(Nlbp(smooth=1e-3, tolerance=1e-5), release)[3]
    assert settled.residual <= 1e-5
    assert np.abs(settled.n - exact).max() < 0.05


def test_smoothed_nlbp_agrees_with_the_equally_smoothed_dual():
    """min over u of N A(theta + u) - u.y - h sum sqrt(1 - (b u)^2); a tie, unequal scales, an impossible cell."""
    domain = qf.Domain({"a": 3, "b": 3, "c": 3}, [{"a": 0, "b": 2}])
    ties = [[("b", "c"), ("c", "a")]]
    noise = {("a", "b"): qf.Laplace(3.0), ("b", "c"): qf.Laplace(9.0)}
    release = noisy([("a", "b"), ("b", "c")], noise, domain=domain, ties=ties)
    learner = Nlbp(smooth=0.3, tolerance=1e-9)
    shape, data, theta, found = e_step(learner, release)
    inside = shape.counted > 0

    def dual(u):
        tables = shape.tables(theta + u)
        p, log_z = joint(domain, tables)
        m = places(shape, domain) @ p.ravel()
        root = np.sqrt(1 - (data.b * u) ** 2)
        slope = data.total * m - data.y + learner.smooth * data.b**2 * u / root
        return data.total * log_z - u @ data.y - learner.smooth * root.sum(), np.where(inside, slope, 0.0)

    edge = (1 - 1e-9) / data.b
    best = optimize.minimize(
        dual, np.zeros(shape.size), jac=True, method="L-BFGS-B",
        bounds=[(-e, e) if k else (0, 0) for e, k in zip(edge, inside, strict=True)],
        options={"maxiter": 5000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-8},
    )  # fmt: skip
    p, _ = joint(domain, shape.tables(theta + best.x))
    np.testing.assert_allclose(found.n, data.total * places(shape, domain) @ p.ravel(), atol=2e-3)
    np.testing.assert_allclose(found.theta - theta, best.x, atol=1e-4)


def test_on_loopy_graphs_nlbp_maximises_with_bethes_entropy_over_locally_consistent_tables():
    domain = qf.Domain(dict.fromkeys("abc", 2))
    release = noisy(TRIANGLE, qf.Laplace(5.0), domain=domain)
    learner = Nlbp(smooth=0.3, tolerance=1e-6)
    shape, data, theta, found = e_step(learner, release, "loopy")
    assert found.residual <= 1e-6
    ends = np.cumsum([0, *(4 for _ in shape.groups)])
    nodes = {}
    for (clique,), start in zip(shape.groups, ends, strict=False):
        for axis, name in enumerate(clique):
            for code in range(2):
                row = np.zeros(shape.size)
                table = row[start : start + 4].reshape(2, 2)
                table[(slice(None),) * axis + (code,)] = 1
                nodes.setdefault((name, code), []).append(row)
    agree = [one - other for (_, code), (one, other) in nodes.items() if code == 0]  # the other code follows
    margins = np.array([*agree, *np.eye(3).repeat(4, 1)])
    right = np.r_[np.zeros(3), np.ones(3)]
    single = np.array([one for one, _ in nodes.values()])

    def loss(mu):
        mu = np.maximum(mu, 1e-12)
        node = single @ mu  # every attribute is in two pairs: Bethe's entropy takes its own away once
        z = data.y - data.total * mu
        entropy = -(mu @ np.log(mu)) + node @ np.log(node)
        value = data.total * (theta @ mu + entropy) - smoothed(learner, data, z).sum()
        pull = z / np.sqrt(z**2 + (learner.smooth * data.b) ** 2) / data.b
        slope = data.total * (theta - np.log(mu) - 1 + single.T @ (np.log(node) + 1) + pull)
        return -value / data.total, -slope / data.total

    best = optimize.minimize(
        loss, np.full(shape.size, 0.25), jac=True, method="SLSQP", bounds=[(1e-9, 1)] * shape.size,
        constraints={"type": "eq", "fun": lambda mu: margins @ mu - right, "jac": lambda mu: margins},
        options={"maxiter": 1000, "ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(found.n, data.total * best.x, atol=0.02)
    exact = e_step(learner, release)[3]
    assert np.abs(exact.n - found.n).max() > 0.2  # another problem than exact inference solves


@pytest.mark.parametrize(("noise", "b"), [(qf.Laplace, 2.0), (qf.Laplace, 6.0), (qf.Gaussian, 3.0)])
def test_the_mode_is_close_to_the_mean_of_the_true_tables(noise, b):
    """E[n | y] by enumeration of all 1,771 tables that 20 people can have."""
    domain = qf.Domain({"a": 2, "b": 2})
    y, total = np.array([[11.0, 1.5], [4.0, 5.5]]), 20
    release = qf.Release.from_tables(domain, {("a", "b"): y}, noise=noise(b), total=total)
    learner = Nlbp(smooth=0.05, tolerance=1e-5)
    _, data, theta, found = e_step(learner, release)
    log_p = theta - np.logaddexp.reduce(theta)
    tables = np.array([n for n in itertools.product(range(total + 1), repeat=4) if sum(n) == total])
    weights = np.array([(n @ log_p) - sum(lgamma(k + 1) for k in n) for n in tables])
    weights += noise(b).log_density(data.y - tables).sum(1)
    weights = np.exp(weights - weights.max())
    mean = weights @ tables / weights.sum()
    spread = np.sqrt(weights @ (tables - mean) ** 2 / weights.sum())
    assert (np.abs(found.n - mean) < 0.6 * spread).all()
    prior = total * np.exp(log_p)
    assert np.abs(found.n - mean).sum() < 0.25 * np.abs(prior - mean).sum()  # and it has learned something from y


@pytest.mark.parametrize(
    ("cliques", "inference", "ties", "closed"),
    [
        pytest.param(JUNCTION, "exact", None, True, id="closed form"),
        pytest.param(TRIANGLE, "exact", None, False, id="Newton", marks=pytest.mark.slow),
        pytest.param(TRIANGLE, "loopy", None, True, id="belief propagation"),
        pytest.param(TRIANGLE, "convex", None, True, id="reweighted", marks=pytest.mark.slow),
        pytest.param([("a",), ("a", "c")], "exact", [[("a", "c"), ("c", "d")]], False, id="tied"),
    ],
)
def test_the_m_step_matches_the_inferred_tables(cliques, inference, ties, closed):
    release = noisy(cliques, qf.Laplace(6.0), ties=ties)
    learner = Nlbp(smooth=0, iterations=100)
    shape, data = problem_of(release, inference, {})
    assert (recipe_of(shape) is not None) == closed
    with jax.enable_x64(True):
        state = compile_step(learner, shape, False)(data, jax.tree.map(np.asarray, learner.init(shape, data)))
        shares = np.asarray(jax.jit(shape.shares)(state.theta))
    np.testing.assert_allclose(data.total * shares, state.extra.n, atol=1e-3)
    assert abs(np.asarray(state.theta)[: shape.starts[1]].mean()) < 1e-9  # re-centred


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(qf.Laplace(2.0), id="Laplace", marks=pytest.mark.slow),
        pytest.param(qf.Gaussian(2.0), id="Gaussian", marks=pytest.mark.slow),
        pytest.param(None, id="both"),
    ],
)
def test_with_little_noise_and_many_records_the_truth_is_found(noise):
    """Cliques of one to four attributes, nested, tied, an impossible combination, one value, an unknown total."""
    domain = qf.Domain({"a": 3, "b": 2, "c": 2, "d": 3, "e": 2, "f": 1}, [{"a": 0, "d": 1}])
    cliques = [("a", "b", "c", "d"), ("d", "e"), ("b",), ("c", "e"), ("f", "b")]
    ties = [[("b",), ("c",)]]
    random = np.random.default_rng(3)
    potentials = {c: 0.7 * random.normal(size=domain.table_shape(c)) for c in [*cliques, ("c",)]}
    potentials[("c",)] = potentials[("b",)]
    truth = qf.Model(domain, potentials)
    count = 100_000
    tables = {c: count * truth.marginal(c) for c in cliques}
    tables[("b",)] = tables[("b",)] + count * truth.marginal(("c",))
    each = noise or {c: qf.Gaussian(4.0) if i % 2 else qf.Laplace(2.0) for i, c in enumerate(cliques)}
    tables = {c: t + random.laplace(0, 1.5, t.shape) for c, t in tables.items()}
    release = qf.Release.from_tables(domain, tables, noise=each, ties=ties)
    model = qf.fit(release, "cgm-nlbp", settled=0.02)
    assert model.report.converged, model.report
    assert model.report.total == pytest.approx(count, rel=1e-3)
    assert truth.kl(model) < 1e-3
    assert model.marginal(("a", "d"))[0, 1] == 0
    assert np.array_equal(model.potentials[("b",)], model.potentials[("c",)])


def test_a_cell_that_was_not_counted_is_inferred_from_the_others():
    """The noise alone that an excluded cell holds pulls at nothing."""
    from quietfield.releases.parts import Table, Total

    domain = qf.Domain({"a": 2, "b": 2})
    truth = np.array([[400.0, 300.0], [100.0, 200.0]])
    values = np.where([[True, False], [False, False]], -900.0, truth)
    part = Table((("a", "b"),), values, qf.Laplace(2.0), excluded=(0, 0))
    structure = qf.Structure((("a", "b"),))
    release = qf.Release(domain, structure, (part,), Total(1000.0, None))
    for options in ({}, {"smooth": 0, "rounds": 300, "damping": 0.02}):
        model = qf.fit(release, "cgm-nlbp", **options)
        np.testing.assert_allclose(1000 * model.marginal(("a", "b")), truth, atol=12)


@pytest.mark.slow
def test_untuned_it_stops_near_the_best_of_its_path():
    domain = qf.Domain({f"x{i}": 5 for i in range(6)})
    simulation = qf.simulate(qf.structures.chain(domain, 2), attributes=6, states=5, records=5000, seed=4)
    release = simulation.release
    model = qf.fit(release, "cgm-nlbp")
    assert model.report.converged
    path = []
    shape, data = problem_of(release, "exact", {})
    learner = Nlbp(settled=0)
    with jax.enable_x64(True):
        state = jax.tree.map(np.asarray, learner.init(shape, data))
        for _ in range(80):
            state = compile_step(learner, shape, False)(data, state)
            path.append(simulation.model.kl(qf.Model(simulation.model.domain, shape.tables(np.asarray(state.theta)))))
    assert simulation.model.kl(model) < 1.1 * min(path)
    assert path[-1] > 1.15 * min(path)  # so stopping matters
    literal = qf.fit(release, "cgm-nlbp", smooth=0)  # trembles by more than ``settled``, and stops all the same
    assert literal.report.converged
    assert simulation.model.kl(literal) < 1.4 * min(path)


def test_releases_learned_side_by_side_are_learned_as_they_are_alone():
    releases = [noisy(TREE, qf.Laplace(6.0), seed=seed) for seed in (0, 1)]
    both = qf.fit(releases, "cgm-nlbp")
    for release, batched in zip(releases, both, strict=True):
        alone = qf.fit(release, "cgm-nlbp")
        assert alone.report.converged
        assert alone.report.rounds == batched.report.rounds
        assert alone.kl(batched) < 1e-9


def test_em_climbs_and_says_when_its_rounds_are_used_up():
    release = noisy(JUNCTION, qf.Laplace(4.0), total=500)
    seen = []
    model = qf.fit(release, "cgm-nlbp", tolerance=1e-6, iterations=2000, rounds=12, settled=0, callback=seen.append)
    assert not model.report.converged
    assert "rounds=" in model.report.advice
    values = [report.objective for report in seen]
    assert len(values) == 12
    assert (np.diff(values) > -1e-3).all()
    assert values[-1] > values[0] + 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds .* is at least 1"),
        ({"iterations": 2.5}, "iterations .* is a whole number"),
        ({"damping": 0.0}, "damping \\(alpha\\) lies above 0"),
        ({"damping": 1.5}, "at most at 1"),
        ({"smooth": -1.0}, "smooth .* is finite and not negative"),
        ({"smooth": float("nan")}, "smooth .* is finite and not negative"),
        ({"tolerance": -1.0}, "tolerance .* is finite and not negative"),
        ({"settled": float("inf")}, "settled .* is finite and not negative"),
        ({"alpha": 0.1}, "'alpha'"),
    ],
)
def test_bad_options_are_refused(options, message):
    release = noisy(TREE, qf.Laplace(1.0))
    with pytest.raises(Error, match=message):
        qf.fit(release, "cgm-nlbp", **options)
