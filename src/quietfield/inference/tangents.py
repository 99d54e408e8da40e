"""Approximate inference of one model and its derivative: the covariance of all cells, applied to a vector."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np


def shares(engine: Any, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """(mu, A) of an engine's flat vector."""
    with jax.enable_x64(True):
        mu, log_z = _single(engine)[0](np.asarray(theta, dtype=np.float64))
        return np.asarray(mu), float(log_z)


def along(engine: Any, theta: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """J d for one direction."""
    with jax.enable_x64(True):
        return np.asarray(_single(engine)[1](np.asarray(theta, dtype=np.float64), direction))


@lru_cache(maxsize=32)
def _single(engine: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    call = engine.marginals_and_log_partition
    return jax.jit(call), jax.jit(lambda theta, d: jax.jvp(call, (theta,), (d,))[1][0])
