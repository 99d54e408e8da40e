"""Naive maximum likelihood: the noisy tables taken for true ones, as the paper's baseline does.

Each table is divided by N and projected onto the simplex (Duchi et al. 2008); then

    maximise  theta . y  -  A(theta)  -  lambda |theta|^2

per record. The projection creates zeros, which no finite theta matches, so lambda must be positive; small ones overfit
badly (the paper's figure 1c), and the best one depends on the data. The default of 1e-3 is a middle course.
"""

from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.errors import Error
from quietfield.learning.learner import FARTHEST, Learner
from quietfield.learning.newton import Local, ascend
from quietfield.learning.problem import Data, FitState, Shape

_ROUNDING = 1e-9  # of the objective: a promise of less that cannot be kept is the top


@dataclass(frozen=True)
class Naive(Learner):
    """Regularised maximum likelihood of the projected tables (or of the tables as they are)."""

    regularisation: float = 1e-3  # lambda, per record
    project: bool = True
    rounds: int = 10
    steps: int = 20  # Newton steps per round
    gain: float = 1e-10

    name = "naive"

    def __post_init__(self) -> None:
        if not 0 < self.regularisation < float("inf"):
            raise Error(f"the regularisation must be positive and finite, not {self.regularisation}.")

    def shared(self) -> Learner:
        return replace(self, regularisation=1.0, project=True)

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        target = data.y / data.total
        if self.project:
            target = project(shape, target)
        return FitState(np.zeros(shape.size), -np.inf, 0, False, (complete(shape, target), self.regularisation))

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        target, strength = state.extra

        def value(theta: jax.Array) -> jax.Array:
            penalty = strength * jnp.vdot(theta, theta)
            return jnp.vdot(target, theta) - shape.log_partition(theta) - penalty

        def local(theta: jax.Array) -> Local:
            m, jacobian = jax.linearize(shape.shares, theta)
            return Local(
                value(theta),
                target - m - 2 * strength * theta,
                lambda p: jacobian(p) + 2 * strength * p,
                m + 2 * strength,
            )

        steps, farthest = jnp.where(state.done, 0, self.steps), float("inf") if shape.log_space else FARTHEST
        found = ascend(local, value, state.theta, steps=steps, gain=self.gain, farthest=farthest)
        rounding = _ROUNDING * (1 + jnp.abs(found.value))
        done = (found.gain <= self.gain) | (found.stuck & (found.gain <= rounding))
        return FitState(found.theta, found.value, state.steps + found.steps, done, state.extra)


def project(shape: Shape, values: np.ndarray) -> np.ndarray:
    """The nearest distribution to each table (times the number of cliques that it sums), in Euclidean distance."""
    out = np.empty_like(values)
    for i, (start, sizes) in enumerate(zip(shape.starts, shape.table_shapes, strict=False)):
        cells = slice(start, start + prod(sizes))
        inside = shape.counted[cells] > 0
        out[cells] = 0.0
        mass = float(len(shape.groups[i]))
        if shape.excluded[i] is not None:  # what is left of the mass is in the cell that was not counted
            mass = float(np.clip(values[cells][inside].sum(), 0.0, mass))
        out[cells][inside] = project_onto_simplex(values[cells][inside], mass)
    return out


def complete(shape: Shape, target: np.ndarray) -> np.ndarray:
    """Tables whose uncounted cell holds what the others leave of the records, and impossible cells nothing.

    With less than all the mass in a table, lowering all its parameters alike would raise the likelihood for ever.
    """
    target = target * shape.counted
    for group, excluded, start, sizes in zip(
        shape.groups, shape.excluded, shape.starts, shape.table_shapes, strict=False
    ):
        if excluded is not None:
            cells = target[start : start + prod(sizes)].reshape(sizes)
            cells[excluded] = len(group) - cells.sum()
    return target


def project_onto_simplex(values: np.ndarray, mass: float = 1.0) -> np.ndarray:
    """The nearest non-negative vector with this sum (Duchi et al. 2008, by sorting)."""
    if mass <= 0:
        return np.zeros_like(values)
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - mass) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(descending > excess)[-1]], 0.0)
