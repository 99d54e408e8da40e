"""The noise's own arithmetic, and the arithmetic of promises."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace, noise_from_json

KINDS = [Laplace, Gaussian]
positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "scale", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, "x", None, True, "1/0", Fraction(-1)]
)
def test_bad_scales_are_refused(kind, scale):
    with pytest.raises(Error, match="scale"):
        kind(scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("step", [Fraction(0), Fraction(1), Fraction(1, 4)])
def test_density_and_variance_agree_with_sums(kind, scale, step):
    noise = kind(scale, step)
    if step:
        z = np.arange(-60 * scale / step, 60 * scale / step + 1).astype(float) * float(step)
        z = np.round(z / float(step)) * float(step)
        width = float(step)
    else:
        z, width = np.linspace(-60 * scale, 60 * scale, 2_000_001, retstep=True)
    p = np.exp(noise.log_density(z)) * width
    assert p.sum() == pytest.approx(1, abs=1e-5)
    assert (p * z**2).sum() == pytest.approx(noise.variance, rel=1e-4)
    assert noise.std == pytest.approx(math.sqrt(noise.variance))


@given(st.sampled_from(KINDS), positive, st.sampled_from([0, 1, Fraction(1, 2**20)]))
def test_json_round_trip_is_exact(kind, scale, step):
    noise = kind(scale, Fraction(step))
    assert noise_from_json(noise.to_json()) == noise
    assert noise.exact == scale


@pytest.mark.parametrize(
    "data",
    [None, {}, {"kind": "cauchy", "scale": "1"}, {"kind": "laplace"}, {"kind": "laplace", "scale": 1.5},
     {"kind": "laplace", "scale": "-1"}, {"kind": "laplace", "scale": "nan"}, {"kind": "laplace", "scale": "0"},
     {"kind": "laplace", "scale": "9" * 3000}, {"kind": "laplace", "scale": "1", "step": "0", "extra": "1"},
     {"kind": "laplace", "scale": "1e99999999", "step": "0"}, {"kind": "laplace", "scale": "0.5", "step": "0"},
     {"kind": "laplace", "scale": "2/4", "step": "0"}, {"kind": "laplace", "scale": "\u0663", "step": "0"}],
)  # fmt: skip
def test_bad_json_is_refused(data):
    with pytest.raises(Error):
        noise_from_json(data)


@pytest.mark.parametrize("value", [0.1, "0.1", Decimal("0.1"), "1/10", Fraction(1, 10), np.float64(0.1)])
def test_epsilon_is_what_was_written(value):
    assert accounting.to_rational(value, "epsilon") == Fraction(1, 10)


@pytest.mark.parametrize(
    "value",
    [0, -1, 0.0, math.nan, math.inf, -math.inf, "nan", "inf", "", "x", None, True, "1e999999999", "1/0", [], 1j],
)
def test_bad_epsilons_are_refused(value):
    with pytest.raises(Error, match="epsilon"):
        accounting.to_rational(value, "epsilon")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1e-400", "epsilon is too small: 1e-400; expected a number from 1e-300 to 1e300."),
        (Decimal("1e-999999999"), "epsilon is too small"),
        ("1e400", "epsilon is too large: 1e400; expected"),
        ("1e99999999", "epsilon is too large"),
        ("-1e-400", "positive finite number"),
        ("0e-999999999", "positive finite number"),
        ("1e400/3", "positive finite number"),
        ("inf", "positive finite number"),
        (float("nan"), "positive finite number"),
        ("sNaN", "positive finite number"),
        ("much", "positive finite number"),
        ("-1", "must be greater than 0, not -1"),
        ("0", "must be greater than 0, not 0"),
    ],
)
def test_what_is_wrong_with_a_number_is_told(value, said):
    with pytest.raises(Error) as caught:
        accounting.to_rational(value, "epsilon")
    assert said in str(caught.value)


@pytest.mark.parametrize("value", ["1e-300", "9.9e300", Decimal("1e-300")])
def test_numbers_up_to_the_ends_are_taken(value):
    assert accounting.to_rational(value, "epsilon") == Fraction(value)


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1, math.nan, "1"])
def test_bad_deltas_are_refused(value):
    with pytest.raises(Error, match="delta"):
        accounting.to_probability(value)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=4), positive)
def test_worst_case_is_the_optimum(pairs, whole):
    from scipy.optimize import linprog

    parts, prices = [p for p, _ in pairs], [q for _, q in pairs]
    cost, moves = accounting.worst_case(parts, whole, prices)
    assert cost == sum(m * q for m, q in zip(moves, prices, strict=True))
    assert all(0 <= m <= p for m, p in zip(moves, parts, strict=True))
    assert sum(moves) <= whole
    best = linprog([-float(q) for q in prices], A_ub=[[1.0] * len(pairs)], b_ub=[float(whole)],
                   bounds=[(0, float(p)) for p in parts])  # fmt: skip
    assert float(cost) == pytest.approx(-best.fun, rel=1e-6)


@given(st.fractions(Fraction(1, 100), 20), st.sampled_from(["1e-3", "1e-6", "1e-12"]))
def test_zcdp_conversions_are_inverse_and_safe(epsilon, delta):
    chance = Fraction(delta)
    rho = accounting.zcdp_rho(epsilon, chance)
    assert accounting.zcdp_epsilon(rho, chance) <= epsilon
    assert accounting.zcdp_epsilon(rho * (1 + Fraction(1, 10**9)), chance) > epsilon
    # No looser than the textbook bound rho + 2 sqrt(rho ln(1/delta)).
    assert float(epsilon) <= float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / float(chance))) + 1e-12


def test_zcdp_conversion_against_direct_minimisation():
    rho, delta = 0.1, 1e-6
    alphas = 1 + np.exp(np.linspace(-5, 10, 400_001))
    direct = np.min(
        alphas * rho + (np.log(1 / delta) + (alphas - 1) * np.log1p(-1 / alphas) - np.log(alphas)) / (alphas - 1)
    )
    assert float(accounting.zcdp_epsilon(Fraction("0.1"), Fraction("1e-6"))) == pytest.approx(direct, rel=1e-8)


@given(st.fractions(Fraction(1, 10**6), 10**6))
def test_outward_rounding_is_up_and_close(value):
    rounded = accounting.round_up_decimal(value)
    assert 0 <= rounded - value < Fraction(1, 10**30)
    assert accounting.round_up_decimal(rounded) == rounded


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("scale", ["1e-140", "1e-9", "1", "1e9", "1e140"])
@pytest.mark.parametrize("step", ["1e-140", "1e-9", "1", "1e9", "1e140"])
def test_the_spread_of_noise_is_a_number_whatever_scale_and_step(kind, scale, step):
    """As a file may state them: noise far finer or far coarser than its grid."""
    noise = kind(Fraction(scale), Fraction(step))
    assert noise.variance >= 0
    assert noise.kind.capitalize() in noise.describe()
    assert np.isfinite(noise.log_density(0.0))
