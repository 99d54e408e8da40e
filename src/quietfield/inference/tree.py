"""Exact inference with numpy on a tree of bags: marginals, log Z and the covariance of all cells, nothing compiled.

Bags of an elimination order form a tree. On the way up each bag becomes a conditional distribution of what it sums out
given what it shares with its parent (its *separator*), and a message; on the way down these are multiplied to
marginals. Everything is in logarithms or between 0 and 1, so no parameters are too large for it.

The derivative of the marginals takes one more way up and down, linear in the direction p. With cond and mu the
conditional and the marginal of a bag, sep that of its separator, and g the sum of what p and the messages E of its
children say of a bag:

    E = sum of cond * g over what the bag sums out        d mu = mu * g + cond * (d sep - sep * E)

A structure costs a fraction of a millisecond to set up. :mod:`quietfield.inference.exact` does the same with JAX, for
gradients, batches of parameters and GPUs; it compiles for seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, log, prod
from typing import Any, NamedTuple

import numpy as np

from quietfield.cliques import Structure, hashable
from quietfield.domain import Clique, Domain
from quietfield.errors import TooLarge
from quietfield.inference.layout import IMPOSSIBLE, Layout, plain_layout
from quietfield.inference.plan import SMALL, EliminationPlan, plan_elimination
from quietfield.inference.sparse import BAGS, CELLS, Incidence, SparseDerivative
from quietfield.memory import available_memory, readable_bytes

_ROWS = 16  # directions that are followed together, at most
_PART = 0.6  # of a bag's cells, as an exponent, that a child may have which only collects tables
_SPARED = 10_000  # cells that such a child spares passes over, at least: calls of numpy for it take as long as some
_LEAST = 1e-30  # a separator's share below this counts as none: its inverse must be a float of single precision
_DIRECT = 1e9  # cells of the products for a joint distribution that need no other way
_MESSAGE = 5e7  # cells of one of them, at most
_INFERENCE = 200  # cells of products that take as long as inference takes for a cell of a bag
_ROOM = 2**24  # bytes that they may take: more would leave the cache


class _View(NamedTuple):
    """A table over some axes of a bag: how to lay it over the bag, and how to sum the bag back to it."""

    shape: tuple[int, ...]  # as the table has its axes, after one for the rows of a batch
    order: tuple[int, ...] | None  # its axes in the bag's order; None if they are
    spread: tuple[int, ...]  # its shape over the bag: 1 along axes that it lacks
    axes: tuple[int, ...] | None  # numpy's names of the bag's axes and of its own; None if they agree
    own: tuple[int, ...]

    def lay(self, table: np.ndarray) -> np.ndarray:
        """Rows of tables as they broadcast over the bag."""
        if self.order is not None:
            table = table.reshape(-1, *self.shape).transpose(self.order)
        return table.reshape(-1, *self.spread)

    def gather(self, bag: np.ndarray) -> np.ndarray:
        """Rows of bags summed to the table."""
        return bag if self.axes is None else np.einsum(bag, self.axes, self.own)


@dataclass(frozen=True, eq=False)
class _Bag:
    scope: tuple[int, ...]  # positions of its attributes
    shape: tuple[int, ...]
    factors: tuple[tuple[slice, _View], ...]  # where each table lies in the vector
    mask: np.ndarray | None  # log 0 where a combination is impossible
    parent: int | None
    summed: tuple[int, ...]  # its axes that the parent lacks
    inside: tuple[int, ...]  # the separator over the bag
    above: _View | None  # the separator over the parent
    contraction: tuple[tuple[int, ...], tuple[int, ...]]  # numpy's names of the axes of bag and separator


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Inference at one set of parameters (or at the rows of a batch): what the derivative needs."""

    tree: "Tree"
    theta: np.ndarray
    shares: np.ndarray  # mu, in the layout of the tree
    log_z: np.ndarray
    conditionals: list[np.ndarray]
    bags: list[np.ndarray]  # marginals
    separators: list[np.ndarray | None]

    @cached_property
    def _sparse(self) -> SparseDerivative | None:
        """The derivative of many small bags, for one set of parameters."""
        return SparseDerivative(self) if self.tree.scattered and self.shares.ndim == 1 else None

    @cached_property
    def _double(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        seps = [np.ones(1) if sep is None else sep for sep in self.separators]
        return self.conditionals, self.bags, [np.divide(1, x, out=np.zeros_like(x), where=x > _LEAST) for x in seps]

    @cached_property
    def _single(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        conditionals, bags, inverses = ([x.astype(np.float32) for x in part] for part in self._double)
        return conditionals, bags, inverses

    def _at(self, kind: Any) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """Conditionals, marginals and inverses of separators in some precision."""
        return self._single if kind == np.float32 else self._double

    def along(self, directions: np.ndarray) -> np.ndarray:
        """J p for each row p: the covariance of all cells, applied to vectors; in the precision that they have."""
        if self._sparse is not None:
            return self._sparse.along(directions)
        bags, rows, kind = self.tree.bags, len(directions), directions.dtype
        conditionals, marginals, inverses = self._at(kind)
        found = np.empty((rows, self.tree.layout.size), kind)
        sums: list[Any] = [None] * len(bags)  # g; in the place of the answer where a table is as large as the bag
        home: list[slice | None] = [None] * len(bags)
        means: list[Any] = [None] * len(bags)
        waiting: list[dict[tuple[int, ...], np.ndarray]] = [{} for _ in bags]  # what the children left, by its axes
        for k, bag in enumerate(bags):
            parts = waiting[k]
            first = None
            for place, view in bag.factors:
                part = view.lay(directions[:, place])
                if first is None and view.axes is None:
                    first, home[k] = part, place
                    sums[k] = found[:, place].reshape(rows, *bag.shape)
                else:
                    parts[view.spread] = parts[view.spread] + part if view.spread in parts else part
            if first is None:
                first = sums[k] = np.zeros((rows, *bag.shape), kind)
            g = sums[k]
            small = sorted(parts.values(), key=np.size)
            np.add(first, small.pop() if small else 0, out=g)
            for part in small:
                g += part
            axes, out = bag.contraction
            alone = len(conditionals[k]) == 1
            mean = np.einsum(g, axes, *((conditionals[k][0], axes[1:]) if alone else (conditionals[k], axes)), out)
            means[k] = mean.reshape(rows, *bag.inside)
            if bag.parent is not None:
                assert bag.above is not None
                above, part = waiting[bag.parent], bag.above.lay(mean)
                above[bag.above.spread] = above[bag.above.spread] + part if bag.above.spread in above else part
        sides: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}  # a table and some children may ask for the same

        def gather(k: int, view: _View) -> np.ndarray:
            if (k, view.own) not in sides:
                sides[k, view.own] = view.gather(sums[k])
            return sides[k, view.own]

        for k in range(len(bags) - 1, -1, -1):
            bag, moved = bags[k], sums[k]
            if bag.parent is None:
                moved -= means[k]
            else:
                # d mu = mu * (g + d sep / sep - E): where sep is 0, so is mu.
                assert bag.above is not None
                change = gather(bag.parent, bag.above).reshape(rows, *bag.inside)
                moved += change * inverses[k] - means[k]
            moved *= marginals[k]
            for place, view in bag.factors:
                if place is not home[k]:
                    found[:, place] = gather(k, view).reshape(rows, -1)
        return found

    def joint(self, wanted: Sequence[int]) -> np.ndarray:
        """The joint distribution of any attributes, by position, for one set of parameters; axes in the order given.

        From each bag whose subtree holds some of them, a message goes up over its separator and these, until one
        holds all: products of matrices, however far apart the attributes are. Where separators are large, so are these
        products, and inference for each value of one of the attributes is less work.
        """
        if (split := self.tree.plan_joint(tuple(wanted))[1]) is not None:
            others = [v for v in wanted if v != split]
            parts = [
                chance * self._given(split, value).joint(others) for value, chance in enumerate(self.joint([split]))
            ]
            return np.stack(parts, list(wanted).index(split))
        sizes = self.tree.plan.domain.shape
        left = set(wanted) - set(self.tree.plan.free)
        found: list[tuple[np.ndarray, tuple[int, ...]]] = []
        found += [(np.full(sizes[v], 1 / sizes[v]), (v,)) for v in wanted if v in self.tree.plan.free]
        waiting: list[list[tuple[np.ndarray, tuple[int, ...]]]] = [[] for _ in self.tree.bags]
        for k, bag in enumerate(self.tree.bags):
            own = {bag.scope[i - 1] for i in bag.summed} & left
            if not own and not waiting[k]:
                continue  # it sums to 1
            terms = [(self.conditionals[k][0], bag.scope), *waiting[k]]
            kept = tuple(dict.fromkeys(v for _, scope in terms for v in scope if v in left))
            above = tuple(v for i, v in enumerate(bag.scope) if i + 1 not in bag.summed)
            if bag.parent is not None and not left.issubset(kept):
                message = (*above, *(v for v in kept if v not in above))
                waiting[bag.parent].append((_contract(sizes, terms, message), message))
                continue
            if bag.parent is not None:
                terms.append((np.asarray(self.separators[k]).reshape([sizes[v] for v in above]), above))
            found.append((_contract(sizes, terms, kept), kept))
            left -= set(kept)
            if not left:
                break
        return np.array(_contract(sizes, found, tuple(wanted))) if found else np.ones(())  # never a view of a bag

    def _given(self, attribute: int, value: int) -> "Calibrated":
        """Inference where an attribute is known to have a value."""
        layout, name = self.tree.layout, self.tree.plan.domain.attributes[attribute]
        clique = next(clique for clique in layout.cliques if name in clique)
        theta = self.theta.copy()
        table = np.moveaxis(layout.split(theta[None])[clique][0], clique.index(name), 0)
        table[np.arange(len(table)) != value] += IMPOSSIBLE
        return self.tree.calibrate(theta)

    def contingency(self) -> np.ndarray:
        """The mean square contingency of every pair of attributes, sum (p - q)^2 / q with q = p_a p_b.

        p - q is the covariance of a value of one and a value of the other, so all pairs take one derivative per value.
        """
        domain, layout = self.tree.plan.domain, self.tree.layout
        homes: dict[int, tuple[Clique, int]] = {}  # the smallest table that holds an attribute, and where
        for clique in sorted(layout.cliques, key=domain.cells, reverse=True):
            homes |= {domain.position(name): (clique, axis) for axis, name in enumerate(clique)}

        def sums(rows: np.ndarray) -> dict[int, np.ndarray]:
            tables = layout.split(rows)
            return {
                v: tables[clique].sum(tuple(i + 1 for i in range(len(clique)) if i != axis))
                for v, (clique, axis) in homes.items()
            }

        shares = sums(self.shares[None])
        found = np.zeros((len(domain), len(domain)))
        for v, (clique, axis) in homes.items():
            for start in range(0, domain.shape[v], self.tree.together):
                values = np.arange(start, min(start + self.tree.together, domain.shape[v]))
                directions = np.zeros((len(values), layout.size))
                np.moveaxis(layout.split(directions)[clique], axis + 1, 1)[np.arange(len(values)), values] = 1.0
                for u, moved in sums(self.along(directions)).items():
                    q = shares[v][0, values, None] * shares[u]
                    found[v, u] += np.divide(moved**2, q, out=np.zeros_like(q), where=q > 0).sum()
        return found

    def scatter(self, random: np.random.Generator) -> np.ndarray:
        """A draw from a normal of covariance J, for one set of parameters.

        A bag scatters as its separator does, spread by the conditional, and by a multinomial of its own for each cell
        of the separator.
        """
        bags = self.tree.bags
        moved: list[Any] = [None] * len(bags)
        found = np.empty(self.tree.layout.size)
        for k in range(len(bags) - 1, -1, -1):
            bag, cond = bags[k], self.conditionals[k]
            own = np.sqrt(cond) * random.standard_normal(cond.shape)
            own = own - cond * own.sum(axis=bag.summed, keepdims=True)
            if bag.parent is not None:
                assert bag.above is not None
                above = bag.above.gather(moved[bag.parent]).reshape(1, *bag.inside)
                own = cond * above + np.sqrt(np.asarray(self.separators[k])) * own
            moved[k] = own
            for place, view in bag.factors:
                found[place] = view.gather(own).ravel()
        return found


@dataclass(frozen=True, eq=False)
class Tree:
    """Exact inference for one domain and set of cliques. Get it from :meth:`of`."""

    plan: EliminationPlan
    layout: Layout
    bags: tuple[_Bag, ...]  # children before parents
    free: float  # log of the combinations of attributes that no table mentions

    @cached_property
    def scattered(self) -> bool:
        """Whether it has so many small bags that calls of numpy for each would take nearly all the time."""
        return len(self.bags) >= BAGS and sum(prod(bag.shape) for bag in self.bags) <= CELLS * len(self.bags)

    @cached_property
    def incidence(self) -> Incidence:
        """Which cells belong together."""
        return Incidence(self)

    @cached_property
    def together(self) -> int:
        """How many directions to follow at once."""
        return max(1, min(_ROWS, _ROOM // (8 * sum(prod(bag.shape) for bag in self.bags) + 1)))

    @lru_cache(maxsize=1024)  # noqa: B019 - trees are remembered themselves
    def plan_joint(self, wanted: tuple[int, ...]) -> tuple[float, int | None]:
        """About the work of a joint distribution of attributes, in cells; and the attribute whose values it goes over,
        one inference each, where that is less."""
        sizes, free = self.plan.domain.shape, set(self.plan.free)
        left, direct = set(wanted) - free, 0.0
        waiting: list[set[int]] = [set() for _ in self.bags]
        for k, bag in enumerate(self.bags):
            own = {bag.scope[i - 1] for i in bag.summed} & left
            if not own and not waiting[k]:
                continue
            union = waiting[k].union(bag.scope)
            direct += prod(float(sizes[v]) for v in union)
            kept = union & left
            if bag.parent is not None and not left <= kept:
                message = kept.union(v for i, v in enumerate(bag.scope, 1) if i not in bag.summed)
                waiting[bag.parent] |= message
                if prod(float(sizes[v]) for v in message) > _MESSAGE:
                    direct = inf
                continue
            left -= kept
            if not left:
                break
        known = [v for v in wanted if v not in free]
        if direct <= _DIRECT or len(known) < 2:
            return direct, None
        split = min(known, key=sizes.__getitem__)
        inference = _INFERENCE * sum(prod(bag.shape) for bag in self.bags)
        rest, _ = self.plan_joint(tuple(v for v in wanted if v != split))
        apart = sizes[split] * (inference + rest)
        return (apart, split) if apart < direct else (direct, None)

    @classmethod
    def of(cls, domain: Domain, cliques: Structure | Iterable[str | Iterable[str]]) -> "Tree":
        """The tree of a structure; remembered."""
        try:
            return _tree(domain, cliques)  # type: ignore[arg-type]
        except TypeError:  # lists cannot be looked up
            return _tree(domain, hashable(cliques))

    def run(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(mu, log Z) at a vector of log-potentials."""
        found = self.calibrate(theta)
        return found.shares, np.asarray(found.log_z)

    def calibrate(self, theta: np.ndarray) -> Calibrated:
        """Marginals and log Z at a vector of log-potentials, or at each row of several."""
        rows = np.atleast_2d(theta)
        waiting: list[Any] = [None] * len(self.bags)
        conditionals: list[np.ndarray] = []
        log_z = np.full(len(rows), self.free)
        for k, bag in enumerate(self.bags):
            total = waiting[k] if bag.mask is None else (bag.mask if waiting[k] is None else waiting[k] + bag.mask)
            for place, view in bag.factors:
                part = view.lay(rows[:, place])
                total = part if total is None else total + part
            if total.shape != (len(rows), *bag.shape):
                total = np.broadcast_to(total, (len(rows), *bag.shape))
            top = total.max(axis=bag.summed, keepdims=True)
            shares = np.exp(total - top)
            sums = shares.sum(axis=bag.summed, keepdims=True)
            shares /= sums
            conditionals.append(shares)
            message = np.log(sums) + top
            if bag.parent is None:
                log_z += message.reshape(-1)
            else:
                assert bag.above is not None
                part = bag.above.lay(message)
                waiting[bag.parent] = part if waiting[bag.parent] is None else waiting[bag.parent] + part
        marginals: list[Any] = [None] * len(self.bags)
        separators: list[np.ndarray | None] = [None] * len(self.bags)
        found = np.empty((len(rows), self.layout.size))
        for k in range(len(self.bags) - 1, -1, -1):
            bag = self.bags[k]
            marginals[k] = conditionals[k]
            if bag.parent is not None:
                assert bag.above is not None
                separators[k] = sep = bag.above.gather(marginals[bag.parent]).reshape(-1, *bag.inside)
                marginals[k] = conditionals[k] * sep
            for place, view in bag.factors:
                found[:, place] = view.gather(marginals[k]).reshape(len(rows), -1)
        one = theta.ndim == 1
        return Calibrated(
            self, theta, found[0] if one else found, log_z[0] if one else log_z, conditionals, marginals, separators
        )


@lru_cache(maxsize=256)
def _tree(domain: Domain, cliques: Any) -> Tree:
    plan = plan_elimination(domain, cliques)
    layout = plain_layout(domain, plan.cliques)
    scopes, homes, parents = _bags(plan)
    order = _children_first(parents)
    place = {bag: i for i, bag in enumerate(order)}
    starts = np.cumsum([0, *layout.sizes]).tolist()
    bags = []
    for bag in order:
        scope = scopes[bag]
        factors = []
        mask = None
        for f in homes[bag]:
            if f < len(plan.cliques):
                own = tuple(domain.position(name) for name in plan.cliques[f])
                factors.append((slice(starts[f], starts[f + 1]), _view(domain, own, scope)))
            else:
                names, possible = domain.masks[f - len(plan.cliques)]
                own = tuple(domain.position(name) for name in names)
                part = _view(domain, own, scope).lay(np.where(possible, 0.0, IMPOSSIBLE))
                mask = part if mask is None else mask + part
        parent = parents[bag]
        shared = () if parent is None else tuple(v for v in scope if v in scopes[parent])
        axes = tuple(range(1, len(scope) + 1))
        kept = tuple(i for i, v in zip(axes, scope, strict=True) if v in shared)
        bags.append(
            _Bag(
                scope,
                tuple(domain.shape[v] for v in scope),
                tuple(factors),
                mask,
                None if parent is None else place[parent],
                tuple(i for i in axes if i not in kept),
                tuple(domain.shape[v] if v in shared else 1 for v in scope),
                None if parent is None else _view(domain, shared, scopes[parent]),
                ((0, *axes), (0, *kept)),
            )
        )
    return Tree(plan, layout, tuple(bags), float(sum(log(domain.shape[v]) for v in plan.free)))


def calibrate_given(
    domain: Domain, potentials: Mapping[Clique, np.ndarray], known: Mapping[str, Sequence[int]]
) -> Calibrated:
    """Exact inference of a model where attributes have one of some codes; refused where it would not fit in memory."""
    tables = dict(potentials)
    held = {name for clique in potentials for name in clique}
    masked = {name for clique, _ in domain.masks for name in clique}
    for name in sorted(masked - held):  # so that they can be followed like the others
        tables[name,] = np.zeros(domain.size(name))
    for name, codes in known.items():
        mask = np.full(domain.size(name), IMPOSSIBLE)
        mask[list(codes)] = 0.0
        tables[name,] = tables[name,] + mask if (name,) in tables else mask
    tree = Tree.of(domain, tuple(tables))
    tree.plan.check_memory(log_space=True)
    return tree.calibrate(tree.layout.pack(tables))


def _bags(plan: EliminationPlan) -> tuple[list[tuple[int, ...]], list[list[int]], list[int | None]]:
    """The plan's bags without those that a child holds whole: their attributes, their factors, their parents."""
    scopes: list[tuple[int, ...]] = []
    homes: list[list[int]] = []
    parents: list[int | None] = []
    bag_of: list[int] = []
    for step in plan.steps:
        below = [bag_of[child] for child in step.children]
        home = next((bag for bag in below if set(step.bag) <= set(scopes[bag])), None)
        if home is None:
            home = len(scopes)
            scopes.append(step.bag)
            homes.append([])
            parents.append(None)
        bag_of.append(home)
        homes[home].extend(step.factors)
        for bag in below:
            if bag != home:
                parents[bag] = home
    _collect(plan, scopes, homes, parents)
    # Axes as a table has them that is the whole bag: that one is then never turned. Otherwise the longest comes last,
    # since numpy's loops run along it.
    for bag, scope in enumerate(scopes):
        tables = [[plan.domain.position(name) for name in plan.cliques[f]] for f in homes[bag] if f < len(plan.cliques)]
        whole = next((table for table in tables if len(table) == len(scope)), None)
        scopes[bag] = tuple(whole or sorted(scope, key=lambda v: plan.domain.shape[v]))
    return scopes, homes, parents


def _collect(
    plan: EliminationPlan, scopes: list[tuple[int, ...]], homes: list[list[int]], parents: list[int | None]
) -> None:
    """Give a large bag with many small tables children that hold several of them and sum nothing out.

    Each table alone would take a pass over all cells of the bag; their sum takes one.
    """

    def cells(scope: Iterable[int]) -> int:
        return prod(plan.domain.shape[v] for v in scope)

    def table(f: int) -> frozenset[int]:
        names = plan.cliques[f] if f < len(plan.cliques) else plan.domain.masks[f - len(plan.cliques)][0]
        return frozenset(map(plan.domain.position, names))

    for bag in range(len(scopes)):
        whole = cells(scopes[bag])
        if whole * (len(homes[bag]) - 1) < _SPARED:
            continue
        most = whole**_PART
        groups: list[tuple[frozenset[int], list[int]]] = []
        for f in sorted(homes[bag], key=lambda f: cells(table(f)), reverse=True):
            unions = [(cells(scope | table(f)) / cells(scope), i) for i, (scope, _) in enumerate(groups)]
            fits = [(growth, i) for growth, i in unions if growth * cells(groups[i][0]) <= most]
            if fits:
                _, i = min(fits)
                groups[i] = (groups[i][0] | table(f), [*groups[i][1], f])
            else:
                groups.append((table(f), [f]))
        homes[bag] = []
        for scope, tables in groups:
            if whole * (len(tables) - 1) < _SPARED:
                homes[bag] += tables
            else:
                scopes.append(tuple(v for v in scopes[bag] if v in scope))
                homes.append(tables)
                parents.append(bag)


def _contract(
    sizes: Sequence[int], terms: Sequence[tuple[np.ndarray, tuple[int, ...]]], wanted: tuple[int, ...]
) -> np.ndarray:
    """The product of tables, summed to some attributes."""
    from opt_einsum import contract, contract_path  # numpy's paths end in one loop over all axes where memory is short

    need = 24 * prod(sizes[v] for v in wanted)
    if need > SMALL and need > available_memory():
        raise TooLarge(
            f"this question would need a table of {need / 24:.3g} cells, about {readable_bytes(need)}; "
            "ask about fewer attributes at a time, or estimate it from a sample (model.sample)."
        )
    # Attributes of one value are left out: numpy has names for 52 axes.
    names = {v: i for i, v in enumerate(dict.fromkeys(v for _, scope in terms for v in scope if sizes[v] > 1))}
    operands: list[Any] = []
    for table, scope in terms:
        kept = [v for v in scope if v in names]
        operands += [table.reshape([sizes[v] for v in kept]), [names[v] for v in kept]]
    operands.append([names[v] for v in wanted if v in names])
    path, told = contract_path(*operands)
    room = available_memory() // 32
    if told.largest_intermediate > room:
        path, _ = contract_path(*operands, memory_limit=room)
    return np.asarray(contract(*operands, optimize=path)).reshape([sizes[v] for v in wanted])


def _children_first(parents: list[int | None]) -> list[int]:
    children: dict[int | None, list[int]] = {}
    for bag, parent in enumerate(parents):
        children.setdefault(parent, []).append(bag)
    order, left = [], list(children.get(None, []))
    while left:
        bag = left.pop()
        order.append(bag)
        left.extend(children.get(bag, []))
    return order[::-1]


def _view(domain: Domain, own: tuple[int, ...], scope: tuple[int, ...]) -> _View:
    """A table over the attributes ``own``, axes in that order, over a bag."""
    order = tuple(sorted(range(len(own)), key=lambda i: scope.index(own[i])))
    turned = order != tuple(range(len(own)))
    return _View(
        tuple(domain.shape[v] for v in own),
        (0, *(i + 1 for i in order)) if turned else None,
        tuple(domain.shape[v] if v in own else 1 for v in scope),
        None if own == scope else tuple(range(len(scope) + 1)),
        (0, *(1 + scope.index(v) for v in own)),
    )
