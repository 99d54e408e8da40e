"""Conjugate gradients for the curvature J W J + P of the default learner, and what makes them converge in few steps.

A diagonal is a poor stand-in for that matrix: tables that share attributes can move an effect of these between them
without changing any probability, and a cell that holds few people still moves the margins of its table, which many
hold. :class:`Preconditioner` therefore takes effects that tables share apart from all the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from quietfield.learning.learner import one_blas_thread
from quietfield.learning.problem import Shape, cosines, find_interactions
from quietfield.learning.smoothness import Smoothness

Operator = Callable[[np.ndarray], np.ndarray]

_WIDE = 10_000  # cells of a table of two attributes that is summed as it lies
_WAVES = 192  # of a table, that are taken one by one: 384 take four times as long to set up, and save few steps
_ENTRIES = 1_000_000  # of the matrix of margins that tables of two move, at most: more take longer than they save
_LEAST = 1e-30  # a share below this counts as none: its inverse must be a float of single precision


def dot(a: np.ndarray, b: np.ndarray) -> Any:
    """Inner products along the last axis. Not by BLAS: its threads wait for each other longer than these sums take."""
    return np.einsum("...i,...i->...", a, b)


def conjugate_gradients(
    operator: Operator,
    right: np.ndarray,
    precondition: Operator,
    tolerance: float,
    most: int,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """The solution of a positive definite system, until the preconditioned residual is ``tolerance`` of the right side.

    Several right sides, one per row, are solved together. ``start`` is a guess; without one, 0 is.
    """
    x, r = np.zeros_like(right), right.copy()
    z = precondition(r)
    rz = dot(r, z)
    goal = tolerance**2 * rz
    if start is not None:
        x += start
        r -= operator(x)
        z = precondition(r)
        rz = dot(r, z)
    p = z.copy()
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


class Effects:
    """The effects of few attributes that the tables of a structure hold, and which of them they share.

    An effect belongs to a set of attributes: a single one, what two tables have in common, or a whole table that
    another one holds. A table has one number a combination of values for each such set within it; all of them, table
    by table, are one vector. What a table holds besides, its *rest*, no other can take over.
    """

    def __init__(self, shape: Shape) -> None:
        from scipy import sparse

        # Attributes of one value have no effect, and there may be more of them than an array can have axes.
        tables = [tuple(name for name in group[0] if shape.domain.size(name) > 1) for group in shape.groups]
        within = _sets_within(tables)
        held = Counter(s for sets in within for s in sets)
        #: Per table, whether it has a rest; and those of two attributes that have one.
        self.with_rest = np.array([len(t) > 1 and held[frozenset(t)] == 1 for t in tables])
        self.entries = sum(sum(map(shape.domain.size, t)) ** 2 for t in tables)
        self.tables, self.pairs = tables, [i for i, t in enumerate(tables) if len(t) == 2 and self.with_rest[i]]
        #: Per attribute, where the numbers of its own effect start: among those that tables share, and in each table.
        self.singles: dict[str, tuple[int, list[int]]] = {}
        firsts: dict[frozenset[str], int] = {}  # where the numbers of a set start among those that tables share
        cells, effects, members, homes, whole, rest, single = ([np.zeros(0, int)] for _ in range(7))
        lower: list[tuple[np.ndarray, np.ndarray, float]] = []
        self._wide: list[tuple[slice, tuple[int, ...], list[slice]]] = []
        size = shared = 0
        for i, (table, start) in enumerate(zip(tables, shape.starts, strict=False)):
            full = frozenset(table)
            sets = [s for s in within[i] if s != full or not self.with_rest[i]]
            weights = _weights_of_means(full, sets) if self.with_rest[i] else dict.fromkeys(sets, 0.0)
            axes = np.indices([shape.domain.size(name) for name in table]).reshape(len(table), shape.sizes[i])
            codes = dict(zip(table, axes, strict=True))
            place: dict[frozenset[str], np.ndarray] = {}  # for each cell of the table, its number in the vector
            for s in sets:
                sizes = [shape.domain.size(name) for name in sorted(s)]
                place[s] = size + np.ravel_multi_index([codes[name] for name in sorted(s)], sizes)
                if s not in firsts:
                    firsts[s], shared = shared, shared + prod(sizes)
                if len(s) == 1:
                    self.singles.setdefault(min(s), (firsts[s], []))[1].append(size)
                members.append(np.arange(firsts[s], firsts[s] + prod(sizes)))
                homes.append(np.full(prod(sizes), i))
                whole.append(np.full(prod(sizes), s == full))
                single.append(np.full(prod(sizes), len(s) == 1))
                rest.append(np.full(prod(sizes), weights[s]))
                size += prod(sizes)
            if self.with_rest[i] and len(table) == 2 and shape.sizes[i] >= _WIDE:
                both = tuple(shape.domain.size(name) for name in table)
                numbers = [slice(n := int(place[frozenset((name,))][0]), n + shape.domain.size(name)) for name in table]
                self._wide.append((slice(start, start + shape.sizes[i]), both, numbers))
            else:
                cells += [np.arange(start, start + shape.sizes[i])] * len(sets)
                effects += [place[s] for s in sets]
            for s in (s for s in sets if len(s) > 1):
                first = np.unique(place[s], return_index=True)[1]
                below = _weights_of_means(s, [t for t in sets if t < s])
                lower += [(place[s][first], place[t][first], weight) for t, weight in below.items()]
        self.homes, self.whole, self.rest = (np.concatenate(x) for x in (homes, whole, rest))
        self.single = np.concatenate(single).astype(bool)
        self.paired = np.isin(self.homes, self.pairs)
        self.members, self.shared, self.domain = np.concatenate(members), shared, shape.domain
        cell, effect = np.concatenate(cells), np.concatenate(effects)
        # Sums of cells to effects, effects laid over cells, and sums of effects to those that tables share.
        sums = sparse.csr_array((np.ones(len(cell)), (effect, cell)), shape=(size, shape.size))
        together = sparse.csr_array((np.ones(size), (self.members, np.arange(size))), shape=(shared, size))
        self._matrices: dict[Any, tuple[Any, ...]] = {np.float64: (sums, sums.T.tocsr(), together)}
        #: How many cells of its table an effect moves.
        self.cells = self.sum(np.ones(shape.size))
        #: Weights of conditional means that are taken from an effect, where any are.
        self.lower = None
        if lower:
            rows, columns = (np.concatenate([x[k] for x in lower]) for k in (0, 1))
            data = np.concatenate([np.full(len(x[0]), x[2]) for x in lower])
            self.lower = sparse.csr_array((data, (rows, columns)), shape=(size, size))

    def matrices(self, kind: Any) -> tuple[Any, ...]:
        """The matrices in some precision."""
        if kind not in self._matrices:
            self._matrices[kind] = tuple(x.astype(kind) for x in self._matrices[np.float64])
        return self._matrices[kind]

    def values(self, names: Iterable[str]) -> np.ndarray:
        """The numbers of the effects of single attributes among those that tables share."""
        return np.concatenate([np.arange(n := self.singles[name][0], n + self.domain.size(name)) for name in names])

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(where each entry of some blocks goes in a sparse matrix; rows, columns and column ends of that; diagonal).

        There is a block of the values of each attribute and one of those of both attributes of each pair.
        """
        blocks = [self.values((name,)) for name in self.singles] + [self.values(self.tables[i]) for i in self.pairs]
        size = self.shared
        held = np.concatenate([np.add.outer(values * size, values).ravel() for values in blocks])
        kept, places = np.unique(np.concatenate([held, np.arange(size) * (size + 1)]), return_inverse=True)
        columns, rows = np.divmod(kept, size)
        ends = np.searchsorted(columns, np.arange(size + 1))
        return places[:-size], rows, columns, ends, places[-size:]

    def add_blocks(self, blocks: Iterable[np.ndarray], scale: np.ndarray) -> Any:
        """1 + the sum of symmetric blocks, see :attr:`_places`, times a scale on both sides: a sparse matrix."""
        from scipy import sparse

        places, rows, columns, ends, diagonal = self._places
        entries = np.bincount(places, np.concatenate([block.ravel() for block in blocks]), len(rows))
        entries *= scale[rows] * scale[columns]
        entries[diagonal] += 1.0
        return sparse.csc_array((entries, rows, ends), shape=(len(scale), len(scale)))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sums of cells to effects. Large tables are added up as they lie, three times as fast as by a matrix."""
        found = _product(self.matrices(values.dtype.type)[0], values)
        for cells, sizes, (rows, columns) in self._wide:
            table = values[..., cells].reshape(*values.shape[:-1], *sizes)
            found[..., rows], found[..., columns] = table.sum(-1), table.sum(-2)
        return found

    def lay(self, values: np.ndarray) -> np.ndarray:
        """Effects laid over cells."""
        found = _product(self.matrices(values.dtype.type)[1], values)
        for cells, sizes, (rows, columns) in self._wide:
            table = found[..., cells].reshape(*values.shape[:-1], *sizes)
            np.add(values[..., rows, None], values[..., None, columns], out=table)
        return found


def _product(matrix: Any, values: np.ndarray) -> np.ndarray:
    """A sparse matrix times a vector, or times each row: it takes vectors faster than a few columns."""
    if values.ndim == 1:
        return matrix @ values
    found = np.empty((len(values), matrix.shape[0]), values.dtype)
    for row, out in zip(values, found, strict=True):
        out[...] = matrix @ row
    return found


@lru_cache(maxsize=64)
def _effects(shape: Shape) -> Effects:
    return Effects(shape)


def _sets_within(tables: list[tuple[str, ...]]) -> list[list[frozenset[str]]]:
    """For each table, the sets of attributes within it that are single, a table, or what tables have in common."""
    found = {frozenset(table) for table in tables if table}
    large = {table for table in found if len(table) > 2}  # what others have in common is a table or an attribute
    fresh = large
    while fresh:
        fresh = {a & b for a in large for b in fresh} - found - {frozenset()}
        found |= fresh
        large |= {s for s in fresh if len(s) > 2}
    found |= {frozenset((name,)) for table in tables for name in table}
    by_first: dict[str, list[frozenset[str]]] = {}
    for s in sorted(found, key=lambda s: (len(s), sorted(s))):
        by_first.setdefault(min(s), []).append(s)
    return [[s for name in sorted(table) for s in by_first.get(name, ()) if s <= set(table)] for table in tables]


def _weights_of_means(full: frozenset[str], below: list[frozenset[str]]) -> dict[frozenset[str], float]:
    """Weights of the conditional means that leave, of a function of ``full``, what no set below it explains.

    Inclusion and exclusion: an effect is taken away once, in however many means it is.
    """
    found: dict[frozenset[str], float] = {}
    for s in sorted(below, key=len, reverse=True):
        found[s] = -1.0 - sum(weight for t, weight in found.items() if s < t)
    return found


class SmoothEffect:
    """An attribute's own effect where it is smooth along the values: its covariance is no diagonal.

    Tables hold it with covariances spread_t S; what all of them hold together has spread S, the sum of these, before
    and C = (K + (spread S)^-1)^-1 after the information K of the tables.
    """

    def __init__(self, starts: list[int], root: np.ndarray, spread: np.ndarray, known: np.ndarray, kind: Any) -> None:
        self.numbers = np.add.outer(starts, np.arange(len(root)))
        spreads = spread[self.numbers[:, :1]]
        whole = np.sqrt(spreads.sum()) * root
        after = whole @ np.linalg.solve(np.eye(len(root)) + (whole * known) @ whole, whole)
        matrices = (root @ root, after, after * known)
        self.covariance, self.after, self.followed = (matrix.astype(kind) for matrix in matrices)
        self.spreads, self.parts = spreads.astype(kind), (spreads / spreads.sum()).astype(kind)

    def solve(self, right: np.ndarray, found: np.ndarray) -> None:
        """About the inverse of the curvature, from all numbers to those of this effect, where tables stand alone."""
        held = right[..., self.numbers]
        mean = (self.parts * held).sum(-2, keepdims=True)
        found[..., self.numbers] = self.spreads * ((held - mean) @ self.covariance) + self.parts * (mean @ self.after)

    def follow(self, values: np.ndarray, matrix: np.ndarray) -> None:
        """A matrix of the attribute's values applied to the numbers of each table, in place."""
        values[..., self.numbers] = values[..., self.numbers] @ matrix.T


