"""Thresholds: how large a noisy count has to be before its label may be published, where labels are not public.

Of two neighbouring data sets, each may have labels that the other lacks. One unit has k rows, so these are at most k,
each with a count of at most k. Unless noise lifts one of them to the threshold t, what is published is a function of
noisy counts of labels that both data sets have, which costs what its noise costs. It is lifted with a probability of at
most ``k P(X >= t - k)``, where X is the noise: that is the delta of a threshold, and the rest is zCDP (or pure) given
that it does not happen. In the terms of Bun and Steinke (2016, definition 8.1), it is delta-approximate rho-zCDP.

OpenDP's own map for thresholds (0.16) counts noise beyond ``t - k`` and not noise that is equal to it, although counts
that are equal to the threshold are published; so it is not relied on.
"""

from fractions import Fraction
from math import erfc, sqrt

from quietfield.errors import Error
from quietfield.privacy.accounting import exp_above
from quietfield.privacy.calibration import LARGEST_SCALE

#: More than what ``erfc`` may be off by, relative to its value.
_MARGIN = Fraction(1) + Fraction(1, 10**9)


def noise_tail(kind: str, scale: float, least: int) -> Fraction:
    """The probability that discrete noise is ``least`` or more, or a bound slightly above it.

    Discrete Laplace noise has ``q^least / (1 + q)`` with ``q = e^(-1/scale)``. That of the discrete Gaussian is at most
    the probability that a normal variable exceeds ``least - 1`` (Canonne, Kamath and Steinke 2020, proposition 25).

    Args:
        kind: ``"laplace"`` or ``"gaussian"``.
        scale: The scale of the noise, in counts.
        least: A whole number of 1 or more.

    Returns:
        The probability, rounded up.

    >>> 0.0757 < noise_tail("laplace", 31.0, 59) < 0.0758
    True
    """
    if kind == "laplace":
        step = 1 / Fraction(scale)
        return exp_above(-least * step) / (1 + 1 / exp_above(step))
    return Fraction(erfc((least - 1) / (scale * sqrt(2))) / 2) * _MARGIN


def smallest_threshold(kind: str, scale: float, rows: int, delta: Fraction) -> int:
    """The smallest noisy count at which a label may be published, so that this fails with at most ``delta``.

    Args:
        kind: ``"laplace"`` or ``"gaussian"``.
        scale: The scale of the noise, in counts.
        rows: The most rows of one unit.
        delta: The most that the threshold may spend.

    Returns:
        The threshold: counts of at least as much are published.

    Raises:
        Error: No count of 64 bits would be large enough.

    >>> smallest_threshold("laplace", 1.0, 1, Fraction(1, 10**6))
    15
    """

    def holds(above: int) -> bool:
        return rows * noise_tail(kind, scale, above) <= delta

    high = 1
    while not holds(high):
        high *= 2
        if high > LARGEST_SCALE:
            raise Error("no threshold keeps such a delta with so much noise; ask for a larger epsilon or delta.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return rows + high
