"""The accountants of private gradient descent against integrals, closed forms and published figures."""

import sys
from fractions import Fraction
from math import exp, expm1, log, log1p, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from experiments.psgd_accounting import (
    MOMENTS,
    SMALLEST,
    _smallest,
    log_moment,
    moments_epsilon,
    noise_multiplier,
    pld_epsilon,
    zcdp_price,
)
from quietfield.errors import Error

try:
    import dp_accounting  # noqa: F401

    HAS_PLD = True
except ModuleNotFoundError:
    HAS_PLD = False
pld = pytest.mark.skipif(not HAS_PLD, reason="dp-accounting comes with the extra 'bench'")


def by_integration(sigma, rate, order):
    """Both moments of Abadi et al., E1 and E2, as logarithms, by the trapezium rule on a wide fine grid."""
    z = np.linspace(-30 * sigma, order + 1 + 30 * sigma, 400_001)
    nothing, one = norm.logpdf(z, 0, sigma), norm.logpdf(z, 1, sigma)
    mixture = np.logaddexp(nothing + np.log1p(-rate), one + np.log(rate))

    def expected(log_integrand):
        top = log_integrand.max()
        return top + log(np.trapezoid(np.exp(log_integrand - top), z))

    return (
        expected(nothing + order * (nothing - mixture)),
        expected(mixture + order * (mixture - nothing)),
    )


@given(st.floats(0.6, 20), st.floats(1e-4, 0.9), st.integers(1, MOMENTS))
def test_the_moments_are_the_integrals_and_the_larger_of_the_two(sigma, rate, order):
    other, found = by_integration(sigma, rate, order)
    assert log_moment(sigma, rate, order) == pytest.approx(found, rel=1e-6, abs=1e-9)
    assert other <= found + 1e-9


def test_the_moments_accountant_gives_the_published_figure():
    """Abadi et al. (2016), section 3: q = 0.01, sigma = 4, delta = 1e-5, T = 10,000 gives epsilon about 1.26."""
    assert moments_epsilon(4.0, 0.01, 10_000, 1e-5) == pytest.approx(1.26, abs=0.005)


