"""EM through the dual: one iteration against scipy, the stopping rule against the path, batches against single fits."""

import jax
import numpy as np
import pytest
from scipy import optimize

import quietfield as qf
from quietfield.learning.cgm import Cgm
from quietfield.learning.compiled import compile_step
from quietfield.learning.problem import problem_of


@pytest.fixture(scope="module")
def study():
    return qf.simulate("tree", attributes=4, states=4, records=400, epsilon=0.5, seed=3)


def disagreeing(noise):
    """Overlapping and nested tables, each with noise of its own, that contradict each other; unequal sizes."""
    domain = qf.Domain({"a": 3, "b": 2, "c": 3})
    random = np.random.default_rng(0)
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("b",)]
    tables = {c: 300 * random.dirichlet(np.ones(domain.cells(c))).reshape(domain.table_shape(c)) for c in cliques}
    return qf.Release.from_tables(domain, tables, noise, total=300)


@pytest.mark.parametrize("kind", [qf.Laplace, qf.Gaussian])
def test_an_iteration_is_the_maximum_in_the_box(kind):
    """y.t - N A(t) within 1/b of theta (Laplace), or less b^2 |t - theta|^2 / 2 (Gaussian); unequal scales."""
    noise = {("a", "b"): kind(3.0), ("b", "c"): kind(8.0), ("a", "c"): kind(5.0), ("b",): kind(2.0)}
    shape, data = problem_of(disagreeing(noise), "exact", {})
    learner = Cgm(inner=200, tolerance=1e-9)
    with jax.enable_x64(True):
        inferred = jax.jit(shape.shares_and_log_partition)
        iterate = jax.jit(lambda theta: learner.iterate(shape, data, theta))
        quick = jax.jit(lambda theta: Cgm().iterate(shape, data, theta))
        theta = np.zeros(shape.size)
        for _ in range(3):
            found = np.asarray(iterate(theta))
            pull = data.b**2 if kind is qf.Gaussian else np.zeros(shape.size)

            def dual(t, theta=theta, pull=pull):
                m, log_z = (np.asarray(part) for part in inferred(t))
                value = data.total * log_z - data.y @ t + 0.5 * pull @ (t - theta) ** 2
                return float(value), data.total * m - data.y + pull * (t - theta)

            box = None if kind is qf.Gaussian else list(zip(theta - 1 / data.b, theta + 1 / data.b, strict=True))
            options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 20_000}
            best = optimize.minimize(dual, theta, jac=True, method="L-BFGS-B", bounds=box, options=options)
            # Parameters are compared by what they say: constants are taken out of each table of what is found.
            m, expected = (np.asarray(inferred(t)[0]) for t in (found, best.x))
            np.testing.assert_allclose(data.total * m, data.total * expected, atol=0.02)
            np.testing.assert_allclose(data.total * np.asarray(inferred(quick(theta))[0]), data.total * m, atol=1.0)
            theta = found
        assert abs(data.total * m - data.y).max() > 10  # the tables cannot all be met


@pytest.mark.parametrize("noise", [qf.Laplace(4.0), qf.Gaussian(6.0)])
def test_iterations_climb_and_stay_centred(noise):
    shape, data = problem_of(disagreeing(noise), "exact", {})
    learner = Cgm(stop=False, stretch=1)
    step = compile_step(learner, shape, False)
    with jax.enable_x64(True):
        state = jax.tree.map(np.asarray, learner.init(shape, data))
        values = []
        for _ in range(15):
            state = step(data, state)
            values.append(float(state.value))
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] > values[0] + 1
    ends = np.split(np.asarray(state.theta), shape.starts[1:-1])
    assert max(abs(table.mean()) for table in ends) < 1e-9


def test_the_stopping_rule_ends_near_the_best_of_the_path(study):
    """Over eight releases, since the best iterate of a single one is partly luck."""
    releases = study.releases(8)
    problems = [problem_of(release, "exact", {}) for release in releases]
    shape = problems[0][0]
    data = jax.tree.map(lambda *parts: np.stack(parts), *(data for _, data in problems))
    learner = Cgm(stop=False, stretch=2)
    step = compile_step(learner, shape, True)
    path = []
    with jax.enable_x64(True):
        starts = [learner.init(shape, each) for _, each in problems]
        state = jax.tree.map(lambda *parts: np.stack(parts), *starts)
        for _ in range(40):
            state = step(data, state)
            path.append([study.model.kl(qf.Model(shape.domain, shape.tables(t))) for t in np.asarray(state.theta)])
    best, last = np.min(path, 0), np.array(path[-1])
    models = qf.fit(releases, "cgm")
    found = np.array([study.model.kl(model) for model in models])
    assert all(model.report.converged for model in models)
    assert (last / best).mean() > 1.5  # run on, EM overfits: there is something to find
    assert (found / best).mean() < 1.15


def test_a_batch_gives_what_single_fits_give(study):
    releases = [study.release, qf.simulate(model=study.model, records=200, epsilon=2.0, seed=4).release]
    for release, model in zip(releases, qf.fit(releases, "cgm"), strict=True):
        alone = qf.fit(release, "cgm")
        assert alone.report.steps == model.report.steps
        for clique in alone.cliques:
            np.testing.assert_allclose(model.marginal(clique), alone.marginal(clique), atol=1e-6)