@lru_cache(maxsize=32)
def _long_cosines(size: int) -> np.ndarray:
    """Cosines of up to twice as many half waves as an attribute has: row k has k of them along the values."""
    return np.cos(np.pi / (2 * size) * np.outer(np.arange(2 * size - 1), np.arange(1, 2 * size, 2)))


class SmoothTable:
    """About the inverse of D + P for a table of two attributes: D, what its cells know, is diagonal, P in waves is.

    Waves of large variance are taken as they are and the others as if they had one variance c. With U the former,
    P = 1/c - U R U', R = 1/c - 1/variance; and with F = (D + 1/c)^-1 the inverse is F + F U (R^-1 - U'FU)^-1 U'F.
    A product of cosines is a sum of cosines: the cosine transform of F holds all that U'FU needs.
    """

    def __init__(self, variances: np.ndarray, known: np.ndarray, kind: Any) -> None:
        self.sizes = variances.shape
        order = np.argsort(-variances, axis=None, kind="stable")
        falling = variances.ravel()[order]
        common = np.exp(np.log(falling[min(_WAVES, len(order) - 1) :]).mean())
        many = min(int((falling > 2 * common).sum()), _WAVES)
        self.diagonal = 1 / (known.reshape(self.sizes) + 1 / common)
        self.waves = np.unravel_index(order[:many], self.sizes)
        sums, norms, self.bases = self.diagonal, np.ones(many), []
        for size, wave in zip(self.sizes, self.waves, strict=True):
            most = int(wave.max(initial=-1)) + 1
            sums = (_long_cosines(size)[: max(2 * most - 1, 0)] @ sums).T
            norms *= np.sqrt(np.where(wave > 0, 2, 1) / size / 2)
            self.bases.append(cosines(size, kind)[:most])
        (first, less), (second, fewer) = ((np.add.outer(w, w), np.abs(np.subtract.outer(w, w))) for w in self.waves)
        flat, width = sums.ravel(), sums.shape[1]  # one index a number: twice as fast as two
        products = sum(flat[width * row + column] for row in (first, less) for column in (second, fewer))
        inner = np.diag(1 / (1 / common - 1 / falling[:many])) - np.outer(norms, norms) * products
        self.inverse = np.linalg.inv(inner).astype(kind)

    def hold(self, tables: np.ndarray) -> np.ndarray:
        """U' times each of some tables."""
        first, second = self.bases
        i, j = self.waves
        return (first @ tables @ second.T)[..., i, j]

    def lay(self, held: np.ndarray) -> np.ndarray:
        """U times each of some rows."""
        first, second = self.bases
        found = np.zeros((*held.shape[:-1], len(first), len(second)), held.dtype)
        i, j = self.waves
        found[..., i, j] = held
        return first.T @ found @ second

    def margins(self, along_rows: np.ndarray, along_columns: np.ndarray) -> np.ndarray:
        """U'F times one table for each row, which it fills with ``along_rows`` there, and the same for each column."""
        (first, second), (i, j) = self.bases, self.waves
        rows = first[i] * (second @ (self.diagonal * along_rows).T)[j]
        return np.concatenate([rows, second[j] * (first @ (self.diagonal * along_columns))[i]], axis=1)


