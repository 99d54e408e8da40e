"""Choose the tables of a release privately: which attributes belong together is learned from the records, too.

First all one-way tables are measured. An attribute that has one value, as far as these tell, is joined with no other,
since it depends on none; one that can have no other value is not measured at all. If the tables of all questions
together are small and would get little noise, they are measured next, and nothing is chosen; nor is it where all
attributes have two values, so that what they say together is one number a question or part of one: these interactions
are measured apart, each once, where tables would measure them again and again. Else come a few rounds: a
model is learned from all noisy tables so far, and tables that it misses are chosen, measured and learned from in turn,
the first round a tree of pairs. A table scores by how far its counts are from the model's, less what chance and noise
alone would make of it. Nothing here sees a record: choices and noisy tables come from
:class:`quietfield.curator.steps.Steps`, which keeps to the budget.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from typing import Any, Protocol

import numpy as np

from quietfield.cliques import MOST_INTERACTIONS, Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import CannotLearn, Error
from quietfield.learning import fit
from quietfield.models.model import Model
from quietfield.privacy.planning import weigh_interactions
from quietfield.releases.parts import Table, Total
from quietfield.releases.release import Release
from quietfield.status import show_status
from quietfield.study.growth import Growth

_SINGLES = Fraction(1, 10)  # of the budget, for one-way tables
# What they get in a second measurement where the first shows that noise moves more than such a share of their records:
# half of the budget, and all that is left.
_SINGLES_AGAIN = Fraction(1, 2)
_MUCH_NOISE, _MOST_NOISE = 0.15, 1.0
_CHOOSING = Fraction(1, 10)  # of a round's part of it, for choices
_GROUPS = 16  # values of an attribute that scores tell apart, at most: more, and chance hides what is missed
_DRAWN = 100_000  # records drawn from the model to tell what it expects
# Work of exact inference, least and most: where attributes are large, a million has no room for pairs that matter. It
# is as many tables of three, but the least where noise moves a larger share of records. Of adult at epsilon 10 (0.002
# are moved), two millions took 4% off the error of triples, three no more; at epsilon 1 (0.02) they doubled the time
# and gained nothing, nor did costs found exactly rather than bounded (six runs), so both are for little noise.
_LEAST_WORK, _MOST_WORK, _THREES, _LESS_NOISE = 1_000_000, 2_000_000, 40, 0.005
_CELLS_OF_ALL = 2**24  # of all tables that may be chosen
_CELLS_OF_FOUR = 100  # of a table of four attributes, at the median, so that tables of four are candidates
_MOST_TABLES = 5_000  # that may be chosen
_MOST_WEIGHT = 100  # of a question
_LITTLE_NOISE = Fraction(1, 4)  # of the variance of a cell's count: with less there is nothing to choose
_CONSTANT = 3, Fraction(1, 20)  # all other values: standard deviations of their noise, and the part of all records
_MOST_DROWNED = 0.5  # of the records: noise of an interaction from which few tables that are chosen tell more
_WORK_OF_ALL = 4  # tables that all questions ask for take at most one part in so many of the work


class Measured(Protocol):
    """The steps that a choice takes: see :class:`quietfield.curator.steps.Steps`."""

    public_total: int | None

    @property
    def domain(self) -> Domain: ...
    @property
    def kind(self) -> Any: ...
    @property
    def neighbours(self) -> str: ...
    @property
    def budget(self) -> Fraction: ...
    @property
    def tables(self) -> Sequence[Table]: ...
    @property
    def left(self) -> Fraction: ...
    @property
    def sensitivity(self) -> int: ...
    def measure(
        self, cliques: Iterable[Clique], amount: Fraction, weights: Any = None, *, interactions: bool = False
    ) -> list[Table]: ...
    def choose(self, *args: Any, **kwargs: Any) -> list[Clique]: ...


@dataclass(frozen=True)
class Choice:
    """A structure that is chosen privately, as part of the release; the word ``"auto"`` stands for ``Choice()``.

    Args:
        include: Tables that are measured in any case, since they are known to matter.
        workload: Sets of attributes that questions will be about, with their weights; by default all sets of three.
            Only attributes that a question names together are joined.
        rounds: How often a model is learned and more tables are chosen; by default four to eight times, the more the
            smaller the tables are, since small ones are measured well, and not at all where the tables of all
            questions can be measured with little noise.
        most_attributes: The most attributes of a table, two to four; by default three, or four where there are few
            attributes of few values.
        most_cells: The most cells of a table.
        most_work: The most cells of all tables that exact inference works with: bounds the time of learning. By default
            a million, and up to two where attributes have many values and one-way tables little noise.

    Raises:
        Error: An option is out of its range.

    >>> import numpy as np, quietfield as qf
    >>> people = {name: np.array([0, 1, 1, 0] * 50) for name in "abc"}
    >>> schema = qf.Schema({name: [0, 1] for name in "abc"})
    >>> found = qf.release(people, schema, qf.Choice(rounds=1), epsilon=10, unit=qf.Rows(1), ledger=None)
    >>> len(found.selections) > 0
    True

    Here the one table of all three attributes can be measured well, so that there is nothing to choose:

    >>> found = qf.release(people, schema, "auto", epsilon=10, unit=qf.Rows(1), ledger=None)
    >>> list(found.tables), found.selections
    ([('a',), ('b',), ('c',), ('a', 'b', 'c')], ())
    """

    include: tuple[Clique, ...] = ()
    workload: Mapping[Clique, int] | None = None
    rounds: int | None = None
    most_attributes: int | None = None
    most_cells: int = 20_000
    most_work: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "include", tuple(map(_clique, self.include)))
        if self.workload is not None:
            given = self.workload if isinstance(self.workload, Mapping) else dict.fromkeys(self.workload, 1)
            object.__setattr__(self, "workload", {_clique(key): weight for key, weight in given.items()})
        limits = {"rounds": 50, "most_attributes": 4, "most_cells": 2**24, "most_work": 2**28}
        for name, most in limits.items():
            value = getattr(self, name)
            if name != "most_cells" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise Error(f"{name} of a choice is a whole number from 1 to {most:,}, not {value!r}.")
        if any(
            isinstance(w, bool) or not isinstance(w, int) or not 1 <= w <= _MOST_WEIGHT for w in self.weights.values()
        ):
            raise Error(f"the weight of a question is a whole number from 1 to {_MOST_WEIGHT}.")

    @property
    def weights(self) -> Mapping[Clique, int]:
        """The workload, or nothing if all questions are alike."""
        return self.workload or {}

    def tables(self, domain: Domain) -> list[Clique]:
        """All tables that may be asked for: one-way tables, those included, and candidates, the smallest first.

        Args:
            domain: The attributes and their values.

        Returns:
            Their cliques.
        """
        for clique in (*self.include, *self.weights):
            for name in clique:
                domain.position(name)
        several = [name for name in domain if domain.size(name) > 1] or list(domain)[:1]
        singles = [(name,) for name in several]
        sets = [frozenset(question) for question in self.weights]
        candidates = []
        for many in range(2, self.most_attributes_for(domain) + 1):
            for clique in combinations(several, many):
                if domain.cells(clique) <= self.most_cells and (
                    not sets or any(set(clique) <= question for question in sets)
                ):
                    candidates.append(clique)
            # Of larger ones the smallest are taken below, and none beside many pairs; there is no end to sets of four.
            if len(candidates) >= (_MOST_TABLES if many == 2 else 50 * _MOST_TABLES):
                break
        # Pairs first: without them larger tables have nothing to grow from.
        candidates.sort(key=lambda clique: (len(clique) > 2, domain.cells(clique)))
        room = _CELLS_OF_ALL
        kept: list[Clique] = []
        for clique in candidates:
            room -= domain.cells(clique)
            if room < 0 or (len(clique) > 2 and len(kept) >= _MOST_TABLES):
                break
            kept.append(clique)
        wanted = {frozenset(c): c for c in [*singles, *self.include]}
        return [*wanted.values(), *(c for c in kept if frozenset(c) not in wanted)]

    def within(self, domain: Domain) -> "tuple[Choice, tuple[Clique, ...]]":
        """The same choice for a domain that was not known when it was made, since a discovery found it.

        Args:
            domain: The attributes that were found.

        Returns:
            The choice without tables that cannot be measured, and without attributes that questions cannot be about;
            and those tables of ``include``: they name an attribute that there is not, or have too many cells; and the
            questions, where none of their attributes is left.

        >>> choice, dropped = Choice(include=[("a", "b"), ("a", "note")]).within(Domain({"a": 2, "b": 2}))
        >>> choice.include, dropped
        ((('a', 'b'),), (('a', 'note'),))
        """
        room, kept = _CELLS_OF_ALL, []
        for clique in self.include:
            cells = domain.cells(clique) if set(clique) <= set(domain) else room + 1
            if cells <= room:
                room -= cells
                kept.append(clique)
        asked: dict[Clique, int] = {}
        for question, weight in self.weights.items():
            if names := tuple(name for name in question if name in domain):
                asked[names] = min(asked.get(names, 0) + weight, _MOST_WEIGHT)
        dropped = tuple(clique for clique in self.include if clique not in kept)
        if not asked:  # questions of which no attribute is left; what is left is asked for as if none were given
            dropped += tuple(self.weights)
        return replace(self, include=tuple(kept), workload=asked or None), dropped

    def most_attributes_for(self, domain: Domain) -> int:
        """The most attributes of a table.

        Args:
            domain: The attributes and their values.

        Returns:
            By default three; four where all tables of up to four may be candidates and those of attributes of median
            size have at most 100 cells: a small table of four tells of four triples at once.

        >>> [Choice().most_attributes_for(Domain({name: size for name in "abcdef"})) for size in (2, 3, 9)]
        [4, 4, 3]
        """
        if self.most_attributes is not None:
            return self.most_attributes
        many = len(domain)
        few = sum(comb(many, k) for k in (2, 3, 4)) <= _MOST_TABLES
        return 4 if few and np.median(domain.shape) ** 4 <= _CELLS_OF_FOUR else 3

    def rounds_for(self, domain: Domain) -> int:
        """How many rounds there are, at most.

        Args:
            domain: The attributes and their values.

        Returns:
            By default seven or eight for tables of a few cells, and four for those of a thousand or more.

        >>> Choice().rounds_for(Domain({name: 2 for name in "abcdef"}))
        7
        """
        cells = [domain.cells(clique) for clique in self.tables(domain) if len(clique) > 1]
        return self.rounds or int(np.clip(np.rint(4 + np.log2(1000 / np.median(cells or [1])) / 2), 4, 8))

    def run(self, steps: Measured, *, progress: bool = False) -> None:
        """Measure and choose until the budget is spent.

        Args:
            steps: What measures and chooses.
            progress: Whether a line on the error stream says which round it is.
        """
        domain = steps.domain
        forced = {frozenset(clique) for clique in self.include}
        tables = self.tables(domain)
        first = [clique for clique in tables if len(clique) == 1 or frozenset(clique) in forced]
        growth, most = Growth(domain, first, self.most_work or _LEAST_WORK), self.most_attributes_for(domain)
        pool = [c for c in tables[len(first) :] if len(c) <= most and growth.fits(c, forest=False)]
        steps.measure(first, _SINGLES * (1 + bool(forced)) if pool else steps.left, "by_size")
        if pool and (more := _more_for_singles(steps)):
            everything = more == steps.left
            steps.measure(first, more, "by_size")
            if everything:
                return
        constant = {table.cliques[0] for table in steps.tables if len(table.cliques[0]) == 1 and _is_constant(table)}
        several = [name for name in domain if domain.size(name) > 1 and (name,) not in constant]
        if kept := [clique for clique in pool if set(clique) <= set(several)]:
            pool = kept
        if pool and self.rounds is None:
            if apart := self._interactions(steps, pool, several):
                steps.measure(apart, steps.left, apart, interactions=True)
                return
            if asked := self._measurable(steps, pool, several):
                steps.measure(asked, steps.left, "by_size")
                return
        rounds, work = self.rounds_for(domain), self._work_for(steps)
        with show_status("choosing tables", progress) as say:
            for number in range(rounds if pool else 0):
                say(f"choosing tables: round {number + 1} of {rounds}")
                amount = steps.left / (rounds - number)
                later = steps.left - amount  # for the rounds after this one
                limit = work * (number + 1) // rounds
                try:
                    chosen = self._choose(steps, pool, several, amount, limit, forest=number == 0)
                    if not chosen and number == 0:  # the tables that are included join all attributes, say
                        chosen = self._choose(steps, pool, several, amount, limit, forest=False)
                except CannotLearn:  # noise outweighs the records, and no choice can be told: the smallest tables
                    steps.measure(self._fitting(steps, pool), steps.left, "by_size")
                    break
                if not chosen:  # nothing is within this round's limit
                    continue
                measured = [table.cliques[0] for table in steps.tables]
                growth = Growth(domain, [*measured, *chosen], work, exact=_has_little_noise(steps))
                pool = [c for c in pool if c not in chosen and growth.fits(c, forest=False)]
                steps.measure(chosen, steps.left - later if pool else steps.left, "by_size")
                if not pool:  # no round after this one could choose: these tables had all that was left
                    break

    def _questions(self, several: Sequence[str]) -> dict[frozenset[str], int]:
        """The sets of attributes that questions are about, with their weights."""
        found: dict[frozenset[str], int] = {}
        for question in self.weights or combinations(several, min(3, len(several))):
            if joined := frozenset(several).intersection(question):
                found[joined] = found.get(joined, 0) + self.weights.get(question, 1)
        return found

    def _interactions(self, steps: Measured, pool: Sequence[Clique], several: Sequence[str]) -> dict[Clique, Fraction]:
        """The interactions that all questions are made of, with their weights; none where they do not pay.

        With Laplace noise a few tables that are chosen tell more, and where one record may replace another, it moves an
        interaction by 2, but two cells of a table by 1.
        """
        domain, questions = steps.domain, self._questions(several)
        if steps.kind != "gaussian" or steps.neighbours != "add_remove":
            return {}
        if domain.impossible or any(domain.size(name) != 2 for question in questions for name in question):
            return {}
        measured = [table.cliques[0] for table in steps.tables]
        if not set(questions) <= set(map(frozenset, (*pool, *measured))):  # some cannot be measured at all
            return {}
        parts = {c: sum(many for q, many in questions.items() if q.issuperset(c)) for c in pool}
        parts = {clique: many for clique, many in parts.items() if many}
        if not parts or len(parts) + sum(map(domain.cells, measured)) > MOST_INTERACTIONS:
            return {}
        found = dict(zip(parts, weigh_interactions(parts.values()), strict=True))
        budget, whole = float(steps.left * steps.budget), float(sum(weight**2 for weight in found.values()))
        noise = steps.sensitivity * (whole / (2 * budget)) ** 0.5 / float(min(found.values()))
        if noise > _MOST_DROWNED * count_records(steps):
            return {}
        limit = self._work_for(steps)
        return found if Growth(domain, [*measured, *found], limit).work * _WORK_OF_ALL <= limit else {}

    def _work_for(self, steps: Measured) -> int:
        """The most cells of all tables that exact inference works with, once one-way tables are measured."""
        if self.most_work is not None:
            return self.most_work
        if not _has_little_noise(steps):
            return _LEAST_WORK
        sizes = steps.domain.shape
        one, two, three = (sum(size**power for size in sizes) for power in (1, 2, 3))
        # The sum over all sets of three of the products of their sizes, by Newton's identities.
        cells = (one**3 - 3 * one * two + 2 * three) // 6
        return int(np.clip(_THREES * cells / max(1, comb(len(sizes), 3)), _LEAST_WORK, _MOST_WORK))

    def _measurable(self, steps: Measured, pool: Sequence[Clique], several: Sequence[str]) -> list[Clique]:
        """The tables of all questions, if together they are few and small enough and get little noise; else none."""
        domain = steps.domain
        sets = set(self._questions(several))
        measured = [table.cliques[0] for table in steps.tables]
        asked = [clique for clique in pool if frozenset(clique) in sets]
        if not asked or len(asked) < len(sets - {frozenset(clique) for clique in measured}):
            return []
        each = float(steps.left * steps.budget) / len(asked)
        noise = 2 * (steps.sensitivity / each) ** 2 if steps.kind == "laplace" else steps.sensitivity**2 / (2 * each)
        chance = count_records(steps) / max(domain.cells(clique) for clique in asked)
        if noise > _LITTLE_NOISE * chance:
            return []
        most = self._work_for(steps)
        work = Growth(domain, [*measured, *asked], most).work
        return asked if work * _WORK_OF_ALL <= most else []

    def _fitting(self, steps: Measured, pool: Sequence[Clique]) -> list[Clique]:
        """A tree (or trees) of the smallest tables that are not measured; the smallest one where nothing is a tree."""
        growth = Growth(steps.domain, [table.cliques[0] for table in steps.tables], self._work_for(steps))
        for clique in pool:
            if growth.fits(clique, forest=True):
                growth.add(clique)
        return growth.added or [pool[0]]

    def _choose(
        self,
        steps: Measured,
        pool: Sequence[Clique],
        several: Sequence[str],
        amount: Fraction,
        limit: int,
        *,
        forest: bool,
    ) -> list[Clique]:
        """The tables of one round: a tree (or trees) of pairs, or tables of any kind."""
        domain, measured = steps.domain, [table.cliques[0] for table in steps.tables]
        times = max(1, len(several) - 1 if forest else len(several) // 2)
        candidates = [clique for clique in pool if not forest or len(clique) == 2]
        growth = Growth(domain, measured, limit, exact=_has_little_noise(steps))

        def allowed(chosen: Sequence[Clique]) -> list[int]:
            for clique in chosen[len(growth.added) :]:
                growth.add(clique)
            return [i for i, clique in enumerate(candidates) if growth.fits(clique, forest=forest)]

        if not allowed([]):
            return []
        model, total = learn(steps)
        groups = {name: starts for name in domain if (starts := _runs(model.marginal(name))) is not None}
        counts = _expect(model, candidates, groups, total)
        # What the table would differ by if nothing were missing: by the chance of who is in the data (and who was
        # drawn from the model), and by the noise that it would get.
        noise = _mean_noise(steps, float(amount * (1 - _CHOOSING)), times)
        chance = (2 / np.pi * (1 + total / _DRAWN)) ** 0.5
        weights = np.array([self._weight(clique) for clique in candidates], np.int64)
        handicaps = weights * np.array([chance * np.sqrt(e).sum() + noise * e.size for e in counts])
        return steps.choose(
            candidates,
            [np.rint(e).astype(np.int64) for e in counts],
            np.rint(handicaps).astype(np.int64),
            amount * _CHOOSING,
            times,
            allowed,
            groups=groups,
            weights=weights,
        )

    def _weight(self, clique: Clique) -> int:
        """The weight of all questions that a table helps to answer."""
        return sum(weight for question, weight in self.weights.items() if set(clique) <= set(question)) or 1


def learn(steps: Measured) -> tuple[Model, float]:
    """A model of all noisy tables so far, and about how many records there are."""
    parts = tuple(steps.tables)
    total = None if steps.public_total is None else Total(steps.public_total, None)
    release = Release(steps.domain, Structure(tuple(part.cliques[0] for part in parts)), parts, total)
    model = fit(release)
    if model.report is not None and model.report.interrupted:
        raise KeyboardInterrupt  # a part of longer work, which ends too
    return model, count_records(steps)


def count_records(steps: Measured) -> float:
    """About how many records there are: as is public, or from the sums of all noisy tables so far."""
    if steps.public_total is not None:
        return float(steps.public_total)
    sums = [(float(part.values.sum()), part.values.size * part.noise.variance) for part in steps.tables]
    precision = [1 / max(variance, 1e-12) for _, variance in sums]
    return max(1.0, sum(p * s for p, (s, _) in zip(precision, sums, strict=True)) / sum(precision))


def _more_for_singles(steps: Measured) -> Fraction:
    """The part of the budget to measure the first tables with again, where they are little but noise; else 0.

    What pairs would add lies far below the noise then, while one-way tables still gain from every bit of budget.
    """
    moved = _moved(steps)
    if moved > _MOST_NOISE:
        return steps.left
    return _SINGLES_AGAIN if moved > _MUCH_NOISE else Fraction(0)


def _moved(steps: Measured) -> float:
    """The share of records that noise moves in a one-way table, at the mean."""
    noises = [part.values.size * part.noise.variance**0.5 for part in steps.tables if len(part.cliques[0]) == 1]
    return (2 / np.pi) ** 0.5 / 2 * float(np.mean(noises)) / count_records(steps)


def _has_little_noise(steps: Measured) -> bool:
    """Whether noise is so little that the room that tables have is what bounds a model's quality."""
    return _moved(steps) <= _LESS_NOISE


