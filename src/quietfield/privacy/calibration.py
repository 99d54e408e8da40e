"""Plans of noise, from what is public alone: budgets, weights, and how noisy each table would be; nothing is searched.

Nothing here sees a record, so it serves the curator before paying (``quietfield plan``) as well as the
mechanism, which shares the checks of a budget and of weights. The scales are those of the real mechanism up to
the last digits of a float: the mechanism looks for the smallest one whose promise OpenDP confirms.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, fsum, log, pi, prod, sqrt
from operator import index
from statistics import NormalDist
from typing import Any, Literal

from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.privacy.promises import HUGE_EPSILON
from quietfield.privacy.units import Statistics, sensitivities
from quietfield.structures import Structure
from quietfield.text import join_names

#: The name of the total among weights: it is the table over no attributes.
TOTAL: Clique = ()
#: Numbers by clique, or weights by size (see :func:`spread`); None gives all tables one weight.
Weights = Mapping[Any, accounting.Number] | Literal["by_size"] | None
HUGE_DELTA = Fraction(1, 10**4)
#: Below this, tables of thousands of records drown in noise.
SMALL_EPSILON = Fraction(1, 100)
#: The largest epsilon of Gaussian noise: beyond it, the conversion from zCDP leaves the floats behind.
LARGEST_GAUSSIAN_EPSILON = 10_000
#: Above this (2**53 steps) a float scale no longer resolves one step, and counts come near the end of 64 bits.
LARGEST_SCALE = 2.0**53
#: Below this no cell would ever change: the chance is e^-1,000,000,000.
SMALLEST_SCALE = 1e-9
#: No guess of a number of records is larger: their counts, in steps, would not fit into 64 bits.
MOST_RECORDS = 10**12


def check_budget(
    epsilon: accounting.Number, delta: accounting.Number | None, noise: str
) -> tuple[Fraction, Fraction | None]:
    """Epsilon and delta, exactly; refused where they do not go with the kind of noise."""
    budget = accounting.to_rational(epsilon, "epsilon")
    if noise == "laplace":
        if delta is not None:
            raise Error("Laplace noise is pure: leave delta out, or choose gaussian noise.")
        return budget, None
    if noise == "gaussian":
        if delta is None:
            raise Error("Gaussian noise needs a delta, for instance 1e-6; Laplace noise needs none.")
        if budget > LARGEST_GAUSSIAN_EPSILON:
            raise Error(
                f"epsilon {accounting.format_number(budget)} is beyond the {LARGEST_GAUSSIAN_EPSILON:,} that Gaussian "
                "noise is "
                "planned for; ask for a smaller one: usual choices lie between 0.1 and 10."
            )
        return budget, accounting.to_probability(delta)
    raise Error(f"noise is 'laplace' or 'gaussian', not {noise!r}.")


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
            "may fail "
            "altogether, for anyone. It should be far below one in the number of people, such as 1e-6 or less."
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


def check_scale(steps: Fraction | float, room: int = 1) -> None:
    """Refuse a scale of noise (in steps of the grid) that counts of 64 bits cannot take, or that is next to none."""
    if steps > LARGEST_SCALE * room:
        raise Error(
            f"this needs noise of scale {accounting.format_number(Fraction(steps))} steps, beyond the "
            f"{LARGEST_SCALE:.3g} that "
            "64-bit counts can take; ask for a larger epsilon or fewer cliques."
        )
    if steps < SMALLEST_SCALE / room:
        raise Error(
            f"this leaves noise of scale {accounting.format_number(Fraction(steps))} steps, which is none: nothing "
            "would be "
            "promised; ask for a smaller epsilon, such as 1."
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


def spread(cells: Iterable[int], noise: str) -> list[Fraction]:
    """Weights of tables by which the sum of their expected errors is least, from their sizes alone.

    The cells of a table of c cells are off by about c times the scale b of its noise, in all. Laplace noise costs the
    sum of 1/b, and the least error has 1/b grow as the square root of c; Gaussian noise costs the sum of 1/b^2, and
    1/b grows as the cube root. That is the error of the tables as they are. The default learner holds noise of large
    tables back by itself, and its models gained from such weights on some structures and lost on others
    (docs/results/synthesis.md), so they are no default.

    >>> [str(weight) for weight in spread([8, 64, 125], "gaussian")], [str(w) for w in spread([100, 9], "laplace")]
    (['2', '4', '5'], ['10', '3'])
    """
    power = 1 / 2 if noise == "laplace" else 1 / 3
    return [Fraction(round(100 * many**power), 100) for many in cells]


def relative_weights(statistics: Statistics, weights: Weights, noise: str) -> list[Fraction]:
    """The weight of each table and, last, of the total where one is counted: weight 2 gets half the noise of 1."""
    if isinstance(weights, str):
        if weights != "by_size":
            raise Error(f"weights are numbers by clique, or the word by_size, not {weights!r}.")
        return spread([*(prod(table.shape) for table in statistics.tables), *[1] * statistics.total], noise)
    weights = weights or {}
    given: dict[frozenset[str], Fraction] = {}
    for key, weight in weights.items():
        clique = (key,) if isinstance(key, str) else tuple(key)
        given[frozenset(clique)] = accounting.to_rational(weight, f"the weight of {clique}")
    found: set[frozenset[str]] = set()
    relative = []
    groups: list[Iterable[Clique]] = [table.cliques for table in statistics.tables]
    for group in [*groups, *([[TOTAL]] if statistics.total else [])]:
        keys = [frozenset(c) for c in group if frozenset(c) in given]
        if len({given[k] for k in keys}) > 1:
            raise Error(
                f"tied cliques are one table and have one weight; give it to {join_names([next(iter(group))])} alone."
            )
        found.update(keys)
        relative.append(given[keys[0]] if keys else Fraction(1))
    unknown = [tuple(sorted(k)) for k in given if k not in found]
    if unknown:
        raise Error(f"weights name {join_names(unknown)}, which is not released; name cliques of the structure.")
    return relative


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
    between the noisy shares as they are and the true ones. None where no number was guessed.
    """

    cliques: tuple[Clique, ...]
    cells: int
    noise: Noise
    margin: float
    share_std: float | None
    distance: float | None

    @property
    def std(self) -> float:
        return self.noise.std

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        return {
            "cliques": [list(clique) for clique in self.cliques],
            "cells": self.cells,
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
        behind = None if records is None else records * len(table.cliques)
        found.append(
            TableNoise(
                table.cliques,
                cells,
                noise,
                margin(noise),
                None if behind is None else noise.std / behind,
                None if behind is None else min(1.0, 0.5 * cells * mean_absolute(noise) / behind),
            )
        )
    return tuple(found)


def margin(noise: Noise, level: float = 0.95) -> float:
    """What the absolute value of the noise stays below with a probability of ``level`` (continuous noise)."""
    if isinstance(noise, Laplace):
        return -noise.scale * log(1 - level)
    return noise.scale * NormalDist().inv_cdf((1 + level) / 2)


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
