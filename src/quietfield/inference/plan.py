"""The plan of exact inference: in which order attributes are summed out, and what that costs. No array is allocated.

Summing out (eliminating) an attribute multiplies all tables that mention it into one over its *bag* (itself and its
neighbours) and leaves a message over the neighbours. The order decides the size of the bags. We take weighted min-fill,
then a few randomised restarts of it, and keep the cheapest.

Glossary: a *scope* is a tuple of attribute positions sorted by elimination rank, so that a table is consumed at the
step of its first axis; a *factor* is a clique's table or a mask of impossible combinations.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import log, prod
from typing import Any

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import TooLarge
from quietfield.memory import available_memory, readable_bytes

Scope = tuple[int, ...]
RESTARTS = 12
SMALL = 2**26  # bytes: not worth asking how much memory is free
HOPELESS = 1e15  # cells: no restart turns such an order into one that fits


@dataclass(frozen=True)
class EliminationStep:
    """Sum one attribute out: the factors and earlier steps' messages that mention it are multiplied first."""

    bag: Scope  # the attribute, then the scope of the message that is left
    factors: tuple[int, ...]
    children: tuple[int, ...]  # the steps whose messages are consumed

    @property
    def message(self) -> Scope:
        return self.bag[1:]


@dataclass(frozen=True)
class EliminationPlan:
    """An elimination order for a domain and cliques, with its cost.

    >>> from quietfield.structures import chain
    >>> figures = plan_elimination(Domain({"a": 10, "b": 10, "c": 10}), chain("abc").cliques)
    >>> figures.treewidth, figures.largest_table
    (1, 100)
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    scopes: tuple[Scope, ...]  # of every factor: the cliques first, then the domain's masks
    steps: tuple[EliminationStep, ...]  # children before parents

    @property
    def treewidth(self) -> int:
        """The size of the largest bag, less one (of the order found: an upper bound of the graph's treewidth)."""
        return max((len(step.bag) for step in self.steps), default=1) - 1

    @cached_property
    def largest_table(self) -> int:
        """The number of cells of the largest bag."""
        return max((self.cells(step.bag) for step in self.steps), default=1)

    @cached_property
    def operations(self) -> int:
        """Multiplications of one call for all marginals and log Z (three times those of the forward pass)."""
        return 3 * sum(self.cells(step.bag) * max(1, len(step.factors) + len(step.children) - 1) for step in self.steps)

    @property
    def bytes(self) -> int:
        """Memory of one call in float64, an estimate from above."""
        return self.memory()

    def memory(self, *, log_space: bool = False, rows: int = 1, itemsize: int = 8) -> int:
        """Bytes of one call: tables and marginals, and what is kept at each step for the way back.

        In linear space a bag is contracted and never laid out: what is kept is its message and the product of the
        tables that mention its first attribute, which has one axis less. In log space every bag is laid out.
        """
        tables = sum(self.cells(scope) for scope in self.scopes)
        if log_space:
            kept = sum(self.cells(step.bag) + 2 * self.cells(step.message) for step in self.steps) + self.largest_table
        else:
            kept = sum(3 * self.cells(step.message) + 2 * self._product(step) for step in self.steps)
        return rows * itemsize * (4 * tables + kept)

    def _product(self, step: EliminationStep) -> int:
        """The cells of the largest table that multiplying a step's tables in a good order lays out."""
        scopes = {self.scopes[f] for f in step.factors} | {self.steps[c].message for c in step.children}
        largest = max((self.cells(scope) for scope in scopes), default=1)
        if len(scopes) <= 2:
            return max(largest, self.cells(step.message))
        narrow = self.cells(step.bag) // max(self.domain.shape[v] for v in step.bag)
        return max(largest, narrow, self.cells(step.message))

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Attributes that no factor mentions: uniform, and independent of all others."""
        used = {v for scope in self.scopes for v in scope}
        return tuple(v for v in range(len(self.domain)) if v not in used)

    @cached_property
    def reach(self) -> tuple[tuple[int, ...], ...]:
        """Per step, the factors whose spans bound the logarithm of the ratio of two cells of its bag's table.

        Only the factors below a step that touch its bag count: the others are summed out alike for every cell. Where
        a mask lies below, they are not summed alike, and all factors below count.
        """
        rows: list[tuple[int, ...]] = []
        masked: list[bool] = []
        for step in self.steps:
            masked.append(self._has_mask(step) or any(masked[child] for child in step.children))
            bag = set(step.bag)
            below = (f for child in step.children for f in rows[child])
            kept = {f for f in below if masked[-1] or not bag.isdisjoint(self.scopes[f])}
            rows.append(tuple(sorted(kept.union(step.factors))))
        return tuple(tuple(f for f in row if f < len(self.cliques)) for row in rows)

    @cached_property
    def log_terms(self) -> tuple[float, ...]:
        """Per step, the logarithm of how many terms a cell of its message can sum where a mask lies below, else 0.

        Without masks all cells sum equally many, and the number cancels.
        """
        terms: list[float] = []
        masked: list[bool] = []
        for step in self.steps:
            masked.append(self._has_mask(step) or any(masked[child] for child in step.children))
            below = sum(terms[child] for child in step.children)
            terms.append(below + log(self.domain.shape[step.bag[0]]) if masked[-1] else 0.0)
        return tuple(terms)

    def _has_mask(self, step: EliminationStep) -> bool:
        return any(f >= len(self.cliques) for f in step.factors)

    def cells(self, scope: Iterable[int]) -> int:
        """The number of cells of a table over attribute positions."""
        return prod(self.domain.shape[v] for v in scope)

    def check_memory(self, limit: int | None = None, **call: Any) -> None:
        """Refuse a call (see :meth:`memory`) that would not fit in memory, with its figures and the ways out."""
        need = self.memory(**call)
        if need < SMALL:
            return
        limit = available_memory() if limit is None else limit
        if need > limit:
            worst = max(self.steps, key=lambda step: self.cells(step.bag))
            bag = ", ".join(repr(self.domain.attributes[v]) for v in worst.bag[:8])
            raise TooLarge(
                f"exact inference would need about {readable_bytes(need)}, and {readable_bytes(limit)} is free: "
                f"the treewidth is at most {self.treewidth} and the largest table joins {len(worst.bag)} attributes "
                f"({bag}"
                f"{', ...' if len(worst.bag) > 8 else ''}) with {float(min(self.largest_table, 10**300)):.3g} cells. "
                "Use approximate inference ('loopy' or 'convex': inference='loopy' in qf.fit and "
                "qf.Model, quietfield fit --inference loopy), or fewer cliques, or attributes with fewer values"
                + (", or a smaller batch." if call.get("rows", 1) > 1 else ".")
            )

    def to_json(self) -> dict[str, int | list[str]]:
        """The figures as a plain dictionary."""
        return {
            "attributes": len(self.domain),
            "cliques": len(self.cliques),
            "parameters": sum(self.domain.cells(clique) for clique in self.cliques),
            "treewidth": self.treewidth,
            "largest_table_cells": self.largest_table,
            "bytes": self.bytes,
            "operations": self.operations,
            "elimination_order": [self.domain.attributes[step.bag[0]] for step in self.steps],
        }


def plan_elimination(domain: Domain, cliques: Structure | Iterable[str | Iterable[str]]) -> EliminationPlan:
    """Plan exact inference for a model; remembered, since a structure is used many times."""
    return _plan(domain, Structure.of(cliques, domain).cliques)


@lru_cache(maxsize=512)
def _plan(domain: Domain, cliques: tuple[Clique, ...]) -> EliminationPlan:
    positions = [tuple(domain.position(name) for name in clique) for clique in cliques]
    positions += [tuple(domain.position(name) for name in clique) for clique, _ in domain.masks]
    order = elimination_order(domain.shape, positions)
    rank = {v: i for i, v in enumerate(order)}
    scopes = tuple(tuple(sorted(scope, key=rank.__getitem__)) for scope in positions)
    return EliminationPlan(domain, cliques, scopes, schedule(scopes, order))


def schedule(scopes: Sequence[Scope], order: Sequence[int]) -> tuple[EliminationStep, ...]:
    """The steps of an elimination order. Every factor's scope must be sorted by it."""
    rank = {v: i for i, v in enumerate(order)}
    factors: dict[int, list[int]] = {v: [] for v in order}
    children: dict[int, list[int]] = {v: [] for v in order}
    for i, scope in enumerate(scopes):
        factors[scope[0]].append(i)
    steps: list[EliminationStep] = []
    for v in order:
        around = {u for f in factors[v] for u in scopes[f]}
        around.update(u for child in children[v] for u in steps[child].message)
        message = tuple(sorted(around - {v}, key=rank.__getitem__))
        steps.append(EliminationStep((v, *message), tuple(factors[v]), tuple(children[v])))
        if message:
            children[message[0]].append(len(steps) - 1)
    return tuple(steps)


def elimination_order(sizes: Sequence[int], scopes: Iterable[Scope], restarts: int = RESTARTS) -> tuple[int, ...]:
    """The cheapest order found for the attributes that appear in the scopes."""
    neighbours: dict[int, int] = {}  # attribute -> bit set of neighbours: counting fill edges is then counting bits
    for scope in scopes:
        bits = sum(1 << v for v in scope)
        for v in scope:
            neighbours[v] = neighbours.get(v, 0) | bits & ~(1 << v)
    best, cost, perfect = _min_fill(sizes, neighbours, None, None)
    for seed in range(0 if perfect or cost > HOPELESS else restarts):  # an order without fill edges is the best
        order, price, _ = _min_fill(sizes, neighbours, random.Random(seed), cost)
        if price < cost:
            best, cost = order, price
    return best


def _min_fill(
    sizes: Sequence[int], graph: dict[int, int], draw: random.Random | None, bound: float | None
) -> tuple[tuple[int, ...], float, bool]:
    """One pass of weighted min-fill: the order, the cells of all its bags, and whether it added no edge.

    A fill edge weighs the product of its ends' sizes; ties go to the smaller bag, then to the first attribute or, with
    ``draw``, to chance, which also picks a near-best attribute now and then. Gives up above ``bound``.
    """
    adjacent = dict(graph)
    by_size: dict[int, int] = {}
    for v in adjacent:
        by_size[sizes[v]] = by_size.get(sizes[v], 0) | 1 << v
    logs = {size: log(size) for size in by_size}

    def score(v: int) -> tuple[float, float]:
        around = adjacent[v]
        fill = 0.0
        for u in _bits(around):
            missing = around & ~adjacent[u] & ~(1 << u)
            if missing:
                fill += sizes[u] * sum(size * (missing & mask).bit_count() for size, mask in by_size.items())
        return fill, sum(logs[size] * (around & mask).bit_count() for size, mask in by_size.items()) + logs[sizes[v]]

    scores = {v: score(v) for v in adjacent}
    order: list[int] = []
    cost, perfect = 0.0, True
    while scores:
        if draw is None:
            v = min(scores, key=lambda v: (scores[v], v))
        else:
            ranked = sorted(scores, key=lambda v: (scores[v], draw.random()))
            v = ranked[min(len(ranked) - 1, int(draw.expovariate(1.5)))]
        fill, cells = scores.pop(v)
        order.append(v)
        cost += float("inf") if cells > 700 else 2.718281828459045**cells
        if bound is not None and cost >= bound:
            return tuple(order), float("inf"), False
        around = adjacent.pop(v)
        touched = around
        ends = list(_bits(around))
        for u in ends:
            adjacent[u] &= ~(1 << v)
        if fill:
            perfect = False
            for a, b in combinations(ends, 2):
                if not adjacent[a] >> b & 1:
                    touched |= adjacent[a] & adjacent[b]
                    adjacent[a] |= 1 << b
                    adjacent[b] |= 1 << a
        for u in _bits(touched):
            scores[u] = score(u)
    return tuple(order), cost, perfect


def _bits(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
