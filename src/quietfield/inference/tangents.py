"""Inference in many directions: the covariance of all cells of a model, applied to vectors."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np

_ROOM = 2**27  # bytes for inference in many directions at once


def spread(engine: Any, theta: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """(mu, A, J d for each row d of directions) of an engine's flat vector; J is the covariance of all cells."""
    call = _tangents(engine)
    rows = batch(engine)
    found: list[np.ndarray] = []
    with jax.enable_x64(True):
        theta = np.asarray(theta, dtype=np.float64)
        for start in range(0, len(directions), rows):
            part = directions[start : start + rows]
            # Few directions at a time, always as many, so that one compiled call serves all.
            block = np.zeros((rows, len(theta)))
            block[: len(part)] = part
            mu, log_z, moved = call(theta, block)
            found.append(np.asarray(moved)[: len(part)])
    return np.asarray(mu), float(log_z), np.concatenate(found)


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


def work(engine: Any) -> int:
    """Bytes that inference in one direction goes through, about."""
    plan = getattr(engine, "plan", None)
    return plan.memory() if plan is not None else 64 * engine.layout.size


def batch(engine: Any) -> int:
    """How many directions to follow at once."""
    return int(np.clip(_ROOM // max(work(engine), 1), 1, 128))


@lru_cache(maxsize=32)
def _tangents(engine: Any) -> Callable[..., Any]:
    def call(theta: jax.Array, directions: jax.Array) -> Any:
        (mu, log_z), along = jax.linearize(engine.marginals_and_log_partition, theta)
        return mu, log_z, jax.vmap(lambda d: along(d)[0])(directions)

    return jax.jit(call)
