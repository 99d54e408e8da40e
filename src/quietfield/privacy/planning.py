"""Plans of noise for people: how noisy each table would be, and what is allowed but hardly meant. Nothing is searched.

Nothing here sees a record: it serves the curator before paying (``quietfield plan``). The scales are those of the real
mechanism up to the last digits of a float: that looks for the smallest one whose promise OpenDP confirms.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp, expm1, fsum, log, pi, prod, sqrt
from operator import index
from statistics import NormalDist
from typing import Any, Literal

from quietfield.cliques import MOST_INTERACTIONS, Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.calibration import (
    LARGEST_SCALE,
    Weights,
    check_budget,
    check_scale,
    relative_weights,
)
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.privacy.promises import HUGE_EPSILON
from quietfield.privacy.units import Neighbours, Person, Statistics, Unit, sensitivities
from quietfield.text import join_names, plural

HUGE_DELTA = Fraction(1, 10**4)
#: Below this, tables of thousands of records drown in noise.
SMALL_EPSILON = Fraction(1, 100)
#: An attribute (of more than two values, or of two) whose counts the tables tell less precisely than this gets a table
#: of its own: 1 / variance of a count, in units of a cell's.
_PRECISE = (Fraction(3, 4), Fraction(1, 2))
#: So many tables or fewer are measured alone: what is added to them costs more than it brings.
_FEW = 3
#: Weight of such a table: that of the others is 1.
_BESIDE = Fraction(1, 3)
#: Attributes whose interactions are measured apart, at most: a model of these is learned from all their combinations.
_MOST_APART = 20
#: The most that is left of the squared error of tables where they are measured so; else it is not worth the change.
_WORTH = 0.65
#: No guess of a number of records is larger: their counts, in steps, would not fit into 64 bits.
MOST_RECORDS = 10**12


def warn_of_budget(
    epsilon: accounting.Number, delta: accounting.Number | None = None, noises: Sequence[Noise] = ()
) -> str | None:
    """What there is to say about an epsilon or a delta that promises next to nothing, or about much noise; or None.

    ``noises`` is the noise of each table, which together keep the promise.

    >>> warn_of_budget(1, "1e-6") is None
    True
    >>> warn_of_budget(1, 0.5)[:47]
    'delta 0.5 promises next to nothing: with such a'
    """
    found = []
    value = accounting.to_rational(epsilon, "epsilon")
    if value > HUGE_EPSILON:
        said = accounting.format_number(value)
        found.append(
            f"epsilon {said} promises next to nothing: what is published may be e^{said} times as likely for one data "
            "set as for a neighbouring one. Usual choices lie between 0.1 and 10."
        )
    if 1 / LARGEST_SCALE < value < SMALL_EPSILON:  # what is smaller is refused
        least = min((noise.std for noise in noises), default=sqrt(2) / float(value))
        shared = f" of the {len(noises)} tables that share it" if len(noises) > 1 else ""
        found.append(
            f"epsilon {accounting.format_number(value)} takes much noise: its standard deviation is at least "
            f"{least:,.0f} in every cell{shared}, and only counts far beyond that tell anything. Usual choices lie "
            "between 0.1 and 10."
        )
    chance = None if delta is None else accounting.to_probability(delta)
    if chance is not None and chance > HUGE_DELTA:
        found.append(
            f"delta {accounting.format_number(chance)} promises next to nothing: with such a probability the promise "
            "may fail altogether, for anyone. It should be far below one in the number of people, such as 1e-6 or less."
        )
    return " ".join(found) or None


def warn_of_uncovered(domain: Domain, structure: Structure) -> str | None:
    """A sentence about attributes that no clique holds, or None.

    >>> warn_of_uncovered(Domain({"a": 2, "b": 2}), Structure((("a",),)))
    "no clique holds 'b', so nothing of it is released, and a model takes all its values as equally likely; add it to \
a clique, or take it out of the schema."
    """
    missing = [name for name in domain if name not in set(structure.attributes)]
    if not missing:
        return None
    it, its = ("it", "its") if len(missing) == 1 else ("them", "their")
    return (
        f"no clique holds {join_names(missing)}, so nothing of {it} is released, and a model takes all {its} values as "
        f"equally likely; add {it} to a clique, or take {it} out of the schema."
    )


def check_guess(value: Any) -> int:
    """A guess of the number of records, or an error that says what would be one."""
    try:
        guess = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        guess = 0
    if not 1 <= guess <= MOST_RECORDS:
        raise Error(
            f"the guessed number of records is a whole number from 1 to {MOST_RECORDS:,}, not {str(value)[:40]}."
        )
    return guess


def allocate_budget(
    structure: Structure,
    domain: Domain,
    unit: Unit,
    neighbours: Neighbours,
    weights: Weights,
    noise: str,
    total: Literal["auto"] | bool = "auto",
) -> tuple[Structure, Weights]:
    """What is measured for a structure, and with which weights, where no weights are given.

    With Gaussian noise and attributes of two values each, tables that overlap much are measured as their interactions,
    each once (the residual basis: Xiao, He, Zhang and Kifer 2023), and a total: tables measure what they share again
    and again.

    Otherwise, beside four tables or more, an attribute gets with Gaussian noise a table of its own, of a third of
    their weight, unless these tell its counts nearly as precisely as a cell. The other tables get 5 to 7% more noise
    for it where they are a tree of pairs. It measures the effects of single attributes better, which a model needs
    most: models of real tables came out 9% closer to the records in the mean, a quarter at best
    (docs/results/synthesis.md); but where noise is little, they may follow the tables themselves less closely. Cells
    that are impossible count as others. With Laplace
    noise, whose cost grows with the number of tables and not with its root, nothing is added, nor for sequences, whose
    cliques are tied or share what a person adds.

    Args:
        structure: The tables that are asked for.
        domain: The attributes and their values.
        unit: Whom the release protects.
        neighbours: Which data sets cannot be told apart; tables as in the paper get nothing beside them.
        weights: Weights that are given, which then stay; ``"equal"`` adds nothing either.
        noise: The kind of noise.
        total: Whether a total is released, as :func:`quietfield.release` is asked.

    Returns:
        The structure, with one-way tables after the others or as interactions, and the weights.

    >>> from quietfield.privacy.units import Rows
    >>> pairs = Structure(tuple(("town", name) for name in ("age", "ill", "sex", "job")))
    >>> domain = Domain({"town": 8, "age": 9, "ill": 2, "sex": 2, "job": 6})
    >>> found, weights = allocate_budget(pairs, domain, Rows(1), "add_remove", None, "gaussian")
    >>> found.cliques[4:]  # the count of an age is a sum of eight noisy cells; those of towns are known better
    (('age',), ('ill',), ('sex',), ('job',))
    >>> set(weights.values())
    {Fraction(1, 3)}
    """
    shared = structure.ties or structure.interactions or (isinstance(unit, Person) and unit.normalise)
    if weights is not None or noise != "gaussian" or neighbours == "paper" or shared:
        return structure, weights
    if total is not False and neighbours == "add_remove" and (apart := _weigh_apart(structure, domain)):
        sets = tuple(clique for clique in apart if clique)
        return Structure(sets, interactions=sets), apart
    if len(structure.cliques) <= _FEW:
        return structure, weights
    known = dict.fromkeys(structure.attributes, Fraction(0))
    for clique in structure.cliques:
        for name in clique:
            known[name] += Fraction(domain.size(name), domain.cells(clique))
    sizes = {name: domain.size(name) for name in known}
    added = tuple((name,) for name in known if sizes[name] > 1 and known[name] < _PRECISE[sizes[name] == 2])
    return Structure((*structure.cliques, *added)), dict.fromkeys(added, _BESIDE) or None


def weigh_interactions(answers: Iterable[int]) -> list[Fraction]:
    """Weights of interactions by which the squared errors of all answers add up to least, with Gaussian noise.

    With weights w the noise of one has the variance W / w^2, W being the sum of all w^2. Where one is part of n
    answers, w^2 = sqrt(n) makes the sum of n W / w^2 least.

    >>> [str(weight) for weight in weigh_interactions([1, 16])]
    ['1', '2']
    """
    return [Fraction(round(100 * many**0.25), 100) for many in answers]


def _weigh_apart(structure: Structure, domain: Domain) -> dict[Clique, Fraction]:
    """The weight of each interaction within some tables, and of the total; nothing where it does not pay.

    An interaction that n tables hold is part of n answers, and so is the total, the interaction of no attributes. Of k
    tables, one of c cells tells each of its interactions with the variance k c.
    """
    names = structure.attributes
    if domain.impossible or len(names) > _MOST_APART or any(domain.size(name) != 2 for name in names):
        return {}
    if any(2 ** len(clique) > MOST_INTERACTIONS for clique in structure.cliques):
        return {}
    held: dict[frozenset[str], tuple[Clique, list[int]]] = {}
    for clique in structure.cliques:
        for many in range(len(clique) + 1):
            for part in combinations(clique, many):
                held.setdefault(frozenset(part), (part, []))[1].append(2 ** len(clique))
        if len(held) > MOST_INTERACTIONS:
            return {}
    weights = weigh_interactions(len(cells) for _, cells in held.values())
    found = {part: weight for (part, _), weight in zip(held.values(), weights, strict=True)}
    whole = float(sum(weight**2 for weight in found.values()))
    apart = sum(len(cells) * whole / float(found[part]) ** 2 for part, cells in held.values())
    tables = sum(len(cells) * len(structure.cliques) / sum(1 / c for c in cells) for _, cells in held.values())
    return found if apart < _WORTH * tables else {}


def describe_added(structure: Structure, measured: Structure) -> tuple[str, ...]:
    """What there is to say of the tables that :func:`allocate_budget` added to a structure.

    >>> describe_added(Structure((("age", "town"),)), Structure((("age", "town"), ("age",))))
    ("these attributes are also measured by themselves: 'age'",)
    """
    if many := len(measured.interactions) - len(structure.interactions):
        return (f"measured as {plural(many, 'interaction')} of attributes, each once, instead of tables",)
    added = [name for clique in measured.cliques[len(structure.cliques) :] for name in clique]
    return (f"these attributes are also measured by themselves: {join_names(added, 100)}",) if added else ()


def calibrate_noise(
    statistics: Statistics,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    noise: str = "laplace",
    weights: Weights = None,
) -> tuple[Noise, ...]:
    """The noise of each table (and of the total, last, where it is counted) that keeps a promise, in counts.

    >>> from quietfield.domain import Domain
    >>> from quietfield.structures import chain
    >>> from quietfield.privacy.units import Rows, statistics
    >>> domain = Domain({"a": 2, "b": 3, "c": 2})
    >>> calibrate_noise(statistics(chain(domain), domain, Rows(1), total=False), epsilon=0.5)
    (Laplace(scale=4, step='1'), Laplace(scale=4, step='1'))
    """
    budget, chance = check_budget(epsilon, delta, noise)
    if not statistics.tables:
        raise Error("there is no table to release; name at least one clique.")
    relative = relative_weights(statistics, weights, noise)
    l1s, l2s = sensitivities(statistics)
    step = Fraction(1, statistics.denominator)
    inverse = [1 / w for w in relative]
    if chance is None:
        base = accounting.round_up(accounting.laplace_epsilon(l1s, statistics.l1, inverse), 1024) / budget
        scales = [base * w for w in inverse]
    else:
        rho = accounting.gaussian_rho(l2s, statistics.l2_squared, inverse) / accounting.zcdp_rho(budget, chance)
        scales = [Fraction(sqrt(rho)) * w for w in inverse]
    for scale in scales:
        check_scale(scale / step)
    make = Laplace if chance is None else Gaussian
    return tuple(make(scale, step) for scale in scales)  # type: ignore[arg-type]  # exact, until it is asked for


@dataclass(frozen=True)
class TableNoise:
    """One table as it would be released: its size, its noise, and what that does to a share.

    ``std`` is a cell's standard deviation in counts; ``margin`` is what a cell's noise stays below 19 times of 20.
    ``share_std`` is ``std`` divided by the guessed number of records, and ``distance`` the expected total variation
    between the noisy shares as they are and the true ones. None where no number was guessed. Of an ``interaction`` that
    is measured apart, shares are those of the records with an even and with an odd number of second values.
    """

    cliques: tuple[Clique, ...]
    cells: int
    noise: Noise
    margin: float
    share_std: float | None
    distance: float | None
    interaction: bool = False

    @property
    def std(self) -> float:
        return self.noise.std

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        return {
            "cliques": [list(clique) for clique in self.cliques],
            "cells": self.cells,
            "interaction": self.interaction,
            "noise": self.noise.kind,
            "scale": self.noise.scale,
            "std": self.std,
            "margin_95": self.margin,
            "share_std": self.share_std,
            "expected_total_variation": self.distance,
        }


def table_noises(statistics: Statistics, planned: tuple[Noise, ...], records: float | None) -> tuple[TableNoise, ...]:
    """How noisy each table would be; ``records`` is the guessed (weighted) number of records behind a table."""
    found = []
    for table, noise in zip(statistics.tables, planned, strict=False):
        cells = prod(table.shape)
        behind = None if records is None else records * (2 if table.interaction else len(table.cliques))
        found.append(
            TableNoise(
                table.cliques,
                cells,
                noise,
                margin(noise),
                None if behind is None else noise.std / behind,
                None
                if behind is None
                else min(1.0, (0.5 * cells + table.interaction / 2) * mean_absolute(noise) / behind),
                table.interaction,
            )
        )
    return tuple(found)


def margin(noise: Noise) -> float:
    """What the absolute value of the noise stays below 19 times of 20 (continuous noise)."""
    return noise.scale * (log(20) if isinstance(noise, Laplace) else NormalDist().inv_cdf(0.975))


def mean_absolute(noise: Noise) -> float:
    """The mean of the absolute value of the noise, that of the discrete distribution where there is a step.

    >>> round(mean_absolute(Gaussian(0.5)), 3), round(mean_absolute(Gaussian(0.5, 1)), 3)
    (0.399, 0.214)
    """
    step = float(noise.step)
    if isinstance(noise, Gaussian):
        if not step:
            return noise.scale * sqrt(2 / pi)
        if noise.scale > 2 * step:  # Euler and Maclaurin: the next term is below 1e-4 of the last one
            sigma = noise.scale / step
            return step * 2 * (sigma**2 - 1 / 12 - 1 / (240 * sigma**2)) / (sigma * sqrt(2 * pi))
        return 2 * fsum(k * step**2 * exp(noise.log_density(k * step)) for k in range(1, 81))
    if not step:
        return noise.scale
    h = float(noise.step / noise.exact)  # one step in units of the scale
    return step * 2 * exp(-h) / -expm1(-2 * h)


def format_points(value: float) -> str:
    """A share as percentage points, for people.

    >>> format_points(0.0123)
    '1.2 pp'
    """
    points = 100 * value
    return f"{points:.2g} pp" if points < 10 else f"{points:.0f} pp"
