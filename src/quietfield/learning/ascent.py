"""The one way up: steps towards the top of a quadratic, each as long as it climbs, until they promise little."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from quietfield.learning.conjugate import Operator, conjugate_gradients, dot
from quietfield.learning.learner import FARTHEST
from quietfield.learning.prior import precision_of
from quietfield.learning.problem import Data, Point, Shape

_TOLERANCE, _CONJUGATE = 0.1, 25  # of the steps of follow_counts


class Climb(NamedTuple):
    """Where an ascent ended."""

    theta: np.ndarray
    point: Point
    value: float
    steps: int


def ascend(
    shape: Shape,
    value: Callable[[np.ndarray, Point], float],
    direction: Callable[[np.ndarray, Point], tuple[np.ndarray, np.ndarray]],
    theta: np.ndarray,
    *,
    steps: int,
    gain: float,
    over: int = 1,
) -> Climb:
    """Steps until ``over`` of them in turn promise to gain less than ``gain``, or ``steps`` of them.

    ``direction`` gives the gradient and the step towards the top of the quadratic that it makes.
    """
    point = shape.at(theta)
    here = value(theta, point)
    taken = 0
    promised: deque[float] = deque([np.inf] * over, over)
    for _ in range(steps):
        gradient, step = direction(theta, point)
        step = step * min(1.0, FARTHEST / (float(np.abs(step).max()) + 1e-300))
        slope = float(dot(gradient, step))
        taken += 1
        # The full step, then the top of the parabola through what is known (the curvature is expected, not observed,
        # so it is often shorter), then ever shorter ones until one climbs.
        length, best = 1.0, (0.0, here, point)
        for tries in range(20):
            there = shape.at(theta + length * step)
            reached = value(theta + length * step, there)
            if best[1] < reached < np.inf:
                best = (length, reached, there)
            bend = slope - (reached - here) / length
            peak = length * slope / (2 * bend) if bend > 0 else length / 2
            climbed = best[0] > 0 and best[1] >= here + 1e-4 * best[0] * slope
            if climbed and (tries > 0 or peak > 0.9 * length):
                break
            length = length / 4 if not np.isfinite(reached) else min(max(peak, 0.1), 1.0) if tries == 0 else length / 2
        theta, here, point = theta + best[0] * step, best[1], best[2]
        promised.append(slope)
        if best[0] == 0 or sum(promised) <= gain:
            break
    return Climb(theta, point, here, taken)


def follow_counts(shape: Shape, data: Data, near: np.ndarray, penalty: np.ndarray, *, steps: int, gain: float) -> Climb:
    """Up y.theta - N A(theta) - 1/2 (theta - near) . penalty (theta - near), from ``near``.

    It is concave and its curvature, N J, has the square root of the condition that curvatures in J W J have: Newton's
    method gets there from anywhere. Without a penalty it would end where the expected counts are y.
    """
    counted = shape.counted * data.y

    def value(theta: np.ndarray, point: Point) -> float:
        moved = theta - near
        return float(dot(counted, theta) - data.total * point.log_partition - 0.5 * dot(moved, penalty * moved))

    def direction(theta: np.ndarray, point: Point) -> tuple[np.ndarray, np.ndarray]:
        # A cell that was not counted stays where it is, as its gradient says.
        slope = shape.counted * (data.y - data.total * point.shares) - penalty * (theta - near)
        if point.dense is not None:
            bent = data.total * shape.counted[:, None] * point.dense + np.diag(penalty)
            return slope, np.linalg.solve(bent, slope)
        kind = precision_of(shape)
        own, held, diagonal = (
            x.astype(kind) for x in (data.total * shape.counted, penalty, data.total * point.shares + penalty)
        )

        def bend(p: np.ndarray) -> np.ndarray:
            found = point.jacobian(p)
            found *= own
            found += held * p
            return found

        return slope, conjugate_gradients(bend, slope.astype(kind), lambda r: r / diagonal, _TOLERANCE, _CONJUGATE)

    return ascend(shape, value, direction, near, steps=steps, gain=gain)


class QuasiNewton:
    """Steps up a function from its gradients and about the inverse of its curvature (L-BFGS).

    What the last steps and gradients tell of the curvature corrects the preconditioner. One product with it a step is
    all that this takes, where a truncated Newton step takes dozens with the curvature; and what gradients tell of is
    the curvature as it is, not as it is expected.
    """

    def __init__(self, precondition: Operator, kind: Any = np.float64, kept: int = 8) -> None:
        self.precondition, self.kind = precondition, kind
        self.steps: deque[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = deque(maxlen=kept)
        self.scale = 1.0
        self.last: tuple[np.ndarray, ...] | None = None

    def __call__(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The step from where the last one led to."""
        now = theta, gradient, self.precondition(gradient)
        if self.last is not None:
            step, change, image = ((a - b).astype(self.kind) for a, b in zip(now, self.last, strict=True))
            if (bend := -float(dot(step, change))) > 0:
                self.steps.append((step, -change, -image, bend))
                self.scale = bend / float(dot(change, image))
        self.last = now
        rest, found = (x.astype(self.kind) for x in now[1:])
        lengths = []
        for step, change, image, bend in reversed(self.steps):
            lengths.append(dot(step, rest) / bend)
            rest -= lengths[-1] * change
            found -= lengths[-1] * image
        found *= self.scale
        for (step, change, _, bend), length in zip(self.steps, reversed(lengths), strict=True):
            found += (length - dot(change, found) / bend) * step
        return found
