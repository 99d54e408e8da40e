"""The smooth prior: its operators against matrices, what it learns, and what a model keeps of it."""

from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.linalg import block_diag

import quietfield as qf
from quietfield.errors import Error
from quietfield.learning import conjugate, prior, problem, smoothness
from quietfield.learning import map as default
from quietfield.learning.ascent import QuasiNewton
from quietfield.learning.conjugate import SmoothTable
from quietfield.learning.covariance import covariance_of
from quietfield.learning.prior import Curvature, Prior
from quietfield.learning.smoothness import Smoothness
from quietfield.models.uncertainty import Uncertainty

SIZES = {"a": 7, "b": 3, "c": 1, "d": 4}
CLIQUES = [("a",), ("b",), ("a", "b"), ("d", "a"), ("a", "c"), ("b", "d", "a")]


def shape_of(sizes, cliques):
    tables = tuple(sorted(cliques, key=lambda clique: tuple(sizes[name] for name in clique)))
    many = len(tables)
    return problem.Shape(qf.Domain(sizes), tuple((c,) for c in tables), (True,) * many, (None,) * many, tables)


def wave(size, k):
    """k half waves along the values, of length 1."""
    values = np.cos(np.pi * k * (np.arange(size) + 0.5) / size)
    return values / np.linalg.norm(values)


def covariance_by_hand(shape, variances, amounts):
    """P^-1, wave by wave."""
    blocks = []
    for table, (group, sizes) in enumerate(zip(shape.groups, shape.table_shapes, strict=True)):
        block = np.zeros((prod(sizes), prod(sizes)))
        for ks in product(*map(range, sizes)):
            kind = 0 if len(ks) > 1 and min(ks) > 0 else 1
            variance, vector = variances[kind, table], np.ones(1)
            for name, size, k in zip(group[0], sizes, ks, strict=True):
                vector = np.kron(vector, wave(size, k))
                if k > 0:
                    a = amounts[kind, shape.domain.position(name)]
                    variance *= (1 + a / k**3) / np.mean([1 + a / h**3 for h in range(1, size)])
            block += variance * np.outer(vector, vector)
        blocks.append(block)
    return block_diag(*blocks)


def smooth_prior(shape, seed=0):
    random = np.random.default_rng(seed)
    variances = random.uniform(0.3, 2.0, (2, len(shape.groups)))
    amounts = np.array([[300.0, 0.0, 0.0, 20.0], [1000.0, 5.0, 0.0, 0.0]])
    return Prior(shape, variances, np.ones_like(variances), Smoothness(shape, amounts))


@pytest.mark.parametrize("long", [300, 3])  # waves by matrices, and by fast transforms
@pytest.mark.parametrize("most", [300, 4])  # tables of two by a matrix per axis, and by waves where one is longer
def test_the_operators_are_those_of_the_matrix(monkeypatch, long, most):
    monkeypatch.setattr(problem, "_LONG", long)
    monkeypatch.setattr(smoothness, "_MOST", most)
    shape = shape_of(SIZES, CLIQUES)
    prior = smooth_prior(shape)
    prior.smoothness.amounts[:, np.array(shape.domain.shape) > most] = 0.0
    whole = covariance_by_hand(shape, prior.variances, prior.smoothness.amounts)
    x = np.random.default_rng(1).normal(size=(2, shape.size))
    np.testing.assert_allclose(prior.variance(x), x @ whole, atol=1e-9)
    np.testing.assert_allclose(prior.precision(x), x @ np.linalg.inv(whole), atol=1e-8)
    np.testing.assert_allclose(prior.root(prior.root(x)), x @ whole, atol=1e-9)
    np.testing.assert_allclose(prior.precision(x[0].astype(np.float32)), x[0] @ np.linalg.inv(whole), rtol=0, atol=0.01)


def test_without_amounts_the_prior_knows_no_order():
    shape = shape_of(SIZES, CLIQUES)
    prior = smooth_prior(shape)
    plain = Prior(shape, prior.variances, prior.determined, Smoothness.none(shape))
    assert not plain.smoothness.factors
    np.testing.assert_allclose(
        plain.variance(np.eye(shape.size)), covariance_by_hand(shape, prior.variances, np.zeros((2, 4))), atol=1e-9
    )


