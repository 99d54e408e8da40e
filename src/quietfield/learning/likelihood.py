"""The probability of a noisy count: normal sampling error plus Laplace or Gaussian noise, and its information.

A count n of mean N m and variance v is about normal; with noise of scale b, y - N m is normal-Laplace or normal.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

_NORMAL = 1e6  # v / b^2 from which the density is normal but for rounding: its kurtosis is 12 b^4 / v^2
_WIDEST = 1e4  # the same for the information, which is 1 / (v + 2 b^2) from there on


class Density(NamedTuple):
    """The log-density of errors z, and its derivatives by z and by v."""

    log: np.ndarray
    by_error: np.ndarray
    by_variance: np.ndarray


def noisy_normal(z: np.ndarray, v: np.ndarray, b: np.ndarray, gaussian: np.ndarray) -> Density:
    """The density at z of a normal of variance v plus noise of scale b, Gaussian where ``gaussian`` and else Laplace.

    >>> at = noisy_normal(np.array([0.0]), np.array([1.0]), np.array([1.0]), np.array([True]))
    >>> round(float(np.exp(at.log[0]) ** 2 * 4 * np.pi), 6)
    1.0
    """
    square = v + np.where(gaussian, 1.0, 2.0) * b * b
    log = -0.5 * z * z / square - 0.5 * np.log(2 * np.pi * square)
    by_error, by_variance = -z / square, 0.5 * (z * z / square - 1) / square
    # Beyond _NORMAL, v / 2b^2 and what it cancels with would leave no digits: there the normal stands in.
    laplace = ~gaussian & (v <= _NORMAL * b * b)
    if laplace.any():
        log[laplace], by_error[laplace], by_variance[laplace] = _normal_laplace(z[laplace], v[laplace], b[laplace])
    return Density(log, by_error, by_variance)


def _normal_laplace(z: np.ndarray, v: np.ndarray, b: np.ndarray) -> Density:
    from scipy.special import log_ndtr

    s = np.sqrt(v)
    left, right = log_ndtr((z - v / b) / s) - z / b, log_ndtr((-z - v / b) / s) + z / b
    either = np.logaddexp(left, right)
    log = v / (2 * b * b) + either - np.log(2 * b)
    normal = np.exp(-0.5 * z * z / v - 0.5 * np.log(2 * np.pi * v) - log)
    return Density(log, (np.exp(right - either) - np.exp(left - either)) / b, 0.5 * (1 - normal) / (b * b))


@lru_cache(maxsize=1)
def information_table() -> tuple[np.ndarray, np.ndarray]:
    """(log v, log information about the mean) of the normal-Laplace with b = 1.

    1/(1+v) is only an upper bound (by up to 28%); the integral of the squared score has no closed form.
    """
    grid = np.logspace(-6, np.log10(_WIDEST), 81)
    u = np.linspace(-1, 1, 8001)
    rows = []
    for v in grid:
        s = np.sqrt(v)
        z = (12 * s + 60) * u**3 + min(1.0, s) * u  # dense around the kink at 0
        found = _normal_laplace(z, np.full_like(z, v), np.ones_like(z))
        rows.append(np.trapezoid(np.exp(found.log) * found.by_error**2, z))
    return np.log(grid), np.log(rows)


def information(v: np.ndarray, b: np.ndarray, gaussian: np.ndarray) -> np.ndarray:
    """The information that one noisy count of sampling variance v holds about its mean."""
    if gaussian.all():
        return 1 / (v + b * b)
    grid, values = information_table()
    laplace = np.exp(np.interp(np.log(v / b**2), grid, values)) / b**2
    laplace = np.where(v > _WIDEST * b * b, 1 / (v + 2 * b * b), laplace)
    return np.where(gaussian, 1 / (v + b * b), laplace)
