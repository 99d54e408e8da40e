"""Exact inference without a compiler, against brute force."""

from itertools import combinations, pairwise, permutations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quietfield as qf
from quietfield.inference import tree as trees
from quietfield.inference.sparse import SparseDerivative
from quietfield.inference.tree import Tree


def brute_force(domain, potentials):
    """(joint distribution, log Z, matrix of indicators of all cells of all tables)."""
    codes = np.indices(domain.shape).reshape(len(domain), -1)
    log_joint = np.zeros(codes.shape[1])
    columns = []
    for clique, table in potentials.items():
        at = np.ravel_multi_index([codes[domain.position(name)] for name in clique], table.shape)
        log_joint += table.ravel()[at]
        columns.append(np.eye(table.size)[at])
    for clique, mask in domain.masks:
        log_joint[~mask[tuple(codes[domain.position(name)] for name in clique)]] = -np.inf
    joint = np.exp(log_joint - log_joint.max())
    return joint / joint.sum(), log_joint.max() + np.log(joint.sum()), np.concatenate(columns, axis=1)


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    names = [f"x{i}" for i in range(len(sizes))]
    sets = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    cliques = draw(st.lists(sets, min_size=1, max_size=6, unique_by=frozenset))
    zeros = [{"x0": [0], "x1": [0]}] if len(sizes) > 1 and min(sizes[:2]) > 1 and draw(st.booleans()) else []
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    domain = qf.Domain(dict(zip(names, sizes, strict=True)), zeros)
    scale = draw(st.sampled_from([0.0, 1.0, 30.0]))
    return domain, {tuple(c): scale * random.normal(size=domain.table_shape(c)) for c in cliques}


@settings(max_examples=150, deadline=None)
@given(problems())
def test_marginals_log_z_and_covariance_are_those_of_the_joint_distribution(problem):
    domain, potentials = problem
    joint, log_z, cells = brute_force(domain, potentials)
    tree = Tree.of(domain, tuple(potentials))
    theta = tree.layout.pack(potentials)
    found = tree.calibrate(theta)
    mean = joint @ cells
    np.testing.assert_allclose(found.shares, mean, atol=1e-12)
    assert found.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    covariance = (cells * joint[:, None]).T @ cells - np.outer(mean, mean)
    np.testing.assert_allclose(found.along(np.eye(len(theta))), covariance, atol=1e-12)
    np.testing.assert_allclose(SparseDerivative(found).along(np.eye(len(theta))), covariance, atol=1e-12)
    np.testing.assert_allclose(found.along(np.eye(len(theta), dtype=np.float32)), covariance, atol=1e-5)
    # A batch of parameters gives what each gives alone, and so do directions.
    both = tree.calibrate(np.stack([theta, 0.5 * theta]))
    np.testing.assert_allclose(both.shares[0], found.shares, atol=1e-14)
    np.testing.assert_allclose(both.along(np.stack([theta, theta]))[0], covariance @ theta, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_tables_that_are_collected_give_the_same(problem):
    domain, potentials = problem
    joint, log_z, cells = brute_force(domain, potentials)
    with mock.patch.multiple(trees, _SPARED=1, _PART=0.95):
        tree = trees._tree.__wrapped__(domain, tuple(potentials))
    found = tree.calibrate(tree.layout.pack(potentials))
    mean = joint @ cells
    covariance = (cells * joint[:, None]).T @ cells - np.outer(mean, mean)
    np.testing.assert_allclose(found.shares, mean, atol=1e-12)
    assert found.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.along(np.eye(len(mean))), covariance, atol=1e-12)
    np.testing.assert_allclose(SparseDerivative(found).along(np.eye(len(mean))), covariance, atol=1e-12)
    wanted = (*range(len(domain)),)
    np.testing.assert_allclose(found.joint(wanted).ravel(), joint, atol=1e-12)


def test_a_large_bag_collects_its_tables():
    """All pairs of twelve attributes lie in one bag of 4,096 cells: a few passes over it do, not 66."""
    domain = qf.Domain({f"x{i}": 2 for i in range(12)})
    tree = Tree.of(domain, tuple(combinations(domain, 2)))
    largest = max(tree.bags, key=lambda bag: np.prod(bag.shape))
    assert len(tree.bags) > 1
    assert len(largest.factors) + len(tree.bags) - 1 < 15
    model = qf.Model(domain, {c: np.random.default_rng(i).normal(size=(2, 2)) for i, c in enumerate(tree.plan.cliques)})
    joint, _, cells = brute_force(domain, dict(model.potentials))
    np.testing.assert_allclose(tree.calibrate(tree.layout.pack(model.potentials)).shares, joint @ cells, atol=1e-12)
    # Records are drawn from the same tree: within six standard errors, 4,096 cells, two false alarms in a million runs
    # were the seed not given.
    drawn = np.ravel_multi_index(model.sample(100_000, seed=1).codes.T, domain.shape)
    counts = np.bincount(drawn, minlength=joint.size)
    assert (np.abs(counts - 100_000 * joint) < 6 * np.sqrt(100_000 * joint) + 6).all()


