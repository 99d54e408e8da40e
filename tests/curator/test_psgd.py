"""Private gradient descent: gradients and clipping by brute force, sampling, noise, and who pays when."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, kstest

import quietfield as qf
from experiments import psgd_steps
from experiments.psgd import Settings, codes_inside, psgd, psgd_grid
from experiments.psgd_accounting import noise_multiplier, zcdp_price
from experiments.psgd_steps import Draws, Field, run
from quietfield import structures
from quietfield.curator.ledger import Ledger
from quietfield.errors import BudgetExceeded, Error, PolicyRefused, TooLarge
from quietfield.releases.parts import Payment
from tests.brute_force import COMPILED, joint, marginal, models, spread

DOMAIN = qf.Domain({"a": 2, "b": 3, "c": 2})
CHAIN = qf.structures.chain(DOMAIN)
N = 3000
#: Quick to account for: no dp-accounting, and sampling that matters.
QUICK = {"epsilon": 2, "delta": 1e-5, "population": N, "accountant": "moments"}


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(5)
    a = rng.integers(0, 2, N)
    b = np.where(rng.random(N) < 0.6, a, rng.integers(0, 3, N))
    return np.stack([a, b, (b + rng.integers(0, 2, N)) % 2], axis=1)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "z.db", epsilon=8, delta=1e-5, unit=qf.Rows(1), accounting_by="zcdp")


# Gradients


def enumerated_gradients(field, w, codes):
    """The gradient of log p(x; w) for each record, by differentiating an enumeration of the joint distribution."""
    domain, structure = field.domain, field.structure

    def table(w, clique):
        start = field.starts[clique]
        return w[start : start + domain.cells(clique)].reshape(domain.table_shape(clique))

    possible = np.ones(domain.shape, bool)
    for clique, mask in domain.masks:
        possible = possible & spread(domain, clique, mask)

    def log_prob(w, x):
        log_p = jnp.where(possible, 0.0, -1e9)
        for clique in structure.cliques:
            log_p = log_p + spread(domain, clique, table(w, clique))
        scores = sum(table(w, c)[tuple(x[domain.position(a)] for a in c)] for c in structure.cliques)
        return scores - jax.scipy.special.logsumexp(log_p)

    return np.asarray(jax.vmap(jax.grad(log_prob), in_axes=(None, 0))(jnp.asarray(w), jnp.asarray(codes)))


ROWS = 12  # one shape for all, so that a field compiles once


def clipped_sum(field, w, codes, clip):
    """The sum over all records, through the code that the steps use; what is left of the room is padding."""
    with jax.enable_x64(True):
        cells = np.zeros((ROWS + 1, len(field.structure.cliques)), np.int32)
        cells[: len(codes)] = field.cells(codes)
        batch = np.full((2, ROWS // 2), ROWS, np.int32)
        batch.ravel()[: len(codes)] = np.arange(len(codes))
        if not hasattr(field, "summed"):
            field.summed = jax.jit(lambda w, *held: field.clipped_sum(field.expectation(w), *held))
        return np.asarray(field.summed(w, cells, field.squares(cells), batch, clip))


def check_gradients(domain, structure, seed, clip):
    rng = np.random.default_rng(seed)
    field = Field(domain, structure)
    w = rng.normal(size=field.size)
    records = np.stack([rng.integers(0, size, 7) for size in domain.shape], axis=1)
    with jax.enable_x64(True):
        each = enumerated_gradients(field, w, records)
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    expected = (each * np.minimum(1, clip / np.maximum(norms, 1e-300))).sum(0)
    np.testing.assert_allclose(clipped_sum(field, w, records, clip), expected, rtol=1e-7, atol=1e-7)
    assert norms.max() <= sqrt(2) * len(structure.cliques)


@pytest.mark.slow
@COMPILED
@given(models(largest_clique=3), st.integers(0, 2**32), st.sampled_from([0.1, 0.7, 1.5, 1e6]))
def test_the_clipped_sum_is_that_of_gradients_taken_one_by_one(drawn, seed, clip):
    domain, potentials = drawn
    if potentials:
        check_gradients(domain, qf.Structure(tuple(potentials)), seed, clip)


@pytest.mark.parametrize("clip", [0.3, 2.0, 1e6])
def test_tied_tables_share_one_gradient(clip):
    domain = qf.Domain(dict.fromkeys("abcd", 2))
    structure = qf.structures.chain(domain, homogeneous=True)
    assert Field(domain, structure).size == 2 + 4
    for seed in range(3):
        check_gradients(domain, structure, seed, clip)


@pytest.fixture(scope="module")
def small_field():
    return Field(DOMAIN, CHAIN)


records = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=ROWS)


@given(records, st.integers(0, 2**32), st.floats(1e-3, 3))
def test_one_record_moves_the_clipped_sum_by_at_most_the_clip(small_field, people, seed, clip):
    w = np.random.default_rng(seed).normal(scale=3, size=small_field.size)
    people = np.array(people)
    moved = clipped_sum(small_field, w, people, clip) - clipped_sum(small_field, w, people[:-1], clip)
    # The sums themselves are rounded, which is what "floating point, not exact" means.
    assert np.linalg.norm(moved) <= clip + 1e-13 * len(people)


def test_without_clipping_the_same_check_fails(small_field):
    people = np.array([[0, 0, 0], [1, 2, 1]])
    w = np.zeros(small_field.size)
    moved = clipped_sum(small_field, w, people, 1e9) - clipped_sum(small_field, w, people[:-1], 1e9)
    assert np.linalg.norm(moved) > 1.2


# Steps


def reference(codes, settings, population, domain=DOMAIN, structure=CHAIN):
    """Full-batch clipped gradient ascent without noise, in plain numpy, on the enumerated distribution."""
    tables = {c: np.zeros(domain.table_shape(c)) for c in structure.cliques}
    half = []
    for step in range(settings.steps):
        p, _ = joint(domain, tables)
        m = {c: marginal(domain, p, c) for c in tables}
        total = {c: np.zeros_like(t) for c, t in tables.items()}
        for x in codes:
            g = {c: -m[c] for c in tables}
            for c in g:
                g[c] = g[c].copy()
                g[c][tuple(x[domain.position(a)] for a in c)] += 1
            norm = sqrt(sum((t**2).sum() for t in g.values()))
            for c in g:
                total[c] += min(1, settings.clip / norm) * g[c]
        rate = settings.learning_rate
        tables = {c: t + rate * (total[c] / (settings.rate * population) - settings.l2 * t) for c, t in tables.items()}
        if step >= settings.steps // 2:
            half.append(tables)
    if settings.average:
        return {c: np.mean([t[c] for t in half], axis=0) for c in tables}
    return tables


MIXED = [
    Settings(learning_rate=1.0, clip=0.8, rate=1, steps=7),
    Settings(learning_rate=0.5, clip=5.0, rate=1, steps=4, l2=0.1),
    Settings(learning_rate=2.0, clip=1.2, rate=1, steps=7, average=True),
]


def check_reference(codes):
    for model, settings in zip(run(DOMAIN, CHAIN, codes, MIXED, [0, 0, 0], 60, Draws()), MIXED, strict=True):
        for clique, table in reference(codes, settings, 60).items():
            np.testing.assert_allclose(model.potentials[clique], table, rtol=1e-8, atol=1e-9)


def test_without_noise_the_steps_are_those_of_plain_ascent(codes):
    """Settings of unlike lengths in one call, in their order, with decay and averaging."""
    check_reference(codes[:50])


def test_blocks_chunks_and_crowded_batches_change_nothing(codes, monkeypatch):
    monkeypatch.setattr(psgd_steps, "BLOCK_BYTES", 1500)
    monkeypatch.setattr(psgd_steps, "CHUNK", 9)
    check_reference(codes[:50])
    monkeypatch.setattr(psgd_steps, "_room", lambda mean, records: 8)
    check_reference(codes[:50])


@pytest.mark.parametrize("rate", [1, 0.1])
def test_with_hardly_any_noise_it_finds_the_maximum_likelihood(codes, rate):
    settings = Settings(learning_rate=0.8, clip=10, rate=rate, steps=800, average=rate < 1)
    found = psgd(codes, DOMAIN, CHAIN, settings, epsilon=1000, ledger=None, paper=True, accountant="moments").model
    for clique, table in found.marginals().items():
        shares = np.zeros(table.shape)
        np.add.at(shares, tuple(codes[:, [DOMAIN.position(a) for a in clique]].T), 1 / N)
        np.testing.assert_allclose(table, shares, atol=0.01)
    # KL from the maximum likelihood model, whose marginals are the shares: a chain's is known in closed form.
    ab, bc = (np.histogramdd(codes[:, pair], bins=DOMAIN.table_shape("abc"[i] for i in pair))[0] / N
              for pair in ([0, 1], [1, 2]))  # fmt: skip
    best = qf.Model(DOMAIN, {("a", "b"): np.log(ab + 1e-9), ("b", "c"): np.log(bc + 1e-9) - np.log(bc.sum(1))[:, None]})
    assert best.kl(found) < 5e-4


def test_wild_steps_end_in_a_model_all_the_same(codes):
    settings = Settings(learning_rate=1e9, clip=5, rate=1, steps=5)
    out = psgd(codes, DOMAIN, CHAIN, settings, **QUICK, ledger=None)
    assert np.isfinite(out.model.log_partition())


def test_sampled_learning_beats_knowing_nothing(codes):
    settings = Settings(learning_rate=1, clip=2, rate=0.05, steps=100)
    out = psgd(codes, DOMAIN, CHAIN, settings, **QUICK, ledger=None)
    uniform = qf.Model(DOMAIN, {c: np.zeros(DOMAIN.table_shape(c)) for c in CHAIN.cliques})
    assert out.model.log_prob(codes).mean() > uniform.log_prob(codes).mean() + 0.1


# Randomness


@pytest.mark.parametrize(("records", "rate"), [(50, 0.3), (400, 0.01), (3, 0.9)])
def test_batches_are_poisson_samples(records, rate):
    """Sizes are binomial, members and neighbours in order are independent; a rate 4% off would be seen."""
    steps = 200_000 // records * 20
    step, record = Draws().batches(rate, records, steps)
    assert (np.diff(step * records + record) > 0).all()  # each at most once a step
    assert record.max() < records
    assert step.max() < steps

    def surprise(rate):
        shown = len(step)
        return abs(shown - rate * records * steps) / sqrt(rate * (1 - rate) * records * steps)

    assert surprise(rate) < 6.5
    assert max(surprise(rate * 1.04), surprise(rate / 1.04)) > 6.5
    sizes = np.bincount(np.bincount(step, minlength=steps), minlength=records + 1)
    expected = binom.pmf(np.arange(records + 1), records, rate) * steps
    common = expected > 20
    score = ((sizes - expected)[common] ** 2 / expected[common]).sum()
    assert chi2.sf(score, common.sum()) > 1e-9
    member = np.bincount(record, minlength=records)
    spread_out = ((member - rate * steps) ** 2 / (rate * (1 - rate) * steps)).sum()
    assert 1e-9 < chi2.sf(spread_out, records) < 1 - 1e-9


def test_a_rate_of_one_takes_all_and_no_records_give_no_batch():
    step, record = Draws().batches(1, 3, 2)
    assert (step.tolist(), record.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    assert len(Draws().batches(0.5, 0, 7)[0]) == 0


@pytest.mark.parametrize("seed", [None, 3])
def test_normal_numbers_are_normal_and_a_wrong_scale_would_be_seen(seed):
    drawn = Draws(seed).normals((300, 1000)).ravel()
    assert kstest(drawn, "norm").pvalue > 1e-9
    assert kstest(drawn * 1.05, "norm").pvalue < 1e-9


def test_the_noise_in_the_model_has_the_stated_scale():
    """With no record at all, one step is noise alone; 40,000 cells know its scale to a third of a per cent."""
    domain = qf.Domain({"a": 200, "b": 200})
    settings = Settings(learning_rate=3, clip=0.7, rate=0.2, steps=1)
    nobody = np.zeros((0, 2), int)
    out = psgd(nobody, domain, [("a", "b")], settings, epsilon=1, delta=1e-6, population=500, ledger=None,
               accountant="moments")  # fmt: skip
    assert out.sigma == noise_multiplier(1.0, 1e-6, 0.2, 1, "moments")
    found = out.model.potentials["a", "b"].std()
    assert found == pytest.approx(3 * 0.7 * out.sigma / (0.2 * 500), rel=0.025)


def test_noise_takes_no_seed_unless_it_is_a_simulation(codes):
    with pytest.raises(Error, match="paper=True"):
        psgd(codes, DOMAIN, CHAIN, **QUICK, ledger=None, seed=1)
    short = Settings(steps=3, rate=0.5)
    one, two = (psgd(codes, DOMAIN, CHAIN, short, **QUICK, ledger=None) for _ in range(2))
    assert not np.array_equal(one.model.potentials["a", "b"], two.model.potentials["a", "b"])
    paper = {"epsilon": 2, "accountant": "moments", "ledger": None, "paper": True, "seed": 1}
    one, two = (psgd(codes, DOMAIN, CHAIN, short, **paper) for _ in range(2))
    assert np.array_equal(one.model.potentials["a", "b"], two.model.potentials["a", "b"])
    assert one.notes[0].startswith("NOT PRIVATE")
    assert not one.is_dp


# Who pays


FULL = Settings(rate=1, steps=5)


def test_the_ledger_is_charged_once_and_before_noise_is_drawn(codes, ledger, monkeypatch):
    with pytest.raises(TypeError, match="ledger"):
        psgd(codes, DOMAIN, CHAIN, FULL, **QUICK)
    spent = []
    for name in ("normals", "batches"):
        real = getattr(Draws, name)
        monkeypatch.setattr(
            Draws, name, lambda *args, real=real: spent.append(Ledger(ledger.path).spent) or real(*args)
        )
    out = psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger.path)
    (charge,) = ledger.charges
    assert len(spent) >= 2
    assert set(spent) == {charge.cost}
    assert 0 <= charge.cost - zcdp_price(out.sigma, 5) < Fraction(1, 10**20)
    assert (charge.epsilon, charge.delta, charge.release) == (2, Fraction(1, 10**5), out.id)
    assert charge.what == "1 run of PSGD, Gaussian noise"
    assert (out.is_dp, out.epsilon, out.delta) == (True, 2, Fraction(1, 10**5))
    assert out.ledger == Payment(ledger.id, 1, charge.digest)
    assert ledger.missing([out]) == ()
    assert ledger.missing([replace(out, ledger=Payment(ledger.id, 2, charge.digest))])


def test_a_grid_pays_for_each_of_its_runs(codes, ledger):
    outs = psgd_grid(codes, DOMAIN, CHAIN, Settings.grid(rate=[1], steps=[5, 6], clip=[1, 2]), **QUICK, ledger=ledger)
    (charge,) = ledger.charges
    assert (charge.epsilon, charge.delta) == (8, Fraction(4, 10**5))
    price = sum(zcdp_price(out.sigma, out.settings.steps) for out in outs)
    assert 0 <= charge.cost - price < Fraction(1, 10**20)
    assert [(out.settings.steps, out.settings.clip) for out in outs] == [(5, 1), (5, 2), (6, 1), (6, 2)]


def test_over_budget_nothing_is_read_drawn_or_charged(codes, tmp_path, monkeypatch):
    book = Ledger.create(tmp_path / "s.db", epsilon=0.5, delta=1e-5, unit=qf.Rows(1), accounting_by="zcdp")
    monkeypatch.setattr(Draws, "__init__", lambda *_: pytest.fail("drew all the same"))
    monkeypatch.setattr("experiments.psgd.reading", lambda *_: pytest.fail("read all the same"))
    with pytest.raises(BudgetExceeded):
        psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=book)
    assert book.spent == 0


def test_failures_before_the_charge_cost_nothing_and_after_it_are_not_paid_back(codes, ledger, monkeypatch):
    with pytest.raises(Error, match="shape"):
        psgd(codes[:, :2], DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger)
    assert ledger.spent == 0

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(Draws, "normals", fails)
    with pytest.raises(TooLarge, match="the charge stands"):
        psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger)
    assert ledger.spent > 0


def test_what_is_public_and_always_fails_is_refused_before_the_charge(ledger):
    large = qf.Domain({f"a{i}": 4 for i in range(45)})
    asked = {"epsilon": 1, "delta": 1e-6, "ledger": ledger}
    with pytest.raises(TooLarge, match="exact inference"):
        psgd(np.zeros((9, 45), int), large, structures.complete(large), FULL, population=9, **asked)
    ones = qf.Domain({f"a{i}": 1 for i in range(65)})
    with pytest.raises(TooLarge, match="65 attributes"):
        psgd(np.zeros((9, 65), int), ones, [tuple(ones)], FULL, population=9, **asked)
    with pytest.raises(Error, match="public guess"):
        psgd(np.zeros((9, 1), int), qf.Domain({"a": 2}), ["a"], FULL, population=10**400, **asked)
    assert ledger.spent == 0


def test_ledgers_that_cannot_pay_refuse(codes, tmp_path, ledger):
    pure = Ledger.create(tmp_path / "p.db", epsilon=9, unit=qf.Rows(1))
    with pytest.raises(Error, match="pure epsilon and cannot pay for PSGD"):
        psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=pure)
    paper = {"epsilon": 2, "accountant": "moments", "paper": True}
    with pytest.raises(Error, match="neighbours"):
        psgd(codes, DOMAIN, CHAIN, FULL, **paper, ledger=ledger)
    with pytest.raises(Error, match="no ledger can pay"):
        psgd(codes, DOMAIN, CHAIN, FULL, **paper, ledger=ledger, seed=1)
    with pytest.raises(Error, match="ledger is a path"):
        psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=3)
    assert pure.spent == ledger.spent == 0


def test_paper_mode_knows_the_number_of_records_and_says_so(codes):
    out = psgd(codes, DOMAIN, CHAIN, FULL, epsilon=2, ledger=None, paper=True, accountant="moments")
    assert out.delta == Fraction(1, N)
    assert out.notes[0] == "paper mode: not a differential privacy guarantee for N"
    assert not out.is_dp
    with pytest.raises(Error, match="leave population= out"):
        psgd(codes, DOMAIN, CHAIN, FULL, epsilon=2, ledger=None, paper=True, population=5)


@pytest.mark.parametrize(
    "text", ["noise = ['laplace']", "units = ['person']", "max_epsilon = 9", "neighbours = ['paper']\nmax_delta = 1e-6"]
)
def test_a_policy_is_asked_before_paper_mode_looks_at_records(tmp_path, monkeypatch, text):
    (tmp_path / "policy.toml").write_text(text)
    monkeypatch.setenv("QUIETFIELD_POLICY", str(tmp_path / "policy.toml"))
    monkeypatch.setattr("experiments.psgd.reading", lambda *_: pytest.fail("read all the same"))
    said = set()
    for many in (40, 4000):
        with pytest.raises(PolicyRefused) as caught:
            psgd(np.zeros((many, 3), int), DOMAIN, CHAIN, FULL, epsilon=2, ledger=None, paper=True)
        said.add(str(caught.value))
    assert len(said) == 1


# Records and requests


def test_every_kind_of_records_gives_the_same_codes():
    domain = qf.Domain({"sex": ["f", "m"], "visits": [1, 2, 3]})
    mapping = {"visits": [3, 1, 2, 9, 1], "sex": ["m", "f", "m", "f", "x"]}
    expected = [[1, 2], [0, 0], [1, 1]]
    pandas, polars, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for frame in (mapping, pandas.DataFrame(mapping), polars.DataFrame(mapping), pa.table(mapping)):
        assert codes_inside(domain, frame).tolist() == expected
    assert codes_inside(domain, np.array([*expected, [2, 0], [0, -1], [0, 3]])).tolist() == expected
    frame = qf.Frame(domain, [np.array([1, 0, 1]), np.array([2, 0, 1])])
    assert codes_inside(domain, frame).tolist() == expected
    nulls = pa.table({"sex": ["f", None, "m"], "visits": pa.array([1, 2, None])})
    assert codes_inside(domain, nulls).tolist() == [[0, 0]]


ODD = ["x", 2, 0.5, None, [0], {"x": 1}, 2**70, 10**5000, "\ud800", b"a", float("nan")]


@pytest.mark.parametrize("extra", ODD, ids=lambda value: type(value).__name__)
def test_one_record_does_not_change_how_others_are_read(extra):
    pandas = pytest.importorskip("pandas")
    domain = qf.Domain({"a": ["true", "false"], "b": [0, 1]})
    columns = {"a": [True, False] * 50, "b": [0, 1.0] * 50}
    assert codes_inside(domain, columns).tolist() == [[0, 0], [1, 1]] * 50
    more = {name: [*values, extra] for name, values in columns.items()}
    for records in (more, pandas.DataFrame(more, dtype=object)):
        assert codes_inside(domain, records).tolist() == [[0, 0], [1, 1]] * 50


def test_reading_comes_after_the_charge(ledger):
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([(name, pa.int64()) for name in DOMAIN])

    def batches():
        yield pa.record_batch([[0]] * len(DOMAIN), schema=schema)
        raise ValueError("secret")

    with pytest.raises(Error, match="not shown"):
        psgd(pa.RecordBatchReader.from_batches(schema, batches()), DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger)
    assert ledger.spent > 0


def test_columns_are_opened_after_the_charge(ledger):
    spent = []

    class Column(list):
        def __iter__(self):
            spent.append(ledger.spent)
            return super().__iter__()

    columns = {name: Column([0] * (i + 1)) for i, name in enumerate(DOMAIN)}
    with pytest.raises(Error, match="no column 'a'"):
        psgd({"x": columns["a"]}, DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger)
    assert ledger.spent == 0
    with pytest.raises(Error, match="differ in length"):
        psgd(columns, DOMAIN, CHAIN, FULL, **QUICK, ledger=ledger)
    assert spent
    assert all(spent)


@pytest.mark.parametrize("bad", [
    {"a": [0]}, np.array([["secret"] * 3]), np.array([[0.5, 1.0, 0.0]]), "secret", [[0, 1, 0], [0]], [[0], [1], [None]],
    {"a": [0], "b": [0, 1], "c": [0]}, {"a": "secret", "b": [0], "c": [0]}, Path("secret"), 17,
])  # fmt: skip
def test_errors_never_quote_records(bad):
    with pytest.raises(Error) as caught:
        psgd(bad, DOMAIN, CHAIN, FULL, **QUICK, ledger=None)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(("settings", "why"), [
    ({"rate": 0}, "rate"), ({"rate": 1.5}, "rate"), ({"steps": 0}, "steps"), ({"steps": 1.5}, "steps"),
    ({"clip": -1}, "clip"), ({"clip": float("nan")}, "clip"), ({"learning_rate": "1"}, "learning_rate"),
    ({"l2": -1}, "l2"), ({"l2": 3.0}, "l2"),
])  # fmt: skip
def test_bad_settings_are_refused(settings, why):
    with pytest.raises(Error, match=why):
        Settings(**settings)


@pytest.mark.parametrize(("asked", "why"), [
    ({"population": None}, "public guess"), ({"population": 1}, "public guess"), ({"epsilon": 0}, "epsilon"),
    ({"delta": 1}, "delta"), ({"epsilon": 0.1}, "cannot reach epsilon"), ({"accountant": "x"}, "accountant"),
])  # fmt: skip
def test_bad_requests_are_refused(codes, asked, why):
    with pytest.raises(Error, match=why):
        psgd(codes, DOMAIN, CHAIN, FULL, **{**QUICK, "ledger": None, **asked})


def test_bad_grids_and_domains_are_refused(codes):
    for choices, why in (({"size": [1]}, "not a setting"), ({"clip": 1}, "lists the values")):
        with pytest.raises(Error, match=why):
            Settings.grid(**choices)
    with pytest.raises(Error, match="one or more Settings"):
        psgd_grid(codes, DOMAIN, CHAIN, [], **QUICK, ledger=None)
    with pytest.raises(Error, match="needs a Domain"):
        psgd(codes, qf.Schema({"a": 2}), CHAIN, **QUICK, ledger=None)
    with pytest.raises(Error, match="name at least one"):
        psgd(codes, DOMAIN, [], **QUICK, ledger=None)


def test_callers_settings_of_jax_stay_as_they_are(codes):
    psgd(codes, DOMAIN, CHAIN, FULL, **QUICK, ledger=None)
    assert jnp.asarray(1.0).dtype == jnp.float32
    command = "import sys, experiments.psgd; sys.exit(bool({'jax', 'dp_accounting'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