def test_the_preconditioner_knows_smooth_effects(monkeypatch):
    """Against the matrix itself; without them the condition is more than twice as large."""
    monkeypatch.setattr(problem, "DENSE", 0)
    shape = shape_of({"a": 20, "b": 4, "c": 1, "d": 15}, [("a",), ("b",), ("d",), ("a", "b"), ("d", "a")])
    random = np.random.default_rng(0)
    variances = random.uniform(0.5, 2.0, (2, 5))
    amounts = np.array([[0.0, 0.0, 0.0, 0.0], [1000.0, 0.0, 0.0, 30.0]])
    prior = Prior(shape, variances, variances, Smoothness(shape, amounts))
    curvature = Curvature(shape.at(random.normal(size=shape.size)), np.full(shape.size, 1e4), prior)
    plain = Curvature(
        curvature.point, curvature.weights, Prior(shape, variances, variances, Smoothness.none(shape))
    ).preconditioner
    matrix, units = curvature(np.eye(shape.size)), shape.centre(np.eye(shape.size))[1]

    def condition(preconditioner):
        inverse = preconditioner(units)
        np.testing.assert_allclose(inverse, np.stack([preconditioner(unit) for unit in units]), atol=1e-10)
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-9)
        values, vectors = np.linalg.eigh(inverse)
        assert values[5] > 1e-7 > np.abs(values[:5]).max()  # a constant in a table is none of its business
        root = vectors[:, 5:] * np.sqrt(values[5:])
        found = np.linalg.eigvalsh(root.T @ matrix @ root)
        return found[-1] / found[0]

    assert 2 * condition(curvature.preconditioner) < condition(plain)
    right = shape.centre(random.normal(size=(2, shape.size)))[1]
    np.testing.assert_allclose(curvature.solve(right, 1e-10, 500) @ matrix, right, atol=1e-6)


def test_a_smooth_table_is_inverted_exactly_where_few_waves_stand_out():
    sizes = (9, 6)
    random = np.random.default_rng(0)
    variances, known = np.full(sizes, 0.1), random.exponential(5.0, 54)
    variances[:3, :2] = random.uniform(1.0, 100.0, (3, 2))
    waves = np.stack([np.kron(wave(9, i), wave(6, j)) for i in range(9) for j in range(6)])
    inverse = np.linalg.inv(np.diag(known) + (waves.T / variances.ravel()) @ waves)
    table = SmoothTable(variances, known, np.float64)
    values = random.normal(size=(2, *sizes))
    found = table.diagonal * (values + table.lay(table.hold(table.diagonal * values) @ table.inverse))
    np.testing.assert_allclose(found.reshape(2, -1), values.reshape(2, -1) @ inverse, atol=1e-9)


def test_quasi_newton_steps_reach_the_top():
    """Of a quadratic, with exact line searches, in as many steps as it has dimensions."""
    random = np.random.default_rng(0)
    root = random.normal(size=(6, 6))
    matrix, right = root @ root.T + np.eye(6), random.normal(size=6)
    quasi, x = QuasiNewton(lambda r: r / np.diag(matrix)), np.zeros(6)
    for _ in range(6):
        gradient = right - matrix @ x
        step = quasi(x, gradient)
        x = x + step * (gradient @ step) / (step @ matrix @ step)
    np.testing.assert_allclose(matrix @ x, right, atol=1e-8)


def test_large_tables_are_summed_as_small_ones_are(monkeypatch):
    shape = shape_of({"a": 5, "b": 4, "c": 1, "d": 3}, [("a",), ("a", "b"), ("d", "c", "a"), ("b", "d")])
    prior = Prior(shape, np.ones((2, 4)), np.ones((2, 4)), Smoothness.none(shape))
    random = np.random.default_rng(0)
    point, weights, x = (
        shape.at(random.normal(size=shape.size)),
        random.exponential(1e3, shape.size),
        np.eye(shape.size),
    )
    found = []
    for wide in (0, 10_000):
        monkeypatch.setattr(conjugate, "_WIDE", wide)
        conjugate._effects.cache_clear()
        preconditioner = Curvature(point, weights, prior).preconditioner
        found.append((preconditioner(x), preconditioner.precision(x)))
    conjugate._effects.cache_clear()
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


