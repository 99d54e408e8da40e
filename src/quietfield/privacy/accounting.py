"""The arithmetic of promises, exact or rounded outward, in plain Python: whoever can read a release can check it.

Glossary: ``l1`` and ``l2_squared`` are sensitivities (how far all tables together can move when one unit comes or
goes), ``rho`` is the parameter of zero-concentrated differential privacy (zCDP).
"""

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache
from math import sqrt

from quietfield.errors import Error, FileError
from quietfield.files import MOST_DIGITS

Number = int | float | str | Decimal | Fraction

#: Results are rounded outward to this many digits after a computation with twenty more.
DIGITS = 40
#: No number that a person writes is larger, or has a larger denominator; squares of it still fit into a file.
LARGEST = 10**400
#: How files hold rationals. Anything looser (exponents) lets a short text ask for a huge number.
_WRITTEN = re.compile(rf"[0-9]{{1,{MOST_DIGITS}}}(/[1-9][0-9]{{0,{MOST_DIGITS - 1}}})?")
_UNWRITTEN = 10**MOST_DIGITS
#: Sums are exact up to denominators of this many bits, beyond any that a file holds. Longer ones are rounded up:
#: hundreds of scales have no short common denominator, and arithmetic on it is slow and cannot be printed.
EXACT_BITS = 4096


def to_rational(value: Number, what: str) -> Fraction:
    """A positive number as the exact rational that was written: 0.1 means 1/10, not its nearest binary fraction.

    >>> to_rational(0.1, "epsilon")
    Fraction(1, 10)
    """
    if isinstance(value, bool) or value is None or (isinstance(value, str) and "_" in value):
        raise Error(f"{what} must be a positive number, not {value!r}.")
    try:
        if not isinstance(value, int | str | Fraction | Decimal):
            value = repr(float(value))  # the shortest decimal that gives this float, which is what a person typed
        if isinstance(value, str | Decimal) and not isinstance(value, Fraction):
            if "/" not in str(value):
                _check_size(Decimal(value), value, what)
        result = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, InvalidOperation):
        raise Error(
            f"{what} must be a positive finite number, not {str(value)[:60]!r}; write for instance 0.5."
        ) from None
    if result <= 0:
        raise Error(f"{what} must be greater than 0, not {str(value)[:60]}.")
    if max(result.numerator, result.denominator) > LARGEST:
        raise Error(f"{what} is too large, too small or written with too many digits.")
    return result


def _check_size(number: Decimal, value: Number, what: str) -> None:
    """Refuse a number that is none, or whose exact rational would be huge, before it is computed."""
    beyond = number.is_finite() and abs(number.adjusted()) > 300
    if beyond and number > 0:
        raise Error(
            f"{what} is too {'large' if number > 1 else 'small'}: {str(value)[:60]}; expected a number from 1e-300 to "
            "1e300."
        )
    if beyond or not number.is_finite():
        raise ValueError


def parse_rational(text: object, what: str) -> Fraction:
    """A rational from a file: digits, or p/q in lowest terms, and no other spelling.

    >>> parse_rational("45/2", "the scale")
    Fraction(45, 2)
    """
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text) or str(result := Fraction(text)) != text:
        raise FileError(f"{what} is written as digits or as p/q in lowest terms, not as {text!r:.60}.")
    return result


def write_rational(value: Fraction, what: str) -> str:
    """The text that :func:`written` reads; refused if it has more digits than a file takes.

    >>> write_rational(Fraction(45, 2), "the scale")
    '45/2'
    """
    if value.numerator >= _UNWRITTEN or value.denominator >= _UNWRITTEN:
        raise Error(
            f"{what} has a numerator or denominator of more than {MOST_DIGITS} digits, which no file takes; round it."
        )
    return str(value)


def to_probability(value: Number, what: str = "delta") -> Fraction:
    """A number strictly between 0 and 1, exactly."""
    result = to_rational(value, what)
    if result >= 1:
        raise Error(f"{what} must lie between 0 and 1, not at {str(value)[:60]}; 1e-6 is a usual choice.")
    return result


