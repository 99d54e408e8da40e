"""The probability of a noisy count: normal sampling error plus Laplace or Gaussian noise, and its information.

A count n of mean N m and variance v is about normal; with noise of scale b, y - N m is normal-Laplace or normal.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

_NORMAL = 1e6  # v / b^2 from which the density is normal but for rounding: its kurtosis is 12 b^4 / v^2
_WIDEST = 1e4  # the same for the information, which is 1 / (v + 2 b^2) from there on


def log_normal_laplace(z: jax.Array, v: jax.Array, b: jax.Array) -> jax.Array:
    """The log-density at z of a normal of variance v plus Laplace noise of scale b."""
    narrow = v > _NORMAL * b * b  # here v / 2b^2 and what it cancels with would leave no digits
    normal = log_normal(z, v, jnp.sqrt(2.0) * b)
    b = jnp.where(narrow, jnp.sqrt(v), b)
    s = jnp.sqrt(v)
    # Both tails in one call: log_ndtr is a good part of what a fit compiles.
    tails = log_ndtr(jnp.stack([z - v / b, -z - v / b]) / s)
    either = jnp.logaddexp(tails[0] - z / b, tails[1] + z / b)
    return jnp.where(narrow, normal, v / (2 * b * b) + either - jnp.log(2 * b))


def log_normal(z: jax.Array, v: jax.Array, b: jax.Array) -> jax.Array:
    """The same with Gaussian noise of standard deviation b."""
    return -0.5 * z * z / (v + b * b) - 0.5 * jnp.log(2 * jnp.pi * (v + b * b))


@lru_cache(maxsize=1)
def information_table() -> tuple[np.ndarray, np.ndarray]:
    """(log v, log information about the mean) of the normal-Laplace with b = 1.

    1/(1+v) is only an upper bound (by up to 28%); the integral of the squared score has no closed form.
    """
    from scipy.special import log_ndtr as log_phi  # in numpy: this runs while JAX traces a fit

    grid = np.logspace(-6, np.log10(_WIDEST), 81)
    u = np.linspace(-1, 1, 8001)
    rows = []
    for v in grid:
        s = np.sqrt(v)
        z = (12 * s + 60) * u**3 + min(1.0, s) * u  # dense around the kink at 0
        left, right = -z + log_phi((z - v) / s), z + log_phi(-(z + v) / s)
        both = np.logaddexp(left, right)
        slope = np.exp(right - both) - np.exp(left - both)
        rows.append(np.trapezoid(np.exp(v / 2 + both - np.log(2)) * slope**2, z))
    return np.log(grid), np.log(rows)


def information(v: jax.Array, b: jax.Array, gaussian: np.ndarray) -> jax.Array:
    """The information that one noisy count of sampling variance v holds about its mean."""
    grid, values = information_table()
    # Linear between the points of the grid, which is even: that needs no search.
    place = jnp.clip((jnp.log(v / b**2) - grid[0]) / (grid[1] - grid[0]), 0.0, len(grid) - 1.0)
    below = jnp.minimum(place.astype(int), len(grid) - 2)
    ends = jnp.asarray(values)[jnp.stack([below, below + 1])]
    laplace = jnp.exp(ends[0] + (place - below) * (ends[1] - ends[0])) / b**2
    laplace = jnp.where(v > _WIDEST * b * b, 1 / (v + 2 * b * b), laplace)
    return jnp.where(gaussian, 1 / (v + b * b), laplace)
