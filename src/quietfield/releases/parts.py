"""The content of a release: noisy tables and total, what they promise, who paid, and under which policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error, FileError
from quietfield.files import TIME_FORMAT
from quietfield.privacy import units
from quietfield.privacy.noise import Noise
from quietfield.text import join_names

if TYPE_CHECKING:
    import numpy as np

    from quietfield.schema import Schema

PAPER_NOTE = "paper mode: not a differential privacy guarantee for N"


@dataclass(frozen=True, eq=False)
class Table:
    """One noisy table: the cliques that it sums (tied cliques share one), its values in steps, its noise, its share of
    the sensitivity (None if noised elsewhere), and the cell that was not counted, if any: it holds noise alone.

    Of an ``interaction`` the values are one number, without axes: see :class:`quietfield.cliques.Structure`."""

    cliques: tuple[Clique, ...]
    values: "np.ndarray"
    noise: Noise
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    excluded: tuple[int, ...] | None = None
    interaction: bool = False

    def __post_init__(self) -> None:
        import numpy as np

        object.__setattr__(self, "values", np.asarray(self.values))  # sums of an array without axes are scalars


def interaction_of(counts: "np.ndarray") -> "np.ndarray":
    """What attributes of two values each say all together, from their table: each record is in it as 1 or -1, exactly.

    >>> import numpy as np
    >>> int(interaction_of(np.array([[5, 1], [2, 4]])))
    6
    """
    import numpy as np

    while counts.ndim:
        counts = counts[0] - counts[1]
    return np.asarray(counts)


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
class Replaced:
    """A noisy table that was paid for and is not in the release, since the same was measured with less noise."""

    clique: Clique
    noise: Noise
    l1: Fraction
    l2_squared: Fraction


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


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseContent:
    """All that a release holds: noisy or public numbers, and what is said of them.

    This is where the promise ends: whatever is made of it afterwards (a file, a signature, a model) costs nothing.
    """

    domain: Domain
    structure: Structure
    parts: tuple[Table, ...]
    total_part: Total | None = None
    denominator: int = 1
    promise: Promise | None = None
    notes: tuple[str, ...] = ()
    id: str = ""
    created: str = ""
    package: str = ""
    ledger: Payment | None = None
    policy: PolicyInForce | None = None
    selections: tuple[Selection, ...] = ()  # where the structure was chosen privately
    replaced: tuple[Replaced, ...] = ()  # where tables were measured again
    discovery: Discovery | None = None  # where the schema was discovered under the same charge
    schema: "Schema | None" = None

    def __post_init__(self) -> None:
        _check_parts(self)


def _check_parts(release: ReleaseContent) -> None:
    """Refuse a release whose parts do not fit together."""
    import numpy as np  # a ledger, which knows of payments alone, needs none

    release.structure.check(release.domain)
    groups = release.structure.groups
    if tuple(part.cliques for part in release.parts) != groups:
        there = {part.cliques for part in release.parts}
        missing = [group[0] for group in groups if group not in there]
        what = (
            f"the table of {join_names(missing)} is missing" if missing else "there are tables that no clique asks for"
        )
        raise FileError(f"this release does not fit together: {what}; expected one table per clique or tie, in order.")
    if release.schema is not None and release.schema.domain != release.domain:
        raise FileError("this release does not fit together: its schema gives another domain than its tables have.")
    if not groups:
        raise Error("a release needs at least one table; name at least one clique.")
    if type(release.denominator) is not int or not 1 <= release.denominator <= 2**40:
        raise FileError(f"the denominator of a release is an integer from 1 to 2**40, not {release.denominator!r}.")
    numbers = set(release.structure.interactions)
    for part in release.parts:
        if part.interaction != (part.cliques[0] in numbers):
            raise FileError(f"{part.cliques[0]} is an interaction by the structure or by its values, not by both.")
        expected = () if part.interaction else release.domain.table_shape(part.cliques[0])
        if part.values.shape != expected:
            raise FileError(f"the table of {part.cliques[0]} has shape {part.values.shape}; expected {expected}.")
        if part.values.dtype not in (np.int64, np.float64):
            raise FileError(
                f"the table of {part.cliques[0]} holds {part.values.dtype}; expected 64-bit integers or floats."
            )
        if part.values.dtype == np.float64 and not np.isfinite(part.values).all():
            raise FileError(f"the table of {part.cliques[0]} holds a value that is not a finite number.")
        if release.promise is not None and (
            part.values.dtype != np.int64 or part.l1 is None or part.l2_squared is None
        ):
            raise FileError(
                f"the table of {part.cliques[0]} must hold integers and its sensitivity for a promise to be made."
            )
        cell = part.excluded
        if cell is not None and (
            part.interaction
            or len(cell) != len(expected)
            or not all(0 <= i < n for i, n in zip(cell, expected, strict=True))
        ):
            raise FileError(f"the table of {part.cliques[0]} leaves out the cell {cell}, which it does not have.")
        part.values.flags.writeable = False
    places = {part.cliques[0]: i for i, part in enumerate(release.parts)}
    for one in release.selections:
        if one.candidates < 1 or not 0 <= one.measured <= places.get(one.chosen, -1):
            raise FileError(f"{one.chosen} was chosen, and there is no table of it that was measured afterwards.")
    if strange := [one.clique for one in release.replaced if one.clique not in places]:
        raise FileError(f"{strange[0]} was measured again, and there is no table of it.")
    if release.total_part is not None and not np.isfinite(release.total_part.value):
        raise FileError("the total is not a finite number.")
    if release.promise is not None and release.promise.neighbours not in get_args(units.Neighbours):
        raise FileError(f"neighbours are {join_names(get_args(units.Neighbours))}, not {release.promise.neighbours!r}.")
    if release.promise is not None and release.total_part is not None and type(release.total_part.value) is not int:
        raise FileError("the total must be a whole number of steps for a promise to be made.")
    if release.created:
        try:
            datetime.strptime(release.created, TIME_FORMAT)
        except ValueError:
            raise FileError(
                f"the time of a release is written as 2024-05-01T12:00:00Z, not {release.created!r:.60}."
            ) from None
    paper = release.promise is not None and release.promise.neighbours == "paper"
    if (PAPER_NOTE in release.notes) != paper:
        raise FileError("the notes and the neighbours of this release disagree on whether it is in paper mode.")
