"""The probability of a noisy count: normal sampling error plus Laplace or Gaussian noise, and its information.

A count n of mean N m and variance v is about normal; with noise of scale b, y - N m is normal-Laplace or normal.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr


def log_normal_laplace(z: jax.Array, v: jax.Array, b: jax.Array) -> jax.Array:
    """The log-density at z of a normal of variance v plus Laplace noise of scale b."""
    s = jnp.sqrt(v)
    left = -z / b + log_ndtr((z - v / b) / s)
    right = z / b + log_ndtr(-(z + v / b) / s)
    return v / (2 * b * b) + jnp.logaddexp(left, right) - jnp.log(2 * b)


def log_normal(z: jax.Array, v: jax.Array, b: jax.Array) -> jax.Array:
    """The same with Gaussian noise of standard deviation b."""
    return -0.5 * z * z / (v + b * b) - 0.5 * jnp.log(2 * jnp.pi * (v + b * b))


@lru_cache(maxsize=1)
def information_table() -> tuple[np.ndarray, np.ndarray]:
    """(log v, log information about the mean) of the normal-Laplace with b = 1.

    1/(1+v) is only an upper bound (by up to 28%); the integral of the squared score has no closed form.
    """
    from scipy.special import log_ndtr as log_phi  # in numpy: this runs while JAX traces a fit

    grid = np.logspace(-6, 8, 113)
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
    laplace = jnp.exp(jnp.interp(jnp.log(v / b**2), grid, values)) / b**2
    return jnp.where(gaussian, 1 / (v + b * b), laplace)
