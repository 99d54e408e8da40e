"""Linear response of loopy inference: against differences of its marginals, exact inference on trees, and by draws."""

import numpy as np
import pytest

import quietfield as qf
from quietfield import structures
from quietfield.errors import Error
from quietfield.inference import engine
from quietfield.inference.tree import Tree

DOMAIN = qf.Domain({"a": 2, "b": 3, "c": 2, "d": 4, "e": 1})
#: A loop with a table of three, nested tables, one of one value, and impossible combinations that no clique holds.
LOOP = (("a", "b"), ("c", "b", "a"), ("d", "c"), ("a", "d"), ("d",), ("e",))
BARRED = qf.Domain({"a": 2, "b": 3, "c": 2, "d": 4, "e": 1}, impossible=[{"b": [0], "d": [3]}, {"a": [0], "d": [1]}])


def compiled(kind, domain=DOMAIN, cliques=LOOP, seed=0):
    """(engine, potentials) of a random model."""
    found = engine(domain, cliques, kind, tolerance=1e-13, iterations=20_000)
    return found, np.random.default_rng(seed).normal(size=found.layout.size)


@pytest.mark.parametrize("kind", ["loopy", "convex"])
@pytest.mark.parametrize("domain", [DOMAIN, BARRED], ids=["all possible", "some impossible"])
def test_the_derivative_is_that_of_differences(kind, domain):
    found, theta = compiled(kind, domain)
    settled = found.settle(theta)
    np.testing.assert_allclose(settled.shares, found.run(theta)[0], atol=1e-12)
    assert settled.log_z == pytest.approx(float(found.run(theta)[1]))
    jacobian = settled.along(np.eye(found.layout.size))
    np.testing.assert_allclose(jacobian, jacobian.T, atol=1e-9)
    for place, row in enumerate(1e-5 * np.eye(found.layout.size)):
        difference = (found.run(theta + row)[0] - found.run(theta - row)[0]) / 2e-5
        np.testing.assert_allclose(jacobian[place], difference, atol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_on_trees_it_is_exact(scale):
    cliques = (("a", "b"), ("c", "b"), ("c", "d"), ("e",))
    found, theta = compiled("loopy", DOMAIN, cliques)
    tree = Tree.of(DOMAIN, cliques)
    places = tree.layout.pack(found.layout.unpack(np.arange(len(theta)))).astype(int)
    expected = tree.calibrate(scale * theta[places]).along(np.eye(len(theta))[places][:, places])
    moved = found.settle(scale * theta).along(np.eye(len(theta)))[places][:, places]
    np.testing.assert_allclose(moved, expected, atol=1e-8)


@pytest.mark.parametrize("kind", ["loopy", "convex"])
def test_scatter_has_the_derivative_for_covariance(kind):
    """Each entry of the sample covariance of 10,000 draws lies within 5.5 standard deviations: one false alarm in a
    hundred thousand runs."""
    found, theta = compiled(kind, BARRED)
    settled = found.settle(theta)
    covariance = settled.along(np.eye(len(theta)))
    many, random = 10_000, np.random.default_rng(1)
    drawn = np.stack([settled.scatter(random) for _ in range(many)])
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / many)
    assert (np.abs(drawn.T @ drawn / many - covariance) < 5.5 * spread + 1e-8).all()


def test_messages_that_did_not_settle_have_no_scatter():
    """Strong couplings around short loops: one message each way is far from any minimum of the free energy."""
    domain = qf.Domain({f"x{i}": 2 for i in range(9)})
    cliques = structures.complete(domain).cliques
    found = engine(domain, cliques, "loopy", iterations=1)
    theta = found.layout.pack({c: np.array([[2.0, 0.0], [0.0, 2.0]]) for c in cliques})
    with pytest.raises(Error, match="loopy inference gives the cells of this model no proper covariance; use exact"):
        found.settle(theta).scatter(np.random.default_rng(0))
