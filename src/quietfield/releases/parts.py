"""The parts of a release: its noisy tables and total, what it promises, who paid, and the policy in force."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from quietfield.domain import Clique
from quietfield.errors import Error
from quietfield.privacy.noise import Noise
from quietfield.text import join_names, plural, table_html

if TYPE_CHECKING:
    import numpy as np

#: The most tables that a notebook lists.
MOST_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Table:
    """One noisy table: the cliques that it sums (tied cliques share one), its values in steps, its noise, its share of
    the sensitivity (None if noised elsewhere), and the cell that was not counted, if any: it holds noise alone."""

    cliques: tuple[Clique, ...]
    values: "np.ndarray"
    noise: Noise
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    excluded: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Total:
    """The number of records, in steps. ``noise`` is None where the number is public."""

    value: int | float
    noise: Noise | None
    l1: Fraction | None = None


@dataclass(frozen=True)
class Selection:
    """One choice of a table among candidates, by a noisy maximum of how far each was from what was expected of it.

    ``measured`` tables had been published before it, so the order of steps can be told. A score moves by at most
    ``sensitivity`` with one unit, and the noise (Gumbel with Gaussian tables, exponential with Laplace) has ``scale``.
    """

    chosen: Clique
    candidates: int
    measured: int
    sensitivity: Fraction
    scale: Fraction


@dataclass(frozen=True)
class Discovery:
    """What the discovery of the schema cost, where the same charge paid for it: epsilon (or rho), and the part of delta
    that thresholds spent."""

    cost: Fraction
    threshold: Fraction | None


@dataclass(frozen=True)
class Promise:
    """What is promised: epsilon alone (pure) or epsilon and delta (by rho-zCDP), and the sensitivity behind it."""

    epsilon: Fraction
    delta: Fraction | None
    rho: Fraction | None
    l1: Fraction
    l2_squared: Fraction
    unit: Mapping[str, Any]
    protects: str
    neighbours: str


@dataclass(frozen=True)
class Payment:
    """The line of a ledger that paid: which ledger, which line, and the digest of all lines up to it."""

    id: str
    number: int
    digest: str


@dataclass(frozen=True)
class PolicyInForce:
    """The policy under which a release was made: its name, the SHA-256 of its file, and of whom two have to sign."""

    name: str
    digest: str
    signers: tuple[str, ...] = ()


class Tables(Mapping[Clique, "np.ndarray"]):
    """The tables by clique, as floats, axes in the order asked for.

    Iterating gives the first clique of each table; any tied clique and any order of its attributes can be looked up.
    """

    def __init__(self, parts: tuple[Table, ...], denominator: int) -> None:
        self._parts, self._denominator = parts, denominator
        self._places = {frozenset(c): (i, c) for i, part in enumerate(parts) for c in part.cliques}

    def __getitem__(self, clique: str | Iterable[str]) -> "np.ndarray":
        wanted = (clique,) if isinstance(clique, str) else tuple(clique)
        if frozenset(wanted) not in self._places or len(set(wanted)) != len(wanted):
            raise Error(f"there is no table of {wanted}; expected one of {join_names(self)}.")
        i, stored = self._places[frozenset(wanted)]
        table = self._parts[i].values / self._denominator
        return table.transpose([stored.index(name) for name in wanted])

    def __contains__(self, clique: object) -> bool:
        return (
            isinstance(clique, str | tuple)
            and frozenset((clique,) if isinstance(clique, str) else clique) in self._places
        )

    def __iter__(self) -> Iterator[Clique]:
        return (part.cliques[0] for part in self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"Tables({join_names(self)})"

    def _repr_html_(self) -> str:
        rows = []
        for part in self._parts[:MOST_SHOWN]:
            tied = f", tied with {len(part.cliques) - 1:,} more" if len(part.cliques) > 1 else ""
            shape = " × ".join(map(str, part.values.shape))
            rows.append((" × ".join(part.cliques[0]) + tied, shape, part.noise.describe()))
        more = [f"… {plural(len(self) - MOST_SHOWN, 'more table')}"] if len(self) > MOST_SHOWN else []
        return table_html(plural(len(self), "noisy table"), ("attributes", "shape", "noise"), rows, more)
