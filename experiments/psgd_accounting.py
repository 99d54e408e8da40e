"""How much noise private gradient descent needs: two accountants for a Gaussian mechanism on Poisson samples.

One step adds Gaussian noise of standard deviation sigma * clip to a sum over a random batch, in which each record is
with probability q, and the sum moves by at most ``clip`` when a record comes or goes. T steps are composed by

* ``pld``: the privacy loss distribution (dp-accounting), discretised so that it errs on the safe side: the tight one;
* ``moments``: the moments accountant of Abadi et al. (2016), with moments lambda = 1 .. 32: the one of the paper. It
  cannot go below epsilon = log(1/delta) / 32, however much noise is added.

Nothing here sees a record. Glossary: sigma noise multiplier, q sampling rate, T steps, alpha(lambda) log-moment.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import exp, isfinite, lgamma, log, log1p, sqrt
from typing import Literal, get_args

from quietfield.errors import Error

Accountant = Literal["pld", "moments"]
MOMENTS = 32
SMALLEST, LARGEST = 0.2, 1e7  # of noise multipliers; below, the loss distribution takes minutes to compute
COARSE = 16  # times the grid of losses, for a first search
FINEST = 2**19  # points that the grid has over the losses of one step, at most
CLOSE = 1e-3  # a noise multiplier is good enough when it uses all but this share of epsilon


def log_moment(sigma: float, rate: float, order: int) -> float:
    """alpha(lambda) of one step: the log of E[(p(z)/p0(z))^lambda], z from p = (1-q) N(0, sigma^2) + q N(1, sigma^2).

    For whole lambda it is a binomial sum, log sum_k C(lambda+1, k) (1-q)^(lambda+1-k) q^k exp(k(k-1) / 2 sigma^2), and
    the moment with p and p0 = N(0, sigma^2) in each other's place is never larger (Mironov, Talwar and Zhang 2019).

    >>> round(log_moment(4.0, 0.01, 32), 6)
    0.003476
    """
    top = order + 1
    if rate >= 1:
        return order * top / (2 * sigma * sigma)
    terms = [
        lgamma(top + 1) - lgamma(k + 1) - lgamma(top - k + 1)
        + (top - k) * log1p(-rate) + k * log(rate) + k * (k - 1) / (2 * sigma * sigma)
        for k in range(top + 1)
    ]  # fmt: skip
    highest = max(terms)
    return max(0.0, highest + log(sum(exp(term - highest) for term in terms)))


def moments_epsilon(sigma: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon of T steps by the moments accountant: min over lambda of (T alpha(lambda) + log(1/delta)) / lambda.

    >>> round(moments_epsilon(4.0, 0.01, 10_000, 1e-5), 2)  # the example of Abadi et al.
    1.26
    """
    return min((steps * log_moment(sigma, rate, k) - log(delta)) / k for k in range(1, MOMENTS + 1))


def pld_epsilon(sigma: float, rate: float, steps: int, delta: float, interval: float = 1e-4) -> float:
    """The epsilon of T steps by the privacy loss distribution, on a grid of losses ``interval`` apart."""
    try:
        import dp_accounting
        from dp_accounting import pld
    except ModuleNotFoundError:
        raise Error(
            "the accountant 'pld' needs dp-accounting; install it with: pip install 'quietfield[bench]', "
            "or use accountant='moments', which needs nothing and adds more noise."
        ) from None
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=1024)
def noise_multiplier(epsilon: float, delta: float, rate: float, steps: int, accountant: Accountant = "pld") -> float:
    """The smallest sigma (within a thousandth of epsilon) for which T steps are (epsilon, delta)-private.

    >>> round(noise_multiplier(1.26, 1e-5, 0.01, 10_000, "moments"), 1)
    4.0
    """
    if accountant not in get_args(Accountant):
        raise Error(f"the accountant is 'pld' or 'moments', not {accountant!r}.")
    if accountant == "moments":
        least = -log(delta) / MOMENTS
        if epsilon <= least:
            raise Error(
                f"the moments accountant cannot reach epsilon {epsilon:g} at delta {delta:g}: with {MOMENTS} moments "
                f"it stays above {least:.3g} whatever the noise; use accountant='pld', or a larger epsilon or delta."
            )
    # A coarser grid overstates the loss, the more so the more steps: fine enough that little of epsilon is lost to it.
    interval = min(1e-4 * epsilon, 0.1) if epsilon > 0.1 else min(1e-5, max(1e-3 * epsilon, 1e-7))
    interval = min(interval, max(epsilon / steps, 1e-9))

    guess = max(rate * sqrt(2 * steps * log(1.25 / delta)) / epsilon, 1.0)
    if accountant == "moments":
        return _smallest(lambda sigma: moments_epsilon(sigma, rate, steps, delta), epsilon, guess)

    def spent(sigma: float, coarser: float = 1.0) -> float:
        # A delta that allows for little noise at a small epsilon would ask for billions of points.
        losses = 1 / (2 * sigma * sigma) + 10 / sigma
        return pld_epsilon(sigma, rate, steps, delta, max(interval * coarser, losses / FINEST))

    # Most of the search is on a coarse grid, which is quick; only what the fine one says is promised. With many steps
    # and a small epsilon the coarse one overstates the loss so much that it never gets there.
    try:
        guess = _smallest(lambda sigma: spent(sigma, COARSE), epsilon, guess)
    except Error:
        pass
    return _smallest(spent, epsilon, guess)


def zcdp_price(sigma: float, steps: int) -> Fraction:
    """The rho of T steps for a ledger of zero-concentrated privacy: T / (2 sigma^2), as if q were 1.

    Sampling makes a run cheaper in (epsilon, delta) but not in rho, which bounds moments of every order: at high orders
    a sampled step is no better than a full one. It is no worse either, so this price is safe.
    """
    return Fraction(steps) / (2 * Fraction(sigma) ** 2)


def _smallest(spent: Callable[[float], float], epsilon: float, guess: float) -> float:
    """The smallest sigma that spends at most epsilon, by interpolating log epsilon over log sigma within a bracket."""
    high = min(max(guess, SMALLEST), LARGEST)
    above = spent(high)
    while above > epsilon:
        if high >= LARGEST:
            raise Error(
                f"epsilon {epsilon:g} cannot be reached even with noise of {LARGEST:.0e} times the clip; "
                "ask for a larger epsilon or delta, or for fewer steps."
            )
        high = min(high * 1.5, LARGEST)
        above = spent(high)
    if above >= (1 - CLOSE) * epsilon:
        return high
    low, below = high, above
    while below <= epsilon:
        if low <= SMALLEST:
            return SMALLEST  # more noise than asked for
        high, above = low, below
        low = max(low / 1.5, SMALLEST)
        below = spent(low)
    while above < (1 - CLOSE) * epsilon and high > low * (1 + 1e-6):
        share = 0.5
        if isfinite(below) and above > 0:
            # Aimed a little inside epsilon, so that the safe end of the bracket is the one that closes in.
            share = (log(below) - log(epsilon * (1 - CLOSE / 2))) / (log(below) - log(above))
        middle = low * (high / low) ** min(max(share, 0.05), 0.95)
        found = spent(middle)
        if found <= epsilon:
            high, above = middle, found
        else:
            low, below = middle, found
    return high
