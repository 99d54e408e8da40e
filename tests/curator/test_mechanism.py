"""The mechanism: its noise has the exact distribution, its scale is the smallest that keeps the promise."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import quietfield as qf
from quietfield.cliques import Structure
from quietfield.curator import mechanism, publish
from quietfield.curator.charging import Receipt
from quietfield.curator.request import Counts
from quietfield.domain import Domain
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.calibration import choose_statistics
from quietfield.privacy.units import Person, Rows, sensitivities, statistics
from quietfield.structures import chain, complete

#: The rate at which a right mechanism would fail a test of its distribution, of which four run.
FALSE_ALARM = 1e-9


def counted(attributes=4, size=3, *, unit=None, neighbours="add_remove", total=True, structure=None):
    domain = Domain({f"x{i}": size for i in range(attributes)})
    return statistics(structure or chain(domain), domain, unit or Rows(1), neighbours, total)


def p_value(drawn: np.ndarray, pmf, scale: float) -> float:
    """Chi-square of integers against an exact pmf, in bins that expect at least 20 each."""
    reach = int(40 * scale) + 60
    k = np.arange(-reach, reach + 1)
    p = pmf(k, scale)
    p = p / p.sum()
    expected = len(drawn) * p
    inside = np.flatnonzero(expected >= 20)
    low, high = k[inside[0]], k[inside[-1]]
    observed = np.bincount(np.clip(drawn, low, high) - low, minlength=high - low + 1)
    bins = expected[(k >= low) & (k <= high)].copy()
    bins[0] += expected[k < low].sum()
    bins[-1] += expected[k > high].sum()
    return float(stats.chisquare(observed, bins * observed.sum() / bins.sum()).pvalue)


def laplace_pmf(k, scale):
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)


def gaussian_pmf(k, scale):
    return np.exp(-(k.astype(float) ** 2) / (2 * scale**2))


@pytest.mark.parametrize(("kind", "pmf", "extra"), [
    ("laplace", laplace_pmf, {}), ("gaussian", gaussian_pmf, {"delta": 1e-6}),
])  # fmt: skip
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_noise_has_the_exact_distribution_and_no_other(kind, pmf, extra, epsilon):
    plan = mechanism.plan_noise(counted(total=False), epsilon=epsilon, noise=kind, **extra)
    true = np.full(120_000, 1000, dtype=np.int64)
    (noisy, *_), _ = mechanism.draw_noise(plan, [true, np.zeros(1, np.int64), np.zeros(1, np.int64)])
    scale, noise = plan.scales[0], noisy - 1000
    assert p_value(noise, pmf, scale) > FALSE_ALARM
    assert p_value(noise, pmf, 0.9 * scale) < FALSE_ALARM
    assert p_value(noise, pmf, 1.1 * scale) < FALSE_ALARM
    declared = plan.noises[0]
    assert noise.var() == pytest.approx(declared.variance, rel=0.05)


def test_neighbouring_cells_are_independent():
    plan = mechanism.plan_noise(counted(total=False), epsilon=1)
    (a, b, _), _ = mechanism.draw_noise(
        plan, [np.zeros(60_000, np.int64), np.zeros(60_000, np.int64), np.zeros(1, np.int64)]
    )
    for x, y in ((a[:-1], a[1:]), (a, b)):
        assert abs(np.corrcoef(x, y)[0, 1]) < 6 / math.sqrt(len(x))  # six standard errors: 2 in 10^9


@pytest.mark.parametrize(
    ("cliques", "epsilon"), [(45, 0.3), (3, 0.1), (7, 1), (24, 1), (24, 0.7), (1, 10), (10, 1 / 3)]
)
def test_the_scale_is_the_smallest_whose_map_keeps_epsilon(cliques, epsilon):
    domain = Domain({f"x{i}": 2 for i in range(cliques)})
    stats_ = statistics(Structure(tuple((f"x{i}",) for i in range(cliques))), domain, Rows(1), "add_remove", False)
    plan = mechanism.plan_noise(stats_, epsilon=epsilon)
    exact = accounting.to_rational(epsilon, "epsilon")

    def loss(scale):
        dp.enable_features("contrib")
        cells = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return Fraction(dp.m.make_laplace(*cells, scale=scale).map(cliques))

    assert loss(plan.scales[0]) <= exact
    assert loss(math.nextafter(plan.scales[0], 0)) > exact
    assert plan.scales[0] == pytest.approx(cliques / epsilon, rel=1e-12)


def test_the_division_alone_would_break_the_promise():
    cells = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    dp.enable_features("contrib")
    assert dp.m.make_laplace(*cells, scale=45 / 0.3).map(45) > 0.3


def test_gaussian_scale_is_the_smallest_and_beats_laplace_as_computed_by_hand():
    domain = Domain({f"x{i}": 2 for i in range(24)})
    stats_ = statistics(Structure(tuple((f"x{i}",) for i in range(24))), domain, Rows(1), "add_remove", False)
    gaussian = mechanism.plan_noise(stats_, epsilon=1, delta=1e-6, noise="gaussian")
    laplace = mechanism.plan_noise(stats_, epsilon=1)
    assert gaussian.noises[0].std / laplace.noises[0].std == pytest.approx(0.65, abs=0.01)
    assert accounting.zcdp_epsilon(gaussian.rho, Fraction(1, 10**6)) <= 1
    smaller = Fraction(gaussian.scales[0]) * (1 - Fraction(1, 10**12))
    assert accounting.zcdp_epsilon(Fraction(24) / (2 * smaller**2), Fraction(1, 10**6)) > 1


@pytest.mark.parametrize(("bad", "why"), [
    ({"epsilon": 0}, "epsilon"), ({"epsilon": -1}, "epsilon"), ({"epsilon": math.nan}, "epsilon"),
    ({"epsilon": math.inf}, "epsilon"), ({"epsilon": None}, "epsilon"), ({"epsilon": 1e-30}, "larger epsilon"),
    ({"epsilon": 1, "delta": 1e-6}, "delta"), ({"epsilon": 1, "noise": "gaussian"}, "delta"),
    ({"epsilon": 1, "noise": "gaussian", "delta": 0}, "delta"),
    ({"epsilon": 1, "noise": "gaussian", "delta": 1}, "delta"),
    ({"epsilon": 1, "noise": "gaussian", "delta": math.nan}, "delta"), ({"epsilon": 1, "noise": "cauchy"}, "noise"),
    ({"epsilon": 1, "weights": {("x0", "x1"): 0}}, "weight"), ({"epsilon": 1, "weights": {("x0", "x9"): 1}}, "weights"),
    ({"epsilon": 1, "weights": {("x0", "x1"): math.inf}}, "weight"),
])  # fmt: skip
def test_bad_requests_are_refused(bad, why):
    with pytest.raises(Error, match=why):
        mechanism.plan_noise(counted(), **bad)


def test_what_comes_out_is_what_the_measurement_gives_for_the_counts(monkeypatch):
    """Nothing is added outside: a measurement without noise gives the counts back."""
    seen = []

    def measurement(kind, scale):
        return lambda values: (seen.append((kind, scale, list(values))), values)[1]

    plan = mechanism.plan_noise(counted(), epsilon=1)
    monkeypatch.setattr(mechanism, "_measurement", measurement)
    tables = [np.arange(9).reshape(3, 3) + 10 * i for i in range(3)]
    noisy, total = mechanism.draw_noise(plan, tables, 77)
    assert all(np.array_equal(a, b) for a, b in zip(noisy, tables, strict=True))
    assert total == 77
    assert seen == [("laplace", plan.scales[0], [*range(9), *range(10, 19), *range(20, 29), 77])]


def test_only_integers_and_the_planned_tables_take_noise():
    plan = mechanism.plan_noise(counted(), epsilon=1)
    tables = [np.zeros((3, 3), np.int64)] * 3
    with pytest.raises(Error, match="integers"):
        mechanism.draw_noise(plan, [t.astype(float) for t in tables], 1)
    with pytest.raises(Error, match="tables"):
        mechanism.draw_noise(plan, tables)


@settings(max_examples=30)
@given(
    st.lists(st.fractions(Fraction(1, 10), 10), min_size=3, max_size=3),
    st.fractions(Fraction(1, 20), 5),
    st.sampled_from(["laplace", "gaussian"]),
    st.sampled_from([Rows(1), Rows(3), Person("u", normalise=True)]),
    st.booleans(),
)
def test_weights_keep_the_promise_and_share_it_as_asked(weights, epsilon, noise, unit, total):
    stats_ = counted(unit=unit, total=total)
    asked = {table.cliques[0]: w for table, w in zip(stats_.tables, weights, strict=True)}
    delta = {"delta": "1e-6"} if noise == "gaussian" else {}
    plan = mechanism.plan_noise(stats_, epsilon=epsilon, noise=noise, weights=asked, **delta)
    exact = [n.exact for n in plan.noises]
    l1s, l2s = sensitivities(stats_)
    if noise == "laplace":
        spent = accounting.laplace_epsilon(l1s, stats_.l1, exact)
    else:
        spent = accounting.zcdp_epsilon(accounting.gaussian_rho(l2s, stats_.l2_squared, exact), Fraction("1e-6"))
    assert epsilon * (1 - Fraction(1, 10**6)) < spent <= epsilon
    for i in range(3):
        assert float(exact[i] * weights[i]) == pytest.approx(float(exact[0] * weights[0]), rel=1e-12)


@settings(max_examples=6)
@given(
    st.integers(100, 400),
    st.integers(0, 2**32),
    st.sampled_from(["laplace", "gaussian"]),
    st.sampled_from([Rows(1), Rows(7), Person("u", normalise=True)]),
)
@example(400, 3, "laplace", Rows(1))
@example(400, 3, "gaussian", Rows(1))
def test_hundreds_of_weights_can_be_saved_and_verified(tmp_path_factory, tables, seed, noise, unit):
    """Their exact sum has tens of thousands of digits, which no file takes and Python does not print."""
    path = tmp_path_factory.mktemp("weights") / "x.qfr"
    draw = np.random.default_rng(seed)
    schema = qf.Schema({f"x{i}": 2 for i in range(tables + 1)})
    structure = chain(schema.domain)
    weights = {clique: float(w) for clique, w in zip(structure.cliques, draw.uniform(0.1, 10, tables), strict=True)}
    delta = {"delta": "1e-6"} if noise == "gaussian" else {}
    asked = {"epsilon": 1, "noise": noise, "weights": weights, "unit": unit, "total": False, **delta}
    prepared = publish.plan_release(schema, structure, **asked)
    counts = [np.zeros((2, 2), np.int64)] * tables
    noisy = publish.add_noise(prepared, Counts(counts, None), Receipt("r1", "", None, None), unit.describe())
    qf.Release.of(noisy).save(path)
    release = qf.Release.load(path)
    assert release.check_promise()[0].startswith("the noise costs epsilon 1")
    claim = release.promise
    understated = [replace(claim, epsilon=claim.epsilon * (1 - Fraction(1, 10**12)))]
    if claim.rho is not None:
        understated.append(replace(claim, rho=claim.rho * (1 - Fraction(1, 10**12))))
    for one in understated:
        with pytest.raises(Error, match="does not hold"):
            replace(release, promise=one).check_promise()


@given(st.lists(st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6), min_size=1, max_size=300))
def test_a_sum_is_exact_while_it_is_short_and_never_below_what_it_costs(scales):
    one = Fraction(1)
    exact = sum(1 / scale for scale in scales)
    found = accounting.laplace_epsilon([one] * len(scales), one * len(scales), scales)
    assert exact <= found <= exact * (1 + Fraction(1, 2**1000))
    assert found == exact or exact.denominator.bit_length() > 3000
    assert found.denominator.bit_length() <= 4096
    assert accounting.format_number(Fraction(10**6000, 3)).endswith("e+5999")


def test_tied_cliques_have_one_weight_and_any_order_of_names():
    domain = Domain({f"x{i}": 3 for i in range(4)})
    stats_ = statistics(chain(domain, homogeneous=True), domain, Rows(1), "add_remove", False)
    plan = mechanism.plan_noise(stats_, epsilon=1, weights={("x2", "x1"): 2})
    assert plan.scales[0] == pytest.approx(2 * plan.scales[1])
    with pytest.raises(Error, match="tied"):
        mechanism.plan_noise(stats_, epsilon=1, weights={("x0", "x1"): 2, ("x1", "x2"): 3})


def test_the_empty_clique_names_the_total():
    plan = mechanism.plan_noise(counted(), epsilon=1, weights={(): 4})
    assert plan.scales[-1] == pytest.approx(plan.scales[0] / 4)
    with pytest.raises(Error, match="not released"):
        mechanism.plan_noise(counted(total=False), epsilon=1, weights={(): 4})


def test_fractional_contributions_get_noise_on_their_grid():
    stats_ = counted(unit=Person("u", normalise=True), total=False)
    plan = mechanism.plan_noise(stats_, epsilon=1)
    assert plan.denominator == 2**20
    assert plan.noises[0].scale == pytest.approx(1, rel=1e-9)  # all edge tables together move by 1
    (noisy, *_), _ = mechanism.draw_noise(plan, [np.zeros((3, 3), np.int64)] * 3)
    assert noisy.dtype == np.int64
    assert (noisy % 2**10 != 0).any()  # the noise fills the grid, not just whole counts


def test_auto_releases_a_total_only_where_no_table_tells_it():
    domain = Domain({f"x{i}": 10 for i in range(8)})
    whole = choose_statistics(
        Structure(complete(domain).cliques[:24]), domain, Rows(1), "add_remove", "auto", "laplace"
    )
    assert (whole[0].total, whole[1]) == (
        False,
        "left out, since the tables' sums tell it and one of its own would raise every table's noise by 4.2%",
    )
    walks = Domain({f"slot {i}": ["home", "work", "away"] for i in range(4)})
    person = Person("who", null="away", normalise=True)
    edges = choose_statistics(Structure(chain(walks).cliques), walks, person, "add_remove", "auto", "laplace")
    assert (edges[0].total, edges[1]) == (True, "released, since no table's sum tells it")
    first = choose_statistics(
        Structure([("slot 0",), *chain(walks).cliques]), walks, person, "add_remove", "auto", "laplace"
    )
    assert not first[0].total


def test_large_counts_survive():
    plan = mechanism.plan_noise(counted(total=False), epsilon=1)
    big = 2**62
    (noisy, *_), _ = mechanism.draw_noise(plan, [np.array([big]), np.array([0]), np.array([-big])])
    assert abs(int(noisy[0]) - big) < 1000
