"""How loopy marginals answer to a change of potentials, without passing more messages; draws with that covariance.

After a small change d of the potentials the beliefs of factors agree again on every attribute. With Cov_f how the cells
of factor f vary in one record, n its attributes one by one, and x how far the beliefs of attributes move,

    move of f = Cov_f (d_f / rho_f + h_f on n)        h_f = Cov_nn^-1 (x_f - Cov_nf d_f / rho_f)
    H x = sum_f Cov_nn^-1 Cov_nf d_f                  H = sum_f rho_f Cov_nn^-1 + sum_v (1 - sum_f rho_f) Cov_v^-1

H is the curvature of Bethe's free energy in the beliefs of attributes: a sparse matrix, one row per value.
So J, the derivative of the tables (linear response: Welling and Teh 2004), has two parts: what each factor varies by
where its attributes stay, and K H^-1 K' with K_f = Cov_fn Cov_nn^-1. Where messages settled on a minimum of the free
energy both are covariances, and a draw of J costs as much as a product. On a tree J is the covariance of one record;
elsewhere it is as near to that as the marginals are.

Moves of attributes are in units of sqrt(belief), where Cov_v is a projection; a constant, which says nothing, counts 1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.errors import Error

if TYPE_CHECKING:
    from quietfield.inference.loopy import Loopy, LoopyKind

_LEAST = 1e-10  # how far from perfect a correlation of two attributes is taken to be, at least


@dataclass(frozen=True, eq=False)
class Settled:
    """Loopy inference at one set of parameters. Get it from :meth:`quietfield.inference.loopy.Loopy.settle`."""

    engine: "Loopy"
    shares: np.ndarray
    log_z: float
    tables: tuple[np.ndarray, ...]  # of all factors, by kind

    def along(self, directions: np.ndarray) -> np.ndarray:
        """J p for each row p of cells."""
        own = [kind.spread(directions) for kind in self._kinds]
        right = np.zeros((len(directions), sum(self.engine.domain.shape)))
        for kind, moved in zip(self._kinds, own, strict=True):
            np.add.at(right.T, kind.places, np.moveaxis(kind.rho * kind.held(moved), 0, -1))
        return self._follow(own, self._factors.solve(right.T).T).astype(directions.dtype)

    def scatter(self, random: np.random.Generator) -> np.ndarray:
        """A draw from a normal of covariance J.

        Raises:
            Error: J is no covariance, since the messages did not settle, or not on a minimum.
        """
        found = self._factors
        sizes = found.U.diagonal()
        if not ((sizes > 0).all() and (found.perm_r == found.perm_c).all()):
            raise Error(
                f"{self.engine.name} inference gives the cells of this model no proper covariance; use exact inference "
                "where it fits in memory, or 'convex' inference."
            )
        own = [kind.scatter(random) for kind in self._kinds]
        drawn = (found.L @ (np.sqrt(sizes) * random.standard_normal(len(sizes))))[found.perm_r]  # of covariance H
        return self._follow(own, found.solve(drawn)[None])[0]

    @cached_property
    def _kinds(self) -> "list[_Kind]":
        return [_Kind(self.engine, *found) for found in zip(self.engine.kinds, self.tables, strict=True)]

    @cached_property
    def _factors(self) -> Any:
        """H as a product of triangles."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        every = np.arange(sum(self.engine.domain.shape))
        once = np.ones(len(every))
        for kind in self._kinds:
            np.subtract.at(once, kind.places, kind.rho)
        rows, columns, values = [every], [every], [once]
        for kind in self._kinds:
            width = kind.places.shape[1]
            rows.append(np.repeat(kind.places, width, axis=1).ravel())
            columns.append(np.tile(kind.places, width).ravel())
            values.append((kind.rho[..., None] * kind.inverse).ravel())
        places = (np.concatenate(rows), np.concatenate(columns))
        curved = sparse.csc_array((np.concatenate(values), places), shape=(len(every), len(every)))
        return splu(curved, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def _follow(self, own: Iterable[np.ndarray], moved: np.ndarray) -> np.ndarray:
        """Tables that moved by themselves, moved on until their attributes move as ``moved`` says."""
        found = np.empty((len(moved), self.engine.layout.size))
        for kind, table in zip(self._kinds, own, strict=True):
            if kind.cells is not None:
                found[:, kind.cells] = kind.follow(table, moved[:, kind.places])
        return found


class _Kind:
    """Factors of one shape: tables (factors, *shape), and numbers for their values, one axis after the other."""

    def __init__(self, engine: "Loopy", kind: "LoopyKind", tables: np.ndarray) -> None:
        self.shape, self.tables = kind.shape, tables.reshape(-1, *kind.shape)
        self.cells = None if kind.masks else engine.cells(kind)
        self.rho = engine.weights[list(kind.factors)][:, None]
        starts = np.cumsum([0, *engine.domain.shape])
        axes = zip(kind.attributes, kind.shape, strict=True)
        #: For each number of each factor, its place among the values of all attributes.
        self.places = np.concatenate([starts[list(vs)][:, None] + np.arange(n) for vs, n in axes], 1)
        self._roots = np.sqrt(self._sum(self.tables[None])[0])
        self._units = np.divide(1, self._roots, out=np.zeros_like(self._roots), where=self._roots > 0)

    @cached_property
    def inverse(self) -> np.ndarray:
        """Cov_nn^-1."""
        width, parts = self.places.shape[1], list(self._parts())
        found = np.zeros((len(self.tables), width, width))
        found[:] = (1 + _LEAST) * np.eye(width)
        for i, one in enumerate(parts):
            for j, other in enumerate(parts[:i]):
                kept = self.tables.sum(tuple(k + 1 for k in range(len(parts)) if k not in (i, j)))
                alone = self._roots[:, other, None] * self._roots[:, None, one]
                part = self._units[:, other, None] * kept * self._units[:, None, one] - alone
                found[:, other, one], found[:, one, other] = part, part.swapaxes(1, 2)
        if len(parts) != 2:
            return np.linalg.inv(found)
        few, many = sorted(parts, key=lambda part: part.stop - part.start)  # an inverse of the smaller block is enough
        across = found[:, few, many] / (1 + _LEAST)
        inner = np.linalg.inv(found[:, few, few] - across @ found[:, many, few])
        found[:, few, few] = inner
        found[:, few, many] = outer = -inner @ across
        found[:, many, few] = outer.swapaxes(1, 2)
        found[:, many, many] -= across.swapaxes(1, 2) @ outer
        return found

    def spread(self, directions: np.ndarray) -> np.ndarray:
        """Cov_f d_f / rho_f, rows by factors by cells."""
        flat = self.tables.reshape(len(self.tables), -1)
        if self.cells is None:
            return np.zeros((len(directions), *flat.shape))
        found = directions[:, self.cells].reshape(-1, *flat.shape) / self.rho
        found -= (flat * found).sum(-1, keepdims=True)
        found *= flat
        return found

    def scatter(self, random: np.random.Generator) -> np.ndarray:
        """A draw of covariance Cov_f / rho_f, as one row."""
        flat = self.tables.reshape(len(self.tables), -1)
        found = np.sqrt(flat / self.rho) * random.standard_normal(flat.shape)
        return (found - flat * found.sum(-1, keepdims=True))[None]

    def held(self, moved: np.ndarray) -> np.ndarray:
        """Cov_nn^-1 times the moves of attributes that these moves of tables are."""
        return self._weigh(self._units * self._sum(moved.reshape(-1, *self.tables.shape)))

    def follow(self, moved: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Moves of tables, changed until the moves of attributes are as wanted; rows by cells."""
        pushed = self._units * (self._weigh(wanted) - self.held(moved))
        pushed -= (self._roots**2 * pushed).sum(-1, keepdims=True) / len(self.shape)  # of every table, mean 0
        found = moved.reshape(-1, *self.tables.shape).copy()
        for axis, part in enumerate(self._parts()):
            sizes = [n if i == axis else 1 for i, n in enumerate(self.shape)]
            found += self.tables * pushed[..., part].reshape(len(found), -1, *sizes)
        return found.reshape(len(found), -1)

    def _weigh(self, numbers: np.ndarray) -> np.ndarray:
        return np.einsum("fij,rfj->rfi", self.inverse, numbers)

    def _parts(self) -> Iterator[slice]:
        """Where the numbers of each axis are."""
        ends = np.cumsum(self.shape).tolist()
        return (slice(end - n, end) for end, n in zip(ends, self.shape, strict=True))

    def _sum(self, tables: np.ndarray) -> np.ndarray:
        """Tables (rows, factors, *shape) summed to the values of each axis."""
        axes = range(2, 2 + len(self.shape))
        return np.concatenate([tables.sum(tuple(k for k in axes if k != axis)) for axis in axes], -1)
