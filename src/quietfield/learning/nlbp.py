"""CGM as published: non-linear belief propagation (NLBP, Algorithm 1 of Bernstein et al. 2017) inside EM (Algorithm 2).

The E-step looks for the most probable true tables, n* = argmax over n of theta.n + H(n) + log p(y | n), by repeating

    theta' = theta + u,   u = grad_n log p(y | n);      n' = N m(theta');      n = (1 - alpha) n + alpha n'

around any inference, exact or loopy (H is then Bethe's entropy). The M-step maximises theta.n* - N A(theta). A round is
one EM iteration; the next one starts from its n.

* *Literal* (Laplace noise, ``smooth=0``): u = sign(y - n) / b jumps where n meets y, so n goes on trembling about n*,
  by an amount in proportion to alpha and to N. The M-step is in closed form where the structure has one, and by
  Newton's method otherwise.
* *Smoothed*: |z| becomes sqrt(z^2 + (smooth b)^2), a hyperbolic distribution for Laplace's. Now n settles, and at the
  fixed point n = N m(theta'): theta' is the M-step's answer already. The same holds for Gaussian noise.

Where n settles and no alpha is given, each cell has its own, 1 / (1 + c n' d) with d the slope of u, from the bound
J <= |C| diag(m) on the Jacobian of m: one alpha for all would have to suit the largest cell. The iteration descends the
dual N A(theta + u) - u.n + log p(y | n), convex in u, so a step that climbs is taken back and c is raised; momentum
speeds it up.

EM overfits if it runs on. It stops when an iteration moves the average cell by less than ``settled`` records; to the
letter, trembling may never let it, and it also stops when it has not slowed down for 15 iterations. When it settles, on
chains of order 3, random graphs, trees and grids, with 10^3 to 10^6 records and epsilon from 0.1 to 1, stopping at 0.35
gave divergences 3% above the best on the path on average, and at most 8% (20 releases).

Glossary: y noisy tables, b noise scale, N total, theta parameters, m shares, n true tables (all as in problem.py).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.errors import Error
from quietfield.inference.loopy import Loopy
from quietfield.learning.decomposable import Recipe, recipe
from quietfield.learning.learner import Learner
from quietfield.learning.newton import Local, ascend
from quietfield.learning.problem import Data, FitState, Shape

_RIDGE = 1e-12  # per record: keeps Newton's equations regular in directions that change no probability
_TREMBLE = 0.1  # alpha where nobody says otherwise and the noise has a kink
_PATIENCE = 15  # rounds without a slower one after which only the trembling is left
_PAST_PEAK = 0.95  # of the fastest round: EM is slow at first too where the noise is large


class Trace(NamedTuple):
    """What is carried from round to round: the inferred tables, the caution of their damping, the fastest and slowest
    round so far, and how many rounds ago the slowest was."""

    n: Any
    caution: Any
    peak: Any = np.float64(0.0)
    low: Any = np.float64(np.inf)
    since: Any = np.int32(0)


class Inferred(NamedTuple):
    """Where NLBP stands. ``residual``: how far n is from n', in units of b."""

    n: Any
    theta: Any  # theta' = theta + u(n)
    fresh: Any  # n' = N m(theta')
    log_z: Any  # A(theta')
    dual: Any
    move: Any  # the last change of n
    speed: Any  # accepted steps in a row, for the momentum
    caution: Any
    residual: Any
    steps: Any


