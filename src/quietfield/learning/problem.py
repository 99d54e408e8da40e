"""What a learner sees: the tables of a release as flat vectors, and the map from parameters to expected tables.

A *parameter vector* holds one log-potential per cell of every released table, tables of equal shape side by side. Tied
cliques read the same cells. An interaction that was measured apart (:class:`quietfield.cliques.Structure`) is a table
without axes: its one parameter is added to the cells of its clique with an even number of second values and taken from
the others. Everything that depends on the structure alone is here and static; the numbers of a release
are in :class:`Data`, so that new numbers never compile again.

Glossary: y noisy tables, b noise scale, N total, theta parameters, m(theta) expected share of a cell of a table (summed
over tied cliques), A log-partition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quietfield.cliques import MOST_INTERACTIONS
from quietfield.domain import Clique, Domain
from quietfield.errors import CannotLearn, Error, TooLarge
from quietfield.inference import engine
from quietfield.inference.parities import MOST_ATTRIBUTES, Parities
from quietfield.inference.tree import Calibrated, Tree
from quietfield.learning.observation import estimate_total, find_counted_cells, independent_variance
from quietfield.privacy.noise import Gaussian, Noise
from quietfield.releases.release import Release
from quietfield.releases.tables import signs_of

if TYPE_CHECKING:
    from quietfield.inference.response import Settled

Group = tuple[Clique, ...]
#: Factors of the waves of a stack of tables, or per axis what they do along it: see :meth:`Shape.weigh`.
Waves = np.ndarray | list[tuple[np.ndarray, ...]]

_LONG = 300  # values along which a fast transform beats a matrix
_LEAST_NOISE = 1e-6  # of sqrt(N), the spread of a count: noise below that is as good as none, and floats can do with it
_LEAST_SHARE = 1e-6  # of b^2: keeps the sampling variance of an empty cell above zero


class Data(NamedTuple):
    """The numbers of one release."""

    y: Any  # noisy tables
    b: Any  # scale of each cell's noise
    total: Any  # N, public or estimated


class FitState(NamedTuple):
    """Where a fit stands after a round."""

    theta: Any
    value: Any  # of what the learner maximises
    steps: Any  # inner iterations so far
    done: Any  # settled: further rounds would change nothing
    extra: Any = ()  # what else the learner carries


@dataclass(frozen=True, eq=False)
class Shape:
    """The structure of a problem. Get it from :func:`shape_of`, which remembers."""

    domain: Domain
    groups: tuple[Group, ...]  # one per table, those of equal shape side by side
    gaussian: tuple[bool, ...]  # per table: Gaussian noise, or Laplace
    excluded: tuple[tuple[int, ...] | None, ...]  # per table: the cell that was not counted
    cliques: tuple[Clique, ...]
    inference: str = "exact"
    options: tuple[tuple[str, Any], ...] = ()
    log_space: bool = False  # inference that no parameters are too large for; several times slower
    apart: frozenset[Clique] = frozenset()  # the cliques of which the interaction alone was measured

    @cached_property
    def engine(self) -> Any:
        """Inference in JAX."""
        return engine(self.domain, self.cliques, self.inference, **dict(self.options))

    @cached_property
    def table_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(() if g[0] in self.apart else self.domain.table_shape(g[0]) for g in self.groups)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each table starts in the parameter vector, and its end."""
        return tuple(np.cumsum([0, *(prod(shape) for shape in self.table_shapes)]).tolist())

    @property
    def size(self) -> int:
        return self.starts[-1]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Cells of each table."""
        return np.diff(self.starts)

    @cached_property
    def stacks(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """Tables of one shape: (start in the vector, how many, their shape)."""
        found: list[tuple[int, int, tuple[int, ...]]] = []
        for start, shape in zip(self.starts, self.table_shapes, strict=False):
            if found and found[-1][2] == shape:
                found[-1] = (found[-1][0], found[-1][1] + 1, shape)
            else:
                found.append((start, 1, shape))
        return tuple(found)

    @cached_property
    def places(self) -> np.ndarray:
        """For each cell of the engine's vector, its parameter."""
        return self._places(self.engine.layout)

    def _places(self, layout: Any) -> np.ndarray:
        places = {
            clique: np.broadcast_to(
                np.arange(start, start + prod(shape)).reshape(shape), self.domain.table_shape(clique)
            )
            for group, start, shape in zip(self.groups, self.starts, self.table_shapes, strict=False)
            for clique in group
        }
        return layout.pack({c: places[c] for c in layout.cliques}, np.int64)

    @cached_property
    def signs(self) -> np.ndarray | None:
        """For each cell of the vector of inference, what its parameter is multiplied by; None if always 1."""
        if not self.apart:
            return None
        layout = self.tree.layout if self.inference == "exact" else self.engine.layout
        shapes = {c: self.domain.table_shape(c) for c in layout.cliques}
        return layout.pack({c: signs_of(len(s)) if c in self.apart else np.ones(s) for c, s in shapes.items()})

    @cached_property
    def sums(self) -> Any:
        """What takes values by cells of that vector to parameters, with signs; sparse."""
        from scipy import sparse

        signs: np.ndarray = np.asarray(self.signs)
        return sparse.csr_array((signs, (self.settled_places, np.arange(len(signs)))), shape=(self.size, len(signs)))

    @cached_property
    def parities(self) -> Parities | None:
        """Faster exact inference for interactions that were measured apart, where there is nothing but two values."""
        names = self.domain.position
        used = dict.fromkeys(name for group in self.groups for name in group[0])
        if not self.apart or self.inference != "exact" or self.domain.impossible or len(used) > MOST_ATTRIBUTES:
            return None
        if any(self.domain.size(name) != 2 for name in used) or any(len(group) > 1 for group in self.groups):
            return None
        place = {name: i for i, name in enumerate(sorted(used, key=names))}
        tables = [(tuple(place[name] for name in group[0]), group[0] in self.apart) for group in self.groups]
        return Parities.of(len(used), tables)

    @cached_property
    def tree(self) -> Tree:
        """Exact inference without a compiler."""
        return Tree.of(self.domain, tuple(clique for group in self.groups for clique in group))

    @cached_property
    def tree_places(self) -> np.ndarray | slice:
        """For each cell of the tree's vector, its parameter: all of them in order, if no cliques are tied."""
        places = self._places(self.tree.layout)
        return slice(None) if not self.apart and np.array_equal(places, np.arange(self.size)) else places

    def settle(self, theta: np.ndarray) -> "Calibrated | Settled":
        """Inference with its derivative, in the order of its own vector."""
        cells = self.to_cells(theta)
        return self.tree.calibrate(cells) if self.inference == "exact" else self.engine.settle(cells)

    def to_cells(self, p: np.ndarray) -> np.ndarray:
        """Values by parameters as values by cells of that vector."""
        cells = p[..., self.settled_places]
        return cells if self.signs is None else cells * self.signs

    @cached_property
    def settled_places(self) -> np.ndarray | slice:
        """For each cell of that vector, its parameter."""
        return self.tree_places if self.inference == "exact" else self.places

    @property
    def together(self) -> int:
        """How many directions inference follows at once."""
        return self.tree.together if self.inference == "exact" else self.engine.together

    @cached_property
    def _tied(self) -> bool:
        return len(self.places) != self.size

    def per_cell(self, values: Any) -> np.ndarray:
        """One value per table, repeated for its cells."""
        return np.repeat(np.asarray(list(values)), self.sizes)

    @cached_property
    def copies(self) -> np.ndarray:
        """Per cell, how many tied cliques its table sums."""
        return self.per_cell(len(group) for group in self.groups).astype(float)

    @cached_property
    def counted(self) -> np.ndarray:
        """Per cell, 1 if it was counted and 0 if it holds noise alone or is impossible."""
        found = [
            [True] if group[0] in self.apart else find_counted_cells(self.domain, group, excluded).ravel()
            for group, excluded in zip(self.groups, self.excluded, strict=True)
        ]
        return np.concatenate(found).astype(float)

    @cached_property
    def is_count(self) -> np.ndarray:
        """Per cell, 1 if records add 1 or nothing to it, and 0 if it is an interaction, to which they add 1 or -1."""
        return self.per_cell(group[0] not in self.apart for group in self.groups).astype(float)

    def variance(self, m: np.ndarray) -> np.ndarray:
        """V of what one record adds to each cell, from its mean; of tied cliques as if they were independent."""
        if not self.apart:
            return independent_variance(1.0, m, self.copies)
        return np.where(self.is_count > 0, m, 1.0) - m * m / self.copies

    def sampling_variance(self, data: Data, m: np.ndarray) -> np.ndarray:
        """v: the variance of a count, N m (1 - m); of a table that sums several cliques, as if independent."""
        return np.maximum(data.total * self.variance(m), 0.0) + _LEAST_SHARE * data.b**2

    def variance_slope(self, m: np.ndarray) -> np.ndarray:
        """Its derivative by the mean."""
        return self.is_count - 2 * m / self.copies

    @cached_property
    def is_gaussian(self) -> np.ndarray:
        """Per cell, whether its noise is Gaussian."""
        return self.per_cell(self.gaussian)

    def by_table(self, values: np.ndarray) -> np.ndarray:
        """Sums of the values of each table's cells, along the last axis."""
        return np.add.reduceat(values, self.starts[:-1], axis=-1)

    def centre(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(means of the values of each table's cells, values less these), along the last axis."""
        means = self.by_table(values) / self.sizes
        if self.apart:  # an interaction holds no constant
            means[..., [group[0] in self.apart for group in self.groups]] = 0.0
        return means, values - np.repeat(means.astype(values.dtype), self.sizes, -1)

    def at(self, theta: np.ndarray) -> "Point":
        """Inference at some parameters, with its derivative; nothing is compiled where it is exact."""
        return Point(self, theta)

    def shares(self, theta: Any) -> Any:
        """m(theta): the expected share of each cell; its Jacobian is symmetric."""
        return self.shares_and_log_partition(theta)[0]

    def shares_and_log_partition(self, theta: Any) -> tuple[Any, Any]:
        """(m, A) of theta, in one call; in JAX."""
        import jax.numpy as jnp

        mu, log_z = self._infer(theta)
        return jnp.zeros_like(theta).at[self.places].add(mu) if self._tied else mu[np.argsort(self.places)], log_z

    def log_partition(self, theta: Any) -> Any:
        """A(theta)."""
        return self._infer(theta)[1]

    def _infer(self, theta: Any) -> tuple[Any, Any]:
        kernel = {"kernel": "log"} if self.log_space else {}
        return self.engine.marginals_and_log_partition(theta[self.places], **kernel)

    @cached_property
    def in_log_space(self) -> "Shape":
        """The same problem with inference in log space."""
        return replace(self, log_space=True)

    def beyond_floats(self, theta: np.ndarray) -> bool:
        """Whether inference at these parameters may leave the range of floats, and log space would help."""
        if self.log_space or self.inference != "exact":
            return False
        return not np.isfinite(theta).all() or self.engine.kernel(theta[self.places]) == "log"

    def centred(self, theta: Any) -> Any:
        """Each table less its mean: adding a constant changes no probability, but would drift."""
        import jax.numpy as jnp

        parts = []
        for start, count, shape in self.stacks:
            part = theta[start : start + count * prod(shape)].reshape(count, -1)
            parts.append((part - part.mean(1, keepdims=True)).ravel())
        return jnp.concatenate(parts)

    def interactions(self, theta: np.ndarray) -> np.ndarray:
        """The part of the parameters that is an interaction of all attributes of its table (of two or more)."""
        return self.weigh(theta, np.ones(len(self.groups)), np.zeros(len(self.groups)))

    def weigh(
        self, theta: np.ndarray, inside: np.ndarray, rest: np.ndarray, waves: Mapping[int, Waves] | None = None
    ) -> np.ndarray:
        """Interactions times ``inside`` plus the rest times ``rest``, one factor per table.

        ``waves`` are factors of waves for some stacks of tables, by where these start: there each wave has both. The
        factors are products of one per attribute, so of tables of one attribute or two they may be given as what they
        do along each axis, to interactions and to the rest: half the work of a transform and its inverse.
        """
        found = np.empty_like(theta)
        lead = theta.shape[:-1]
        table = 0
        for start, count, shape in self.stacks:
            cells = slice(start, start + count * prod(shape))
            ones = (count, *(1,) * len(shape))
            a, b = (x[table : table + count].reshape(ones).astype(theta.dtype) for x in (inside, rest))
            table += count
            x, out = (y[..., cells].reshape(*lead, count, *shape) for y in (theta, found))
            along = None if waves is None else waves.get(start)
            if isinstance(along, np.ndarray):
                moved = to_waves(x, len(shape))
                moved *= np.where(find_interactions(shape), a, b)
                moved *= along
                out[...] = from_waves(moved, len(shape))
            elif along is not None and len(shape) == 1:
                np.multiply((x[..., None, :] @ along[0][1])[..., 0, :], b, out=out)
            elif along is not None:
                np.matmul(along[0][0] @ x, along[1][0], out=out)
                out *= a
                rows, columns = (np.add.reduce(x, axis, keepdims=True) for axis in (-1, -2))
                out += (b / shape[1]) * (along[0][1] @ rows)
                out += (b / shape[0]) * (columns @ along[1][1])
            elif len(shape) == 1:
                np.multiply(x, b, out=out)
            elif len(shape) == 2:  # all passes over the cells are in place: there may be millions
                rows, columns = (np.add.reduce(x, axis, keepdims=True) / x.shape[axis] for axis in (-1, -2))
                np.multiply(x, a, out=out)
                out += (b - a) * (rows - np.add.reduce(rows, -2, keepdims=True) / shape[0])
                out += (b - a) * columns
            else:
                np.copyto(out, x)
                for axis, size in zip(range(-len(shape), 0), shape, strict=True):
                    out -= np.add.reduce(out, axis, keepdims=True) / size
                out *= a - b
                out += x * b
        return found

    @cached_property
    def interaction_sizes(self) -> np.ndarray:
        """The dimension of that part in each table."""
        return np.array([prod(s - 1 for s in shape) if len(shape) != 1 else 0 for shape in self.table_shapes], float)

    @cached_property
    def pools(self) -> np.ndarray:
        """Per table, the number of the pool of tables whose parameters have one scale: one table, or the interactions
        of as many attributes that were measured apart, of which each is one parameter."""
        keys = [(len(g[0]), "apart") if g[0] in self.apart else (i, "table") for i, g in enumerate(self.groups)]
        places = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        return np.array([places[key] for key in keys])

    @cached_property
    def squares(self) -> np.ndarray:
        """Per table, the sum of squares in its cells of one parameter: several where it is that of an interaction."""
        return np.array([self.domain.cells(g[0]) if g[0] in self.apart else 1 for g in self.groups], float)

    def by_pool(self, values: np.ndarray) -> np.ndarray:
        """For each table the sum over its pool, along the last axis."""
        if not self.apart:
            return values
        sums = np.zeros((*values.shape[:-1], self.pools.max() + 1))
        np.add.at(np.moveaxis(sums, -1, 0), self.pools, np.moveaxis(values, -1, 0))
        return sums[..., self.pools]

    @cached_property
    def with_singles(self) -> np.ndarray:
        """Per table, whether each of its attributes has a table of its own beside it, or is it, or has one value."""
        alone = {group[0][0] for group in self.groups if len(group[0]) == 1}
        alone |= {name for name in self.domain if self.domain.size(name) == 1}
        return np.array([alone.issuperset(group[0]) for group in self.groups])

    @cached_property
    def interaction_dimension(self) -> float:
        """The dimension of that part."""
        return float(self.interaction_sizes.sum())

    @cached_property
    def effect_dimension(self) -> float:
        """The dimension of the rest, effects of fewer attributes, counted once where tables share them."""
        # Attributes of one value have no effect, and a few dozen of them have more subsets than can be listed.
        free = [
            [name for name in group[0] if self.domain.size(name) > 1]
            for group in self.groups
            if group[0] not in self.apart
        ]
        effects = {
            frozenset(effect)
            for names in free
            for size in range(1, max(2, len(names)))
            for effect in combinations(names, size)
        }
        return float(sum(prod(self.domain.shape[self.domain.position(a)] - 1 for a in effect) for effect in effects))

    def tables(self, theta: np.ndarray) -> dict[Clique, np.ndarray]:
        """Log-potentials by clique; tied cliques get equal tables."""
        found = {}
        for group, start, shape in zip(self.groups, self.starts, self.table_shapes, strict=False):
            table = theta[start : start + prod(shape)].reshape(shape)
            found.update(dict.fromkeys(group, table * signs_of(len(group[0])) if group[0] in self.apart else table))
        return {clique: found[clique] for clique in self.cliques}


def to_waves(tables: np.ndarray, axes: int) -> np.ndarray:
    """Tables over the last ``axes`` axes in terms of waves: cosines along the values of each attribute."""
    return _turn(tables, axes, inverse=False)


def from_waves(tables: np.ndarray, axes: int) -> np.ndarray:
    """What :func:`to_waves` took."""
    return _turn(tables, axes, inverse=True)


@lru_cache(maxsize=256)
def find_interactions(shape: tuple[int, ...]) -> np.ndarray:
    """Which waves of a table are interactions: those along all of its attributes, of which there are several."""
    return np.all(np.indices(shape) > 0, axis=0) & (len(shape) > 1)


def _turn(tables: np.ndarray, axes: int, *, inverse: bool) -> np.ndarray:
    for axis in range(-axes, 0):
        if tables.shape[axis] > _LONG:
            from scipy.fft import dct, idct

            tables = (idct if inverse else dct)(tables, axis=axis, norm="ortho")
            continue
        matrix = cosines(tables.shape[axis], tables.dtype)
        matrix = matrix.T if inverse else matrix
        if axis == -1:
            tables = tables @ matrix.T
        elif axis == -2:
            tables = matrix @ tables
        else:
            tables = np.swapaxes(matrix @ np.swapaxes(tables, axis, -2), axis, -2)
    return tables


@lru_cache(maxsize=32)
def cosines(size: int, kind: Any) -> np.ndarray:
    """An orthonormal basis: row k has k half waves along the values, and row 0 is constant."""
    from scipy.fft import dct

    return dct(np.eye(size), axis=0, norm="ortho").astype(kind)


DENSE = 500  # parameters: up to here the covariance as a matrix is faster than following directions one by one


class Point:
    """Inference at one set of parameters: shares, log-partition, and the Jacobian of the shares."""

    def __init__(self, shape: Shape, theta: np.ndarray) -> None:
        self.shape, self.theta = shape, theta
        self._found: Calibrated | Settled | None = None
        self._means: np.ndarray | None = None
        if shape.parities is not None:
            self._means, self.log_partition = shape.parities.means(theta)
            self.shares = shape.parities.expect(self._means)
            return
        self._found = shape.settle(theta)
        self.log_partition = float(self._found.log_z)
        self.shares = self._to_parameters(self._found.shares[None])[0]

    def jacobian(self, p: np.ndarray) -> np.ndarray:
        """J p; or, of a matrix, J times each row."""
        return p @ self.dense if self.dense is not None else self._along(p)  # J is symmetric

    def _along(self, p: np.ndarray) -> np.ndarray:
        if p.ndim > 1 and len(p) > (rows := self.shape.together):
            return np.concatenate([self._along(p[i : i + rows]) for i in range(0, len(p), rows)])
        assert self._found is not None
        moved = self._to_parameters(self._found.along(self.shape.to_cells(np.atleast_2d(p))))
        return moved if p.ndim > 1 else moved[0]

    def _to_parameters(self, rows: np.ndarray) -> np.ndarray:
        """Values by cells of the engine as values by parameters: tied cliques add up."""
        places = self.shape.settled_places
        if isinstance(places, slice):
            return rows
        if self.shape.apart:
            return np.asarray((self.shape.sums @ rows.T).T)
        found = np.zeros((len(rows), self.shape.size))
        if len(places) == self.shape.size:
            found[:, places] = rows
        else:
            np.add.at(found.T, places, rows.T)
        return found

    def scatter(self, random: np.random.Generator) -> np.ndarray:
        """A draw from a normal of covariance J: how a record scatters around the shares."""
        assert self._found is not None
        return self._to_parameters(self._found.scatter(random)[None])[0]

    @cached_property
    def dense(self) -> np.ndarray | None:
        """J as a matrix, where it is small."""
        if self._means is not None and self.shape.parities is not None:
            return self.shape.parities.covariance(self._means)
        if self.shape.size > DENSE and not self.shape.apart:
            return None
        found = self._along(np.eye(self.shape.size))
        return 0.5 * (found + found.T)


def problem_of(release: Release, inference: str, options: Mapping[str, Any]) -> tuple[Shape, Data]:
    """The problem that a release poses."""
    parts = sorted(release.parts, key=lambda part: part.values.shape)
    if not parts:
        raise Error("this release has no tables; there is nothing to learn from.")
    apart = frozenset(part.cliques[0] for part in parts if part.interaction)
    if apart and (numbers := sum(part.values.size for part in parts)) > MOST_INTERACTIONS:
        raise TooLarge(
            f"this release holds {numbers:,} numbers, some of them interactions that were measured apart: models are "
            f"learned from up to {MOST_INTERACTIONS:,} of these; release tables instead."
        )
    shape = shape_of(
        release.domain,
        release.structure.cliques,
        tuple(part.cliques for part in parts),
        tuple(isinstance(part.noise, Gaussian) for part in parts),
        tuple(part.excluded for part in parts),
        inference,
        tuple(sorted(options.items())),
        apart,
    )
    y = np.concatenate([np.asarray(part.values, dtype=float).ravel() for part in parts]) / release.denominator
    if not np.isfinite(y).all():
        raise CannotLearn("this release holds NaN or infinite values; its tables must be finite numbers.")
    total = estimate_total(release)
    return shape, Data(y, noise_scales(shape, (part.noise for part in parts), total), total)


def noise_scales(shape: Shape, noise: Iterable[Noise], total: float) -> np.ndarray:
    """b of each cell, from the noise of each table."""
    return shape.per_cell(max(one.scale, _LEAST_NOISE * sqrt(total)) for one in noise)


@lru_cache(maxsize=64)
def shape_of(
    domain: Domain,
    cliques: tuple[Clique, ...],
    groups: tuple[Group, ...],
    gaussian: tuple[bool, ...],
    excluded: tuple[tuple[int, ...] | None, ...],
    inference: str,
    options: tuple[tuple[str, Any], ...],
    apart: frozenset[Clique] = frozenset(),
) -> Shape:
    """The shape of a problem, one object a structure, so that what is compiled for it is found again."""
    return Shape(domain, groups, gaussian, excluded, cliques, inference, options, apart=apart)