def format_number(value: Fraction | None, digits: int = 6) -> str:
    """A rational for people: short, and exact where a short decimal is."""
    if value is None:
        return "none"
    small = -1000 < value.numerator.bit_length() - value.denominator.bit_length() < 1000  # within a float's reach
    return f"{float(value):.{digits}g}" if small else f"{to_decimal(value):.{digits - 1}e}"


def exp_above(value: Fraction) -> Fraction:
    """e^value, rounded up."""
    with localcontext(Context(prec=DIGITS + 20)):
        return _outward(to_decimal(value).exp().next_plus(), ROUND_CEILING)


def worst_case(
    parts: Sequence[Fraction], whole: Fraction, prices: Sequence[Fraction]
) -> tuple[Fraction, list[Fraction]]:
    """The most that one unit can cost: max of sum x_i p_i over 0 <= x_i <= part_i, sum x_i <= whole, and its x.

    ``parts`` bound how far each table moves, ``whole`` how far all move together; a price is the cost of moving a
    table by one (1/scale for Laplace noise). The optimum fills the dearest tables first. The cost is exact, or rounded
    up where its denominator would be very long.

    >>> worst_case([Fraction(1), Fraction(1)], Fraction(1), [Fraction(1, 2), Fraction(1, 3)])[0]
    Fraction(1, 2)
    """
    left, cost, moves = whole, Fraction(0), [Fraction(0)] * len(parts)
    for i in sorted(range(len(parts)), key=lambda i: prices[i], reverse=True):
        moves[i] = min(parts[i], left)
        left -= moves[i]
        cost = round_up(cost + moves[i] * prices[i], EXACT_BITS)
    return cost, moves


def laplace_epsilon(l1s: Sequence[Fraction], l1: Fraction, scales: Sequence[Fraction]) -> Fraction:
    """The pure epsilon of Laplace noise with these scales: exact, or rounded up as :func:`worst_case` does."""
    return worst_case(l1s, l1, [1 / scale for scale in scales])[0]


def gaussian_rho(l2_squares: Sequence[Fraction], l2_squared: Fraction, scales: Sequence[Fraction]) -> Fraction:
    """The zCDP rho of Gaussian noise with these scales: sum of x_i^2 / (2 scale_i^2) at its worst, exact or larger."""
    return worst_case(l2_squares, l2_squared, [1 / (2 * scale * scale) for scale in scales])[0]


