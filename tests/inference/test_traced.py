"""JAX differentiates, batches and compiles through exact marginals: against finite differences and enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import quietfield as qf
from quietfield import inference
from quietfield.errors import Error, TooLarge
from tests.brute_force import joint, marginal, models

FEW = settings(max_examples=15, deadline=None)


@pytest.mark.slow
@FEW
@given(models(scales=(1.0, 3.0), most_attributes=4), st.integers(0, 2**32))
def test_gradients_equal_finite_differences_of_enumeration(parts, seed):
    """Of a random weighing of all marginals and log Z, with impossible combinations."""
    domain, potentials = parts
    assume(potentials)
    random = np.random.default_rng(seed)
    weights = {clique: random.normal(size=table.shape) for clique, table in potentials.items()}

    def weigh(potentials):
        tables, log_z = inference.marginals(domain, potentials)
        return sum((weights[c] * tables[c]).sum() for c in potentials) + 0.3 * log_z

    def enumerated(potentials):
        p, log_z = joint(domain, potentials)
        return sum((weights[c] * marginal(domain, p, c)).sum() for c in potentials) + 0.3 * log_z

    with jax.enable_x64(True):
        value, slopes = jax.value_and_grad(weigh)({c: jnp.asarray(table) for c, table in potentials.items()})
    assert float(value) == pytest.approx(enumerated(potentials), abs=1e-10)
    step = 1e-5
    for clique, table in potentials.items():
        assert slopes[clique].dtype == np.float64
        for cell in np.ndindex(table.shape):
            moved = [{c: np.array(t) for c, t in potentials.items()} for _ in range(2)]
            moved[0][clique][cell] += step
            moved[1][clique][cell] -= step
            numeric = (enumerated(moved[0]) - enumerated(moved[1])) / (2 * step)
            assert float(slopes[clique][cell]) == pytest.approx(numeric, abs=1e-7)


def test_the_gradient_of_log_z_is_the_marginals_also_on_long_models():
    """A chain of 60 attributes, whose steps run as a loop, and tables whose axes stand in another order."""
    domain = qf.Domain({f"x{i}": 3 for i in range(60)})
    random = np.random.default_rng(0)
    potentials = {(f"x{i + 1}", f"x{i}"): random.normal(size=(3, 3)) for i in range(59)}
    expected, log_z = inference.marginals(domain, potentials)
    with jax.enable_x64(True):
        traced = jax.jit(lambda potentials: inference.marginals(domain, potentials))
        call = jax.value_and_grad(lambda potentials: inference.marginals(domain, potentials)[1])
        value, slopes = call({c: jnp.asarray(table) for c, table in potentials.items()})
        tables, again = traced({c: jnp.asarray(table) for c, table in potentials.items()})
    assert float(value) == pytest.approx(log_z)
    assert float(again) == pytest.approx(log_z)
    for clique, table in expected.items():
        np.testing.assert_allclose(slopes[clique], table, atol=1e-10)
        np.testing.assert_allclose(tables[clique], table, atol=1e-10)


def test_batches_and_the_callers_precision():
    domain = qf.Domain({"a": 2, "b": 2})
    many = np.random.default_rng(1).normal(size=(5, 2, 2)).astype(np.float32)
    found, log_z = jax.vmap(lambda theta: inference.marginals(domain, {("a", "b"): theta}))(many)
    assert found["a", "b"].dtype == np.float32
    for theta, table, value in zip(many, found["a", "b"], log_z, strict=True):
        expected, log = inference.marginals(domain, {("a", "b"): theta})
        np.testing.assert_allclose(table, expected["a", "b"], atol=1e-6)
        assert float(value) == pytest.approx(log, abs=1e-5)


@pytest.mark.slow
def test_what_cannot_be_traced_is_refused_with_the_remedy():
    domain = qf.Domain({"a": 2, "b": 2})

    def grad(potentials, **options):
        jax.grad(lambda potentials: inference.marginals(domain, potentials, **options)[1])(potentials)

    with pytest.raises(Error, match="exact inference alone"):
        grad({("a", "b"): jnp.zeros((2, 2))}, inference="loopy")
    with pytest.raises(Error, match=r"jax\.vmap"):
        grad({("a", "b"): jnp.zeros((2, 2, 2))}, batch=True)
    with pytest.raises(Error, match=r"has shape \(2,\); expected \(2, 2\)"):
        grad({("a", "b"): jnp.zeros(2)})
    grid = qf.structures.grid([f"x{i}" for i in range(900)], columns=30)
    domain = qf.Domain(dict.fromkeys(grid.attributes, 2))
    with pytest.raises(TooLarge, match="at most"):
        grad({c: jnp.zeros((2, 2)) for c in grid})
