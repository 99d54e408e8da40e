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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.learning.likelihood import information, log_normal, log_normal_laplace
from quietfield.learning.newton import Local, Operator, Progress, ascend, solve
from quietfield.learning.problem import Data, Shape, State

_LEAST_SHARE = 1e-6  # of b^2: keeps the sampling variance of an empty cell above zero
_SCALES = (1e-3, 1e3)  # bounds of tau: a release of pure noise would shrink it to 0, one without noise let it grow


@dataclass(frozen=True)
class Map:
    """Noise-aware maximum a posteriori with learned prior scales."""

    rounds: int = 5  # of evidence updates; each starts where the last one ended
    steps: int = 15  # Newton steps a round, at most
    gain: float = 0.05  # nats: a round ends when a step promises less
    settled: float = 0.03  # relative change of the scales that ends the fit
    probes: int = 4
    conjugate: int = 40
    tolerance: float = 0.02

    name = "map"

    def functions(self, shape: Shape) -> dict[str, Any]:
        """The pieces to compile: few, since each holds inference."""
        return {"climb": partial(self._climb, shape), "evidence": partial(self._evidence, shape)}

    def run(self, calls: Mapping[str, Any], shape: Shape, data: Data) -> Iterator[State]:
        """The state after each round; the last one is the fit."""
        dtype = data.y.dtype
        variances = np.ones(2, dtype)
        # Normal errors of the same spread first: smooth, so that Newton's method gets close fast.
        found = calls["climb"](data, np.zeros(shape.size, dtype), variances, True, 12, 1.0)
        steps = int(found.steps)
        for _ in range(self.rounds):
            found = calls["climb"](data, found.theta, variances, False, self.steps, self.gain)
            steps += int(found.steps)
            fresh = np.asarray(calls["evidence"](data, found.theta, variances))
            change = float(np.max(np.abs(np.log(fresh / variances)))) / 2
            settled = change < self.settled and float(found.gain) <= self.gain
            variances = fresh
            yield State(found.theta, float(found.value), steps, settled)
            if settled:
                break
        found = calls["climb"](data, found.theta, variances, False, self.steps, self.gain)
        yield State(found.theta, float(found.value), steps + int(found.steps), settled)

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
