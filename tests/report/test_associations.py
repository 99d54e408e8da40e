"""Cramér's V, mutual information and ratios, and which pairs are looked at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import quietfield as qf
from quietfield.output.report import associations
from tests.report.examples import pair

tables = arrays(
    float, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6), elements=st.floats(0, 1, allow_subnormal=False)
).filter(lambda t: t.sum() > 1e-3)


@given(tables)
def test_measures_have_their_ranges(table):
    p = table / table.sum()
    assert 0 <= associations.cramers_v(p) <= 1
    assert associations.cramers_v(p) == pytest.approx(associations.cramers_v(p.T), abs=1e-9)
    assert 0 <= associations.mutual_information(p) <= np.log2(min(p.shape)) + 1e-9


@given(tables)
def test_independence_is_no_association(table):
    p = associations.expect_independent(table / table.sum())
    assert associations.cramers_v(p) == pytest.approx(0, abs=1e-6)
    assert associations.mutual_information(p) == pytest.approx(0, abs=1e-9)
    ratios = associations.ratios(p)
    np.testing.assert_allclose(ratios[np.isfinite(ratios)], 1, rtol=1e-6)


def test_known_values():
    p = np.array([[0.30, 0.10], [0.10, 0.50]])
    # phi of a two by two table: (ad - bc) / sqrt of the product of its margins
    phi = (0.30 * 0.50 - 0.10 * 0.10) / np.sqrt(0.4 * 0.6 * 0.4 * 0.6)
    assert associations.cramers_v(p) == pytest.approx(phi)
    assert associations.cramers_v(np.eye(3) / 3) == pytest.approx(1)
    assert associations.mutual_information(np.eye(4) / 4) == pytest.approx(2)


@given(tables.filter(lambda t: min(t.shape) > 1 and t.min() > 0.01))
def test_slopes_are_those_of_v(table):
    p = table / table.sum()
    if associations.cramers_v(p) < 0.05:
        return  # V has a kink at 0
    slopes = associations.slopes(p)
    move = np.random.default_rng(0).normal(size=p.shape) * p
    move -= p * move.sum()  # stays a distribution, to first order
    step = 1e-6
    ahead, behind = p + step * move, p - step * move
    rise = (associations.cramers_v(ahead / ahead.sum()) - associations.cramers_v(behind / behind.sum())) / (2 * step)
    assert float((slopes * move).sum()) == pytest.approx(rise, rel=1e-3, abs=1e-6)


def test_an_interval_of_v_holds_it_and_reaches_0_where_noise_explains_it():
    p = np.array([[0.30, 0.20], [0.18, 0.32]])
    v = associations.cramers_v(p)
    low, high = associations.v_interval(p, 0.05, np.full(p.shape, 0.01))
    assert 0 < low < v < high < 1
    assert associations.v_interval(p, 0.05, np.full(p.shape, 0.1))[0] == 0


def test_pairs_that_no_clique_joins_are_inferred_and_the_likeliest_come_first():
    domain = qf.Domain(dict.fromkeys("abcde", 3))
    _, model = pair(domain, qf.structures.chain(domain))
    joined = associations.joined_pairs(model)
    assert joined == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    strength = {("a", "b"): 0.9, ("b", "c"): 0.1, ("c", "d"): 0.5, ("d", "e"): 0.8}
    assert associations.inferred_pairs(model, strength) == [("c", "e"), ("a", "c"), ("b", "d")]
    loopy = qf.Model(domain, model.potentials, inference="loopy")
    assert associations.inferred_pairs(loopy, strength) == []
    assert associations.joint(loopy, ("a", "c")) is None


def test_the_strengths_of_all_pairs_at_once_are_those_one_by_one():
    domain = qf.Domain({"a": 3, "b": 2, "c": 40, "d": 4, "e": 2, "f": 3}, impossible=[{"a": 0, "b": 1}])
    _, model = pair(domain, [("a", "b", "c"), ("c", "d"), ("d", "a"), ("e",)])
    found = associations.all_strengths(model)
    names = list(domain)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j:
                assert found[i, j] == pytest.approx(associations.cramers_v(model.marginal((a, b))), abs=1e-7)
    assert associations.all_strengths(qf.Model(domain, model.potentials, inference="loopy")) is None
