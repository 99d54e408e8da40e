"""What is counted, and what noise may be asked for: budgets, weights and scales, checked.

The mechanism looks for the smallest scale.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import prod
from typing import Any, Literal

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.units import Neighbours, Statistics, Unit, sensitivities, statistics
from quietfield.text import join_names

#: The name of the total among weights: it is the table over no attributes.
TOTAL: Clique = ()
#: Numbers by clique, weights by size (see :func:`weigh_by_size`), or equal ones, as None is where noise is planned.
Weights = Mapping[Any, accounting.Number] | Literal["by_size", "equal"] | None
#: The largest epsilon of Gaussian noise: beyond it, the conversion from zCDP leaves the floats behind.
LARGEST_GAUSSIAN_EPSILON = 10_000
#: Above this (2**53 steps) a float scale no longer resolves one step, and counts come near the end of 64 bits.
LARGEST_SCALE = 2.0**53
#: Below this no cell would ever change: the chance is e^-1,000,000,000.
SMALLEST_SCALE = 1e-9


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
                "noise is planned for; ask for a smaller one: usual choices lie between 0.1 and 10."
            )
        return budget, accounting.to_probability(delta)
    raise Error(f"noise is 'laplace' or 'gaussian', not {noise!r}.")


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
            "would be promised; ask for a smaller epsilon, such as 1."
        )


def weigh_by_size(cells: Iterable[int], noise: str) -> list[Fraction]:
    """Weights of tables by which the sum of their expected errors is least, from their sizes alone.

    The cells of a table of c cells are off by about c times the scale b of its noise, in all. Laplace noise costs the
    sum of 1/b, and the least error has 1/b grow as the square root of c; Gaussian noise costs the sum of 1/b^2, and
    1/b grows as the cube root. That is the error of the tables as they are. The default learner holds noise of large
    tables back by itself, and its models gained from such weights on some structures and lost on others
    (docs/results/synthesis.md), so they are no default for tables that are given.

    >>> [str(weight) for weight in weigh_by_size([8, 64, 125], "gaussian")]
    ['2', '4', '5']
    >>> [str(weight) for weight in weigh_by_size([100, 9], "laplace")]
    ['10', '3']
    """
    power = 1 / 2 if noise == "laplace" else 1 / 3
    return [Fraction(round(100 * many**power), 100) for many in cells]


def relative_weights(statistics: Statistics, weights: Weights, noise: str) -> list[Fraction]:
    """The weight of each table and, last, of the total where one is counted: weight 2 gets half the noise of 1."""
    if isinstance(weights, str) and weights != "equal":
        if weights != "by_size":
            raise Error(f"weights are numbers by clique, or one of the words equal and by_size, not {weights!r}.")
        return weigh_by_size([*(prod(table.shape) for table in statistics.tables), *[1] * statistics.total], noise)
    weights = {} if weights is None or weights == "equal" else weights
    weight_of: dict[frozenset[str], Fraction] = {}
    for key, weight in weights.items():
        clique = (key,) if isinstance(key, str) else tuple(key)
        weight_of[frozenset(clique)] = accounting.to_rational(weight, f"the weight of {clique}")
    used: set[frozenset[str]] = set()
    relative = []
    groups: list[Iterable[Clique]] = [table.cliques for table in statistics.tables]
    for group in [*groups, *([[TOTAL]] if statistics.total else [])]:
        keys = [frozenset(c) for c in group if frozenset(c) in weight_of]
        if len({weight_of[k] for k in keys}) > 1:
            raise Error(
                f"tied cliques are one table and have one weight; give it to {join_names([next(iter(group))])} alone."
            )
        used.update(keys)
        relative.append(weight_of[keys[0]] if keys else Fraction(1))
    unknown = [tuple(sorted(k)) for k in weight_of if k not in used]
    if unknown:
        raise Error(f"weights name {join_names(unknown)}, which is not released; name cliques of the structure.")
    return relative


def choose_statistics(
    structure: Structure,
    domain: Domain,
    unit: Unit,
    neighbours: Neighbours,
    total: Literal["auto"] | bool,
    noise: str,
    weights: Weights = None,
) -> tuple[Statistics, str]:
    """What is counted, and why (or why not) a total; ``"auto"`` counts one where the tables do not tell it.

    A table's sum tells N as well, though with more noise than a total of its own would have; and models learned from
    tables alone were as good or better in all settings that were tried (by 2% to 40% in KL, the fewer tables the more):
    an error of N is one number, the noise is in all cells. So one is released only where no table tells N. Tables of
    1/K weighted edges do not: they do not sum to a multiple of it.
    """
    if total != "auto" and not isinstance(total, bool):
        raise Error(f"total is 'auto', True or False, not {total!r}.")
    counted = statistics(structure, domain, unit, neighbours, total is not False)
    if counted.known_total:
        return counted, "public, by the choice of neighbours"
    if total != "auto":
        return counted, "released, as asked" if counted.total else "left out, as asked"
    without = statistics(structure, domain, unit, neighbours, False)
    tables = without.tables
    if not any(not t.interaction and (without.denominator == 1 or len(t.cliques[0]) == 1) for t in tables):
        return counted, "released, since no table's sum tells it"
    price = f"would raise every table's noise by {_growth(counted, without, weights, noise):.1%}"
    return without, f"left out, since the tables' sums tell it and one of its own {price}"


def _growth(counted: Statistics, without: Statistics, weights: Weights, noise: str) -> float:
    """By which part the noise of all tables grows with a total beside them, at the same promise and weights."""
    inverse = [1 / weight for weight in relative_weights(counted, weights, noise)]
    costs: list[float] = []
    for one in (counted, without):
        l1s, l2s = sensitivities(one)
        scales = inverse[: len(l1s)]
        if noise == "gaussian":
            costs.append(float(accounting.gaussian_rho(l2s, one.l2_squared, scales)) ** 0.5)
        else:
            costs.append(float(accounting.laplace_epsilon(l1s, one.l1, scales)))
    return float(costs[0] / costs[1] - 1)
