"""The prior of the default learner, which it learns from the tables, and the curvature of tables and prior together."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from quietfield.learning.conjugate import Operator, Preconditioner, conjugate_gradients
from quietfield.learning.problem import Point, Shape
from quietfield.learning.smoothness import Smoothness

_EXPECTED = 20.0  # parameters of scale 1 that every prior has seen: holds a scale that the tables say little about
_OWN = 20.0  # parameters of the common scale that each table has seen
_POOLED = 5.0  # the same of a pool of interactions: these are many, and the more attributes they join the smaller
_SCALES = (1e-3, 1e3)  # bounds of tau: a release of pure noise would shrink it to 0, one without noise let it grow
_PROBED = 50_000  # parameters of all probes together, at most
_LARGE = 20_000  # parameters from which half the digits are enough


@dataclass(frozen=True, eq=False)
class Prior:
    """Variances of each table's parameters, of interactions and of the rest, and how well the tables determine them."""

    shape: Shape
    variances: np.ndarray  # (2, tables)
    determined: np.ndarray  # (2, tables), between 0 and 1
    smoothness: Smoothness  # along the values of each attribute
    probed: np.ndarray | None = None  # S P of the probes: where the next round starts to solve

    @classmethod
    def start(cls, shape: Shape) -> "Prior":
        tables = len(shape.groups)
        return cls(shape, np.ones((2, tables)), np.full((2, tables), 0.5), Smoothness.none(shape))

    def _weigh(self, x: np.ndarray, power: float) -> np.ndarray:
        inside, rest = self.variances**power
        return self.shape.weigh(x, inside, rest, self.smoothness.waves(power, x.dtype.type))

    def precision(self, x: np.ndarray) -> np.ndarray:
        """P x."""
        return self._weigh(x, -1.0)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """P^-1 x."""
        return self._weigh(x, 1.0)

    def root(self, x: np.ndarray) -> np.ndarray:
        """P^-1/2 x: of standard normal numbers, a draw from the prior."""
        return self._weigh(x, 0.5)

    def limit(self, most: int) -> int:
        """Iterations where half of them will do: under a smooth prior each costs more, and they converge slowly."""
        return -(-most // 2) if self.smoothness.factors else most

    @cached_property
    def matrix(self) -> np.ndarray:
        """P."""
        return self.precision(np.eye(self.shape.size))

    def learn(self, curvature: "Curvature", probes: int) -> "Prior":
        """MacKay's update at the fit: tau^2 = |part of theta|^2 / gamma.

        gamma, how many parameters the tables determine, is tr(Q (1 - S P)) with Q the projection on the part and S the
        inverse curvature. All tables together give one scale, with some parameters of scale 1 added, and each table its
        own, with some of the common scale.
        """
        shape, point, probed = self.shape, curvature.point, None
        theta = point.theta
        if point.dense is not None:
            curved = curvature.known
            seen = np.linalg.solve(curved + self.matrix, curved)  # 1 - S P
            inside = np.einsum("ij,ij->i", shape.interactions(np.eye(shape.size)), seen.T)
            every, pairs = np.diagonal(seen), (len(seen) * np.eye(len(seen)), seen)
        else:
            # The same probes in every fit: the same release gives the same model. (1 - S P) of each, and not the
            # dimension less a trace: of few determined parameters among many, the probes' own spread would leave
            # nothing. Of many parameters one probe tells the trace as well as several of few.
            many = max(1, min(probes, _PROBED // shape.size))
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (many, shape.size)).astype(curvature.kind)
            probed = curvature.solve(self.precision(signs), 0.01, self.limit(80), start=self.probed)
            pairs = (signs, found := signs - probed)
            inside, every = (shape.interactions(signs) * found).mean(0), (signs * found).mean(0)
        gamma = np.maximum(shape.by_table(np.stack([inside, every - inside])), 0.0)
        flat = (smoothness := self.smoothness.learn(theta, self.variances, pairs)).flatten(theta)
        norms = shape.squares * shape.by_table(np.stack([part := shape.interactions(flat), flat - part]) ** 2)
        low, high = (scale**2 for scale in _SCALES)
        common = np.clip((norms.sum(1) + _EXPECTED) / (gamma.sum(1) + _EXPECTED), low, high)[:, None]
        added = np.where([group[0] in shape.apart for group in shape.groups], _POOLED, _OWN)
        own = np.clip((shape.by_pool(norms) + added * common) / (shape.by_pool(gamma) + added), low, high)
        whole = np.array([shape.interaction_dimension, shape.effect_dimension])
        shared = np.clip(gamma.sum(1) / np.maximum(whole, 1.0), 0, 1)[:, None]
        sizes = shape.by_pool(shape.interaction_sizes)
        known = (shape.by_pool(gamma[0]) + added * shared[0]) / (sizes + added)
        determined = np.clip(np.stack([known, np.broadcast_to(shared[1], known.shape)]), 0, 1)
        return replace(self, variances=own / shape.squares, determined=determined, smoothness=smoothness, probed=probed)

    @cached_property
    def wide(self) -> np.ndarray:
        """Per table, from 0 to 1: whether each of its attributes has a table of its own, and effects as surveys have.

        Learned from potentials that are drawn alike for all cells their scale is 0.5 to 0.9, from surveys 1 to 2.
        """
        return self.shape.with_singles * np.clip((np.sqrt(self.variances[1].mean()) - 0.85) / 0.1, 0, 1)

    def skew(self, m: np.ndarray, known: np.ndarray, wide: np.ndarray) -> np.ndarray:
        """By which part of it the mean of each expected count lies below the most probable one.

        The noise is symmetric in counts and the prior in their logarithms: with log-potentials uncertain by s, the mean
        of a count lies by s^2 of it below what the table says, to first order. s^2 is the inverse of what the cell and
        the prior know, and only the cell's part of it counts: the prior's own mean stays. Margins are known far better
        than cells, and keep theirs: of the part to take away, conditional means given all attributes but one are left
        out.

        Args:
            m: Expected shares.
            known: N^2 times the information of each cell about its mean.
            wide: Per table, how much of this is taken away.
        """
        shape = self.shape
        known = known * m**2 * shape.is_count  # an interaction has no log-share to lean with
        whole = known + np.repeat(1 / self.variances[0], shape.sizes)
        lowered = (1 - np.exp(-known / whole**2)) * np.repeat(wide * (shape.interaction_sizes > 0), shape.sizes)
        for start, count, sizes in shape.stacks:
            cells = slice(start, start + count * prod(sizes))
            part, shares = (x[cells].reshape(count, *sizes) for x in (lowered, m))
            for axis in range(1, len(sizes) + 1):
                part -= (part * shares).sum(axis, keepdims=True) / np.maximum(shares.sum(axis, keepdims=True), 1e-300)
        return lowered

    def trusted(self) -> "Prior":
        """The scales of the last climb, from the part of the parameters that the tables determine.

        The most probable parameters are not those of least expected divergence: where little is determined the mode
        reaches too far out, and where all is, the prior need not hold it back. The rule was fitted to the divergence
        at 30 pairs of factors on simulated problems (of other seeds than those of the published comparison): in the
        mean of the 60 settings that it was fitted to, it was within 1.1% of the best pair for each, which only the
        truth could tell. Where attributes have tables of their own beside those that join them, and their effects turn
        out far from uniform, as in real surveys, these effects are measured best of all, and what a table of several
        adds is an interaction in the strict sense: there both are held back less, by factors chosen on four real data
        sets.
        """
        interactions, effects = self.determined
        small = np.array([len(group[0]) <= 2 for group in self.shape.groups])  # others: effects of pairs, too
        wide = self.wide
        trust = np.stack([
            np.maximum(1.35 * np.where(small, 1.5 / 1.35, 1.0) ** wide * interactions ** (0.315 - 0.115 * wide), 0.05),
            (0.4 + 1.6 * effects) * np.where(small, 2.4, 3.0) ** wide,
        ])  # fmt: skip
        return replace(self, variances=self.variances * trust**2)


def precision_of(shape: Shape) -> Any:
    """The precision of iterations: of many parameters half the digits take half the time."""
    return np.float32 if shape.size > _LARGE else np.float64


@dataclass(frozen=True, eq=False)
class Curvature:
    """J W J + P at a point, for vectors whose tables each sum to 0."""

    point: Point
    weights: np.ndarray
    prior: Prior
    near: "Curvature | None" = None  # at another point under the same prior: its preconditioner will do
    together: np.ndarray | None = None  # stands for J W J where counts were fitted together, not one by one

    @property
    def kind(self) -> Any:
        return precision_of(self.prior.shape)

    @cached_property
    def _weights(self) -> np.ndarray:
        return self.weights.astype(self.kind)

    @cached_property
    def known(self) -> np.ndarray:
        """J W J as a matrix, of a point that has J as one."""
        if self.together is not None:
            return self.together
        dense = self.point.dense
        assert dense is not None
        return np.asarray(dense @ (self.weights[:, None] * dense))

    def __call__(self, p: np.ndarray) -> np.ndarray:
        inside = self.point.jacobian(p)
        inside *= self._weights
        found = self.point.jacobian(inside)
        found += self.preconditioner.precision(p) if self.preconditioner.knows_prior else self.prior.precision(p)
        return found

    @cached_property
    def preconditioner(self) -> Preconditioner:
        if self.near is not None:
            return self.near.preconditioner
        prior, shares = self.prior, self.point.shares
        return Preconditioner(prior.shape, shares, self.weights, prior.variances, prior.smoothness, self.kind)

    def approximate(self, right: np.ndarray) -> np.ndarray:
        """About the inverse applied to a vector."""
        means, centred = self.prior.shape.centre(right)
        found = self.preconditioner(centred.astype(self.kind))
        return found + np.repeat(means * self.prior.variances[1], self.prior.shape.sizes).astype(self.kind)

    def solve(
        self,
        right: np.ndarray,
        tolerance: float,
        most: int,
        operator: Operator | None = None,
        start: np.ndarray | None = None,
    ) -> np.ndarray:
        """The inverse applied to a vector, or to each row; or that of a similar ``operator``. ``start`` is a guess."""
        shape = self.prior.shape
        if self.point.dense is not None and operator is None:
            return np.linalg.solve(self.known + self.prior.matrix, right.T).T
        # A constant in a table moves no share: the prior alone has a say.
        means, centred = shape.centre(right)
        guess = None if start is None else shape.centre(start)[1].astype(self.kind)
        found = conjugate_gradients(
            operator or self, centred.astype(self.kind), self.preconditioner, tolerance, most, guess
        )
        return found + np.repeat(means * self.prior.variances[1], shape.sizes, -1)