def gaussian_delta(epsilon, mu):
    """The exact delta of one Gaussian mechanism with sensitivity/noise = mu (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


@pld
@pytest.mark.parametrize(("sigma", "steps"), [(10.0, 100), (40.0, 25), (300.0, 100)])
def test_without_sampling_the_loss_distribution_is_that_of_one_gaussian(sigma, steps):
    """T full steps are one Gaussian mechanism with noise sigma / sqrt(T), whose delta has a closed form."""
    epsilon = pld_epsilon(sigma, 1.0, steps, 1e-5, 1e-5)
    assert gaussian_delta(epsilon, sqrt(steps) / sigma) == pytest.approx(1e-5, rel=0.01)


@pld
@pytest.mark.parametrize(("sigma", "rate", "steps"), [(4.0, 0.01, 10_000), (2.0, 0.02, 300), (30.0, 1.0, 50)])
def test_the_loss_distribution_is_tighter_than_moments(sigma, rate, steps):
    tight = pld_epsilon(sigma, rate, steps, 1e-5)
    assert 0.5 < tight / moments_epsilon(sigma, rate, steps, 1e-5) < 1


@pld
@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"), [(0.01, 0.01, 300), (0.1, 0.1, 100), (1, 0.02, 200), (30, 1.0, 9)]
)
def test_the_noise_uses_epsilon_up_and_no_more(epsilon, rate, steps):
    sigma = noise_multiplier(epsilon, 1e-5, rate, steps)
    fine = min(1e-5, 1e-3 * epsilon) if epsilon <= 0.1 else 1e-4 * epsilon
    assert 0.997 * epsilon <= pld_epsilon(sigma, rate, steps, 1e-5, fine) <= epsilon


@given(st.floats(0.5, 50), st.floats(1.1, 3), st.floats(0.001, 0.5), st.integers(1, 2000))
def test_less_privacy_fewer_steps_and_smaller_batches_need_less_noise(epsilon, factor, rate, steps):
    def sigma(*asked):
        return noise_multiplier(*asked, "moments")

    base = sigma(epsilon, 1e-5, rate, steps)
    room = 1.002  # each is found within a thousandth of epsilon
    assert moments_epsilon(base, rate, steps, 1e-5) <= epsilon
    assert sigma(epsilon * factor, 1e-5, rate, steps) <= base * room
    assert sigma(epsilon, 1e-4, rate, steps) <= base * room
    assert sigma(epsilon, 1e-5, rate, 2 * steps) >= base / room
    assert sigma(epsilon, 1e-5, min(1.0, rate * factor), steps) >= base / room


@pld
def test_noise_falls_with_epsilon_by_the_loss_distribution_too():
    sigmas = [noise_multiplier(epsilon, 1e-5, 0.02, 200) for epsilon in (0.05, 0.2, 1.0, 5.0)]
    assert sigmas == sorted(sigmas, reverse=True)
    assert len(set(sigmas)) == 4


@given(st.floats(0.01, 100), st.floats(0.3, 3), st.floats(0.3, 1e4), st.floats(0.1, 10))
def test_the_search_never_ends_above_epsilon(epsilon, power, answer, off):
    """Wherever it starts, also a hair beside the answer, on any falling curve."""
    for guess in (answer * off, answer, answer * 0.9999, answer * 1.0001):
        tried = []

        def spent(sigma, tried=tried):
            tried.append(sigma)
            return epsilon * (answer / sigma) ** power

        found = _smallest(spent, epsilon, guess)
        assert spent(found) <= epsilon
        assert spent(found) >= 0.998 * epsilon or found == SMALLEST
        assert len(tried) < 60


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_moments_say_which_epsilons_they_cannot_reach(delta):
    least = log(1 / delta) / MOMENTS
    assert noise_multiplier(least * 1.1, delta, 0.01, 100, "moments") > 1
    with pytest.raises(Error, match=r"cannot reach epsilon .* stays above .*use accountant='pld'"):
        noise_multiplier(least * 0.99, delta, 0.01, 100, "moments")


@pld
def test_an_epsilon_out_of_reach_is_refused():
    with pytest.raises(Error, match="cannot be reached even with"):
        noise_multiplier(1e-6, 1e-12, 1.0, 10**6)


def test_an_unknown_accountant_is_refused():
    with pytest.raises(Error, match="'pld' or 'moments'"):
        noise_multiplier(1.0, 1e-5, 0.1, 10, "guess")


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(Error, match=r"quietfield\[bench\]"):
        pld_epsilon(1.0, 0.1, 10, 1e-5)


@given(st.floats(0.6, 20), st.floats(1e-3, 1.0), st.integers(1, MOMENTS))
def test_the_price_in_zcdp_bounds_every_moment(sigma, rate, order):
    """rho-zCDP means alpha(lambda) <= lambda (lambda + 1) rho for every lambda: true of a sampled step too."""
    assert log_moment(sigma, rate, order) <= order * (order + 1) * float(zcdp_price(sigma, 1)) * (1 + 1e-12) + 1e-12
    assert zcdp_price(sigma, 7) == 7 * Fraction(1) / (2 * Fraction(sigma) ** 2)


@pld
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 1.0, 20.0, 50.0])
@pytest.mark.parametrize(("steps", "delta"), [(10, 1e-6), (1000, 1e-9)])
def test_noise_is_enough_and_hardly_more_at_extreme_epsilons(epsilon, steps, delta):
    sigma = noise_multiplier(epsilon, delta, 1.0, steps)
    assert gaussian_delta(epsilon, sqrt(steps) / sigma) <= delta
    assert gaussian_delta(epsilon, sqrt(steps) / sigma * 1.005) > delta


@pld
@pytest.mark.parametrize(("epsilon", "rate", "delta"), [(1e-3, 0.01, 1e-6), (1e-3, 0.5, 1e-7), (8.0, 0.5, 1e-6)])
def test_noise_of_one_sampled_step_is_enough_and_hardly_more(epsilon, rate, delta):
    """Of one step the loss is known exactly: delta(epsilon) = q delta_Gauss(log(1 + (e^epsilon - 1) / q))."""

    def least(sigma):
        return rate * gaussian_delta(log1p(expm1(epsilon) / rate), 1 / sigma)

    sigma = noise_multiplier(epsilon, delta, rate, 1)
    assert least(sigma) <= delta
    assert least(sigma / 1.01) > delta


@pld
def test_many_steps_at_a_small_epsilon_are_not_refused_for_a_coarse_grid():
    sigma = noise_multiplier(1e-3, 1e-9, 0.5, 100_000)
    assert gaussian_delta(1e-3, 0.5 * sqrt(100_000) / sigma) <= 1e-9  # with so many steps it is nearly Gaussian
    assert gaussian_delta(1e-3, 0.5 * sqrt(100_000) / sigma * 1.02) > 1e-9


@pld
def test_a_delta_that_allows_for_little_noise_takes_no_endless_grid():
    sigma = noise_multiplier(1e-3, 1e-3, 1e-4, 1000)
    assert SMALLEST <= sigma < 1.5
    assert pld_epsilon(sigma, 1e-4, 1000, 1e-3, 1e-5) <= 1e-3
