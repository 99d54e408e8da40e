"""Conjugate gradients for the curvature J W J + P of the default learner, and what makes them converge in few steps.

A diagonal is a poor stand-in for that matrix: tables that share an attribute can move its effect between them without
changing any probability, and a cell that holds few people still moves the margins of its table, which many hold.
:class:`Preconditioner` therefore takes effects of single attributes apart from all the rest.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from quietfield.learning.problem import Shape

Operator = Callable[[np.ndarray], np.ndarray]


def dot(a: np.ndarray, b: np.ndarray) -> Any:
    """Inner products along the last axis. Not by BLAS: its threads wait for each other longer than these sums take."""
    return np.einsum("...i,...i->...", a, b)


def conjugate_gradients(
    operator: Operator, right: np.ndarray, precondition: Operator, tolerance: float, most: int
) -> np.ndarray:
    """The solution of a positive definite system, until the preconditioned residual has shrunk by ``tolerance``.

    Several right sides, one a row, are solved together.
    """
    x, r = np.zeros_like(right), right.copy()
    z = precondition(r)
    p = z.copy()
    rz = dot(r, z)
    goal = tolerance**2 * rz
    for _ in range(most):
        if np.all(rz <= goal):
            break
        q = operator(p)
        length = np.divide(rz, dot(p, q), out=np.zeros_like(rz), where=rz > goal)[..., None]
        # In place: the vectors may have millions of entries, and what is allocated anew is slow to touch.
        x += np.multiply(p, length, out=z)
        r -= np.multiply(q, length, out=q)
        z = precondition(r)
        rz, before = dot(r, z), rz
        p *= np.divide(rz, before, out=np.zeros_like(rz), where=before > 0)[..., None]
        p += z
    return x


class Preconditioner:
    """About the inverse of J W J + P, at shares m, for vectors whose tables each sum to 0.

    With Q the projection that takes the means of every row and column, weighted by m, from a table, and C the matrix of
    the effects of single attributes, as if values of one attribute had nothing to do with others:

        Q (diagonal of W m^2 + P)^-1 Q^T  +  C^-1  on effects, of all tables that hold the attribute together

    J Q x moves no margin, so the diagonal is right for it. In C, an effect that moves from one table to another has
    the prior's curvature, and the sum over tables the information of all of them besides.
    """

    def __init__(self, shape: Shape, shares: np.ndarray, weights: np.ndarray, variances: np.ndarray, kind: Any) -> None:
        self.shape = shape
        information = weights * shares**2
        groups: dict[tuple[str, int], int] = {}
        members: list[int] = []  # for each effect of a table, the value of an attribute that it belongs to
        known: list[np.ndarray] = []
        spread: list[np.ndarray] = []
        self.stacks = []
        table = 0
        for start, count, sizes in shape.stacks:
            cells = slice(start, start + count * prod(sizes))
            m, held = (x[cells].reshape(count, *sizes) for x in (shares, information))
            tables = slice(table, table + count)
            margins = []
            for axis, size in enumerate(sizes):
                names = [group[0][axis] for group in shape.groups[tables]]
                members += [groups.setdefault((name, v), len(groups)) for name in names for v in range(size)]
                others = tuple(i + 1 for i in range(len(sizes)) if i != axis)
                known.append(held.sum(others).ravel())
                spread.append(np.repeat(variances[1][tables] * size / prod(sizes), size))
                margin = m.sum(others, keepdims=True)
                margins.append(np.divide(1, margin, out=np.zeros_like(margin), where=margin > 0).astype(kind))
            # Of three attributes or more, the rest of the prior holds many parameters, not effects alone.
            own = variances[0] if len(sizes) == 2 else variances.max(0)
            diagonal = 1 / (held + 1 / own[tables].reshape(count, *(1,) * len(sizes)))
            self.stacks.append((cells, (count, *sizes), m.astype(kind), diagonal.astype(kind), margins))
            table += count
        self.members = np.array(members)
        self.order = np.argsort(self.members, kind="stable")
        self.starts = np.flatnonzero(np.diff(self.members[self.order], prepend=-1))
        self.spread = np.concatenate(spread).astype(kind)
        both = [np.bincount(self.members, np.concatenate(x)) for x in (known, spread)]
        self.shared = (both[0] / (1 + both[0] * both[1])).astype(kind)

    def __call__(self, right: np.ndarray) -> np.ndarray:
        lead = right.shape[:-1]
        sums = []
        for cells, sizes, *_ in self.stacks:
            x = right[..., cells].reshape(-1, *sizes)
            sums += [_along(x, axis).reshape(*lead, -1) for axis in range(2, x.ndim)]
        effects = np.concatenate(sums, -1) * self.spread
        total = np.add.reduceat(effects[..., self.order], self.starts, -1) * self.shared
        effects -= total[..., self.members] * self.spread
        found = np.empty_like(right)
        done = 0
        for cells, sizes, m, diagonal, margins in self.stacks:
            x, y = (z[..., cells].reshape(-1, *sizes) for z in (right, found))
            axes = range(2, x.ndim)
            if x.ndim == 3:
                y[:] = 0
            else:
                y[:] = x
                for axis, margin in zip(reversed(axes), reversed(margins), strict=True):
                    y -= m * (_along(y, axis).reshape(len(y), *margin.shape) * margin)
                y *= diagonal
                for axis, margin in zip(axes, margins, strict=True):
                    y -= _along(y, axis, m).reshape(len(y), *margin.shape) * margin
            for margin in margins:
                y += effects[..., done : done + margin.size].reshape(len(y), *margin.shape)
                done += margin.size
            y -= np.add.reduce(y, tuple(axes), keepdims=True) / prod(sizes[1:])
        return found


def _along(x: np.ndarray, axis: int, m: np.ndarray | None = None) -> np.ndarray:
    """Sums over all axes of tables but one, with weights or without."""
    names = list(range(x.ndim))
    if m is None:
        return np.einsum(x, names, [0, 1, axis])
    return np.einsum(x, names, m, names[1:], [0, 1, axis])
