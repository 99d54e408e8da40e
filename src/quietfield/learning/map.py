"""The default learner: the most probable parameters given the noisy tables, with a prior that it learns itself.

Cell by cell, a count n has mean N m(theta) and variance about v = N m (1 - m), and y = n + noise is normal-Laplace
(or normal). We maximise

    sum_i log p(y_i - N m_i(theta); v_i, b_i)  -  |P theta|^2 / (2 tau_1^2)  -  |theta - P theta|^2 / (2 tau_2^2)

where P theta is the interaction of all attributes of each table and the rest are effects of fewer attributes. The two
scales come from the tables too (MacKay's evidence update): tau_k^2 = |P_k theta|^2 / gamma_k, where gamma_k, the number
of parameters that the data determine, is tr(P_k (1 - S T)) with S the inverse curvature and T the prior's curvature;
random probes estimate it. A few rounds of both settle. The density is averaged over what is uncertain
(:func:`_blurred`); two corrections end the fit: the scales are set for least divergence rather than for the mode
(:func:`_trust`), and one step accounts for the correlation of counts that the sum over cells ignores (:func:`_joined`).
Nothing is left to tune.

The expected information W of the cells and the Jacobian J of m give the curvature N^2 J W J + prior; J is applied to
vectors by linearising inference once a step.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.errors import Error
from quietfield.learning.learner import Learner
from quietfield.learning.likelihood import information, log_normal, log_normal_laplace
from quietfield.learning.newton import FINISH, SEED, Local, Operator, Progress, ascend, solve
from quietfield.learning.observation import independent_variance
from quietfield.learning.problem import Data, FitState, Shape
from quietfield.models.uncertainty import Uncertainty, remember_fit
from quietfield.releases.release import Release

_BLUR = 0.3  # 0, 0.1 and 1 were worse; 1 would be the whole leverage of a cell on its own fit
_EXPECTED = 20.0  # parameters of scale 1 that every prior has seen: holds a scale that the tables say little about
_LEAST_SHARE = 1e-6  # of b^2: keeps the sampling variance of an empty cell above zero
_LOOSER = 5.0  # many records determine effects whatever their scale
_SCALES = (1e-3, 1e3)  # bounds of tau: a release of pure noise would shrink it to 0, one without noise let it grow


class Extra(NamedTuple):
    """What a fit carries from round to round beside its parameters."""

    variances: Any  # tau^2 of interactions and of the rest
    determined: Any  # the part of each that the tables determine, between 0 and 1
    round: Any
    settled: Any  # the last update moved the scales so little that one more round ends the fit


@dataclass(frozen=True)
class Map(Learner):
    """Noise-aware maximum a posteriori with learned prior scales."""

    rounds: int = 8  # each climbs and then updates the prior; at most
    first: int = 20  # Newton steps to the start, at most
    steps: int = 5  # Newton steps a round, at most: rounds go on from where the last one ended
    gain: float = 0.3  # nats: a climb ends when a step promises less
    settled: float = 0.03  # relative change of the interactions' scale that ends the fit; _LOOSER for effects
    probes: int = 4
    conjugate: int = 25
    tolerance: float = 0.05

    name = "map"

    def __post_init__(self) -> None:
        if self.rounds < 2:
            raise Error(f"the method 'map' needs at least 2 rounds, one of them to start, not {self.rounds}.")

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        return FitState(np.zeros(shape.size), -np.inf, 0, False, Extra(np.ones(2), np.full(2, 0.5), 0, False))

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        """Climb under the prior as it stands, then learn the prior from where that ended."""
        variances, determined, round, settled = state.extra
        first = round == 0
        last = settled | (round == self.rounds - 1)
        prior = jnp.where(last, variances * _trust(determined) ** 2, variances)
        most = jnp.where(state.done, 0, jnp.where(first, self.first, jnp.where(last, 2, 1) * self.steps))
        blur = _BLUR * determined[0]
        found = self._climb(shape, data, state.theta, prior, blur, first, most, jnp.where(first, 1.0, self.gain))
        at = jax.linearize(shape.shares, found.theta)  # for both that follow: inference is most of what is compiled
        theta = jax.lax.cond(last, lambda: _joined(shape, data, found.theta, at, prior, blur), lambda: found.theta)
        fresh, part = jax.lax.cond(
            first | last,
            lambda: (variances, determined),
            lambda: self._evidence(shape, data, found.theta, at, variances),
        )
        near = ~first & (jnp.abs(jnp.log(fresh / variances)) / 2 < self.settled * jnp.array([1.0, _LOOSER])).all()
        kept = Extra(jnp.where(last, prior, fresh), part, round + 1, near)
        return FitState(theta, found.value, state.steps + found.steps, settled, kept)

    def uncertainty(self, release: Release, data: Data, state: FitState) -> Uncertainty:
        """What intervals need: see :mod:`quietfield.models.uncertainty`."""
        used, determined, rounds, _ = (np.asarray(part) for part in state.extra)
        # The last round scales the prior; what the release shows of the parameters is what it was before.
        drawn = used / np.asarray(_trust(jnp.asarray(determined))) ** 2 if state.done or rounds >= self.rounds else used
        return remember_fit(release, float(data.total), used, drawn)

    def _climb(
        self, shape: Shape, data: Data, theta: Any, variances: Any, blur: Any, first: Any, steps: Any, gain: Any
    ) -> Progress:
        """Up to the most probable parameters; or, in the ``first`` round, to a start.

        The start is naive maximum likelihood, y.theta - N A(theta), kept from following noise by a penalty of
        b theta^2 a cell. It is concave and its curvature, N J, has the square root of the other's condition:
        Newton's method gets there from anywhere. It should rather be too near to 0 than too far: what the tables
        determine is found in a few steps, but only many would bring back what they do not. Both share one compiled
        inference.
        """
        penalty = 2.0 * data.b * shape.counted + 1e-6 * data.b

        def pull(theta: jax.Array) -> jax.Array:
            return jnp.where(first, penalty * theta, _prior(shape, theta, variances))

        def height(theta: jax.Array, m: jax.Array, log_partition: jax.Array) -> jax.Array:
            naive = jnp.vdot(shape.counted * data.y, theta) - data.total * log_partition
            fit = jnp.where(first, naive, _log_likelihood(shape, data, m, blur))
            return fit - 0.5 * jnp.vdot(theta, pull(theta))

        def value(theta: jax.Array) -> jax.Array:
            return height(theta, *shape.shares_and_log_partition(theta))

        def local(theta: jax.Array) -> Local:
            m, jacobian, log_partition = jax.linearize(shape.shares_and_log_partition, theta, has_aux=True)
            slope = jax.grad(lambda m: _log_likelihood(shape, data, m, blur))(m)
            w = _weights(shape, data, m, blur)
            naive = shape.counted * (data.y - data.total * m)
            bend = jnp.where(first, data.total * m + penalty, w * m * m + 1 / variances.max())

            def curvature(p: jax.Array, turn: Any) -> jax.Array:
                seeding = turn == SEED
                weights = jnp.where(seeding, 1.0, jnp.where(first, data.total, w))
                bent = _curve(jacobian, weights, p, first | seeding)
                # A cell that was not counted stays where it is in the first round, as its gradient says.
                return jnp.where(seeding, bent, jnp.where(first, shape.counted, 1.0) * (bent + pull(p)))

            return Local(
                height(theta, m, log_partition),
                jnp.where(first, naive, 0.0) - pull(theta),
                curvature,
                bend,
                seed=jnp.where(first, 0.0, slope),
            )

        return ascend(local, value, theta, steps=steps, gain=gain, conjugate=self.conjugate, tolerance=self.tolerance)

    def _evidence(
        self, shape: Shape, data: Data, theta: jax.Array, at: tuple[jax.Array, Operator], variances: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """tau_k^2 = |P_k theta|^2 / gamma_k, both with some parameters of scale 1 added; and gamma_k by dimension."""
        m, jacobian = at
        w = _weights(shape, data, m)
        # The same probes in every fit: the same release gives the same model.
        probes = jax.random.rademacher(jax.random.key(0), (self.probes, shape.size), dtype=theta.dtype)

        def curvature(p: jax.Array) -> jax.Array:
            return _curve(jacobian, w, p) + _prior(shape, p, variances)

        diagonal = w * m * m + 1 / variances.max()
        # 1 - S / tau^2 applied to each probe, and not the dimension less a trace: of few determined parameters among
        # many, the probes' own spread would leave nothing. In turn: in a batch they would take longer to compile.
        seen = jax.lax.map(lambda z: z - solve(curvature, _prior(shape, z, variances), diagonal, 0.01, 80)[0], probes)
        inside = jax.vmap(shape.interactions)(probes)
        traces = jnp.stack([(inside * seen).sum(1).mean(), ((probes - inside) * seen).sum(1).mean()])
        part = shape.interactions(theta)
        norms = jnp.stack([jnp.vdot(part, part), jnp.vdot(theta - part, theta - part)])
        determined = jnp.maximum(traces, 0.0)
        low, high = (scale**2 for scale in _SCALES)
        fresh = jnp.clip((norms + _EXPECTED) / (determined + _EXPECTED), low, high)
        whole = jnp.maximum(jnp.asarray([shape.interaction_dimension, shape.effect_dimension]), 1.0)
        return fresh, jnp.clip(determined / whole, 0.0, 1.0)


def _trust(determined: jax.Array) -> jax.Array:
    """The factor of the prior's scale for the last climb, from the part of the parameters that the tables determine.

    The most probable parameters are not those of least expected divergence: where little is determined the mode reaches
    too far out, and where all is, the prior need not hold it back. The rule was fitted to the divergence at 30 pairs of
    factors on simulated problems (of other seeds than those of the published comparison): in the mean of the 60
    settings that it was fitted to, it was within 1.1% of the best pair for each, which only the truth could tell.
    """
    interactions, effects = determined
    return jnp.stack([jnp.maximum(1.35 * interactions**0.315, 0.05), 0.4 + 1.6 * effects])


def _joined(
    shape: Shape, data: Data, theta: jax.Array, at: tuple[jax.Array, Operator], variances: jax.Array, blur: jax.Array
) -> jax.Array:
    """One step from the fit cell by cell to the fit of all cells together.

    Counts of one population are correlated, within a table and between tables: the covariance of n is N J. With s the
    score of a cell and W its information, s / W is a response of variance 1 / W; all of them have the covariance
    V = 1 / W + N (J less its diagonal). The step d solves  N J V^-1 (s / W - N J d) = P (theta + d), P the prior. Where
    noise is all, V is diagonal and nothing moves; where there is none, this is maximum likelihood.
    """
    m, jacobian = at
    counted = shape.counted > 0
    w = jnp.where(counted, _weights(shape, data, m, blur) / data.total**2, 1.0)
    score = -jax.grad(lambda z: _log_likelihood(shape, data, m, blur, z))(jnp.zeros_like(theta))
    rest = 1 / w - sampling_variance(shape, data, m)

    def weigh(p: jax.Array, is_response: Any) -> jax.Array:
        """N J V^-1 times a response; or times N J p."""

        def covariance(p: jax.Array, turn: Any) -> jax.Array:
            spread = data.total * jacobian(jnp.where(counted | (turn == SEED), p, 0.0))
            asked = jnp.where(counted, jnp.where(is_response, p, spread), 0.0)
            varied = jnp.where(counted, rest * p + spread, p)
            return jnp.where(turn == SEED, asked, jnp.where(turn == FINISH, spread, varied))

        return solve(covariance, jnp.zeros_like(p), 1 / w, 0.01, 30, seed=p, finish=True)[0]

    def curvature(p: jax.Array, turn: Any) -> jax.Array:
        return weigh(p, turn == SEED) + jnp.where(turn == SEED, 0.0, _prior(shape, p, variances))

    diagonal = data.total**2 * shape.counted * w * m * m + 1 / variances.max()
    step, _ = solve(curvature, -_prior(shape, theta, variances), diagonal, 0.02, 40, seed=score / w)
    return theta + step


def sampling_variance(shape: Shape, data: Data, m: jax.Array) -> jax.Array:
    """v: the variance of a count, N m (1 - m); of a table that sums several cliques, as if these were independent."""
    return independent_variance(data.total, m, shape.copies) + _LEAST_SHARE * data.b**2


def _blurred(shape: Shape, data: Data, m: jax.Array, blur: Any) -> jax.Array:
    """v, and for Laplace noise blur b^2: part of what is still uncertain about the expected count itself.

    A Laplace density is sharp, and its mode fits many cells exactly, as a median does. Averaged over what is uncertain
    it is smooth, and its top is nearer to the mean of the posterior; it is easier to climb, too.
    """
    return sampling_variance(shape, data, m) + jnp.where(shape.per_cell(shape.gaussian), 0.0, blur * data.b**2)


def _log_likelihood(shape: Shape, data: Data, m: jax.Array, blur: Any, shift: Any = 0.0) -> jax.Array:
    """The log-likelihood of all counted cells, one by one."""
    z, v = data.y - data.total * m + shift, _blurred(shape, data, m, blur)
    gaussian = shape.per_cell(shape.gaussian)
    logs = jnp.where(gaussian, log_normal(z, v, data.b), log_normal_laplace(z, v, data.b))
    return jnp.sum(shape.counted * logs)


def _weights(shape: Shape, data: Data, m: jax.Array, blur: Any = 0.0) -> jax.Array:
    """N^2 times the information of each cell about its mean."""
    v = _blurred(shape, data, m, blur)
    return data.total**2 * shape.counted * information(v, data.b, shape.per_cell(shape.gaussian))


def _curve(jacobian: Operator, w: jax.Array, p: jax.Array, once: Any = False) -> jax.Array:
    """J W J p (or W J p), as a loop, so that the linearised inference is compiled once and not twice."""
    return jax.lax.fori_loop(0, jnp.where(once, 1, 2), lambda i, x: jnp.where(i == 0, w, 1.0) * jacobian(x), p)


def _prior(shape: Shape, theta: jax.Array, variances: jax.Array) -> jax.Array:
    part = shape.interactions(theta)
    return part / variances[0] + (theta - part) / variances[1]
