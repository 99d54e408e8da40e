"""Usual structures: chains, trees, stars, grids, complete and random graphs.

Builders take a Domain (or any list of attribute names) and return a Structure.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from quietfield.cliques import Structure as Structure
from quietfield.errors import Error
from quietfield.files import MOST_CLIQUES
from quietfield.text import join_names


def chain(attributes: Iterable[str], order: int = 1, *, homogeneous: bool = False) -> Structure:
    """Every attribute joined with the ``order`` attributes before it.

    With ``homogeneous`` (order 1), all edges share one potential and the first attribute has a node potential: the
    time-homogeneous chain.

    Args:
        attributes: A Domain or names of attributes, in their order along the chain.
        order: How many attributes before it each is joined with.
        homogeneous: Whether all edges share one potential.

    Returns:
        The structure.

    Raises:
        Error: ``order`` is not a positive integer, or is not 1 in a homogeneous chain.

    >>> chain(["a", "b", "c"]).cliques
    (('a', 'b'), ('b', 'c'))
    """
    nodes = tuple(attributes)
    if not isinstance(order, int) or order < 1:
        raise Error(f"a chain has order 1 or more, not {order}.")
    if homogeneous and order != 1:
        raise Error(
            f"a homogeneous chain has order 1, not {order}; for higher orders write the ties out in a Structure."
        )
    edges = tuple((nodes[i], nodes[j]) for i in range(len(nodes)) for j in range(i + 1, min(i + order + 1, len(nodes))))
    if homogeneous and edges:
        return Structure(((nodes[0],), *edges), (edges,) if len(edges) > 1 else ())
    return _cover(nodes, edges)


def tree(attributes: Iterable[str], seed: int) -> Structure:
    """A random tree: each attribute in turn is joined with one drawn from those before it.

    Args:
        attributes: A Domain or names of attributes.
        seed: The seed of the draw.

    Returns:
        The structure.

    >>> len(tree("abcd", seed=0))
    3
    """
    nodes, draw = tuple(attributes), random.Random(seed)
    return _cover(nodes, ((nodes[draw.randrange(i)], nodes[i]) for i in range(1, len(nodes))))


def star(attributes: Iterable[str], center: str | None = None) -> Structure:
    """One attribute (the first, unless said otherwise) joined with every other.

    Args:
        attributes: A Domain or names of attributes.
        center: The attribute in the middle.

    Returns:
        The structure.

    Raises:
        Error: ``center`` is not one of the attributes.

    >>> star(["a", "b", "c"], "b").cliques
    (('b', 'a'), ('b', 'c'))
    """
    nodes = tuple(attributes)
    center = nodes[0] if center is None and nodes else center
    if center not in nodes:
        raise Error(f"the center {center!r} is not an attribute; expected one of {join_names(nodes)}.")
    return _cover(nodes, ((center, other) for other in nodes if other != center))


def grid(attributes: Iterable[str], columns: int) -> Structure:
    """Attributes laid out row by row, each joined with its right and lower neighbour.

    Args:
        attributes: A Domain or names of attributes.
        columns: How many attributes stand in a row.

    Returns:
        The structure.

    Raises:
        Error: ``columns`` is not a positive integer.

    >>> grid("abcd", columns=2).cliques
    (('a', 'b'), ('c', 'd'), ('a', 'c'), ('b', 'd'))
    """
    nodes = tuple(attributes)
    if not isinstance(columns, int) or columns < 1:
        raise Error(f"a grid needs one column or more, not {columns}.")
    right = ((nodes[i], nodes[i + 1]) for i in range(len(nodes) - 1) if (i + 1) % columns)
    down = ((nodes[i], nodes[i + columns]) for i in range(len(nodes) - columns))
    return _cover(nodes, (*right, *down))


def complete(attributes: Iterable[str], size: int = 2) -> Structure:
    """Every set of ``size`` attributes: all pairs by default.

    Args:
        attributes: A Domain or names of attributes.
        size: How many attributes a clique has.

    Returns:
        The structure.

    Raises:
        Error: ``size`` is less than 1 or more than there are attributes.

    >>> complete("abc").cliques
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    nodes = tuple(attributes)
    if not 1 <= size <= len(nodes):
        raise Error(f"cliques of {size} attributes cannot be made from {len(nodes)}.")
    if (many := comb(len(nodes), size)) > MOST_CLIQUES:  # before they are listed
        raise Error(f"a structure has at most {MOST_CLIQUES:,} cliques, not {many:,}; join fewer attributes.")
    return Structure(tuple(combinations(nodes, size)))


