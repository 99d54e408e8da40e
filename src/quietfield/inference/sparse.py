"""The derivative of marginals on a tree of many small bags, as products with sparse matrices.

:meth:`quietfield.inference.tree.Calibrated.along` takes a few calls of numpy for each bag; of a thousand bags of a few
cells these calls take nearly all the time. Here all bags are one vector. With F that lays tables over bags, S that lays
the message of each bag over its parent, C the conditionals (a row per cell of a separator) and T = C S, which is
strictly triangular, children coming first, the two ways along the tree are two triangular systems:

    (1 - T) E = C F p                      g = F p + S E
    (1 - T)' d = S' (mu g) - T' (sep E)    J p = F' (mu g + C' (d - sep E))

with E the mean of g given the separator, and d the change of the separator's marginal.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from quietfield.inference.tree import Calibrated, Tree

BAGS = 10  # from so many on
CELLS = 700  # if they have at most so many cells each, on average


class Incidence:
    """Which cells of bags, tables and separators belong together: of a tree, whatever its parameters."""

    def __init__(self, tree: "Tree") -> None:
        from scipy import sparse

        cells = np.cumsum([0, *(np.prod(bag.shape, dtype=int) for bag in tree.bags)])
        ends = np.cumsum([0, *(np.prod(bag.inside, dtype=int) for bag in tree.bags)])
        laid: list[tuple[np.ndarray, np.ndarray]] = []
        above: list[tuple[np.ndarray, np.ndarray]] = []
        own = []
        for k, bag in enumerate(tree.bags):
            rows = np.arange(cells[k], cells[k + 1])
            for place, view in bag.factors:
                columns = view.lay(np.arange(place.start, place.stop)[None])
                laid.append((rows, np.broadcast_to(columns[0], bag.shape).ravel()))
            messages = np.arange(ends[k], ends[k + 1])
            own.append(np.broadcast_to(messages.reshape(bag.inside), bag.shape).ravel())
            if bag.parent is not None:
                assert bag.above is not None
                parent = tree.bags[bag.parent].shape
                columns = np.broadcast_to(bag.above.lay(messages[None])[0], parent).ravel()
                above.append((np.arange(cells[bag.parent], cells[bag.parent + 1]), columns))

        def matrix(pairs: list[tuple[np.ndarray, np.ndarray]], columns: int) -> Any:
            i, j = (
                np.concatenate(x) if x else np.zeros(0, int) for x in ([p[0] for p in pairs], [p[1] for p in pairs])
            )
            return sparse.csr_array((np.ones(len(i)), (i, j)), shape=(cells[-1], columns))

        self.laid, self.above = matrix(laid, tree.layout.size), matrix(above, int(ends[-1]))
        self.laid_back, self.above_back = self.laid.T.tocsr(), self.above.T.tocsr()
        self.own, self.shape = np.concatenate(own), (int(ends[-1]), int(cells[-1]))


class SparseDerivative:
    """J at one set of parameters."""

    def __init__(self, found: "Calibrated") -> None:
        from scipy import sparse
        from scipy.sparse.linalg import splu

        self.at = at = found.tree.incidence
        conditional = np.concatenate([x.ravel() for x in found.conditionals])
        self.marginal = np.concatenate([x.ravel() for x in found.bags])
        self.separator = np.concatenate([np.ones(1) if x is None else x.ravel() for x in found.separators])
        self.spread = sparse.csr_array((conditional, (np.arange(at.shape[1]), at.own)), shape=at.shape[::-1])  # C'
        self.means = self.spread.T.tocsr()
        steps = (self.means @ at.above).tocsc()
        self.steps_back = steps.T.tocsr()
        one = sparse.eye_array(at.shape[0], format="csc")
        self.system = splu(one - steps, permc_spec="NATURAL", diag_pivot_thresh=0.0)

    def along(self, directions: np.ndarray) -> np.ndarray:
        """J p for each row p."""
        p = directions.astype(float)
        if len(p) == 1:  # products with vectors are twice as fast as with matrices of one column
            found = self._follow(p[0], self.marginal, self.separator)[None]
        else:
            found = self._follow(p.T, self.marginal[:, None], self.separator[:, None]).T
        return found.astype(directions.dtype)

    def _follow(self, directions: np.ndarray, marginal: np.ndarray, separator: np.ndarray) -> np.ndarray:
        at = self.at
        g = at.laid @ directions
        means = self.system.solve(self.means @ g)
        g += at.above @ means
        g *= marginal
        means *= separator
        change = self.system.solve(at.above_back @ g - self.steps_back @ means, trans="T")
        g += self.spread @ (change - means)
        return at.laid_back @ g
