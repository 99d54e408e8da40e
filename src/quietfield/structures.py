"""Structure: which attributes a model joins, and which of its tables share one potential.

Builders take a Domain (or any list of attribute names) and return a Structure. Everywhere else a plain list of tuples
of names will do too.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.files import MOST_CLIQUES
from quietfield.text import facts_html, join_names, plural

#: The most cliques that a notebook lists.
MOST_SHOWN = 40


def hashable(cliques: "Structure | Iterable[str | Iterable[str]]") -> "Structure | tuple[object, ...]":
    """Cliques as a key to look up what was computed for them; nothing is checked.

    Args:
        cliques: A Structure, or cliques as names and tuples of names.

    Returns:
        The Structure itself, or a tuple of the cliques.

    Raises:
        Error: It is one text, or nothing that lists cliques.

    >>> hashable([["a", "b"], "c"])
    (('a', 'b'), 'c')
    """
    if isinstance(cliques, Structure):
        return cliques
    if isinstance(cliques, str) or not isinstance(cliques, Iterable):
        raise Error(f"expected a list of cliques, not {cliques!r}; write for instance [('a', 'b'), ('b', 'c')].")
    return tuple(clique if isinstance(clique, str | tuple) else tuple(clique) for clique in cliques)


@dataclass(frozen=True)
class Structure:
    """The cliques of a model, in order, and the ties between them.

    A tie is a group of cliques that share one potential: a time-homogeneous chain ties all its edges. Axes follow each
    clique as given, so tying ``("a", "b")`` with ``("b", "c")`` lets a play the part of b.
    """

    cliques: tuple[Clique, ...]
    ties: tuple[tuple[Clique, ...], ...] = ()

    def __post_init__(self) -> None:
        cliques = tuple((c,) if isinstance(c, str) else tuple(c) for c in self.cliques)
        ties = tuple(tuple((c,) if isinstance(c, str) else tuple(c) for c in tie) for tie in self.ties)
        object.__setattr__(self, "cliques", cliques)
        object.__setattr__(self, "ties", ties)
        if len(cliques) > MOST_CLIQUES:
            raise Error(
                f"a structure has at most {MOST_CLIQUES:,} cliques, not {len(cliques):,}; join fewer attributes."
            )
        seen: dict[frozenset[str], Clique] = {}
        for clique in cliques:
            if not clique:
                raise Error("a clique names at least one attribute; remove the empty one.")
            if not all(isinstance(name, str) for name in clique):
                raise Error(f"clique {clique} must name attributes by strings.")
            if len(set(clique)) != len(clique):
                raise Error(f"clique {clique} names an attribute twice; name each attribute once.")
            if frozenset(clique) in seen:
                raise Error(f"clique {clique} is there twice (also as {seen[frozenset(clique)]}); keep one of them.")
            seen[frozenset(clique)] = clique
        known = set(cliques)
        tied: set[Clique] = set()
        for tie in ties:
            if len(tie) < 2:
                raise Error(f"the tie {tie} joins fewer than two cliques; a tie is a group that shares one potential.")
            for clique in tie:
                if clique not in known:
                    raise Error(
                        f"the tie of {clique}: no such clique (axes count); expected one of {join_names(cliques)}."
                    )
                if clique in tied:
                    raise Error(f"clique {clique} is tied twice; put all that share its potential in one tie.")
                tied.add(clique)

    @classmethod
    def of(cls, cliques: "Structure | Iterable[str | Iterable[str]]", domain: Domain | None = None) -> "Structure":
        """A Structure from whatever describes one, checked against a domain if one is given.

        Args:
            cliques: A Structure, or cliques as names and tuples of names.
            domain: The domain whose attributes the cliques must name; None checks nothing.

        Returns:
            The Structure.

        Raises:
            Error: It cannot be a structure, or does not fit the domain.

        >>> Structure.of(["a", ("b", "c")]).cliques
        (('a',), ('b', 'c'))
        """
        structure = hashable(cliques)
        if not isinstance(structure, Structure):
            structure = cls(structure)  # type: ignore[arg-type]
        if domain is not None:
            structure.check(domain)
        return structure

    def check(self, domain: Domain) -> None:
        """Raise an error unless every clique is in the domain and tied cliques have one shape.

        Args:
            domain: The domain.

        Raises:
            Error: A clique names something else, or tied cliques differ in shape.
        """
        for clique in self.cliques:
            domain.clique(clique)
        for tie in self.ties:
            shapes = {domain.table_shape(clique): clique for clique in tie}
            if len(shapes) > 1:
                (one, a), (two, b) = list(shapes.items())[:2]
                raise Error(f"{a} of shape {one} and {b} of shape {two} are tied; tied cliques need one shape.")

    @cached_property
    def groups(self) -> tuple[tuple[Clique, ...], ...]:
        """The cliques by shared potential, each group named by its first clique; untied cliques stand alone."""
        tie_of = {clique: tie for tie in self.ties for clique in tie}
        found: dict[Clique, tuple[Clique, ...]] = {}  # by first clique: to hash a whole tie for each clique is slow
        for clique in self.cliques:
            group = tie_of.get(clique, (clique,))
            found.setdefault(group[0], group)
        return tuple(found.values())

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that appear, in order of appearance."""
        return tuple(dict.fromkeys(name for clique in self.cliques for name in clique))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The edges of the independence graph: the pairs that some clique joins."""
        return tuple(dict.fromkeys(pair for clique in self.cliques for pair in combinations(sorted(clique), 2)))

    def __len__(self) -> int:
        return len(self.cliques)

    def __iter__(self) -> Iterator[Clique]:
        return iter(self.cliques)

    def _repr_html_(self) -> str:
        cliques = [" × ".join(clique) for clique in self.cliques[:MOST_SHOWN]]
        ties = [" = ".join(" × ".join(clique) for clique in tie[:MOST_SHOWN]) for tie in self.ties[:MOST_SHOWN]]
        more = f"; … {len(self) - MOST_SHOWN:,} more" if len(self) > MOST_SHOWN else ""
        facts = [("attributes", f"{len(self.attributes):,}"), ("cliques", "; ".join(cliques) + more)]
        facts += [("tied", tie) for tie in ties]
        return facts_html(f"Structure of {plural(len(self), 'clique')}", facts)


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
