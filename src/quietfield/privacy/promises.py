"""What a promise of privacy means, in sentences: the one place that turns its numbers into words.

Reports, statements on privacy, ledgers and warnings all quote from here, so that none says more than is proved. What
epsilon bounds depends on the neighbours in force. Between data with and without one unit (``add_remove``), presence is
one step away and another *value* two: one unit leaves, another comes. Where one unit is exchanged for another
(``replace``), a value is one step away. Numbers are rounded up: a bound that is shown is a bound.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, localcontext
from fractions import Fraction
from typing import Any

from quietfield.privacy import accounting
from quietfield.text import plural

#: Above this epsilon the promise is so weak that a person is told so.
HUGE_EPSILON = 20
#: Which data sets are neighbours, for people; "one of them" is the unit, which is named beside it.
NEIGHBOURS = {
    "add_remove": "data with and without one of them: not even their number is known exactly",
    "replace": "data in which one of them is exchanged for another: how many there are is public",
    "paper": "data with and without one of them, although the exact total is published, which tells them apart",
}
#: Beyond this exponent a sum of powers of e is not worked out, and a delta that it multiplies is taken as 1.
LARGEST_EXPONENT = 1000
NO_PROMISE = (
    "No promise is made, whatever epsilon is: the exact number of records is published, and to someone who knows all "
    "other records it tells for certain whether one of them is in the data."
)


def describe_promise(
    epsilon: Fraction, delta: Fraction | None, rho: Fraction | None, neighbours: str, what: str = "this release"
) -> str:
    """Say what anyone can learn about one unit, for the neighbours in force.

    Args:
        epsilon: The epsilon that is promised.
        delta: Its delta, or None if the promise is pure.
        rho: The zCDP parameter behind epsilon and delta, where it is known: it gives sharper bounds for two steps.
        neighbours: ``add_remove``, ``replace`` or ``paper``.
        what: What is seen, as the subject of a sentence.

    Returns:
        Sentences in which "one of them" is the unit: name it beside them.

    >>> describe_promise(Fraction(1), None, None, "add_remove").split(" and ")[1].split(". ")[0]
    'the odds between any two possible values of one of them by at most a factor of 7.39'
    """
    if neighbours == "paper":
        return NO_PROMISE
    (one, plus_one), (two, plus_two) = (group_loss(k, epsilon, delta, rho) for k in (1, 2))
    public = " How many of them there are is public." if neighbours == "replace" else ""
    if plus_one is None or plus_two is None:
        said = f"To someone who knows all other records, seeing {what} changes the odds"
        if neighbours == "replace":
            said += (
                " between any two possible values of one of them, or between one of them and anybody else in their "
                f"place, by at most {_describe_change(one)}."
            )
        else:
            said += (
                f" that one of them is in the data by at most {_describe_change(one)}, and the odds between any two "
                f"possible values of one of them by at most {_describe_change(two)}."
            )
    else:
        said = f"Whatever anyone concludes from {what}, its probability"
        if neighbours == "replace":
            said += (
                f" with one value of one of them is at most {_describe_power(one)} times that with another, or with "
                f"anybody else in their place, plus {format_above(plus_one)}."
            )
        else:
            said += (
                f" with one of them in the data is at most {_describe_power(one)} times that without them plus "
                f"{format_above(plus_one)}, and the other way round; and with one value of one of them it is at most "
                f"{_describe_power(two)} times that with another plus {format_above(plus_two)}."
            )
    return f"{said}{public} What is learned about people in general concerns everyone, in the data or not."


def describe_groups(
    unit: Mapping[str, Any], epsilon: Fraction, delta: Fraction | None, rho: Fraction | None, neighbours: str
) -> str:
    """Say what a promise for one unit means for whoever has several of them.

    Args:
        unit: The unit, as its ``to_json`` writes it.
        epsilon: The epsilon that is promised for one unit.
        delta: Its delta, or None if the promise is pure.
        rho: The zCDP parameter behind epsilon and delta, where it is known.
        neighbours: ``add_remove``, ``replace`` or ``paper``.

    Returns:
        What the unit is, and the epsilon of an example where there is one.

    >>> describe_groups({"kind": "rows", "rows": 1}, Fraction(4), None, None, "add_remove")
    'The unit is 1 row. Whoever has more is protected less: with 21 rows, up to epsilon 84 in place of 4.'
    """
    column, rows = unit.get("column"), unit.get("rows", 1)
    if isinstance(column, list) and len(column) > 1:
        what = f"one combination of {' and '.join(repr(name) for name in column)}"
        count, who, example = 21, "has several of them", "with 21 of them, "
    elif column is not None:
        what, count, who, example = f"one value of {column!r}", 2, "appears under two values", ""
    else:
        what, count, who, example = plural(rows, "row"), 21, "has more", f"with {21 * rows:,} rows, "
    if neighbours == "paper":
        return f"The unit is {what}."
    loss, at = group_loss(count, epsilon, delta, rho)
    if at is not None and at >= 1:
        return f"The unit is {what}. Whoever {who} is protected less: {example}no bound follows from this promise."
    where = "" if at is None else f" at delta {format_above(at)}"
    return (
        f"The unit is {what}. Whoever {who} is protected less: {example}up to epsilon {format_above(loss)}"
        f"{where} in place of {accounting.format_number(epsilon)}."
    )


def group_loss(
    units: int, epsilon: Fraction, delta: Fraction | None, rho: Fraction | None
) -> tuple[Fraction, Fraction | None]:
    """The epsilon and delta of data sets that are some steps apart, where those one step apart have these.

    Pure epsilons add up. In zCDP, k steps cost k^2 rho (Bun and Steinke 2016, proposition 1.9), which gives an epsilon
    at the same delta. Without a rho, delta becomes delta (1 + e^epsilon + ... + e^((k-1) epsilon)).

    Args:
        units: How many steps: how many units come or go.
        epsilon: The epsilon of one step.
        delta: The delta of one step, or None if it is pure.
        rho: The zCDP parameter of one step, where it is known.

    Returns:
        Epsilon and delta, rounded up; delta is None if it was.

    >>> group_loss(21, Fraction(4), None, None)
    (Fraction(84, 1), None)
    >>> found, _ = group_loss(2, Fraction(1), Fraction(1, 10**6), accounting.zcdp_rho(Fraction(1), Fraction(1, 10**6)))
    >>> 2 < found < 3
    True
    """
    if units == 1 or delta is None:
        return units * epsilon, delta
    if rho is not None:
        return accounting.zcdp_epsilon(units * units * rho, delta), delta
    if units * epsilon > LARGEST_EXPONENT:
        return units * epsilon, Fraction(1)
    steps = sum((accounting.exp_above(i * epsilon) for i in range(units)), Fraction(0))
    return units * epsilon, min(Fraction(1), delta * steps)


def format_above(value: Fraction, digits: int = 6) -> str:
    """A bound for people: a short decimal that is never below the value.

    >>> format_above(Fraction("869.4872")), format_above(Fraction(1, 3), 2), format_above(Fraction(84))
    ('869.488', '0.34', '84')
    """
    with localcontext(Context(prec=digits, rounding=ROUND_CEILING)):
        return accounting.format_number(Fraction(accounting.to_decimal(value)), digits)


def _describe_change(epsilon: Fraction) -> str:
    """e^epsilon as a change of odds, rounded up."""
    if epsilon <= HUGE_EPSILON and (factor := accounting.exp_above(epsilon)) < Fraction("1.095"):
        return f"{format_above(100 * (factor - 1), 2)}%"
    return f"a factor of {_describe_power(epsilon)}"


def _describe_power(epsilon: Fraction) -> str:
    """e^epsilon as a number, rounded up."""
    if epsilon > HUGE_EPSILON:
        return f"e^{format_above(epsilon)} (which promises hardly anything)"
    found = float(format_above(accounting.exp_above(epsilon), 3))
    return f"{found:,.0f}" if found >= 1000 else f"{found:.3g}"
