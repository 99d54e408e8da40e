"""The chain rule of a model, and its most probable record, by elimination with numpy: nothing is compiled.

Everything is in log space and takes factors as (attribute positions, log-table) pairs, so that evidence is applied by
slicing the tables first.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from quietfield.domain import Clique, Domain
from quietfield.errors import TooLarge
from quietfield.inference.plan import EliminationStep, elimination_order, schedule
from quietfield.memory import available_memory, readable_bytes

Factor = tuple[tuple[int, ...], np.ndarray]


def list_factors(domain: Domain, potentials: Mapping[Clique, np.ndarray]) -> list[Factor]:
    """The potentials of a model, and what is impossible in its domain, as factors."""
    masks = [(clique, np.where(mask, 0.0, -np.inf)) for clique, mask in domain.masks]
    return [(tuple(map(domain.position, clique)), table) for clique, table in (*potentials.items(), *masks)]


def restrict_factors(domain: Domain, factors: list[Factor], known: Mapping[str, Sequence[int]]) -> list[Factor]:
    """The factors where attributes have one of some codes: the axis of a single one goes, several become a factor."""
    for name, codes in known.items():
        v = domain.position(name)
        if len(codes) == 1:
            factors = [
                (tuple(u for u in scope if u != v), table.take(codes[0], axis=scope.index(v))) if v in scope
                else (scope, table)
                for scope, table in factors
            ]  # fmt: skip
        else:
            allowed = np.full(domain.shape[v], -np.inf)
            allowed[codes] = 0.0
            factors = [*factors, ((v,), allowed)]
    return factors


def conditionals(sizes: Sequence[int], factors: Sequence[Factor]) -> list[tuple[int, tuple[int, ...], np.ndarray]]:
    """The chain rule of a model: (attribute, attributes it depends on, log p(attribute | those)), last attribute first.

    In that order each attribute can be drawn once all that it depends on have been.
    """
    tables, steps = _prepare(sizes, factors)
    messages: list[np.ndarray] = []
    chain = []
    for step in steps:
        bag = _bag(sizes, step.bag, _inputs(steps, step, tables, messages))
        top = bag.max(axis=0)
        top = np.where(np.isfinite(top), top, 0.0)  # of an empty sum the logarithm is minus infinity
        with np.errstate(divide="ignore"):
            message = np.log(np.exp(bag - top).sum(axis=0)) + top
        messages.append(message)
        chain.append((step.bag[0], step.message, bag - np.where(np.isfinite(message), message, 0.0)))
    return chain[::-1]


def most_probable(sizes: Sequence[int], factors: Sequence[Factor]) -> tuple[dict[int, int], float]:
    """An assignment of the largest probability and the log of its product of factors, by max-product.

    Of equals, the last attribute in the order of elimination takes its first value, then the one before it, and so on.
    """
    largest = float(sum(table for scope, table in factors if not scope))
    tables, steps = _prepare(sizes, factors)
    messages: list[np.ndarray] = []
    best = []
    for step in steps:
        bag = _bag(sizes, step.bag, _inputs(steps, step, tables, messages))
        messages.append(bag.max(axis=0))
        best.append(bag.argmax(axis=0))
        if not step.message:
            largest += float(messages[-1])
    assignment: dict[int, int] = {}
    for step, table in zip(reversed(steps), reversed(best), strict=True):
        assignment[step.bag[0]] = int(table[tuple(assignment[v] for v in step.message)])
    return assignment, largest


def _prepare(sizes: Sequence[int], factors: Sequence[Factor]) -> tuple[list[Factor], tuple[EliminationStep, ...]]:
    """Factors with axes sorted by the elimination order, and its steps."""
    order = elimination_order(sizes, [scope for scope, _ in factors if scope])
    rank = {v: i for i, v in enumerate(order)}
    tables = []
    for scope, table in factors:
        if scope:
            axes = sorted(range(len(scope)), key=lambda i: rank[scope[i]])
            tables.append((tuple(scope[i] for i in axes), table.transpose(axes)))
    steps = schedule([scope for scope, _ in tables], order)
    need = 8 * 3 * max((prod(sizes[v] for v in step.bag) for step in steps), default=1)
    if need > available_memory():
        raise TooLarge(
            f"this question would need a table of {need / 24:.3g} cells, about {readable_bytes(need)}; "
            "ask about fewer attributes at a time, or estimate it from a sample (model.sample)."
        )
    return tables, steps


def _inputs(
    steps: Sequence[EliminationStep], step: EliminationStep, tables: Sequence[Factor], messages: Sequence[np.ndarray]
) -> list[Factor]:
    return [tables[f] for f in step.factors] + [(steps[c].message, messages[c]) for c in step.children]


def _bag(sizes: Sequence[int], bag: tuple[int, ...], inputs: Sequence[Factor]) -> np.ndarray:
    """The sum of log-tables over a bag, whatever their order of axes."""
    total = np.zeros([sizes[v] for v in bag])
    place = {v: i for i, v in enumerate(bag)}
    for scope, table in inputs:
        axes = sorted(range(len(scope)), key=lambda i: place[scope[i]])
        total += table.transpose(axes).reshape([sizes[v] if v in scope else 1 for v in bag])
    return total
