"""The tables of a release as a mapping by clique; those that were measured as interactions are made of these."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from quietfield.domain import Clique
from quietfield.errors import Error
from quietfield.releases.parts import Table, interaction_of
from quietfield.text import join_names, plural, table_html

if TYPE_CHECKING:
    import numpy as np

#: The most tables that a notebook lists.
MOST_SHOWN = 40
#: The most sets of attributes that tables are added up from, those of all interactions together.
_MOST_SETS = 2**18


class Tables(Mapping[Clique, "np.ndarray"]):
    """The tables by clique, as floats, axes in the order asked for; those that were measured as interactions are made
    of these.

    Iterating gives the first clique of each table; any tied clique and any order of its attributes can be looked up.
    An interaction makes no table where the release does not tell the interactions of fewer of its attributes.
    """

    def __init__(self, parts: tuple[Table, ...], denominator: int, records: float | None = None) -> None:
        self._parts, self._denominator, self._records = parts, denominator, records
        self._places = {frozenset(c): (i, c) for i, part in enumerate(parts) for c in part.cliques}

    def __getitem__(self, clique: str | Iterable[str]) -> "np.ndarray":
        wanted = (clique,) if isinstance(clique, str) else tuple(clique)
        if frozenset(wanted) not in self._places or len(set(wanted)) != len(wanted):
            raise Error(f"there is no table of {wanted}; expected one of {join_names(self)}.")
        i, stored = self._places[frozenset(wanted)]
        if i not in self._known:
            raise Error(
                f"the table of {wanted} is not known: its interaction was measured, and the number of records or an "
                "interaction of fewer of its attributes was not."
            )
        table = self._sum_interactions(stored) if self._parts[i].interaction else self._values(i)
        return table.transpose([stored.index(name) for name in wanted])

    def _values(self, i: int) -> "np.ndarray":
        return self._parts[i].values / self._denominator

    @cached_property
    def _numbers(self) -> dict[frozenset[str], int]:
        """The interactions that were measured, by attributes."""
        return {frozenset(part.cliques[0]): i for i, part in enumerate(self._parts) if part.interaction}

    @cached_property
    def _holders(self) -> dict[str, set[int]]:
        """The plain tables that hold an attribute. A table of tied cliques sums several, so it tells of none."""
        found: dict[str, set[int]] = {}
        for i, part in enumerate(self._parts):
            if not part.interaction and len(part.cliques) == 1 and part.excluded is None:
                for name in part.cliques[0]:
                    found.setdefault(name, set()).add(i)
        return found

    def _teller(self, names: frozenset[str]) -> int | None:
        """Which part tells the interaction of some attributes: its number, or the smallest table that holds them."""
        if names in self._numbers:
            return self._numbers[names]
        holders = set.intersection(*(self._holders.get(name, set()) for name in names))
        return min(holders, key=lambda i: self._parts[i].values.size, default=None)

    @cached_property
    def _known(self) -> set[int]:
        """Which tables can be given: one of interactions needs those of all sets of its attributes, and a count."""
        counted = self._records is not None or bool(self._sums)
        # Nothing could be learned from a release with those of so many sets: whoever wrote it wants to keep us busy.
        few = sum(2 ** min(len(names), 64) for names in self._numbers) <= _MOST_SETS

        def is_told(clique: Clique) -> bool:
            return counted and few and all(self._teller(names) is not None for names in _sets_of(clique))

        return {i for i, part in enumerate(self._parts) if not part.interaction or is_told(part.cliques[0])}

    def _sum_interactions(self, clique: Clique) -> "np.ndarray":
        """The table that the interactions of all subsets of a clique add up to."""
        import numpy as np

        table = np.full((2,) * len(clique), self._count())
        for names in _sets_of(clique):
            i = self._teller(names)
            assert i is not None  # asked of known tables alone
            own, values = self._parts[i].cliques[0], self._values(i)
            if not self._parts[i].interaction:
                values = interaction_of(values.sum(tuple(k for k, name in enumerate(own) if name not in names)))
            table += values * signs_of(len(names)).reshape([2 if name in names else 1 for name in clique])
        return table / table.size

    @cached_property
    def _sums(self) -> list[tuple[float, float]]:
        """What tables sum to, each with its variance."""
        return [
            (float(self._values(i).sum()), part.values.size * max(part.noise.variance, 1e-200))
            for i, part in enumerate(self._parts)
            if not part.interaction and len(part.cliques) == 1 and part.excluded is None
        ]

    def _count(self) -> float:
        """The number of records: the total, or what tables sum to, the less their noise the more."""
        if self._records is not None:
            return self._records
        return sum(sums / variance for sums, variance in self._sums) / sum(1 / variance for _, variance in self._sums)

    def __contains__(self, clique: object) -> bool:
        if not isinstance(clique, str | tuple):
            return False
        place = self._places.get(frozenset((clique,) if isinstance(clique, str) else clique))
        return place is not None and place[0] in self._known

    def __iter__(self) -> Iterator[Clique]:
        return (part.cliques[0] for i, part in enumerate(self._parts) if i in self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Tables({join_names(self)})"

    def _repr_html_(self) -> str:
        rows = []
        for part in self._parts[:MOST_SHOWN]:
            tied = f", tied with {len(part.cliques) - 1:,} more" if len(part.cliques) > 1 else ""
            shape = "interaction" if part.interaction else " × ".join(map(str, part.values.shape))
            rows.append((" × ".join(part.cliques[0]) + tied, shape, part.noise.describe()))
        more = len(self._parts) - MOST_SHOWN
        told = [f"… {plural(more, 'more table')}"] if more > 0 else []
        return table_html(plural(len(self._parts), "noisy table"), ("attributes", "shape", "noise"), rows, told)


def _sets_of(clique: Clique) -> Iterator[frozenset[str]]:
    """All sets of attributes within a clique, and itself."""
    return (frozenset(names) for many in range(1, len(clique) + 1) for names in combinations(clique, many))


def signs_of(attributes: int) -> "np.ndarray":
    """How :func:`quietfield.releases.parts.interaction_of` counts records, by cell: as 1 or -1.

    >>> signs_of(2).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    import numpy as np

    found: np.ndarray = 1.0 - 2.0 * (np.indices((2,) * attributes).sum(0) % 2)
    return found
