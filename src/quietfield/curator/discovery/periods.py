"""Periods for dates that nobody has named, from noisy counts alone: the tree of ``tree.py``, cut by the calendar.

Nothing here sees a record.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise
from math import inf

from quietfield.curator.discovery.partitions import LEAST_CELL, find_end, reach_on
from quietfield.curator.discovery.tree import NEAR, NEXT, End, Interval, Leaf, stand_out
from quietfield.schema import Dates
from quietfield.schema.rules import Period

#: The most periods that dates are cut into, if a period is not a year.
PERIODS = 36
#: Dates that are further apart from all others, in days, are no part of the range: they stand for something else.
GAP = 20 * 366
#: Years of which the range is a smaller part are cut into months.
FILLED = 0.8
DECADE = 3653  # days, at most
EPOCH = date(1970, 1, 1)


def date_roots(since: int | None = None) -> list[Interval]:
    """The centuries, in days since 1970; or, of the hundred years since a year, the decades.

    >>> [(_date(low).year, _date(high).year) for low, high in date_roots(1969)][:2]
    [(1969, 1970), (1970, 1980)]
    """
    if since is not None:
        decades = range(since // 10 * 10 + 10, since + 100, 10)
        return list(pairwise([_day(year, 1) for year in (since, *decades, since + 100)]))
    return list(pairwise([_day(year, 1) for year in (1, *range(100, 10_000, 100))] + [_last_day()]))


def split_date(leaf: Leaf) -> list[Interval]:
    """A century cut into decades, a decade into years, a year into months, a month into days."""
    first, days = _date(leaf.low), leaf.high - leaf.low
    if days == 1:
        return []
    if days <= 31:
        return list(pairwise([leaf.low + i for i in range(int(days) + 1)]))
    if days <= 366:
        points = [_day(first.year, month) for month in range(1, 13)]
    else:
        step = 1 if days < 4000 else 10
        last = _date(leaf.high - 1).year
        points = [_day(max(year, 1), 1) for year in range(first.year // step * step, last + 1, step)]
    return list(pairwise([*points, leaf.high]))


def date_rule(leaves: Sequence[Leaf], std: float, evident: float) -> Dates | None:
    """The rule of dates: the shortest period of which a few dozen cover the range; None where there is no range.

    Dates that lie far from all others (9999-12-31, say) are none of the range.
    """
    groups: list[list[Leaf]] = []
    least = stand_out(std, evident)
    standing, decades = _evident(leaves, 366, least), _evident(leaves, DECADE, least)
    # Where hardly any single year stands out from the noise, as with dates of birth of few people, decades may.
    if 2 * sum(leaf.count for leaf in standing) < sum(leaf.count for leaf in decades):
        standing = decades
    for leaf in standing:
        if not groups or leaf.low - groups[-1][-1].high > GAP:
            groups.append([])
        groups[-1].append(leaf)
    if not groups:
        return None
    group = max(groups, key=lambda found: sum(leaf.count for leaf in found))
    # Years next to these that hold something together, as far as this is likely to be more than noise.
    years = [replace(leaf, std=std) for leaf in _evident(leaves, 366, -inf)]
    before = [leaf for leaf in reversed(years) if leaf.high <= group[0].low]
    after = [leaf for leaf in years if leaf.low >= group[-1].high]
    span = group[-1].high - group[0].low
    group = [*before[: reach_on(before, group[0].low, span)][::-1], *group]
    group += after[: reach_on(after, group[-1].high, span)]
    first, last = group[0], group[-1]
    for days in (31, 1):  # from years to months to days, as far as these can be told apart
        first = _find_outermost(_evident(_within(leaves, first), days, -inf), first, std, least)
        last = _find_outermost(_evident(_within(leaves, last), days, -inf)[::-1], last, std, least)
    low, high = _date(first.low), _date(min(last.high, _day(9999, 1)))
    total = sum(leaf.count for leaf in group)
    days = (high - low).days
    months = (high.year - low.year) * 12 + high.month - low.month + (high.day > 1)
    lengths: dict[Period, int] = {"day": days, "week": -(-days // 7), "month": months}
    whole_years = date(high.year + ((high.month, high.day) > (1, 1)), 1, 1) - date(low.year, 1, 1)
    # Years are drawn from evenly, also where there are no dates: months may rather hold little.
    least_month = NEXT if days < FILLED * whole_years.days else LEAST_CELL
    needed = {"day": LEAST_CELL, "week": LEAST_CELL, "month": least_month}
    fitting = [p for p, many in lengths.items() if 1 <= many <= PERIODS and total / many >= needed[p] * std]
    period: Period = fitting[0] if fitting else "year"
    if period in ("day", "week"):
        start, end = low, low + timedelta(days=lengths[period] * (7 if period == "week" else 1))
    elif period == "month":
        start = low.replace(day=1)
        end = high if high.day == 1 else date(high.year + high.month // 12, high.month % 12 + 1, 1)
    else:
        start = date(low.year, 1, 1)
        end = high if (high.month, high.day) == (1, 1) else date(high.year + 1, 1, 1)
    return Dates(period, str(start), str(end)) if start < end else None


def count_covered(leaves: Sequence[Leaf], rule: Dates) -> float:
    """How many dates a rule covers, by the noisy counts that it was made from."""
    start, end = ((date.fromisoformat(text) - EPOCH).days for text in (rule.start, rule.end))
    return sum(leaf.count for leaf in leaves if start <= leaf.low < end)


def _find_outermost(parts: Sequence[Leaf], whole: Leaf, std: float, least: float) -> Leaf:
    """The part of an interval where dates begin, seen from one side; the whole where noise hides which one it is.

    Parts of which none stands out may do so together; those next to them belong to it as far as :func:`reach_on` says.
    """
    parts = [*(replace(part, std=std) for part in parts), replace(whole, count=inf)]
    found = find_end(parts, least / std)
    end = parts[found].low if whole.low == parts[0].low else parts[found].high
    # Where months can be told apart, those that hold nothing can be told, too.
    likely = NEAR if parts[found].width <= 31 else NEXT
    return parts[found - reach_on(parts[:found][::-1], end, whole.width, likely)]


def _evident(leaves: Sequence[Leaf], days: int, least: float) -> list[Leaf]:
    """The decades, years (of up to 366 days), months (31) or days (1) that hold something; longer leaves as they are.

    Leaves add up to what was measured of what they are parts of, so sums of them are no noisier than that.
    """
    found: dict[date, Leaf] = {}
    for leaf in leaves:
        first = _date(leaf.low)
        key = first if leaf.high - leaf.low > days or days == 1 else first.replace(day=1)
        if leaf.high - leaf.low <= days and days >= 366:
            key = key.replace(year=key.year if days == 366 else max(key.year // 10 * 10, 1), month=1)
        one = found.get(key, Leaf(leaf.low, leaf.high, 0.0))
        found[key] = Leaf(one.low, leaf.high, one.count + leaf.count)
    return [leaf for leaf in found.values() if leaf.count >= least]


def _within(leaves: Sequence[Leaf], outer: Leaf) -> list[Leaf]:
    """The leaves in an interval."""
    return [leaf for leaf in leaves if outer.low <= leaf.low and leaf.high <= outer.high]


def _day(year: int, month: int) -> Fraction:
    return Fraction((date(year, month, 1) - EPOCH).days)


def _last_day() -> Fraction:
    return Fraction((date.max - EPOCH).days + 1)


def _date(day: End) -> date:
    return min(EPOCH + timedelta(days=int(day)), date.max) if day < _last_day() else date.max
