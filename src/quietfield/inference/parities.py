"""Exact inference where all attributes have two values and there are few of them: by Walsh-Hadamard transforms.

The parity of a set of attributes is 1 where an even number of them have their second value, and -1 else. The cells of a
table are sums of parities, log-potentials are coefficients of them, and the mean of a product of two parities is that
of one: log-probabilities of all records, their means and their covariances are a transform each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

MOST_ATTRIBUTES = 20  # all records are laid out: 2^20 numbers


@dataclass(frozen=True, eq=False)
class Parities:
    """Features of records as sums of parities."""

    attributes: int
    sets: np.ndarray  # the sets of attributes that are needed, as bits; the empty one first
    features: Any  # sparse: features by sets

    @classmethod
    def of(cls, attributes: int, features: Sequence[tuple[tuple[int, ...], bool]]) -> "Parities":
        """Those of all cells of some tables, each given by the places of its attributes; or of their parity alone."""
        from scipy import sparse

        places: dict[int, int] = {0: 0}
        rows, columns, values = [], [], []
        row = 0
        for scope, apart in features:
            signs = 1.0 - 2.0 * np.indices((2,) * len(scope)).reshape(len(scope), -1)
            sizes = range(len(scope), len(scope) + 1) if apart else range(len(scope) + 1)
            many = 1 if apart else signs.shape[1]
            for held in (held for size in sizes for held in combinations(range(len(scope)), size)):
                column = places.setdefault(sum(1 << scope[i] for i in held), len(places))
                values.append(np.ones(1) if apart else signs[list(held)].prod(0) / many)
                rows.append(row + np.arange(many))
                columns.append(np.full(many, column))
            row += many
        where = (np.concatenate(rows), np.concatenate(columns))
        return cls(
            attributes,
            np.array(list(places)),
            sparse.csr_array((np.concatenate(values), where), shape=(row, len(places))),
        )

    def means(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """(means of all parities of the attributes, log-partition) at coefficients of the features."""
        coefficients = np.zeros(2**self.attributes)
        coefficients[self.sets] = self.features.T @ theta
        logs = transform(coefficients)
        highest = logs.max()
        weights = np.exp(logs - highest)
        total = weights.sum()
        return transform(weights / total), float(highest + np.log(total))

    def expect(self, means: np.ndarray) -> np.ndarray:
        """The means of the features."""
        return np.asarray(self.features @ means[self.sets])

    def covariance(self, means: np.ndarray) -> np.ndarray:
        """The covariance of the features."""
        own = means[self.sets]
        spread = means[self.sets[:, None] ^ self.sets] - np.outer(own, own)
        return np.asarray(self.features @ (self.features @ spread).T)


def transform(values: np.ndarray) -> np.ndarray:
    """The Walsh-Hadamard transform: sums of the values with the signs of each parity; its own inverse but for a factor.

    >>> transform(np.array([0.5, 0.25, 0.25, 0.0])).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    half = 1
    while half < values.size:
        pairs = values.reshape(-1, 2, half)
        values = np.concatenate([pairs[:, :1] + pairs[:, 1:], pairs[:, :1] - pairs[:, 1:]], axis=1)
        half *= 2
    return values.ravel()
