"""The default learner: the most probable parameters given the noisy tables, with a prior that it learns itself.

Cell by cell, a count n has mean N m(theta) and variance about v = N m (1 - m), and y = n + noise is normal-Laplace
(or normal). We maximise

    sum_i log p(y_i - N m_i(theta); v_i, b_i)  -  |P theta|^2 / (2 tau_1^2)  -  |theta - P theta|^2 / (2 tau_2^2)

where P theta is the interaction of all attributes of each table and the rest are effects of fewer attributes. The two
scales come from the tables too (MacKay's evidence update): tau_k^2 = |P_k theta|^2 / gamma_k, where gamma_k, the number
of parameters that the data determine, is dim_k - tr(P_k S) / tau_k^2 with S the inverse curvature, its trace estimated
by random probes. A few rounds of both settle. Nothing is left to tune.

The expected information W of the cells and the Jacobian J of m give the curvature N^2 J W J + prior; J is applied to
vectors by linearising inference once a step.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.learning.learner import Learner
from quietfield.learning.likelihood import information, log_normal, log_normal_laplace
from quietfield.learning.newton import Local, Operator, Progress, ascend, solve
from quietfield.learning.problem import Data, Shape, State

_LEAST_SHARE = 1e-6  # of b^2: keeps the sampling variance of an empty cell above zero
_SCALES = (1e-3, 1e3)  # bounds of tau: a release of pure noise would shrink it to 0, one without noise let it grow


class Extra(NamedTuple):
    """What a fit carries from round to round beside its parameters."""

    variances: Any  # tau^2 of interactions and of the rest
    round: Any
    settled: Any  # the last update moved the scales so little that one more climb ends the fit


@dataclass(frozen=True)
class Map(Learner):
    """Noise-aware maximum a posteriori with learned prior scales."""

    rounds: int = 8  # each climbs and then updates the prior; at most
    steps: int = 15  # Newton steps a round, at most
    gain: float = 0.05  # nats: a climb ends when a step promises less
    settled: float = 0.03  # relative change of the scales that ends the fit
    probes: int = 4
    conjugate: int = 40
    tolerance: float = 0.02

    name = "map"

    def init(self, shape: Shape, data: Data) -> State:
        return State(np.zeros(shape.size), -np.inf, 0, False, Extra(np.ones(2), 0, False))

    def step(self, shape: Shape, data: Data, state: State) -> State:
        """Climb under the prior as it stands, then learn the prior from where that ended."""
        variances, round, settled = state.extra
        # Normal errors of the same spread first: smooth, so that Newton's method gets close fast.
        smooth = round == 0
        most = jnp.where(state.done, 0, jnp.where(smooth, 12, self.steps))
        gain = jnp.where(smooth, 1.0, self.gain)
        found = self._climb(shape, data, state.theta, variances, smooth, most, gain)
        done = settled & (found.gain <= self.gain)
        fresh = jax.lax.cond(
            smooth | done, lambda: variances, lambda: self._evidence(shape, data, found.theta, variances)
        )
        change = jnp.max(jnp.abs(jnp.log(fresh / variances))) / 2
        near = ~smooth & (change < self.settled) & (found.gain <= self.gain)
        return State(found.theta, found.value, state.steps + found.steps, done, Extra(fresh, round + 1, near))

    def _climb(
        self, shape: Shape, data: Data, theta: Any, variances: Any, smooth: Any, steps: Any, gain: Any
    ) -> Progress:
        def value(theta: jax.Array) -> jax.Array:
            prior = _prior(shape, theta, variances)
            return self._fit(shape, data, shape.shares(theta), smooth) - 0.5 * jnp.vdot(theta, prior)

        def local(theta: jax.Array) -> Local:
            m, jacobian = jax.linearize(shape.shares, theta)
            height, slope = jax.value_and_grad(lambda m: self._fit(shape, data, m, smooth))(m)
            prior = _prior(shape, theta, variances)
            w = self._weights(shape, data, m, smooth)
            return Local(
                height - 0.5 * jnp.vdot(theta, prior),
                jacobian(slope) - prior,
                lambda p: _twice(jacobian, w, p) + _prior(shape, p, variances),
                w * m * m + 1 / variances.max(),
            )

        return ascend(local, value, theta, steps=steps, gain=gain, conjugate=self.conjugate, tolerance=self.tolerance)

    def _fit(self, shape: Shape, data: Data, m: jax.Array, smooth: Any) -> jax.Array:
        """The log-likelihood of all counted cells, one by one; with normal errors of the same spread if ``smooth``."""
        gaussian = shape.per_cell(shape.gaussian)
        z, v = data.y - data.total * m, sampling_variance(shape, data, m)
        spread = jnp.where(gaussian, data.b, jnp.sqrt(2.0) * data.b)
        logs = jnp.where(smooth | gaussian, log_normal(z, v, spread), log_normal_laplace(z, v, data.b))
        return jnp.sum(shape.counted * logs)

    def _weights(self, shape: Shape, data: Data, m: jax.Array, smooth: Any) -> jax.Array:
        """N^2 times the information of each cell about its mean."""
        gaussian = shape.per_cell(shape.gaussian)
        v = sampling_variance(shape, data, m)
        rough = 1 / (v + jnp.where(gaussian, 1.0, 2.0) * data.b**2)
        return data.total**2 * shape.counted * jnp.where(smooth, rough, information(v, data.b, gaussian))

    def _evidence(self, shape: Shape, data: Data, theta: jax.Array, variances: jax.Array) -> jax.Array:
        """tau_k^2 = |P_k theta|^2 / (dim_k - tr(P_k S) / tau_k^2)."""
        m, jacobian = jax.linearize(shape.shares, theta)
        w = self._weights(shape, data, m, False)
        # The same probes in every fit: the same release gives the same model.
        probes = jax.random.rademacher(jax.random.key(0), (self.probes, shape.size), dtype=theta.dtype)

        def curvature(p: jax.Array) -> jax.Array:
            return _twice(jacobian, w, p) + _prior(shape, p, variances)

        diagonal = w * m * m + 1 / variances.max()
        solved = jax.vmap(lambda z: solve(curvature, z, diagonal, 0.03, 80))(probes)
        inside = jax.vmap(shape.interactions)(probes)
        traces = jnp.stack([(inside * solved).sum(1).mean(), ((probes - inside) * solved).sum(1).mean()])
        part = shape.interactions(theta)
        norms = jnp.stack([jnp.vdot(part, part), jnp.vdot(theta - part, theta - part)])
        sizes = jnp.asarray([shape.interaction_dimension, shape.size - shape.interaction_dimension])
        determined = jnp.maximum(sizes - traces / variances, 1.0)
        low, high = (scale**2 for scale in _SCALES)
        return jnp.clip(norms / determined, low, high)


def sampling_variance(shape: Shape, data: Data, m: jax.Array) -> jax.Array:
    """v: the variance of a count, N m (1 - m) for one clique; an upper bound where a table sums several."""
    return data.total * m * (1 - m / shape.copies) + _LEAST_SHARE * data.b**2


def _twice(jacobian: Operator, w: jax.Array, p: jax.Array) -> jax.Array:
    """J W J p, as a loop of two, so that the linearised inference is compiled once and not twice."""
    return jax.lax.fori_loop(0, 2, lambda i, x: jnp.where(i == 0, w, 1.0) * jacobian(x), p)


def _prior(shape: Shape, theta: jax.Array, variances: jax.Array) -> jax.Array:
    part = shape.interactions(theta)
    return part / variances[0] + (theta - part) / variances[1]