class Pairs:
    """Effects of single attributes and tables of two, solved together where some of them are smooth.

    A table that holds x of its own moves the margin of an attribute by its conditional means A x under the model, and
    the effect e of that attribute moves it too. With T the prior's covariance of effects, S the inverse of what the
    prior and the cells of a table know of its own part (:class:`SmoothTable`), and K what all tables know of margins,

        T^-1 on e  +  S^-1 on x  +  (e + A x)' K (e + A x)

    is about the curvature. The last term has no more rows than the attributes have values: a small system is left.
    """

    def __init__(
        self,
        shape: Shape,
        effects: Effects,
        shares: np.ndarray,
        information: np.ndarray,
        variances: np.ndarray,
        smoothness: Smoothness,
        spread: np.ndarray,
        known: np.ndarray,
        smooth: list[SmoothEffect],
        means: np.ndarray,
        kind: Any,
    ) -> None:
        from scipy.sparse.linalg import splu

        self.effects, self.smooth, self.kind = effects, smooth, kind
        self.shares, self.spread = shares.astype(kind), spread.astype(kind)
        self.diagonal, ones = np.zeros(shape.size), np.ones(shape.size)
        self.tables: list[tuple[slice, np.ndarray, SmoothTable, np.ndarray]] = []
        factors = {table: s for _, table, s in smoothness.by_table()}
        blocks: list[np.ndarray] = []
        for name, (_, starts) in effects.singles.items():
            root = smoothness.root(name)
            covariance = np.eye(shape.domain.size(name)) if root is None else root @ root
            blocks.append(spread[starts].sum() * covariance)
        for table in effects.pairs:
            names, cells = effects.tables[table], slice(shape.starts[table], shape.starts[table + 1])
            sizes = tuple(shape.domain.size(name) for name in names)
            within = np.where(find_interactions(sizes), *variances[:, table])
            own = SmoothTable(within * np.reshape(factors.get(table, ones[cells]), sizes), information[cells], kind)
            m = shares[cells].reshape(sizes)
            rows, columns = (m / np.maximum(m.sum(axis, keepdims=True), _LEAST) for axis in (1, 0))
            held = own.margins(rows, columns)
            moved = np.zeros((sum(sizes), sum(sizes)))  # A S A'
            n, f = sizes[0], own.diagonal
            moved[:n, :n], moved[n:, n:] = np.diag((f * rows**2).sum(1)), np.diag((f * columns**2).sum(0))
            moved[:n, n:] = f * rows * columns
            moved[n:, :n] = moved[:n, n:].T
            followed = own.inverse @ held
            moved += held.T @ followed
            values = effects.values(names)
            blocks.append(moved)
            self.diagonal[cells] = own.diagonal.ravel()
            if len(own.inverse):
                self.tables.append((cells, values, own, followed.astype(kind)))
        self.means = np.where(effects.paired, means, 0.0).astype(kind)
        self.scale = np.sqrt(known)
        system = effects.add_blocks(blocks, self.scale)
        with one_blas_thread():  # scipy's BLAS may have been loaded just now, too late for a block around this
            options: dict[str, Any] = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
            self.system = splu(system, permc_spec="MMD_AT_PLUS_A", **options)
        self.diagonal = self.diagonal.astype(kind)

    def __call__(self, right: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the tables, the numbers of effects) of about the inverse, for rows of cells and of their sums to effects."""
        found = right * self.diagonal
        spread = self.spread * sums
        for effect in self.smooth:
            effect.follow(spread, effect.covariance)
        moved = spread + self.means * self.effects.sum(self.shares * found)
        margins = _product(self.effects.matrices(self.kind)[2], moved)
        waves = []
        for cells, values, own, followed in self.tables:
            waves.append(own.hold(found[:, cells].reshape(-1, *own.sizes)))
            margins[:, values] += waves[-1] @ followed
        pull = (-self.scale * self.system.solve((self.scale * margins).T).T).astype(self.kind)
        back = pull[:, self.effects.members]
        laid = self.shares * self.effects.lay(self.means * back)
        for (cells, values, own, followed), held in zip(self.tables, waves, strict=True):
            laid[:, cells] += own.lay(held @ own.inverse + pull[:, values] @ followed.T).reshape(len(laid), -1)
        laid *= self.diagonal
        found += laid
        back *= self.spread
        for effect in self.smooth:
            effect.follow(back, effect.covariance)
        return found, spread + back


class Preconditioner:
    """About the inverse of J W J + P, at shares m, for vectors whose tables each sum to 0.

    With Q what takes the conditional means given each smaller set of attributes from a table or an effect (by inclusion
    and exclusion, weighted by m), and C the matrix of the effects, as if those of different sets had nothing to do with
    each other:

        Q (diagonal of W m^2 + P)^-1 Q^T  on the rest of each table  +  Q C^-1 Q^T  on effects, of all tables together

    J Q x moves no margin, so the diagonal is right for it. In C, an effect that moves from one table to another has
    the prior's curvature, and the sum over tables the information of all of them besides. Where the prior is smooth,
    what Q takes away may cost more than all the rest: tables of two attributes are then left to :class:`Pairs`.
    """

    def __init__(
        self,
        shape: Shape,
        shares: np.ndarray,
        weights: np.ndarray,
        variances: np.ndarray,
        smoothness: Smoothness,
        kind: Any,
    ) -> None:
        self.shape, self.effects = shape, (effects := _effects(shape))
        self.together = effects.matrices(kind)[2]
        information = weights * shares**2
        # Of three attributes or more, the rest of the prior holds many parameters, not effects alone.
        large = np.array([len(group[0]) > 2 for group in shape.groups])
        own = np.where(large, variances.max(0), np.where(shape.interaction_sizes > 0, *variances))
        spread = np.where(effects.whole, own[effects.homes], variances[1][effects.homes]) / effects.cells
        known = np.bincount(effects.members, effects.sum(information))
        self.spread = spread.astype(kind)
        self.shared = (known / (1 + known * np.bincount(effects.members, spread))).astype(kind)
        margins = effects.sum(shares)
        inverse = np.divide(1, margins, out=np.zeros_like(margins), where=margins > _LEAST)
        self.rest = (effects.rest * inverse).astype(kind)
        diagonal = 1 / (information + np.repeat(1 / own, shape.sizes))
        kept = effects.with_rest
        self.pairs, self.smooth = None, []
        if smoothness.factors:
            self.smooth = [
                SmoothEffect(starts, root, spread, known[first : first + len(root)], kind)
                for name, (first, starts) in effects.singles.items()
                if (root := smoothness.root(name)) is not None
            ]
            if effects.entries <= _ENTRIES:
                self.pairs = Pairs(
                    shape,
                    effects,
                    shares,
                    information,
                    variances,
                    smoothness,
                    spread,
                    known,
                    self.smooth,
                    inverse,
                    kind,
                )
                kept = kept & ~np.isin(np.arange(len(kept)), effects.pairs)
        self.diagonal = (diagonal * np.repeat(kept, shape.sizes)).astype(kind)
        self.with_rest = bool(kept.any())
        self.shares = shares.astype(kind)
        # P in the same terms, where effects of single attributes are all that tables hold beside interactions.
        self.knows_prior = not large.any() and not smoothness.factors
        self.inside = np.repeat(1 / own, shape.sizes).astype(kind)
        self.outside = ((1 / variances[1] - 1 / own)[effects.homes] / effects.cells).astype(kind)
        self.lower = None
        if effects.lower is not None:
            self.lower = effects.lower.copy()
            rows = np.repeat(np.arange(len(margins)), np.diff(self.lower.indptr))
            self.lower.data = (self.lower.data * margins[rows] * inverse[self.lower.indices]).astype(kind)

    def precision(self, p: np.ndarray) -> np.ndarray:
        """P p, for tables of one attribute or two: faster than table by table, if these are small."""
        return self.inside * p + self.effects.lay(self.outside * self.effects.sum(p))

    def __call__(self, right: np.ndarray) -> np.ndarray:
        if right.ndim == 1:
            return self(right[None])[0]
        sums = self.effects.sum(right)
        found, back = np.zeros_like(right), np.zeros_like(sums)
        if self.with_rest:
            taken = sums.copy()
            for effect in self.smooth:
                effect.follow(taken, effect.followed.T)
            np.multiply(right + self.shares * self.effects.lay(self.rest * taken), self.diagonal, out=found)
            np.multiply(self.effects.sum(self.shares * found), self.rest, out=back)
            for effect in self.smooth:
                effect.follow(back, effect.followed)
        if self.lower is not None:
            sums += _product(self.lower, sums)
        spread = self.spread * sums
        spread -= self.spread * (_product(self.together, spread) * self.shared)[:, self.effects.members]
        if self.pairs is not None:
            tables, numbers = self.pairs(right, sums)
            found += tables
            spread = np.where(self.effects.single, numbers, spread)
        else:
            for effect in self.smooth:
                effect.solve(sums, spread)
        if self.lower is not None:
            spread += _product(self.lower.T, spread)
        back += spread
        found += self.effects.lay(back)
        return self.shape.centre(found)[1]
