"""Truncated Newton ascent on the device: directions by conjugate gradients, steps by a line search.

Curvature is only ever applied to vectors, so problems of many thousand parameters are as easy as small ones.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from quietfield.learning.learner import FARTHEST

Operator = Callable[[jax.Array], jax.Array]
#: Conjugate gradients for a direction end when the residual has shrunk by so much, or after so many.
TOLERANCE, CONJUGATE = 0.02, 40


class Local(NamedTuple):
    """An objective around a point: value, gradient, (positive) curvature as an operator, its approximate diagonal."""

    value: Any
    gradient: Any
    curvature: Operator
    diagonal: Any


class Progress(NamedTuple):
    """Where an ascent stands. ``gain`` is the rise that the quadratic model last promised: small means done.

    ``stuck``: no step along the last direction climbed. With a small gain that is the top but for rounding.
    """

    theta: Any
    value: Any
    gain: Any
    steps: Any
    stuck: Any


def solve(operator: Operator, right: jax.Array, diagonal: jax.Array, tolerance: float, most: int) -> jax.Array:
    """Preconditioned conjugate gradients, until the residual has shrunk by ``tolerance``."""

    def more(state: Any) -> jax.Array:
        *_, rz, k = state
        return (k < most) & (rz > tolerance**2 * size)

    def body(state: Any) -> Any:
        x, r, p, rz, k = state
        q = operator(p)
        length = rz / jnp.vdot(p, q)
        r = r - length * q
        z = r / diagonal
        new = jnp.vdot(r, z)
        return x + length * p, r, z + new / rz * p, new, k + 1

    start = right / diagonal
    size = jnp.vdot(right, start)
    return jax.lax.while_loop(more, body, (jnp.zeros_like(right), right, start, size, 0))[0]


def ascend(
    local: Callable[[jax.Array], Local],
    value: Callable[[jax.Array], jax.Array],
    theta: jax.Array,
    *,
    steps: Any,
    gain: Any,
    farthest: float = FARTHEST,
) -> Progress:
    """Newton steps until one promises to gain less than ``gain``, or ``steps`` of them.

    ``value`` stands once in the code of a step, and so is compiled once: inference in it is by far the largest part.
    """

    def body(state: Progress) -> Progress:
        here = local(state.theta)
        direction = solve(here.curvature, here.gradient, here.diagonal, TOLERANCE, CONJUGATE)
        direction = direction * jnp.minimum(1.0, farthest / (jnp.abs(direction).max() + 1e-300))
        slope = jnp.vdot(here.gradient, direction)

        def more(trial: Any) -> jax.Array:
            _, _, best, tries = trial
            climbed = (best[0] > 0) & (best[1] >= here.value + 1e-4 * best[0] * slope)
            return (tries < 2) | (~climbed & (tries < 20))

        def attempt(trial: Any) -> Any:
            # The full step, then the top of the parabola through what is known (the curvature is expected, not
            # observed, so it is often shorter), then ever shorter ones until one climbs.
            length, _, best, tries = trial
            reached = value(state.theta + length * direction)
            bend = slope - (reached - here.value) / length
            peak = jnp.where(bend > 0, length * slope / (2 * bend), length / 2)
            shorter = jnp.where(tries == 0, jnp.clip(peak, 0.1, 1.0), length / 2)
            better = (reached > best[1]) & (reached < jnp.inf)
            kept = (jnp.where(better, length, best[0]), jnp.where(better, reached, best[1]))
            return jnp.where(jnp.isfinite(reached), shorter, length / 4), reached, kept, tries + 1

        one, none = jnp.ones_like(slope), jnp.zeros_like(slope)
        _, _, (length, reached), _ = jax.lax.while_loop(more, attempt, (one, none, (none, here.value), 0))
        return Progress(state.theta + length * direction, reached, slope, state.steps + 1, length <= 0)

    far = jnp.asarray(jnp.inf, theta.dtype)
    start = Progress(theta, -far, far, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    return jax.lax.while_loop(lambda s: (s.gain > gain) & (s.steps < steps) & ~s.stuck, body, start)