@pytest.mark.parametrize("order", ["smooth", "shuffled"])
def test_amounts_come_back(order):
    """Of parameters drawn from the prior, all determined; in another order of the values nothing is smooth."""
    shape = shape_of({"a": 40, "b": 30}, [("a",), ("b",), ("a", "b")])
    amounts = np.array([[100.0, 0.0], [1000.0, 0.0]])
    variances = np.ones((2, 3))
    prior = Prior(shape, variances, variances, Smoothness(shape, amounts))
    random = np.random.default_rng(0)
    theta = prior.root(random.standard_normal(shape.size))
    if order == "shuffled":
        a, b = random.permutation(40), np.arange(30)
        tables = {(40,): (a,), (30,): (b,), (40, 30): np.ix_(a, b)}
        parts = np.split(theta, shape.starts[1:-1])
        theta = np.concatenate([
            part.reshape(sizes)[tables[sizes]].ravel() for part, sizes in zip(parts, shape.table_shapes, strict=True)
        ])  # fmt: skip
    units = np.eye(shape.size)
    found = prior.smoothness.learn(theta, variances, (len(units) * units, units)).amounts
    (inside, nothing), (effect, alone) = found
    assert nothing < 2
    assert alone < 10
    if order == "smooth":
        assert 30 < inside < 300
        assert effect > 50
    else:
        assert inside < 2
        assert effect < 10


def test_attributes_without_a_table_of_their_own_are_not_smooth(smooth):
    release = smooth[1]
    tables = {c: table for c, table in release.tables.items() if c != ("age",)}
    fewer = qf.Release.from_tables(release.domain, tables, noise=qf.Gaussian(20.0), total=5_000)
    assert "age" not in qf.fit(fewer).uncertainty.smoothness


@pytest.fixture(scope="module")
def smooth():
    """A model learned from tables that are smooth along two attributes."""
    random = np.random.default_rng(3)
    x, y = np.linspace(-1, 1, 40), np.linspace(-1, 1, 12)
    domain = qf.Domain({"age": 40, "income": 12, "sex": 2})
    potentials = {
        ("age",): -2 * x**2 + x, ("income",): y - y**2, ("sex",): np.zeros(2),
        ("age", "income"): np.outer(x, 1.5 * y), ("age", "sex"): np.outer(np.sin(3 * x), [0.5, -0.5]),
    }  # fmt: skip
    truth = qf.Model(domain, potentials)
    tables = {c: 5_000 * table + random.normal(0, 20, table.shape) for c, table in truth.marginals().items()}
    release = qf.Release.from_tables(domain, tables, noise=qf.Gaussian(20.0), total=5_000)
    return truth, release, qf.fit(release)


def test_smooth_effects_are_learned_better(smooth, monkeypatch):
    truth, release, model = smooth
    assert model.uncertainty.smoothness["age"][1] > 10
    assert "sex" not in model.uncertainty.smoothness
    with monkeypatch.context() as patch:
        patch.setattr(Smoothness, "learn", lambda self, *_: self)
        plain = qf.fit(release)
    assert not plain.uncertainty.smoothness
    assert truth.kl(model) < 0.75 * truth.kl(plain)


def test_models_of_both_solvers_agree(smooth, monkeypatch):
    truth, release, model = smooth
    problem.shape_of.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(problem, "DENSE", 10_000)
        assert abs(truth.kl(qf.fit(release)) / truth.kl(model) - 1) < 0.1
    problem.shape_of.cache_clear()


def test_climbs_of_large_problems_get_as_far(smooth, monkeypatch):
    """By quasi-Newton steps, in single precision."""
    truth, release, model = smooth
    for module in (default, prior):
        monkeypatch.setattr(module, "_LARGE", sum(table.size for table in release.tables.values()) - 1)
    large = qf.fit(release)
    assert large.report.steps != model.report.steps
    assert large.report.objective > model.report.objective - 0.3
    assert abs(truth.kl(large) / truth.kl(model) - 1) < 0.02


def test_a_model_keeps_the_smoothness_for_its_error_bars(smooth, tmp_path):
    model = smooth[2]
    model.save(tmp_path / "model.qfm")
    loaded = qf.load(tmp_path / "model.qfm")
    assert loaded.uncertainty == model.uncertainty
    kept = covariance_of(loaded)
    for position, name in enumerate(model.domain):
        expected = model.uncertainty.smoothness.get(name, (0.0, 0.0))
        assert tuple(kept.prior.smoothness.amounts[:, position]) == expected
    low, high = loaded.interval("age")
    assert np.isfinite([low, high]).all()
    earlier = {key: value for key, value in model.uncertainty.to_json().items() if key != "smoothness"}
    assert Uncertainty.from_json(earlier).smoothness == {}
    with pytest.raises(Error, match="not negative"):
        Uncertainty.from_json({**earlier, "smoothness": {"age": [-1.0, 0.0]}})
    strange = Uncertainty.from_json({**earlier, "smoothness": {"height": [1.0, 0.0]}})
    with pytest.raises(Error, match="other attributes"):
        strange.check(model.domain, model.cliques)