def selection_cost(kind: str, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """What one noisy maximum costs when each score moves by at most ``sensitivity``.

    With Gumbel noise (``kind`` is ``"gaussian"``: within zCDP) it is the exponential mechanism, whose losses span at
    most 2 sensitivity / scale: rho is an eighth of that squared (Cesar and Rogers 2021). With exponential noise
    (``"laplace"``: pure) it is permute-and-flip, and epsilon is 2 sensitivity / scale (McKenna and Sheldon 2020).

    >>> selection_cost("gaussian", Fraction(1), Fraction(10)), selection_cost("laplace", Fraction(1), Fraction(10))
    (Fraction(1, 200), Fraction(1, 5))
    """
    loss = 2 * sensitivity / scale
    return loss * loss / 8 if kind == "gaussian" else loss


@lru_cache(maxsize=256)  # a page or a report asks for the same again and again
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon of (epsilon, delta)-DP that rho-zCDP implies, rounded up.

    Canonne, Kamath and Steinke (2020): epsilon = min over alpha > 1 of
    alpha rho + (ln(1/delta) + (alpha - 1) ln(1 - 1/alpha) - ln(alpha)) / (alpha - 1).
    """
    with localcontext(Context(prec=DIGITS + 20)):
        r, log = to_decimal(rho), -to_decimal(delta).ln()
        best = -_maximum(lambda alpha: -(alpha * r + _slack(alpha, log)), _guess(float(rho), float(log)))
    return max(Fraction(0), _outward(best, ROUND_CEILING))


@lru_cache(maxsize=256)
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho whose zCDP implies (epsilon, delta)-DP, rounded down: the inverse of :func:`zcdp_epsilon`."""
    with localcontext(Context(prec=DIGITS + 20)):
        e, log = to_decimal(epsilon), -to_decimal(delta).ln()
        rho = float(epsilon) / (4 * (float(log) / float(epsilon) + 1))
        best = _maximum(lambda alpha: (e - _slack(alpha, log)) / alpha, _guess(rho, float(log)))
    # A hair less, so that converting back, which rounds up, never exceeds epsilon.
    result = _outward(best, ROUND_FLOOR) * (1 - Fraction(1, 10 ** (DIGITS - 10)))
    if result <= 0:
        raise _no_rho(epsilon, delta)
    return result


def payable_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """:func:`zcdp_rho`, rounded down to 25 decimal places: a ledger rounds what it is charged up to 30.

    >>> payable_rho(Fraction(1), Fraction(1, 10**6)) <= zcdp_rho(Fraction(1), Fraction(1, 10**6))
    True
    """
    result = Fraction(int(zcdp_rho(epsilon, delta) * 10**25), 10**25)
    if not result:
        raise _no_rho(epsilon, delta)
    return result


def _no_rho(epsilon: Fraction, delta: Fraction) -> Error:
    return Error(
        f"no zCDP budget gives epsilon {format_number(epsilon)} at delta {format_number(delta)}; ask for a larger "
        "epsilon."
    )


def _slack(alpha: Decimal, log: Decimal) -> Decimal:
    return (log + (alpha - 1) * (1 - 1 / alpha).ln() - alpha.ln()) / (alpha - 1)


def _guess(rho: float, log: float) -> float:
    return max(sqrt(log / max(rho, 1e-300)), 1e-6)  # alpha - 1 near the optimum of alpha rho + log / (alpha - 1)


def _maximum(value: Callable[[Decimal], Decimal], guess: float) -> Decimal:
    """The largest value over alpha > 1, by golden section. Any alpha is valid: a miss costs sharpness, not safety."""
    golden = (Decimal(5).sqrt() - 1) / 2
    low, high = Decimal(guess) / 10**4, Decimal(guess) * 10**4  # alpha - 1, searched on a logarithmic scale
    a, b = low.ln(), high.ln()
    x, y = b - golden * (b - a), a + golden * (b - a)
    at_x, at_y = value(1 + x.exp()), value(1 + y.exp())
    best = max(at_x, at_y)
    for _ in range(110):
        if at_x > at_y:
            b, y, at_y = y, x, at_x
            x = b - golden * (b - a)
            at_x = value(1 + x.exp())
        else:
            a, x, at_x = x, y, at_y
            y = a + golden * (b - a)
            at_y = value(1 + y.exp())
        best = max(best, at_x, at_y)
    return best


def to_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _outward(value: Decimal, rounding: str) -> Fraction:
    return Fraction(value.normalize(Context(prec=DIGITS, rounding=rounding)))


def round_up_decimal(value: Fraction) -> Fraction:
    """A rational rounded up to 30 decimal places, so that sums of many keep short denominators."""
    unit = 10**30
    return Fraction(-((-value.numerator * unit) // value.denominator), unit)


def round_up(value: Fraction, bits: int) -> Fraction:
    """A positive rational as it is if its denominator has at most so many bits, and else rounded up to fewer bits.

    At least ``bits // 4`` significant bits are kept, so that what is added is below 2^-(bits // 4) of the value.

    >>> round_up(Fraction(1, 3), 256), float(round_up(Fraction(1, 3), 1))
    (Fraction(1, 3), 0.5)
    """
    if value.denominator.bit_length() <= bits:
        return value
    shift = bits // 4 + 1 + value.denominator.bit_length() - value.numerator.bit_length()
    scaled = (
        -((-value.numerator << shift) // value.denominator) if shift > 0 else -(-value.numerator // value.denominator)
    )
    return Fraction(scaled, 1 << max(shift, 0))
