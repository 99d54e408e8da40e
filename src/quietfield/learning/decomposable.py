"""Log-potentials from marginals in closed form, where the structure has one: no iteration.

*Decomposable* structures (trees, junction trees): with a junction tree of the largest cliques, and S_C the attributes
that C shares with its parent in it,

    p(x) = product over C of  mu_C(x_C) / mu_{S_C}(x_{S_C})      so      theta_C = log mu_C - log mu_{S_C}

and a clique inside another one adds nothing. With *belief propagation*, in any structure, with weights rho of the
factors (1 unless reweighted), pseudo-moment matching (Wainwright, Jaakkola and Willsky 2003):

    sum of theta  =  sum over C of  rho_C log mu_C  +  sum over v of  (1 - sum of rho around v) log mu_v

Both are sums of logarithms of tables and of their margins, kept here as a recipe. Neither exists for tied cliques, nor
where a declared impossibility joins attributes that no clique holds together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, prod
from typing import Any

import numpy as np

from quietfield.domain import Clique, Domain

Margin = tuple[int, ...]  # the axes of a table that are kept

_LEAST = exp(-100)  # stands for a probability of 0 inside a logarithm: as good as impossible, and finite


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tables that are treated alike, one row each: their cells in the vector, and what each margin is multiplied by."""

    shape: tuple[int, ...]
    cells: np.ndarray
    weights: np.ndarray
    margins: tuple[tuple[Margin, np.ndarray], ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How to write log-potentials down. Get it from :func:`recipe`."""

    buckets: tuple[Bucket, ...]

    def __call__(self, mu: Any, numbers: Any = np) -> Any:
        """theta of the marginals mu, a flat vector; ``numbers`` is numpy or jax.numpy.

        An empty cell gets a very negative potential where its margin is not empty, and 0 where it is.
        """
        parts = []
        for bucket in self.buckets:
            table = mu[bucket.cells].reshape(-1, *bucket.shape)
            rows = (-1, *(1,) * len(bucket.shape))
            theta = bucket.weights.reshape(rows) * _log(table, numbers)
            for kept, factor in bucket.margins:
                others = tuple(i + 1 for i in range(len(bucket.shape)) if i not in kept)
                margin = table.sum(others, keepdims=True) if others else table
                theta = theta + factor.reshape(rows) * _log(margin, numbers)
            parts.append(theta.ravel())
        places = np.concatenate([bucket.cells.ravel() for bucket in self.buckets])
        return numbers.concatenate(parts)[np.argsort(places)]


def recipe(domain: Domain, cliques: Sequence[Clique], weights: np.ndarray | None = None) -> Recipe | None:
    """The recipe for tables laid end to end, or None where there is no closed form.

    With the ``weights`` of the factors, that of belief propagation; otherwise the exact one.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> recipe(domain, [("a", "b"), ("b", "c"), ("a", "c")]) is None
    True
    >>> recipe(domain, [("a", "b"), ("b", "c")])(np.array([4, 4, 1, 1, 4, 1, 4, 1]) / 10).round(2).tolist()
    [-0.92, -0.92, -2.3, -2.3, -0.22, -1.61, -0.22, -1.61]
    """
    for scope, _ in domain.masks:
        if not any(set(scope) <= set(clique) for clique in cliques):
            return None
    if weights is not None:
        terms = _around_attributes(cliques, weights)
    elif (separators := junction_tree(cliques)) is not None:
        terms = [_below(clique, separator) for clique, separator in zip(cliques, separators, strict=True)]
    else:
        return None
    alike: dict[tuple[tuple[int, ...], tuple[Margin, ...]], list[int]] = {}
    for i, (clique, (_, margins)) in enumerate(zip(cliques, terms, strict=True)):
        alike.setdefault((domain.table_shape(clique), tuple(margins)), []).append(i)
    starts = np.cumsum([0, *(prod(domain.table_shape(clique)) for clique in cliques)])
    buckets = tuple(
        Bucket(
            shape,
            np.stack([np.arange(starts[i], starts[i + 1]) for i in members]),
            np.array([terms[i][0] for i in members]),
            tuple((kept, np.array([terms[i][1][kept] for i in members])) for kept in margins),
        )
        for (shape, margins), members in alike.items()
    )
    return Recipe(buckets)


def junction_tree(cliques: Sequence[Clique]) -> list[Clique | None] | None:
    """Per clique, what it shares with its parent in a junction tree; None for one inside another, or if there is none.

    A spanning tree of the largest cliques, joined by what they share, is a junction tree exactly if what they share
    adds up to the sum of their sizes less the number of attributes (Bernstein and Goodman 1981): the graph is chordal
    then and the cliques are its largest ones.

    >>> junction_tree([("a", "b"), ("b", "c", "d"), ("c",)])
    [(), ('b',), None]
    """
    sets = [frozenset(clique) for clique in cliques]
    holders: dict[str, list[int]] = {}
    for i, clique in enumerate(cliques):
        for name in clique:
            holders.setdefault(name, []).append(i)
    largest = [i for i in range(len(cliques)) if not any(sets[i] < sets[j] for j in holders[cliques[i][0]])]
    kept = set(largest)
    separators: list[Clique | None] = [None] * len(cliques)
    waiting = dict.fromkeys(largest, 0)  # how much each shares with the tree so far
    parent: dict[int, int] = {}
    shared = 0
    while waiting:  # Prim's algorithm, the cliques that share most first
        i = max(waiting, key=lambda j: waiting[j])
        shared += waiting.pop(i)
        with_parent = sets[i] & sets[parent[i]] if i in parent else frozenset()
        separators[i] = tuple(name for name in cliques[i] if name in with_parent)
        for j in {j for name in cliques[i] for j in holders[name] if j in kept and j in waiting}:
            if len(sets[i] & sets[j]) > waiting[j]:
                waiting[j], parent[j] = len(sets[i] & sets[j]), i
    return separators if shared == sum(len(sets[i]) for i in largest) - len(holders) else None


def _below(clique: Clique, separator: Clique | None) -> tuple[float, dict[Margin, float]]:
    """log mu - log mu of the separator; nothing for a nested clique."""
    if separator is None:
        return 0.0, {}
    return 1.0, {tuple(clique.index(name) for name in separator): -1.0} if separator else {}


def _around_attributes(cliques: Sequence[Clique], weights: np.ndarray) -> list[tuple[float, dict[Margin, float]]]:
    """rho log mu, and for each attribute one of its cliques that takes its share of the entropy."""
    cover: dict[str, float] = {}
    for clique, weight in zip(cliques, weights, strict=False):
        for name in clique:
            cover[name] = cover.get(name, 0.0) + float(weight)
    terms: list[tuple[float, dict[Margin, float]]] = []
    for clique, weight in zip(cliques, weights, strict=False):
        own = {(axis,): 1.0 - cover.pop(name) for axis, name in enumerate(clique) if name in cover}
        terms.append((float(weight), {kept: factor for kept, factor in own.items() if factor}))
    return terms


def _log(table: Any, numbers: Any) -> Any:
    return numbers.log(numbers.maximum(table, _LEAST))