def test_scatter_has_the_covariance_of_a_record():
    """Each entry of the sample covariance of 40,000 draws lies within 5.5 standard deviations: one false alarm in a
    hundred thousand runs."""
    domain = qf.Domain({"a": 2, "b": 3, "c": 2, "d": 3})
    random = np.random.default_rng(7)
    cliques = (("a", "b"), ("b", "c"), ("d", "c"), ("b", "d"), ("a",))
    tree = Tree.of(domain, cliques)
    found = tree.calibrate(random.normal(size=tree.layout.size))
    covariance = found.along(np.eye(tree.layout.size))
    many = 40_000
    drawn = np.stack([found.scatter(random) for _ in range(many)])
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / many)
    assert (np.abs(drawn.T @ drawn / many - covariance) < 5.5 * spread + 1e-12).all()
    # With each table drawn for itself, as a wrong implementation might, the covariances between tables are missed.
    apart = np.where(np.add.outer(np.arange(len(covariance)) < 6, np.arange(len(covariance)) < 6) == 1, 0.0, covariance)
    assert not (np.abs(drawn.T @ drawn / many - apart) < 5.5 * spread + 1e-12).all()


def test_many_small_bags_take_sparse_matrices():
    """A chain whose ends no test of few attributes reaches, against powers of its matrix."""
    names = [f"x{i}" for i in range(60)]
    chain = tuple(pairwise(names))
    tree = Tree.of(qf.Domain(dict.fromkeys(names, 2)), chain)
    assert tree.scattered
    table = np.array([[0.9, 0.0], [0.0, 0.9]])  # symmetric: all values are equally likely
    found = tree.calibrate(tree.layout.pack(dict.fromkeys(chain, table)))
    direction = tree.layout.pack({c: np.array([[1.0, 1.0], [0.0, 0.0]]) * (c[0] == "x0") for c in chain})
    moved = tree.layout.split(found.along(direction[None]))
    for i, clique in enumerate(chain):  # Cov(x0 = 0, xi = 0) = tanh(0.45)^i / 4
        assert moved[clique][0, 0].sum() == pytest.approx(np.tanh(0.45) ** i / 4, rel=1e-10)
    together = tree.calibrate(found.shares[None] * 0 + tree.layout.pack(dict.fromkeys(chain, table)))
    np.testing.assert_allclose(together.along(direction[None]), found.along(direction[None]), atol=1e-12)


def test_no_parameters_are_too_large():
    domain = qf.Domain({"a": 2, "b": 2, "c": 2})
    tree = Tree.of(domain, (("a", "b"), ("b", "c")))
    found = tree.calibrate(np.array([1e6, 0, 0, 1e6, -1e6, 0, 0, -1e6]))
    np.testing.assert_allclose(found.shares, [0.5, 0, 0, 0.5, 0, 0.5, 0.5, 0], atol=1e-12)
    assert found.log_z == pytest.approx(1e6 + np.log(2))


def test_products_of_many_tables_never_loop_over_all_of_their_axes():
    """Marginals across bags: one loop over these nine axes would take minutes, and pairs of tables take moments."""
    random = np.random.default_rng(0)
    sizes = (*[10] * 6, *[40] * 3)
    scopes = ((0, 1, 2, 3, 4, 5), (3, 0, 6), (0, 1, 2, 5, 7), (0, 1, 4, 5, 8))
    terms = [(random.random([sizes[v] for v in scope]), scope) for scope in scopes]
    found = trees._contract(sizes, terms, (8, 6, 7))
    whole, first, second, third = (table for table, _ in terms)
    for i, j, k in ((0, 0, 0), (3, 39, 17)):
        expected = np.einsum(
            "abcdef,da,abcf,abef->", whole, first[..., j], second[..., k], third[..., i], optimize=True
        )
        assert np.isclose(found[i, j, k], expected)


def test_joint_distributions_by_inference_for_each_value(monkeypatch):
    random = np.random.default_rng(1)
    domain = qf.Domain({"a": 3, "b": 2, "c": 4, "d": 3, "e": 2}, impossible=[{"a": 0, "b": 1}])
    cliques = [("b", "a"), ("b", "c"), ("c", "d"), ("a", "d")]  # nothing is known of e
    model = qf.Model(domain, {c: random.normal(size=domain.table_shape(c)) for c in cliques})
    every = [wanted for k in (2, 3, 4) for wanted in permutations("abcde", k)]
    expected = {wanted: model.marginal(wanted) for wanted in every}
    assert all(Tree.of(domain, cliques).plan_joint(tuple(map(domain.position, w)))[1] is None for w in every)
    monkeypatch.setattr(trees, "_DIRECT", 0)
    monkeypatch.setattr(trees, "_INFERENCE", 0)
    Tree.plan_joint.cache_clear()
    went = []
    given = trees.Calibrated._given
    monkeypatch.setattr(trees.Calibrated, "_given", lambda self, *asked: went.append(asked) or given(self, *asked))
    for wanted in every:
        np.testing.assert_allclose(model.marginal(wanted), expected[wanted], atol=1e-12)
    Tree.plan_joint.cache_clear()
    assert len(went) > 50
