"""What a model keeps of its fit so that it can give error bars: :class:`Uncertainty`.

Three things make a learned answer wrong: the privacy noise, the sample of people, and the estimation itself, which
pulls what the tables do not determine towards the prior. ``learning/covariance.py`` weighs them; ``intervals.py`` turns
a question into an interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quietfield.cliques import MOST_INTERACTIONS
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.learning.observation import estimate_records
from quietfield.privacy.noise import Noise, noise_from_json
from quietfield.releases.release import Release

#: What an answer may be about: the distribution that the records came from, or the records.
OF = ("source", "records")


@dataclass(frozen=True)
class Uncertainty:
    """What a model remembers of its release so that it can give intervals; nothing in it is private."""

    groups: tuple[tuple[Clique, ...], ...]  # the cliques that each table sums
    noise: tuple[Noise, ...]  # of each table
    excluded: tuple[tuple[int, ...] | None, ...]  # per table, the cell that was not counted
    total: float  # N, public or estimated
    total_variance: float  # of the estimate's error; 0 where N is public
    total_weights: tuple[float, ...]  # per table, how much one more in each cell adds to the estimate of N
    #: Per table, of the prior as the fit used it: interactions, effects of fewer attributes.
    variances: tuple[tuple[float, float], ...]
    #: The same of the parameters themselves, as the release shows them.
    drawn: tuple[tuple[float, float], ...]
    #: Of attributes along whose values both are smooth, how much: interactions, effects of fewer attributes.
    smoothness: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: The cliques of which the interaction alone was measured.
    apart: frozenset[Clique] = frozenset()

    def parameters(self, domain: Domain) -> int:
        """How many parameters the fit had: those of tied cliques once, and one of an interaction."""
        return sum(1 if group[0] in self.apart else domain.cells(group[0]) for group in self.groups)

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        content: dict[str, Any] = {
            "tables": [
                {
                    "cliques": [list(clique) for clique in group],
                    "noise": noise.to_json(),
                    "excluded": None if excluded is None else list(excluded),
                    "total_weight": weight,
                    **({"interaction": True} if group[0] in self.apart else {}),
                }
                for group, noise, excluded, weight in zip(
                    self.groups, self.noise, self.excluded, self.total_weights, strict=True
                )
            ],
            "total": self.total,
            "total_variance": self.total_variance,
            "prior_variances": _pairs_to_json(self.variances),
            "drawn_variances": _pairs_to_json(self.drawn),
        }
        if self.smoothness:
            content["smoothness"] = {name: list(pair) for name, pair in self.smoothness.items()}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Uncertainty":
        """What :meth:`to_json` wrote down, checked."""
        tables = content["tables"]
        excluded = tuple(None if t["excluded"] is None else tuple(int(i) for i in t["excluded"]) for t in tables)
        used = _pairs_from_json(content["prior_variances"], len(tables))
        drawn = _pairs_from_json(content["drawn_variances"], len(tables))
        found = cls(
            tuple(tuple(tuple(str(name) for name in clique) for clique in table["cliques"]) for table in tables),
            tuple(noise_from_json(table["noise"]) for table in tables),
            excluded,
            float(content["total"]),
            float(content["total_variance"]),
            tuple(float(table["total_weight"]) for table in tables),
            used,
            drawn,
            {str(name): _pair(pair) for name, pair in content.get("smoothness", {}).items()},
            frozenset(tuple(map(str, table["cliques"][0])) for table in tables if table.get("interaction") is True),
        )
        least = min(found.total, *(value for pair in (*used, *drawn) for value in pair))
        if not (least > 0 and found.total_variance >= 0 and found.groups):
            raise Error("what the intervals need must be positive numbers, and it names at least one table.")
        if not all(0 <= value < np.inf for pair in found.smoothness.values() for value in pair):
            raise Error("what the intervals need says how smooth attributes are in numbers that are not negative.")
        return found

    def check(self, domain: Domain, cliques: tuple[Clique, ...]) -> None:
        """Refuse what belongs to another model: tables of other cliques, cells that a table does not have."""
        if sorted(clique for group in self.groups for clique in group) != sorted(cliques):
            raise Error("what the intervals need speaks of other tables than the model has.")
        if not set(self.smoothness) <= set(domain):
            raise Error("what the intervals need speaks of other attributes than the model has.")
        tied = {group[0] for group in self.groups if len(group) > 1}
        if self.apart & tied or any(set(domain.table_shape(clique)) != {2} for clique in self.apart):
            raise Error("what the intervals need speaks of an interaction of tied cliques, or of more than two values.")
        if self.apart and self.parameters(domain) > MOST_INTERACTIONS:
            raise Error(
                f"what the intervals need speaks of interactions among more than {MOST_INTERACTIONS:,} numbers, from "
                "which no model is learned."
            )
        for group, cell in zip(self.groups, self.excluded, strict=True):
            shapes = {domain.table_shape(clique) for clique in group}
            shape = shapes.pop()
            fits = cell is None or (
                group[0] not in self.apart and len(cell) == len(shape) and all(map(_within, cell, shape))
            )
            if shapes or not fits:
                raise Error("what the intervals need does not fit the shapes of the model's tables.")


def _pair(values: Any) -> tuple[float, float]:
    first, second = (float(value) for value in values)
    return first, second


def _pairs_to_json(pairs: tuple[tuple[float, float], ...]) -> list[Any]:
    """One pair a table, or a single one that all tables share."""
    return list(pairs[0]) if len(set(pairs)) == 1 else [list(pair) for pair in pairs]


def _pairs_from_json(content: Any, tables: int) -> tuple[tuple[float, float], ...]:
    if not isinstance(content[0], list):
        return (_pair(content),) * tables
    if len(content) != tables:
        raise Error("what the intervals need has variances of more or fewer tables than there are.")
    return tuple(_pair(pair) for pair in content)


def _within(index: int, size: int) -> bool:
    return 0 <= index < size


def remember_fit(
    release: Release,
    total: float,
    variances: np.ndarray,
    drawn: np.ndarray | None = None,
    smoothness: np.ndarray | None = None,
) -> Uncertainty:
    """What a fit to a release leaves behind: ``total`` and the prior's variances (2, tables) as the fit used them.

    ``drawn`` are the variances that the release shows, where the fit used others on purpose, and ``smoothness`` the
    amounts (2, attributes) of a smooth prior.
    """
    drawn = variances if drawn is None else drawn
    records = estimate_records(release)
    order = sorted(range(len(release.parts)), key=lambda i: release.parts[i].values.shape)  # as the learners order them
    parts = [release.parts[i] for i in order]
    return Uncertainty(
        tuple(part.cliques for part in parts),
        tuple(part.noise for part in parts),
        tuple(part.excluded for part in parts),
        float(total),
        records.variance,
        tuple(records.weights[i] for i in order),
        tuple(_pair(pair) for pair in variances.T),
        tuple(_pair(pair) for pair in drawn.T),
        {}
        if smoothness is None
        else {name: _pair(pair) for name, pair in zip(release.domain, smoothness.T, strict=True) if pair.any()},
        frozenset(part.cliques[0] for part in parts if part.interaction),
    )
