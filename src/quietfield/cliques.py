"""Structure: which attributes a model joins, and which of its tables share one potential.

Wherever a Structure is asked for, a plain list of tuples of names will do too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from quietfield.domain import Clique, Domain
from quietfield.errors import Error, TooLarge
from quietfield.files import MOST_CLIQUES
from quietfield.text import facts_html, join_names, plural

#: The most interactions that are measured apart, beside cells of other tables: all are learned from together.
MOST_INTERACTIONS = 3_000
#: The most attributes of one of them: a model has a log-potential for each combination of their values.
MOST_TOGETHER = 16
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

    Of the cliques in ``interactions`` a release holds no table but one number, what all their attributes say together:
    the records with an even number of second values less those with an odd number. Their attributes have two values.
    """

    cliques: tuple[Clique, ...]
    ties: tuple[tuple[Clique, ...], ...] = ()
    interactions: tuple[Clique, ...] = ()

    def __post_init__(self) -> None:
        cliques = tuple((c,) if isinstance(c, str) else tuple(c) for c in self.cliques)
        ties = tuple(tuple((c,) if isinstance(c, str) else tuple(c) for c in tie) for tie in self.ties)
        object.__setattr__(self, "cliques", cliques)
        object.__setattr__(self, "ties", ties)
        interactions = tuple((c,) if isinstance(c, str) else tuple(c) for c in self.interactions)
        object.__setattr__(self, "interactions", interactions)
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
        for clique in self.interactions:
            if clique not in known or clique in tied:
                raise Error(
                    f"the interaction of {clique}: expected one of the cliques as it is given, attributes in the same "
                    "order, once, and none that is tied."
                )
            known.remove(clique)

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
            Error: A clique names something else, tied cliques differ in shape, or the attributes of an interaction do
                not have two values each.
            TooLarge: An interaction has too many attributes.
        """
        for clique in self.cliques:
            domain.clique(clique)
        for clique in self.interactions:
            if len(clique) > MOST_TOGETHER:
                raise TooLarge(
                    f"the interaction of {len(clique)} attributes: at most {MOST_TOGETHER} can be measured together."
                )
            if set(domain.table_shape(clique)) != {2}:
                raise Error(
                    f"the interaction of {clique} is one number only where each of them has two values; ask for its "
                    "table."
                )
        for tie in self.ties:
            shapes = {domain.table_shape(clique): clique for clique in tie}
            if len(shapes) > 1:
                (one, a), (two, b) = list(shapes.items())[:2]
                raise Error(f"{a} of shape {one} and {b} of shape {two} are tied; tied cliques need one shape.")

    @cached_property
    def groups(self) -> tuple[tuple[Clique, ...], ...]:
        """The cliques by shared potential, each group named by its first clique; untied cliques stand alone."""
        tie_of = {clique: tie for tie in self.ties for clique in tie}
        groups: dict[Clique, tuple[Clique, ...]] = {}  # by first clique: to hash a whole tie for each clique is slow
        for clique in self.cliques:
            group = tie_of.get(clique, (clique,))
            groups.setdefault(group[0], group)
        return tuple(groups.values())

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that appear, in order of appearance."""
        return tuple(dict.fromkeys(name for clique in self.cliques for name in clique))

    def holders(self, attributes: Iterable[str]) -> Iterator[Clique]:
        """The cliques that hold some attributes together.

        Args:
            attributes: Names of attributes.

        Returns:
            Those cliques, in order.
        """
        wanted = frozenset(attributes)
        return (clique for clique in self.cliques if wanted.issubset(clique))

    def joins(self, attributes: Iterable[str]) -> bool:
        """Whether some clique holds some attributes together.

        Args:
            attributes: Names of attributes.

        Returns:
            True or False.
        """
        return any(self.holders(attributes))

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