def _is_constant(table: Table) -> bool:
    """Whether an attribute has one value, as far as the noisy table of it tells."""
    counts, (deviations, part) = np.asarray(table.values, float).ravel(), _CONSTANT
    others = counts.sum() - counts.max()
    noise = (table.noise.variance * (counts.size - 1)) ** 0.5
    return bool(others <= min(deviations * noise, float(part) * counts.max()))


def _runs(shares: np.ndarray) -> np.ndarray | None:
    """Where runs of values begin that have about equal shares, or None for an attribute of few values."""
    if len(shares) <= _GROUPS:
        return None
    starts, filled, done = [0], 0.0, 0.0
    for value, share in enumerate(shares):
        quota = (1 - done) / (_GROUPS - len(starts) + 1)
        if filled and filled + share / 2 > quota and len(starts) < _GROUPS:
            starts.append(value)
            done, filled = done + filled, 0.0
        filled += share
    return np.array(starts)


def _expect(
    model: Model, cliques: Sequence[Clique], groups: Mapping[str, np.ndarray], total: float
) -> list[np.ndarray]:
    """The counts of grouped values that a model expects, from records that are drawn from it."""
    domain = model.domain
    codes = np.asarray(model.sample(_DRAWN, seed=0).codes)
    columns, sizes = {}, {}
    for place, name in enumerate(domain):
        starts = groups.get(name)
        column = codes[:, place].astype(np.int64)
        columns[name] = column if starts is None else np.searchsorted(starts, column, side="right") - 1
        sizes[name] = domain.size(name) if starts is None else len(starts)
    many = np.full(_DRAWN, total / _DRAWN)
    if prod(sizes.values()) < 2**62:  # records that are alike are counted once
        _, first, alike = np.unique(_cells_of(domain, columns, sizes), return_index=True, return_counts=True)
        columns, many = {name: column[first] for name, column in columns.items()}, alike * (total / _DRAWN)
    held: dict[Clique, np.ndarray] = {}  # of the tables before: those that begin alike come one after the other
    found = []
    for clique in cliques:
        if clique[:-1] not in held:
            held = {clique[:-1]: _cells_of(clique[:-1], columns, sizes)}
        cells = held[clique[:-1]] * sizes[clique[-1]] + columns[clique[-1]]
        shape = tuple(sizes[name] for name in clique)
        found.append(np.bincount(cells, many, prod(shape)).reshape(shape))
    return found


def _cells_of(names: Iterable[str], columns: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
    """The place of each record in a table, row by row."""
    cells = np.zeros(len(next(iter(columns.values()))), np.int64)
    for name in names:
        cells = cells * sizes[name] + columns[name]
    return cells


def _mean_noise(steps: Measured, amount: float, times: int) -> float:
    """The mean absolute noise of a cell if so many tables share an amount equally."""
    each = amount * float(steps.budget) / times
    if steps.kind == "laplace":
        return steps.sensitivity / each
    return steps.sensitivity * (1 / (np.pi * each)) ** 0.5


def _clique(names: Any) -> Clique:
    return (names,) if isinstance(names, str) else tuple(names)
