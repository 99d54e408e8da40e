"""The effects that the tables of a problem hold, each once: contrasts of the values of each set of attributes.

Tables that overlap hold the same effects again and again: all 560 tables of three among 16 attributes of two values
have 4,480 parameters and 696 effects. With E the matrix that takes parameters to effects, the shares of cells move by
J = E' F E, and F, the covariance of the effects, is small enough to invert where J is not, and where conjugate
gradients would take thousands of steps.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from quietfield.learning.problem import Point, Shape, cosines
from quietfield.learning.smoothness import Smoothness

_ROWS = 256  # effects whose covariances are computed together


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal contrasts of each set of attributes that a table holds, and where they stand in the tables."""

    to_effects: Any  # E, sparse, effects by parameters
    homes: Any  # the same, of one table each, and scaled so that E homes' = 1
    blocks: tuple[tuple[int, int, tuple[str, ...], bool, float], ...]  # (first, table, attributes, all?, weight)

    def covariance(self, point: Point) -> np.ndarray:
        """F: how the effects of a record vary together."""
        size = self.homes.shape[0]
        found = np.empty((size, size))
        for start in range(0, size, _ROWS):
            rows = self.homes[start : start + _ROWS]
            found[start : start + _ROWS] = point.jacobian(rows.toarray()) @ self.homes.T
        return 0.5 * (found + found.T)

    def variances(self, by_table: np.ndarray, smoothness: Smoothness) -> np.ndarray:
        """E P^-1 E', which is diagonal, from P's variances of interactions and of the rest, and how smooth they are."""
        found = np.zeros(self.homes.shape[0])
        for first, table, names, whole, weight in self.blocks:
            kind = 0 if whole else 1
            waves = smoothness.product(kind, names)
            found[first : first + len(waves)] += by_table[kind, table] * weight * waves
        return found


def effect_count(shape: Shape) -> int:
    """How many effects the tables of a problem hold."""
    sets = {key: names for group in range(len(shape.groups)) for key, names in _sets(shape, group)}
    return sum(prod(shape.domain.size(name) - 1 for name in names) for names in sets.values())


@lru_cache(maxsize=8)
def basis_of(shape: Shape) -> Basis:
    """The effects of a problem."""
    from scipy import sparse

    firsts: dict[Any, int] = {}
    blocks = []
    rows, columns, values, own = ([np.zeros(0, kind)] for kind in (int, int, float, float))
    size = 0
    for group, start in enumerate(shape.starts[:-1]):
        names = shape.groups[group][0]
        sizes = shape.table_shapes[group]
        cells = np.indices(sizes).reshape(len(sizes), -1)
        for key, held in _sets(shape, group):
            contrasts = np.ones((1, cells.shape[1]))
            for name in held:
                one = cosines(shape.domain.size(name), float)[1:, cells[names.index(name)]]
                contrasts = (contrasts[:, None] * one).reshape(-1, cells.shape[1])
            many = len(contrasts)
            fresh = key not in firsts
            first = firsts.setdefault(key, size)
            size += many * fresh
            weight = prod(shape.domain.size(name) for name in held) / cells.shape[1]
            blocks.append((first, group, held, 1 < len(names) == len(held), weight))
            rows.append(np.repeat(np.arange(first, first + many), cells.shape[1]))
            columns.append(np.tile(np.arange(start, start + cells.shape[1]), many))
            values.append(contrasts.ravel() * weight)
            own.append(np.full(contrasts.size, fresh / weight))
    places = (np.concatenate(rows), np.concatenate(columns))
    value = np.concatenate(values)
    to_effects, homes = (
        sparse.csr_array((x, places), shape=(size, shape.size)) for x in (value, value * np.concatenate(own))
    )
    homes.eliminate_zeros()
    return Basis(to_effects, homes, tuple(blocks))


def _sets(shape: Shape, group: int) -> list[tuple[Any, tuple[str, ...]]]:
    """The sets of attributes within a table, each with what names it: tied cliques share an effect with no other."""
    tied = shape.groups[group]
    names = sorted(name for name in tied[0] if shape.domain.size(name) > 1)
    sets = [held for many in range(1, len(names) + 1) for held in combinations(names, many)]
    return [(held if len(tied) == 1 else (group, held), held) for held in sets]
