"""Collective graphical models: expectation-maximisation for the marginal likelihood of noisy tables, exactly.

The paper's E-step finds the most probable true tables n given y and theta, max theta.n + H(n) + log p(y|n). For Laplace
noise it has the smooth dual

    u = argmin over |u_i| <= 1/b_i  of  N A(theta + u) - u.y ,      n = N m(theta + u)

(write -|z|/b as the minimum of u z over |u| <= 1/b and swap; the inner maximum is N A), and the M-step is then free:
theta + u is the maximum-likelihood estimate of n. So one iteration of EM climbs y.theta - N A(theta) within a box
around where it stands. For Gaussian noise the box becomes the penalty b^2 u^2 / 2. A cell that was not counted does not
move.

Run to the end, EM fits the noise: where it stops is part of the estimator. We stop where a new record is most probable,

    maximise over iterations t   m . theta_t - A(theta_t)        (the expected log-likelihood of one more record)

with the shares m of the noise-aware fit (:mod:`quietfield.learning.map`) in place of the unknown true ones: its prior
is learned from the release, so nothing else is used and nothing is tuned.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.learning.learner import Learner
from quietfield.learning.map import Map
from quietfield.learning.newton import solve
from quietfield.learning.problem import Data, FitState, Shape


class Path(NamedTuple):
    """Where EM stands; the state's theta is the best iterate so far."""

    theta: Any
    iteration: Any
    best: Any  # the iteration of the best
    reference: Any  # the parameters of the noise-aware fit


@dataclass(frozen=True)
class Cgm(Learner):
    """EM with the exact E-step through its dual, and a stopping rule that sees only the release."""

    rounds: int = 200
    stretch: int = 20  # iterations per round
    patience: float = 1.15  # stop when the best iterate is this many times (and half a round) behind
    inner: int = 6  # Newton steps of an E-step, at most
    tolerance: float = 0.02  # nats: an E-step ends when a Newton step gains less
    stop: bool = True  # False: run all iterations and keep the last, as the paper does

    name = "cgm"

    @property
    def reference(self) -> Learner | None:
        return Map() if self.stop else None

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        at = np.zeros(shape.size) if reference is None else reference.theta
        return FitState(np.zeros(shape.size), -np.inf, 0, False, Path(np.zeros(shape.size), 0, 0, at))

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        # What the reference learned arrives as parameters: its shares are worth one call per round.
        shares = shape.shares(state.extra.reference)

        def body(_: Any, state: FitState) -> FitState:
            path = state.extra
            theta = self.iterate(shape, data, path.theta)
            iteration = path.iteration + 1
            if self.stop:
                value = jnp.vdot(shares, theta) - shape.log_partition(theta)
            else:
                value = jnp.vdot(shape.counted * data.y, theta) - data.total * shape.log_partition(theta)
            better = (value > state.value) | (not self.stop)
            return FitState(
                jnp.where(better, theta, state.theta),
                jnp.where(better, value, state.value),
                iteration,
                state.done,
                path._replace(theta=theta, iteration=iteration, best=jnp.where(better, iteration, path.best)),
            )

        most = jnp.where(state.done, 0, self.stretch)
        state = jax.lax.fori_loop(0, most, body, state)
        behind = state.extra.iteration > self.patience * state.extra.best + self.stretch / 2
        return state._replace(done=behind & self.stop)

    def iterate(self, shape: Shape, data: Data, theta: jax.Array) -> jax.Array:
        """One iteration of EM: the maximiser of y.t - N A(t) in the box around theta."""
        gaussian, counted = shape.per_cell(shape.gaussian), shape.counted > 0
        reach = jnp.where(counted, jnp.where(gaussian, jnp.inf, 1 / data.b), 0.0)
        low, high = theta - reach, theta + reach
        pull = jnp.where(counted & gaussian, data.b**2, 0.0)
        y = jnp.where(counted, data.y, 0.0)

        def value(t: jax.Array, log_partition: jax.Array) -> jax.Array:
            return jnp.vdot(y, t) - data.total * log_partition - 0.5 * jnp.vdot(pull, (t - theta) ** 2)

        def body(carry: Any) -> Any:
            t, _, steps = carry
            m, jacobian, log_partition = jax.linearize(shape.shares_and_log_partition, t, has_aux=True)
            slope = jnp.where(counted, y - data.total * m, 0.0) - pull * (t - theta)
            free = ((slope > 0) & (t < high)) | ((slope < 0) & (t > low))
            # Where tables disagree the slope has parts without curvature, which would lead a step far out of the box.
            # This much curvature keeps any step within some ten times its reach.
            damped = pull + jnp.where(gaussian, 0.0, 0.1 * data.b * jnp.abs(slope)) + 1e-9 * data.total

            def curvature(p: jax.Array) -> jax.Array:
                return jnp.where(free, data.total * jacobian(p) + damped * p, p)

            diagonal = jnp.where(free, data.total * m + damped, 1.0)
            step = solve(curvature, jnp.where(free, slope, 0.0), diagonal, 0.1, 15)
            here = value(t, log_partition)

            def short(trial: Any) -> jax.Array:
                _, reached, _, tries = trial
                return ~(reached >= here) & (tries < 15)

            def attempt(trial: Any) -> Any:
                length, _, _, tries = trial
                to = jnp.clip(t + length * step, low, high)
                return length / 2, value(to, shape.log_partition(to)), to, tries + 1

            one = jnp.ones_like(here)
            _, reached, to, _ = jax.lax.while_loop(short, attempt, (one, -jnp.inf * one, t, 0))
            return jnp.where(reached >= here, to, t), jnp.maximum(reached - here, 0.0), steps + 1

        far = jnp.asarray(jnp.inf, theta.dtype)
        more = lambda carry: (carry[1] > self.tolerance) & (carry[2] < self.inner)  # noqa: E731
        return shape.centred(jax.lax.while_loop(more, body, (theta, far, 0))[0])
