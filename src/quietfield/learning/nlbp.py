"""CGM as published: non-linear belief propagation (NLBP, Algorithm 1 of Bernstein et al. 2017) inside EM (Algorithm 2).

The E-step looks for the most probable true tables, n* = argmax over n of theta.n + H(n) + log p(y | n), by repeating

    theta' = theta + grad_n log p(y | n),      n' = N m(theta'),      n = (1 - alpha) n + alpha n'

around any inference, exact or loopy (H is then Bethe's entropy). The M-step maximises theta.n* - N A(theta). One round is
one EM iteration; n stays where it was for the next one.

* *As published* (Laplace noise, ``smooth=0``) the gradient is sign(y - n) / b, which jumps where n meets y, so n goes on
  trembling about n* by an amount in proportion to alpha. The M-step is in closed form where the structure has one, and
  by Newton's method otherwise.
* *Smoothed* (``smooth=h``): |z| becomes sqrt(z^2 + (h b)^2), the hyperbolic distribution for Laplace's. Now n settles, and
  at the fixed point n = N m(theta'): theta' is the M-step's answer already. So it is with Gaussian noise. Where cells
  are many times larger than their noise, one alpha for all has to be tiny; so each cell has its own, from the bound
  J <= |C| diag(m) on the Jacobian of m, relaxed as long as n comes closer.

Glossary: y noisy tables, b noise scale, N total, theta parameters, m shares, n true tables (all as in problem.py).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.errors import Error
from quietfield.learning.decomposable import Recipe, recipe
from quietfield.learning.learner import Learner
from quietfield.learning.newton import Local, ascend
from quietfield.learning.problem import Data, Shape, State

_RIDGE = 1e-12  # per record: keeps Newton's equations regular in directions that change no probability
_TREMBLE = 0.1  # alpha where nobody says otherwise and the noise has a kink


class Trace(NamedTuple):
    """What is carried from round to round."""

    n: Any  # the inferred tables
    caution: Any  # how much of the bound |C| the cells' own damping takes


class Inferred(NamedTuple):
    """What NLBP found: the tables, the potentials they came from, and how far they still moved, in units of b."""

    n: Any
    theta: Any
    residual: Any
    caution: Any
    steps: Any


@dataclass(frozen=True)
class Nlbp(Learner):
    """EM around NLBP.

    ``rounds`` EM iterations of at most ``iterations`` NLBP iterations each; ``damping`` is alpha. Without it, alpha is
    0.1 where the noise has a kink and otherwise found cell by cell; with it, it is the same for all cells.
    """

    rounds: int = 100
    iterations: int = 50
    damping: float | None = None
    smooth: float = 0.0  # in units of the noise scale
    tolerance: float = 1e-3  # in units of the noise scale: NLBP ends when no cell moves by more
    settled: float = 1e-4  # EM ends when no share moves by more
    misfit: float = 0.0

    name = "cgm-nlbp"

    def __post_init__(self) -> None:
        for what, value in (("rounds", self.rounds), ("iterations", self.iterations)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise Error(f"{what} is a whole number from 1 on, not {value!r}.")
        if self.damping is not None and not 0 < self.damping <= 1:
            raise Error(f"damping (alpha) lies above 0 and at most at 1, not at {self.damping!r}.")
        if not 0 <= self.smooth < float("inf"):
            raise Error(f"smooth is 0 (as published) or a positive number of noise scales, not {self.smooth!r}.")
        if not self.tolerance > 0 or not self.settled > 0:
            raise Error("tolerance and settled are positive numbers.")

    def init(self, shape: Shape, data: Data) -> State:
        # n = y has no gradient, so the first iteration, which is not damped, starts from N m(theta).
        caution = float(np.sqrt(shape.copies.max() * len(shape.groups)))
        return State(np.zeros(shape.size), -np.inf, 0, False, Trace(np.array(data.y, dtype=float), caution))

    def step(self, shape: Shape, data: Data, state: State) -> State:
        found = self.infer(shape, data, state.theta, state.extra, state.steps == 0, ~state.done)
        theta = self.maximise(shape, data, found, ~state.done)
        theta = recentre(shape, theta)
        value = self.value(shape, data, state.theta, found)
        return State(theta, value, state.steps + found.steps, state.done, Trace(found.n, found.caution))
