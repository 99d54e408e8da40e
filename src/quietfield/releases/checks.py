"""Checks on a release: does its noise keep its promise? Plain Python, without OpenDP."""

from fractions import Fraction
from typing import TYPE_CHECKING

from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.privacy import accounting, units
from quietfield.text import join_names, plural

if TYPE_CHECKING:
    from quietfield.releases.release import Release


def check_promise(release: "Release") -> tuple[str, ...]:
    """Recompute sensitivity and promise from structure, unit, neighbours and noise: findings in words, or an error."""
    promise, total = release.promise, release.total_part
    if promise is None:
        raise Error("there is no promise to check: these tables were noised elsewhere.")
    noisy = [(part.noise, part.l1, part.l2_squared) for part in release.parts]
    if total is not None and total.noise is not None:
        noisy.append((total.noise, total.l1, None if total.l1 is None else total.l1**2))
    elif total is not None and promise.neighbours == "add_remove":
        raise FileError("the promise does not hold: an exact total is published, which add_remove neighbours forbid.")
    check_sensitivity(release)
    noisy += [(one.noise, one.l1, one.l2_squared) for one in release.replaced]
    noises = [noise for noise, _, _ in noisy]
    l1s = [l1 for _, l1, _ in noisy if l1 is not None]
    l2s = [l2 for _, _, l2 in noisy if l2 is not None]
    if len(l1s) < len(noisy) or len(l2s) < len(noisy):
        raise FileError("the promise cannot be checked: a table or the total has no sensitivity.")
    if any(noise.step != Fraction(1, release.denominator) for noise in noises):
        raise FileError("the promise does not hold: its noise is not on the grid of its tables.")
    kinds, scales = {noise.kind for noise in noises}, [noise.exact for noise in noises]
    # Tables that were measured one after the other are paid for one by one: no bound on all together holds.
    found = release.discovery
    before, taken = (Fraction(0), Fraction(0)) if found is None else (found.cost, found.threshold or Fraction(0))
    steps = bool(release.selections or release.replaced)
    l1 = sum(l1s, Fraction(0)) if steps else promise.l1
    l2_squared = sum(l2s, Fraction(0)) if steps else promise.l2_squared
    if kinds == {"laplace"} and promise.delta is None:
        if taken:
            raise FileError("the promise does not hold: thresholds spend a delta, and none is promised.")
        spent = accounting.laplace_epsilon(l1s, l1, scales) + selections_cost(release, "laplace") + before
    elif kinds == {"gaussian"} and promise.delta is not None:
        rho = accounting.gaussian_rho(l2s, l2_squared, scales) + selections_cost(release, "gaussian") + before
        if taken >= promise.delta:
            raise FileError("the promise does not hold: thresholds spend all of its delta.")
        if promise.rho is None or rho > promise.rho:
            raise FileError("the promise does not hold: the noise costs more rho than the manifest says.")
        spent = accounting.zcdp_epsilon(rho, promise.delta - taken)
    else:
        raise FileError("the promise does not hold: pure epsilon needs Laplace noise, and delta Gaussian.")
    if spent > promise.epsilon:
        raise FileError(
            f"the promise does not hold: the noise costs epsilon {accounting.format_number(spent, 17)}, "
            f"and {accounting.format_number(promise.epsilon, 17)} is promised."
        )
    chosen = [f"{plural(len(release.selections), 'choice')} of tables included"] if release.selections else []
    chosen += [f"{plural(len(release.replaced), 'noisier measurement')} included"] if release.replaced else []
    chosen += ["the discovery of the schema included"] if found is not None else []
    at = "" if promise.delta is None else f" at delta {accounting.format_number(promise.delta, 10)}"
    promised = accounting.format_number(promise.epsilon, 10)
    return (
        f"the noise costs epsilon {accounting.format_number(spent, 10)}{at}, and {promised} is promised",
        f"the L1 sensitivity is {accounting.format_number(promise.l1)}, the squared L2 sensitivity "
        f"{accounting.format_number(promise.l2_squared)}",
        "the sensitivity stated is that of the unit, the structure and the neighbours",
        *chosen,
    )


def selections_cost(release: "Release", kind: str) -> Fraction:
    """What the choices of a release cost: epsilon with Laplace noise, rho with Gaussian; exact, or rounded up."""
    cost = Fraction(0)
    for one in release.selections:
        more = accounting.selection_cost(kind, one.sensitivity, one.scale)
        cost = accounting.round_up(cost + more, accounting.EXACT_BITS)
    return cost


def check_sensitivity(release: "Release") -> None:
    """Refuse a release that states another sensitivity than follows from unit, structure and neighbours."""
    promise, total = release.promise, release.total_part
    assert promise is not None
    noisy = total is not None and total.noise is not None
    unit = units.unit_from_json(promise.unit)
    found = units.statistics(release.structure, release.domain, unit, promise.neighbours, noisy)  # type: ignore[arg-type]
    stated = [(part.l1, part.l2_squared, part.excluded) for part in release.parts]
    moves = {table.clique: table for table in found.tables}
    holds = (
        stated == [(table.l1, table.l2_squared, table.excluded) for table in found.tables]
        and (promise.l1, promise.l2_squared) == (found.l1, found.l2_squared)
        and release.denominator == found.denominator
        and noisy == found.total
        and (not noisy or (total is not None and total.l1 == found.total_l1))
        and (total is None or noisy or found.known_total)
        and promise.protects in (unit.describe(), unit.describe(lines=True))
        and all(one.sensitivity >= moves[one.chosen].l1 for one in release.selections)
        and all(
            (one.l1, one.l2_squared) == (moves[one.clique].l1, moves[one.clique].l2_squared) for one in release.replaced
        )
    )
    if not holds:
        raise FileError("the promise does not hold: the sensitivity stated is not that of this unit and structure.")


def check_same(one: Domain, other: Domain, which: str, more: bool = False) -> None:
    """Refuse two things of different attributes or labels; with ``more``, the other may have further attributes.

    >>> check_same(Domain({"a": 2}), Domain({"a": 3}), "the release and the model")
    Traceback (most recent call last):
    quietfield.errors.Error: the release and the model differ in 'a': both need the same attributes, ...
    """
    mine, theirs = ({name: domain.labels(name) for name in domain} for domain in (one, other))
    differing = [name for name in (mine if more else {**mine, **theirs}) if mine.get(name) != theirs.get(name)]
    if differing:
        raise Error(
            f"{which} differ in {join_names(differing)}: both need the same attributes, with the same labels in the "
            "same order; give two that belong together."
        )