@dataclass(frozen=True)
class Nlbp(Learner):
    """EM around NLBP.

    At most ``rounds`` EM iterations of at most ``iterations`` NLBP iterations each. ``smooth``, in noise scales: 0 is
    Algorithm 1 to the letter. ``damping`` is alpha, the same for all cells; without it, alpha is 0.1 where the noise
    has a kink and is found cell by cell elsewhere.
    """

    rounds: int = 2000
    iterations: int = 50
    damping: float | None = None
    smooth: float = 0.1
    tolerance: float = 1e-3  # in noise scales: NLBP ends when n is this close to n'
    settled: float = 0.35  # in records: EM ends when the average cell moves less

    name = "cgm-nlbp"

    def __post_init__(self) -> None:
        if self.damping is not None and not 0 < self.damping <= 1:
            raise Error(f"damping (alpha) lies above 0 and at most at 1, not at {self.damping!r}.")

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        # At n = y there is no pull, so the first n' is N m(theta).
        trace = Trace(np.array(data.y, dtype=float), np.float64(1.0))
        return FitState(np.zeros(shape.size), -np.inf, 0, False, trace)

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        found = self.infer(
            shape, data, state.theta, state.extra, jnp.where(state.done, 0, self.iterations), state.steps == 0
        )
        theta = shape.centred(self.maximise(shape, data, found, state.done))
        noise = jnp.sum(shape.counted * self.log_noise(shape, data, data.y - found.fresh))
        # log p(n', y; theta) as the paper approximates it: what EM climbs.
        entropy = data.total * found.log_z - jnp.vdot(found.theta - state.theta, found.fresh)
        value = entropy - data.total * shape.log_partition(state.theta) + noise
        # The first round comes from y, which no population need have: it says nothing of speed.
        moved = jnp.sum(shape.counted * jnp.abs(found.n - state.extra.n)) / shape.counted.sum()
        moved = jnp.where(state.steps == 0, jnp.inf, moved)
        peak = jnp.maximum(state.extra.peak, jnp.where(jnp.isinf(moved), 0.0, moved))
        done = (moved <= self.settled) & (moved <= _PAST_PEAK * peak)
        fastest = moved >= peak  # so is the first round: speed rises and then falls, and only the fall counts
        low = jnp.where(fastest, moved, jnp.minimum(moved, state.extra.low))
        since = jnp.where(fastest | (moved < state.extra.low) | (2 * moved > peak), 0, state.extra.since + 1)
        if not self.settles(shape) and self.settled > 0:  # what still moves is the trembling
            done = done | (since >= _PATIENCE)
        steps = state.steps + found.steps
        trace = Trace(found.n, found.caution, peak, low, since)
        return FitState(theta, value, steps, done | state.done, trace)

    def settles(self, shape: Shape) -> bool:
        """Whether log p(y | n) is smooth in every cell, so that n comes to rest."""
        return self.smooth > 0 or all(shape.gaussian)

    def each(self, shape: Shape) -> bool:
        """Whether each cell has a damping of its own."""
        return self.damping is None and self.settles(shape)

    def infer(
        self, shape: Shape, data: Data, theta: Any, trace: Trace, iterations: Any, first: Any = False
    ) -> Inferred:
        """The E-step, Algorithm 1: the most probable n given y and theta, from where ``trace`` left off."""
        each, cliques = self.each(shape), float(sum(len(group) for group in shape.groups))
        slack = 1e-9 if isinstance(shape.engine, Loopy) else 1e-12  # a descent by less drowns in inexact sums

        def body(now: Inferred) -> Inferred:
            _, bend = self.pull(shape, data, now.n)
            start = now.steps == 0  # n' is not known yet: look, without moving
            if each:
                alpha = 1 / (1 + now.caution * jnp.maximum(now.fresh, jnp.abs(now.n)) * bend)
                momentum = (now.speed - 1) / (now.speed + 2) * now.move
            elif self.damping is not None:
                alpha, momentum = jnp.asarray(self.damping), jnp.zeros(())
            else:  # one alpha for all, so that n remains a mean of tables that a population could have
                alpha, momentum = 1 / (1 / _TREMBLE + cliques * jnp.max(now.fresh * bend)), jnp.zeros(())
            if not each:  # y itself is no such mean, so the very first step is not damped
                alpha = jnp.where(first & (now.steps == 1), 1.0, alpha)
            n = jnp.where(start, now.n, now.n + alpha * (now.fresh - now.n) + momentum)
            pull, _ = self.pull(shape, data, n)
            m, log_z = shape.shares_and_log_partition(theta + pull)
            noise = jnp.sum(shape.counted * self.log_noise(shape, data, data.y - n))
            dual = data.total * log_z - jnp.vdot(pull, n) + noise
            residual = jnp.max(shape.counted * jnp.abs(data.total * m - n) / data.b)
            caution = jnp.where(start, now.caution, jnp.maximum(0.9 * now.caution, 0.25))
            new = Inferred(
                n, theta + pull, data.total * m, log_z, dual, n - now.n, now.speed + 1, caution, residual, now.steps + 1
            )
            if not each:
                return new
            back = now._replace(
                move=jnp.zeros_like(n),
                speed=jnp.ones_like(now.speed),
                caution=jnp.where(now.speed > 1, now.caution, jnp.minimum(2 * now.caution, 1e6)),
                steps=now.steps + 1,
            )
            fell = dual <= now.dual + slack * jnp.abs(now.dual)
            return jax.tree.map(lambda kept, old: jnp.where(fell, kept, old), new, back)

        def more(now: Inferred) -> jax.Array:
            return (now.residual > self.tolerance) & (now.steps < iterations)

        far, zero = jnp.asarray(jnp.inf, theta.dtype), jnp.zeros((), jnp.int32)
        n = jnp.asarray(trace.n, theta.dtype)
        start = Inferred(n, theta, n, far, far, jnp.zeros_like(n), jnp.zeros_like(far), trace.caution, far, zero)
        return jax.lax.while_loop(more, body, start)

    def pull(self, shape: Shape, data: Data, n: Any) -> tuple[jax.Array, jax.Array]:
        """grad_n log p(y | n), and a bound on its own slope that holds from here to the peak (0 at a kink)."""
        gaussian = shape.per_cell(shape.gaussian)
        z = shape.counted * (data.y - n)
        if self.smooth > 0:
            bend = 1 / (data.b * jnp.sqrt(z * z + (self.smooth * data.b) ** 2))
            slope = z * bend
        else:
            slope, bend = jnp.sign(z) / data.b, jnp.zeros_like(z)
        square = data.b * data.b
        bend = jnp.where(gaussian, 1 / square, bend) * shape.counted
        return jnp.where(gaussian, z / square, slope), bend

    def maximise(self, shape: Shape, data: Data, found: Inferred, done: Any) -> jax.Array:
        """The M-step: the parameters whose expected tables are n."""
        if self.each(shape):
            return found.theta
        closed = recipe_of(shape)
        target = found.n / data.total
        if closed is not None:
            return closed(target, jnp)

        def value(theta: jax.Array) -> jax.Array:
            return jnp.vdot(target, theta) - shape.log_partition(theta) - 0.5 * _RIDGE * jnp.vdot(theta, theta)

        def local(theta: jax.Array) -> Local:
            m, jacobian = jax.linearize(shape.shares, theta)
            slope = target - m - _RIDGE * theta
            return Local(value(theta), slope, lambda p: jacobian(p) + _RIDGE * p, m + _RIDGE)

        return ascend(local, value, found.theta, steps=jnp.where(done, 0, 10), gain=1e-10).theta

    def log_noise(self, shape: Shape, data: Data, z: Any) -> jax.Array:
        """log p(y | n) of each cell, up to the constant that makes a density of it."""
        laplace = -jnp.sqrt(z * z + (self.smooth * data.b) ** 2) / data.b
        return jnp.where(shape.per_cell(shape.gaussian), -0.5 * (z / data.b) ** 2, laplace)


@lru_cache(maxsize=64)
def recipe_of(shape: Shape) -> Recipe | None:
    """The closed form of a problem's M-step, if it has one."""
    if any(len(group) > 1 for group in shape.groups):
        return None
    cliques = [group[0] for group in shape.groups]
    if not isinstance(shape.engine, Loopy):
        return recipe(shape.domain, cliques)
    weights = dict(zip(shape.engine.cliques, shape.engine.weights, strict=False))
    return recipe(shape.domain, cliques, np.array([weights[clique] for clique in cliques]))