def erdos_renyi(attributes: Iterable[str], p: float, seed: int, *, max_treewidth: int | None = None) -> Structure:
    """A connected random graph: each pair is an edge with probability p, drawn again until the graph is connected.

    With ``max_treewidth``, drawn until its (heuristic) treewidth is no larger too.

    Args:
        attributes: A Domain or names of attributes.
        p: The probability of each edge.
        seed: The seed of the draw.
        max_treewidth: The largest treewidth to take; None takes any.

    Returns:
        The structure.

    Raises:
        Error: ``p`` is not between 0 and 1, or none of 10,000 graphs would do.

    >>> len(erdos_renyi("abcd", p=1, seed=0))
    6
    """
    nodes, draw = tuple(attributes), random.Random(seed)
    if not 0 <= p <= 1:
        raise Error(f"an edge's probability lies between 0 and 1, not at {p}.")
    # A graph of n nodes and treewidth k has at most k n - k (k+1) / 2 edges: most that are too dense cost no search.
    k = max_treewidth
    most = len(nodes) ** 2 if k is None else max(k * len(nodes) - k * (k + 1) // 2, len(nodes) - 1)
    for _ in range(10_000):
        edges = [pair for pair in combinations(nodes, 2) if draw.random() < p]
        if len(edges) <= most and _connected(nodes, edges) and (k is None or _treewidth(nodes, edges) <= k):
            return _cover(nodes, edges)
    wish = "connected" if max_treewidth is None else f"connected and of treewidth at most {max_treewidth}"
    raise Error(f"none of 10,000 graphs of {len(nodes)} attributes with p={p} was {wish}; try another p.")


def from_edges(edges: Iterable[Sequence[str]]) -> Structure:
    """A structure of pairs.

    Args:
        edges: Pairs of names of attributes.

    Returns:
        The structure.

    Raises:
        Error: An edge does not join two attributes, or is there twice.

    >>> from_edges([("a", "b"), ("b", "c")]).cliques
    (('a', 'b'), ('b', 'c'))
    """
    listed = tuple(tuple(edge) for edge in edges)
    for edge in listed:
        if len(edge) != 2:
            raise Error(f"an edge joins two attributes, not {edge}; for larger cliques use Structure(cliques).")
    return Structure(listed)


def _cover(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> Structure:
    """The edges, and a table of its own for every attribute that no edge touches, so that all are learned."""
    listed = tuple(edges)
    touched = {name for edge in listed for name in edge}
    return Structure((*listed, *((name,) for name in nodes if name not in touched)))


def _connected(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> bool:
    component = {name: name for name in nodes}

    def root(name: str) -> str:
        while component[name] != name:
            name = component[name]
        return name

    for a, b in edges:
        component[root(a)] = root(b)
    return len({root(name) for name in nodes}) <= 1


def _treewidth(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> int:
    """The width of the order that greedy min-fill finds: an upper bound of the graph's treewidth."""
    neighbours: dict[int, set[int]] = {i: set() for i in range(len(nodes))}
    position = {name: i for i, name in enumerate(nodes)}
    for one, other in edges:
        neighbours[position[one]].add(position[other])
        neighbours[position[other]].add(position[one])

    def fill(v: int) -> int:
        return sum(b not in neighbours[a] for a, b in combinations(neighbours[v], 2))

    width = 0
    while neighbours:
        v = min(neighbours, key=lambda v: (fill(v), len(neighbours[v]), v))
        around = neighbours.pop(v)
        width = max(width, len(around))
        for a in around:
            neighbours[a] |= around - {a}
            neighbours[a].discard(v)
    return width
