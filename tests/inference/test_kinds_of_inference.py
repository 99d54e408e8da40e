"""Every kind of inference against enumeration; exact inference also against pgmpy and on long models."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield import inference, structures
from quietfield.errors import Error, TooLarge
from quietfield.inference.exact import KERNELS, Exact
from tests.brute_force import COMPILED, joint, marginal, models


def close(found, domain, potentials, tolerance):
    p, log_z = joint(domain, potentials)
    assert found.log_z == pytest.approx(log_z, abs=tolerance * max(1.0, abs(log_z)))
    for clique in potentials:
        np.testing.assert_allclose(found.marginals[clique], marginal(domain, p, clique), atol=tolerance)


@COMPILED
@given(models(scales=(0.0, 1.0, 30.0, 300.0)))
def test_exact_equals_enumeration(model):
    close(inference.infer(*model), *model, 1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@COMPILED
@given(model=models(scales=(0.0, 1.0, 8.0)))
def test_every_kernel_equals_enumeration(kernel, model):
    domain, potentials = model
    engine = Exact.of(domain, tuple(potentials))
    mu, log_z = engine.run(engine.layout.pack(potentials), kernel)
    p, expected = joint(domain, potentials)
    assert float(log_z) == pytest.approx(expected, abs=1e-9)
    for clique, table in engine.layout.unpack(mu).items():
        np.testing.assert_allclose(table, marginal(domain, p, clique), atol=1e-10)


@pytest.mark.parametrize("kind", inference.KINDS)
@COMPILED
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([0.5, 3.0]))
def test_every_kind_on_any_model(kind, seed, scale):
    """On trees every kind is exact (up to its tolerance); on any graph it gives distributions."""
    random = np.random.default_rng(seed)
    domain = qf.Domain({f"x{i}": size for i, size in enumerate([3, 2, 1, 4, 2, 3])})
    for structure, is_tree in ((structures.tree(domain, seed=4), True), (structures.grid(domain, 2), False)):
        potentials = {c: random.uniform(-scale, scale, domain.table_shape(c)) for c in structure}
        found = inference.infer(domain, potentials, kind)
        p, log_z = joint(domain, potentials)
        for clique, table in found.marginals.items():
            assert table.sum() == pytest.approx(1)
            assert (table >= 0).all()
            if kind == "exact" or is_tree:
                np.testing.assert_allclose(table, marginal(domain, p, clique), atol=1e-6)
        if kind == "convex":
            assert found.log_z >= log_z - 1e-6  # the reweighted free energy bounds log Z from above
        elif kind == "exact" or is_tree:
            assert found.log_z == pytest.approx(log_z, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loopy", "convex"])
@COMPILED
@given(model=models(scales=(1.0,)))
def test_loopy_kinds_on_awkward_models(kind, model):
    """Unequal sizes, nested cliques and impossible combinations: distributions, with zeros where they must be."""
    domain, potentials = model
    found = inference.infer(domain, potentials, kind)
    for clique, table in found.marginals.items():
        assert np.isfinite(table).all()
        assert table.sum() == pytest.approx(1)
        for scope, mask in domain.masks:
            if set(scope) == set(clique):
                assert (table[~mask.transpose([scope.index(name) for name in clique])] == 0).all()
    if kind == "convex" and found.converged:
        assert found.log_z >= joint(domain, potentials)[1] - 1e-5


@COMPILED
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([0.05, 0.2]))
def test_loopy_is_close_where_interactions_are_weak(seed, scale):
    random = np.random.default_rng(seed)
    domain = qf.Domain({f"x{i}": 3 for i in range(6)})  # one structure: compiled once
    potentials = {c: random.uniform(-scale, scale, (3, 3)) for c in structures.grid(domain, 2)}
    p, log_z = joint(domain, potentials)
    for kind in ("loopy", "convex"):
        found = inference.infer(domain, potentials, kind)
        assert found.converged
        assert found.log_z == pytest.approx(log_z, abs=0.02)
        for clique, table in found.marginals.items():
            np.testing.assert_allclose(table, marginal(domain, p, clique), atol=0.02)


def test_a_batch_equals_its_members():
    domain = qf.Domain({"a": 2, "b": 3, "c": 2})
    random = np.random.default_rng(0)
    many = {c: random.normal(size=(4, *domain.table_shape(c))) for c in (("b", "a"), ("c", "b"), ("c",))}
    for kind in inference.KINDS:
        tables, log_z = inference.marginals(domain, many, kind, batch=True)
        for i in range(4):
            one, one_log_z = inference.marginals(domain, {c: t[i] for c, t in many.items()}, kind)
            assert log_z[i] == pytest.approx(one_log_z, abs=1e-7)
            for clique in one:
                np.testing.assert_allclose(tables[clique][i], one[clique], atol=1e-7)


@pytest.mark.parametrize("order", [1, 3])
def test_long_chains_run_as_one_loop(order):
    """The loop over equal steps gives what a plain forward-backward recursion gives."""
    domain = qf.Domain({f"x{i}": 3 for i in range(60)})
    random = np.random.default_rng(order)
    potentials = {c: random.normal(size=(3, 3)) for c in structures.chain(domain, order)}
    engine = Exact.of(domain, tuple(potentials))
    assert max(len(block.steps) for block in engine.blocks) > 40
    found = inference.infer(domain, potentials)  # by numpy, which shares no code with the loop
    for kernel in KERNELS:
        mu, log_z = engine.run(engine.layout.pack(potentials), kernel)
        assert float(log_z) == pytest.approx(found.log_z, rel=1e-12)
        for clique, table in engine.layout.unpack(mu).items():
            np.testing.assert_allclose(table, found.marginals[clique], atol=1e-12)
    if order == 1:
        tables = [potentials[f"x{i}", f"x{i + 1}"] for i in range(59)]
        forward = [np.zeros(3)]
        for table in tables:
            forward.append(np.logaddexp.reduce(forward[-1][:, None] + table, axis=0))
        backward = [np.zeros(3)]
        for table in reversed(tables):
            backward.insert(0, np.logaddexp.reduce(table + backward[0][None, :], axis=1))
        log_z = np.logaddexp.reduce(forward[-1])
        assert found.log_z == pytest.approx(log_z)
        for i, table in enumerate(tables):
            expected = np.exp(forward[i][:, None] + table + backward[i + 1][None, :] - log_z)
            np.testing.assert_allclose(found.marginals[f"x{i}", f"x{i + 1}"], expected, atol=1e-12)


def test_side_branches_and_masks_in_a_long_chain():
    """A hidden Markov chain whose leaves hang off the loop, with some transitions impossible."""
    names = [f"h{i}" for i in range(30)] + [f"o{i}" for i in range(30)]
    rules = [{f"h{i}": 0, f"h{i + 1}": 1} for i in range(29)]
    domain = qf.Domain(dict.fromkeys(names, 2), rules)
    random = np.random.default_rng(5)
    cliques = [(f"h{i}", f"h{i + 1}") for i in range(29)] + [(f"o{i}", f"h{i}") for i in range(30)]
    potentials = {c: random.normal(size=(2, 2)) for c in cliques}
    engine = Exact.of(domain, cliques)
    assert any(block.carried is not None for block in engine.blocks)
    found = engine.layout.unpack(engine.run(engine.layout.pack(potentials))[0])
    model = qf.Model(domain, potentials)
    for clique in cliques:
        expected = model.marginal(clique)  # by numpy, which shares no code with the loop
        np.testing.assert_allclose(found[clique], expected, atol=1e-12)
        assert found[clique].sum() == pytest.approx(1)
    assert found["h3", "h4"][0, 1] == 0


def test_the_kernel_is_chosen_for_the_numbers():
    domain = qf.Domain({f"x{i}": 3 for i in range(40)})
    engine = Exact.of(domain, structures.chain(domain))
    theta = np.zeros(engine.layout.size)
    assert engine.kernel(theta) == "plain"
    spread = np.tile([0.0, *[40.0] * 8], 39)
    assert engine.kernel(spread) == "scaled"  # 39 x 40 in all, but no more than 80 in any step
    assert engine.kernel(10 * spread) == "log"
    assert engine.kernel((1.1 * spread).astype(np.float32)) == "log"


def test_offsets_cancel():
    domain = qf.Domain({"a": 3, "b": 2})
    table = np.random.default_rng(0).normal(size=(3, 2))
    low, high = (inference.infer(domain, {("a", "b"): table + shift}) for shift in (0.0, 5000.0))
    np.testing.assert_allclose(low.marginals["a", "b"], high.marginals["a", "b"], atol=1e-9)
    assert high.log_z - low.log_z == pytest.approx(5000)


def test_what_does_not_fit_is_refused_with_its_figures():
    domain = qf.Domain({f"x{i}": 10 for i in range(900)})
    grid = structures.grid(domain, 30)
    with pytest.raises(TooLarge, match=r"treewidth is at most \d+.*loopy"):
        inference.infer(domain, {c: np.zeros((10, 10)) for c in grid})


def test_loopy_reports_when_it_does_not_converge():
    """A frustrated model: strong repulsion on a complete graph, which sum-product cannot settle in a few rounds."""
    domain = qf.Domain({f"x{i}": 2 for i in range(6)})
    random = np.random.default_rng(1)
    potentials = {
        c: random.choice([-6.0, 6.0]) * np.eye(2) + random.normal(size=(2, 2)) for c in structures.complete(domain)
    }
    found = inference.infer(domain, potentials, "loopy", iterations=5)
    assert not found.converged
    assert found.residual > 0
    assert "iterations" in found.advice
    with pytest.warns(inference.NotConverged, match="still moving"):
        inference.marginals(domain, potentials, "loopy", iterations=5)


@pytest.mark.parametrize(
    ("potentials", "message"),
    [
        ({("a", "z"): np.zeros((2, 2))}, "'z' is not an attribute"),
        ({("a", "a"): np.zeros((2, 2))}, "names an attribute twice"),
        ({("a", "b"): np.zeros((2, 2)), ("b", "a"): np.zeros((2, 2))}, "is there twice"),
        ({("a", "b"): np.zeros((2, 3))}, r"shape \(2, 3\); expected \(2, 2\)"),
        ({("a", "b"): [[0, np.nan], [0, 0]]}, "NaN, infinite"),
        ({("a", "b"): [[0, -np.inf], [0, 0]]}, "NaN, infinite"),
        ({("a", "b"): [["x", "y"], ["z", "w"]]}, "real numbers"),
    ],
)
def test_bad_potentials_are_refused(potentials, message):
    domain = qf.Domain({"a": 2, "b": 2})
    with pytest.raises(Error, match=message):
        inference.marginals(domain, potentials)
    with pytest.raises(Error, match=message):
        qf.Model(domain, potentials)


def test_an_unknown_kind_is_refused():
    with pytest.raises(Error, match="'magic' is not a kind of inference; expected one of 'exact'"):
        inference.marginals(qf.Domain({"a": 2}), {}, "magic")


def test_a_domain_without_possible_records_is_refused():
    rules = [{"a": 0, "b": [0, 1]}, {"a": 1, "c": [0, 1]}]
    domain = qf.Domain({"a": 2, "b": 2, "c": 2}, rules)
    for kind in inference.KINDS:
        with pytest.raises(Error, match="no possible record"):
            inference.marginals(domain, {("a", "b"): np.zeros((2, 2)), ("a", "c"): np.zeros((2, 2))}, kind)


def test_the_callers_jax_settings_are_left_alone():
    import jax
    import jax.numpy as jnp

    inference.marginals(qf.Domain({"a": 2}), {("a",): [0.0, 1.0]})
    assert not jax.config.jax_enable_x64
    assert jnp.ones(2).dtype == jnp.float32


def test_float32_is_close_and_needs_no_float64():
    domain = qf.Domain({f"x{i}": 5 for i in range(6)})
    random = np.random.default_rng(0)
    potentials = {c: random.normal(size=(5, 5)) for c in structures.chain(domain, 2)}
    double, single = (inference.infer(domain, potentials, dtype=kind) for kind in ("float64", "float32"))
    for clique, table in single.marginals.items():
        assert table.dtype == np.float32
        np.testing.assert_allclose(table, double.marginals[clique], atol=1e-5)


def test_no_warning_where_all_went_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inference.marginals(qf.Domain({"a": 2, "b": 2}), {("a", "b"): np.eye(2)}, "loopy")


@pytest.mark.parametrize(
    ("count", "build"),
    [(41, structures.star), (6, lambda d: structures.complete(d, 3)), (120, lambda d: structures.tree(d, seed=1))],
)
def test_hubs_are_no_trouble(count, build):
    """Many tables that meet in one step: the order of their products must not be searched exhaustively."""
    domain = qf.Domain({f"x{i}": 3 for i in range(count)})
    random = np.random.default_rng(0)
    potentials = {c: random.normal(size=domain.table_shape(c)) for c in build(domain)}
    engine = Exact.of(domain, tuple(potentials))
    found = engine.layout.unpack(engine.run(engine.layout.pack(potentials))[0])
    expected = inference.infer(domain, potentials).marginals  # by numpy
    for clique, table in found.items():
        np.testing.assert_allclose(table, expected[clique], atol=1e-12)


def test_masks_that_make_cells_sum_unequal_numbers_of_terms():
    """Once in state 1, always in state 1, and it starts there: one record, among 4^800 terms elsewhere."""
    count = 800
    rules = [{f"x{i}": 1, f"x{i + 1}": [0, 2, 3]} for i in range(count - 1)] + [{"x0": [0, 2, 3]}]
    domain = qf.Domain({f"x{i}": 4 for i in range(count)}, rules)
    found = inference.infer(domain, {(f"x{i}", f"x{i + 1}"): np.zeros((4, 4)) for i in range(count - 1)})
    assert found.log_z == pytest.approx(0, abs=1e-9)
    assert found.marginals["x0", "x1"][1, 1] == pytest.approx(1)


def test_masks_tie_factors_far_below_to_a_step():
    """All attributes equal by decree: their potentials add up along the chain, and must not underflow."""
    names = [f"x{i}" for i in range(22)]
    rules = [{a: i, b: 1 - i} for a, b in pairwise(names) for i in (0, 1)]
    domain = qf.Domain(dict.fromkeys(names, 2), rules)
    potentials = {(name,): [0.0, -130.0 if i < 11 else 130.0] for i, name in enumerate(names)}
    np.testing.assert_allclose(inference.infer(domain, potentials).marginals[("x0",)], 0.5)


def test_results_cannot_be_changed_from_outside():
    domain = qf.Domain({"a": 2, "b": 2, "c": 2})
    model = qf.Model(domain, {("b", "a"): np.eye(2), ("c", "b"): np.eye(2)})
    for table in (*model.marginals().values(), *model.potentials.values(), model.marginal(("a", "b"))):
        if table.flags.writeable:  # a copy, then: changing it changes nothing
            table[...] = 7
        else:
            with pytest.raises(ValueError, match="read-only"):
                table[...] = 7
    with pytest.raises(TypeError):
        model.potentials["b", "a"] = np.zeros((2, 2))
    np.testing.assert_allclose(model.marginal("a"), 0.5)


def test_float32_messages_settle_too():
    domain = qf.Domain({f"x{i}": 3 for i in range(8)})
    random = np.random.default_rng(0)
    potentials = {c: random.normal(size=(3, 3)) for c in structures.tree(domain, 0)}
    assert inference.infer(domain, potentials, "loopy", dtype="float32").converged


def test_a_batch_that_would_not_fit_is_refused():
    domain = qf.Domain({f"x{i}": 60 for i in range(8)})
    theta = {c: np.zeros((60, 60)) for c in structures.chain(domain, 3)}
    engine = Exact.of(domain, tuple(theta))
    with pytest.raises(TooLarge, match="a smaller batch"):
        engine.plan.check_memory(rows=100_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: inference.engine(d, 5), "expected a list of cliques"),
        (lambda d: inference.infer(d, {("a",): [0.0, 1e300]}), "absurdly large"),
        (lambda d: inference.infer(d, {"a": np.zeros(3)}), r"the table of \('a',\) has shape \(3,\); expected \(2,\)"),
        (lambda d: inference.infer(d, {("a",): [0, 1]}, dtype="float16"), "float64 or float32"),
        (lambda d: inference.infer(d, {("a",): np.zeros((0, 2))}, batch=True), "at least one row"),
        (lambda d: inference.infer(d, {("a",): [0, 1]}, "loopy", damping=1.0), "damping"),
        (lambda d: inference.infer(d, {("a",): [0, 1]}, "exact", damping=0.5), "'damping': 'exact' inference takes no"),
        (lambda d: qf.Model(d, {("a",): [0, 1]}, inference="loopy", options={"bogus": 1}), "'bogus'"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(Error, match=message):
        call(qf.Domain({"a": 2, "b": 2}))


def test_lists_of_lists_are_cliques_too():
    domain = qf.Domain({"a": 2, "b": 2})
    assert inference.engine(domain, [["a", "b"]]) is inference.engine(domain, [("a", "b")])
