"""What is planned without OpenDP is what the mechanism does."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.privacy import planning
from quietfield.privacy.calibration import choose_statistics

DOMAIN = qf.Domain({"a": 2, "b": 3, "c": 4, "d": 3})
UNITS = [qf.Rows(1), qf.Rows(3), qf.Person("user", rows=2), qf.Person("user", normalise=True)]


@given(
    epsilon=st.sampled_from(["0.01", "0.3", "1", "7/3", "30"]),
    gaussian=st.booleans(),
    unit=st.sampled_from(UNITS),
    neighbours=st.sampled_from(["add_remove", "replace"]),
    total=st.sampled_from(["auto", True, False]),
    heavy=st.booleans(),
    tied=st.booleans(),
)
def test_the_noise_is_that_of_a_real_release(epsilon, gaussian, unit, neighbours, total, heavy, tied):
    pytest.importorskip("opendp")
    from quietfield.curator import mechanism

    structure = qf.Structure((("a", "b"), ("b", "c"), ("d", "c")), ((("b", "c"), ("d", "c")),) if tied else ())
    noise = "gaussian" if gaussian else "laplace"
    counted, _ = choose_statistics(structure, DOMAIN, unit, neighbours, total, noise)
    asked = {"epsilon": epsilon, "delta": "1e-6" if gaussian else None, "noise": noise}
    asked["weights"] = {("a", "b"): 2} if heavy else None
    planned, real = planning.calibrate_noise(counted, **asked), mechanism.plan_noise(counted, **asked).noises
    assert [type(one) for one in planned] == [type(one) for one in real]
    assert [one.step for one in planned] == [one.step for one in real]
    np.testing.assert_allclose([one.scale for one in planned], [one.scale for one in real], rtol=1e-9)


def test_margins_and_means_are_those_of_the_noise():
    random = np.random.default_rng(0)
    draws = random.laplace(0, 7.0, 200_000)
    assert np.mean(np.abs(draws) < planning.margin(qf.Laplace(7.0))) == pytest.approx(0.95, abs=0.003)
    assert np.abs(draws).mean() == pytest.approx(planning.mean_absolute(qf.Laplace(7.0)), rel=0.02)
    draws = random.normal(0, 7.0, 200_000)
    assert np.mean(np.abs(draws) < planning.margin(qf.Gaussian(7.0))) == pytest.approx(0.95, abs=0.003)
    assert np.abs(draws).mean() == pytest.approx(planning.mean_absolute(qf.Gaussian(7.0)), rel=0.02)
    steps = np.arange(-60, 61)
    chances = np.exp(-np.abs(steps) / 0.8)
    noise = qf.Laplace(Fraction(4, 5), Fraction(1))
    assert planning.mean_absolute(noise) == pytest.approx((chances / chances.sum() * abs(steps)).sum())
    for sigma in (0.1, 0.5, 1.99, 2.01, 7.0):
        chances = np.exp(-(steps**2) / (2 * sigma**2))
        mean = (chances / chances.sum() * abs(steps)).sum()
        assert planning.mean_absolute(qf.Gaussian(sigma, 1)) == pytest.approx(mean, rel=1e-5)
        assert planning.mean_absolute(qf.Gaussian(sigma / 4, Fraction(1, 4))) == pytest.approx(mean / 4, rel=1e-5)


def test_a_huge_epsilon_is_warned_of_and_20_is_not():
    assert planning.warn_of_budget(20) is None
    assert "next to nothing" in planning.warn_of_budget("20.5")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", ["1e-300", "1e-154", "1e-40", "1e-15", "1e-9", "1e9", "1e15", "1e155", "1e300"])
def test_plan_and_mechanism_refuse_the_same_extremes_in_the_same_words(epsilon, noise):
    pytest.importorskip("opendp")
    from quietfield.curator import mechanism

    counted, _ = choose_statistics(qf.structures.chain(DOMAIN), DOMAIN, qf.Rows(1), "add_remove", False, noise)
    asked = {"epsilon": epsilon, "delta": None if noise == "laplace" else "1e-6", "noise": noise}
    said = []
    for plan in (planning.calibrate_noise, mechanism.plan_noise):
        try:
            found = plan(counted, **asked)
        except qf.Error as error:
            said.append(str(error).split(" of scale")[0])
        else:
            said.append("fine")
            noises = found if isinstance(found, tuple) else found.noises
            shown = planning.table_noises(counted, noises, 10**12)
            assert all(np.isfinite([t.std, t.margin, t.share_std, t.distance]).all() for t in shown)
    assert said[0] == said[1]
    assert (said[0] == "fine") == (epsilon in ("1e-15", "1e-9", "1e9") and (noise, epsilon) != ("gaussian", "1e9"))


@pytest.mark.parametrize("guess", [0, -1, 10**12 + 1, 10**30, 1.5, "many", None, True, float("nan")])
def test_a_guess_of_the_number_of_records_is_one(guess):
    with pytest.raises(qf.Error, match="whole number from 1 to 1,000,000,000,000"):
        planning.check_guess(guess)


def test_tied_tables_hold_more_records():
    structure = qf.structures.chain(qf.Domain({"a": 2, "b": 2, "c": 2}), homogeneous=True)
    domain = qf.Domain({"a": 2, "b": 2, "c": 2})
    counted, _ = choose_statistics(structure, domain, qf.Rows(1), "add_remove", False, "laplace")
    shown = planning.table_noises(counted, planning.calibrate_noise(counted, epsilon=1), 1000)
    for table in shown:
        assert table.share_std == pytest.approx(table.std / (1000 * len(table.cliques)))
    assert {len(table.cliques) for table in shown} >= {2}


@given(sizes=st.lists(st.integers(2, 9), min_size=5, max_size=5), star=st.booleans())
def test_attributes_get_a_table_of_their_own_where_least_squares_tells_their_counts_less_well(sizes, star):
    """The variance of an attribute's count, from all noisy cells that add up to it, weighted at best."""
    domain = qf.Domain(dict(zip("abcde", sizes, strict=True)))
    pairs = [("a", x) for x in "bcde"] if star else [*pairwise("abcde")]
    few = qf.Structure(tuple(pairs[:3]))
    assert planning.allocate_budget(few, domain, qf.Rows(1), "add_remove", None, "gaussian") == (few, None)
    found, weights = planning.allocate_budget(
        qf.Structure(tuple(pairs)), domain, qf.Rows(1), "add_remove", None, "gaussian"
    )
    added = {clique[0] for clique in found.cliques if len(clique) == 1}
    assert weights == ({(name,): Fraction(1, 3) for name in added} or None)
    for name in "abcde":
        rows = [domain.cells(pair) // domain.size(name) for pair in pairs if name in pair]
        design, noise = np.ones((len(rows), 1)), np.diag(np.array(rows, float))
        variance = np.linalg.inv(design.T @ np.linalg.inv(noise) @ design).item()
        limit = 2 if domain.size(name) == 2 else 4 / 3
        assert (name in added) == (variance > limit + 1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", ["equal", "by_size", {("a", "b"): 3}, {("c",): "1/3"}])
def test_the_price_of_a_total_is_what_it_would_raise_the_noise_by(noise, weights):
    domain = qf.Domain({"a": 2, "b": 30, "c": 3})
    structure = qf.Structure((("a", "b"), ("b", "c"), ("c",)))
    scales = {}
    for total in ("auto", True):
        counted, reason = choose_statistics(structure, domain, qf.Rows(1), "add_remove", total, noise, weights)
        delta = 1e-6 if noise == "gaussian" else None
        planned = planning.calibrate_noise(counted, epsilon=1, delta=delta, noise=noise, weights=weights)
        scales[total] = [one.scale for one in planned][:3]
        if total == "auto":
            said = float(reason.rpartition(" ")[2].rstrip("%")) / 100
    for without, beside in zip(scales["auto"], scales[True], strict=True):
        assert beside / without - 1 == pytest.approx(said, abs=6e-4)
