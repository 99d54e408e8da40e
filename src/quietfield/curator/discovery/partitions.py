"""Cells for numbers that nobody has named, from noisy counts alone: what a tree of intervals tells.

The line is cut where everybody would cut it: at powers of ten and then digit by digit; ``periods.py`` cuts dates at
centuries, decades, years, months and days. Nothing here sees a record: see ``tree.py``.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, floor, inf, isinf, log10, sqrt

import numpy as np

from quietfield.curator.discovery.tree import (
    ALONE,
    CELLS,
    LARGEST_POWER,
    LEAST_POWER,
    NEAR,
    NEXT,
    SIGNIFICANT,
    SMALLEST,
    End,
    Interval,
    Leaf,
    stand_out,
)
from quietfield.schema import Attribute, Cuts, Labels

#: Levels of the tree: powers of ten and six digits; centuries, decades, years, months and days.
NUMBER_LEVELS, DATE_LEVELS = 7, 5
#: A leaf at an end is taken to be filled as far as numbers that are so much sparser than beside it would reach.
TAIL = 3
#: The first and the last cell are cut in two if one part has so much more of what they hold than of their width.
THIN = 0.25
#: The least count of a cell, in standard deviations of its noise.
LEAST_CELL = 8
#: A plainer limit than 1e-6.
CENT = Fraction(1, 100)
#: Among more leaves holes are not looked for, since each is held against each.
MOST_LEAVES = 500
#: A gap is told only where its noisy count is no more than noise, or such a part of all numbers.
NEARLY_NONE = 0.03
#: Where numbers are so much sparser than beside, over no less than such a part of their range, there are none.
SPARSE, WIDE = 0.5, Fraction(1, 10)


def number_roots(
    step: Fraction | None, within: tuple[Fraction, Fraction] | None, limits: tuple[int, int] | None = None
) -> list[Interval]:
    """Where numbers are cut first: at powers of ten and 0, or into about ten parts of a range that is public.

    Args:
        step: Of what all numbers are multiples: 1 where they are whole, 1/100 with two decimal places, None if unknown.
        within: The range, if one is public.
        limits: The least and the most that the type of the column can hold, if it says so.
    """
    if within is not None:
        low, high = within
        part = max(_power_below(high - low), step or Fraction(0))
        first, last = floor(low / part), -floor(-high / part)
        points = [i * part for i in range(first, last + 1)]
        return list(pairwise(points))
    powers = [Fraction(10) ** e for e in range(LEAST_POWER, LARGEST_POWER + 1) if Fraction(10) ** e >= (step or 0)]
    edges: list[End] = [-inf, *(-p for p in reversed(powers)), Fraction(0), *powers, inf]
    if limits is not None:
        low, high = Fraction(limits[0]), Fraction(limits[1] + 1)
        edges = [low, *(edge for edge in edges if low < edge < high), high]
    return list(pairwise(edges))


def split_number(leaf: Leaf, step: Fraction | None) -> list[Interval]:
    """An interval cut by its next digit, or by the next three where it is likely to hold one number."""
    width = leaf.width
    if isinf(width):
        return []
    # Floats have to tell the ends of an interval apart.
    smallest = Fraction(1) if step == 1 else max(step or SMALLEST, _power_below(max(-leaf.low, leaf.high)) / 10**12)
    if width <= smallest:
        return []
    part = _power_below(width)
    part = part / 10 if part == width else part
    if leaf.alone >= ALONE:
        part = max(part / 100, smallest)
    inner = range(floor(leaf.low / part) + 1, ceil(leaf.high / part))
    return list(pairwise([leaf.low, *(i * part for i in inner), leaf.high]))


def number_rule(
    leaves: Sequence[Leaf], std: float, evident: float, step: Fraction | None, *, plain: bool
) -> Attribute | None:
    """The rule of numbers: labels where a few whole numbers are nearly all of them, else cut points; None for neither.

    Args:
        leaves: What :func:`grow_leaves` found.
        std: The standard deviation of their noise.
        evident: The least noisy count of something.
        step: Of what all numbers are multiples, if that is known.
        plain: Whether values are written as labels are, so that they can be labels.

    Returns:
        The rule, without labels for nulls and unknown values.
    """
    total = sum(leaf.count for leaf in leaves)
    if plain:
        common = [leaf for leaf in leaves if leaf.is_single and leaf.count >= max(evident, total / 1000)]
        if 0 < len(common) <= CELLS and sum(leaf.count for leaf in common) >= 0.95 * total:
            return Labels(tuple(str(int(leaf.low)) for leaf in common))
    points = cut_points(find_cells(leaves, std, evident, step))
    return Cuts(tuple(map(plain_number, points))) if points else None


def plain_number(end: End) -> int | float:
    """A number as files have it: whole where it is."""
    return int(end) if end == int(end) else float(end)


def _reach(ordered: Sequence[Leaf], significant: float) -> int:
    """The position of the first leaf at which there is something, seen from one side."""
    sums = accumulate(leaf.count for leaf in ordered)
    return next((i for i, total in enumerate(sums) if total >= significant), len(ordered) - 1)


def find_end(ordered: Sequence[Leaf], least: float) -> int:
    """The position of the first leaf at which there is something: the shortest run of leaves that stands out begins it.

    >>> find_end([Leaf(Fraction(i), Fraction(i + 1), count, 1.0) for i, count in enumerate([1, -1, 4, 4, 9])], 5.0)
    2
    """
    for last in range(len(ordered)):
        count = noise = 0.0
        for i in range(last, -1, -1):
            count, noise = count + ordered[i].count, noise + ordered[i].std ** 2
            if count >= least * sqrt(noise):
                return i
    return len(ordered) - 1


def reach_on(beyond: Sequence[Leaf], end: End, span: End, least: float = NEXT) -> int:
    """How many leaves next to a range belong to it still: as far as their sums are ``least`` times their noise."""
    count = noise = 0.0
    found = 0
    for i, leaf in enumerate(beyond, 1):
        if end not in (leaf.low, leaf.high) or leaf.width > span / 4:
            break
        count, noise, end = count + leaf.count, noise + leaf.std**2, leaf.high if end == leaf.low else leaf.low
        if count >= least * sqrt(noise):
            found, count, noise = i, 0.0, 0.0
    return found


def _skip_far(ordered: Sequence[Leaf], cut: End) -> int:
    """How many leaves at an end lie far from all others of their cell, which goes on to a cut point: none is drawn.

    A cell is drawn from evenly, so that most of what is drawn would lie between those and the others.
    """
    is_high, last = ordered[0].low > ordered[-1].low, ordered[-1]
    beyond = [leaf.low >= cut if is_high else leaf.high <= cut for leaf in ordered]
    cell = sum(leaf.count for leaf, is_beyond in zip(ordered, beyond, strict=True) if is_beyond)
    far, outer = 0, ordered[0].count
    for i, (is_beyond, leaf) in enumerate(zip(beyond, ordered[1:], strict=False), 1):
        if not is_beyond or 2 * outer > cell:
            break
        rest = max(last.high - leaf.low, leaf.high - last.low)
        if leaf.count >= NEAR * leaf.std and _measure_gap(leaf, ordered[:i][::-1]) > rest:
            far = i
        outer += leaf.count
    return far


def _measure_gap(leaf: Leaf, beyond: Sequence[Leaf]) -> End:
    """How far it is from a leaf to where others beyond it hold more than noise."""
    count = noise = 0.0
    for other in beyond:
        count, noise = count + other.count, noise + other.std**2
        if count >= NEXT * sqrt(noise):
            return max(other.low - leaf.high, leaf.low - other.high)
    return Fraction(0)


def _fill(ordered: Sequence[Leaf], step: Fraction | None) -> End:
    """How far numbers reach into the first of some leaves: not to its end where they are dense only beside it.

    It is cut by its next digit. Numbers that are a third as dense as beside would fill what is taken.
    """
    first = ordered[0]
    if len(ordered) < 2 or isinf(first.width) or first.width == step:
        return first.width
    ends = (first.low, first.high)
    if ordered[1].low not in ends and ordered[1].high not in ends:
        return first.width
    count = width = 0.0
    for leaf in ordered[1:]:
        if isinf(leaf.width):
            return first.width
        count, width = count + leaf.count, width + float(leaf.width)
        if count >= first.count:
            break
    filled = TAIL * first.count * width / max(count, 1.0)
    part = max(_power_below(first.width) / 10, step or Fraction(0))
    return min(first.width, part * max(ceil(filled / float(part)), 1))


def find_range(
    leaves: Sequence[Leaf], std: float, step: Fraction | None, points: Sequence[float] = (), evident: float = 0.0
) -> Interval:
    """The least and the most of all numbers, but for as few as noise hides; infinite where an end was not found.

    Unless a single leaf stands out at an end, numbers go on beyond it. Where the last cell holds hardly more than
    these, they would crowd at the last of the cut points. So that cell is taken to be at least twice as wide as its
    neighbour, as far as there are leaves: both hold about as much, and numbers are sparse at the ends.
    """
    significant = stand_out(std, evident)
    i, j = find_end(leaves, significant / std), len(leaves) - 1 - find_end(leaves[::-1], significant / std)
    i, j = min(i, j), max(i, j)
    cuts = [Fraction(str(point)) for point in points]
    if cuts:
        i += _skip_far(leaves[i : j + 1], cuts[0])
        j -= _skip_far(leaves[i : j + 1][::-1], cuts[-1])
    span = leaves[j].high - leaves[i].low
    i, j = i - reach_on(leaves[:i][::-1], leaves[i].low, span), j + reach_on(leaves[j + 1 :], leaves[j].high, span)
    first, last = leaves[i], leaves[j]
    inside = leaves[i : j + 1]
    low = first.low if first.is_number(step) else first.high - _fill(inside, step)
    high = last.low + (step or 0 if last.is_number(step) else _fill(inside[::-1], step))
    below = sum(leaf.count for leaf in leaves if cuts and leaf.high <= cuts[0])
    above = sum(leaf.count for leaf in leaves if cuts and leaf.low >= cuts[-1])
    if len(cuts) > 1 and first.count < significant and below < 2 * significant:
        low = min(low, max(leaves[0].low, cuts[0] - 2 * (cuts[1] - cuts[0])))
    if len(cuts) > 1 and last.count < significant and above < 2 * significant:
        high = max(high, min(leaves[-1].high, cuts[-1] + 2 * (cuts[-1] - cuts[-2])))
    return low, high - (step or 0)


def bound_rule(rule: Attribute, low: End, high: End, gaps: Sequence[Interval] = ()) -> Attribute:
    """A rule that tells where numbers begin and end, and between which there are none; it reads records as before."""
    if not isinstance(rule, Cuts):
        return rule
    least, most = (None if isinf(end) else plain_number(end) for end in (low, high))
    least = None if least is None or least >= rule.points[0] else least
    most = None if most is None or most < rule.points[-1] else most
    from_, until = rule.points[0] if least is None else least, rule.points[-1] if most is None else most
    ends = ((plain_number(a), plain_number(b)) for a, b in gaps if not isinf(a) and not isinf(b))
    return replace(rule, least=least, most=most, gaps=tuple((a, b) for a, b in ends if from_ <= a and b <= until))


def find_holes(leaves: Sequence[Leaf], std: float, evident: float) -> list[range]:
    """The places of leaves in a row that hold nothing, while numbers are dense on both sides: between 17 and 65, say.

    Such a hole is wide, and its noisy count far below what half of the density beside it would give; only these counts
    tell. Numbers that noise hides in it are taken for ones beside it. One between two leaves has no places.

    >>> ages = [*((i, 90.0) for i in range(18)), *((i, 1.0 - i % 3) for i in range(18, 65)), (65, 80.0), (66, 80.0)]
    >>> find_holes([Leaf(Fraction(age), Fraction(age + 1), count) for age, count in ages], 5.0, 30.0)
    [range(18, 65)]
    """
    many, significant = len(leaves), stand_out(std, evident)
    if not 2 <= many <= MOST_LEAVES:
        return []
    lows, highs = np.array([(float(leaf.low), float(leaf.high)) for leaf in leaves]).T
    sizes = [(leaf.count, width) for leaf, width in zip(leaves, (highs - lows).tolist(), strict=True)]
    sums = np.array([0.0, *accumulate(leaf.count for leaf in leaves)])
    span = highs[many - 1 - _reach(leaves[::-1], significant)] - lows[_reach(leaves, significant)]
    beside = np.minimum.outer(
        [_density(reversed(sizes[:i]), significant, float(WIDE) / 2 * span) for i in range(1, many)],
        [_density(sizes[i:], significant, float(WIDE) / 2 * span) for i in range(1, many)],
    )
    # From each leaf but the first until before each leaf but the first.
    width, held = lows[1:] - highs[:-1, None], sums[1:-1] - sums[1:-1, None]
    places = np.arange(1, many)
    noise = std * np.sqrt(np.maximum(places - places[:, None], 1))
    lacking = SPARSE * beside * width - held
    empty = (places >= places[:, None]) & (width >= float(WIDE) * span) & (held <= 2 * noise) & np.isfinite(width)
    gain = np.where(empty & (lacking * std >= significant * noise), lacking, 0.0)
    least = max(LEAST_CELL * std, sums[-1] / (2 * CELLS))

    def search(begin: int, end: int) -> list[range]:
        """The holes among some leaves that leave enough for a cell on both sides, the emptiest first."""
        first = (sums[places] - sums[begin] >= least) & (places > begin)
        last = (sums[end] - sums[places] >= least) & (places < end)
        among = np.where(np.outer(first, last), gain, 0.0)
        if not among.any():
            return []
        i, j = np.unravel_index(among.argmax(), among.shape)
        hole = _emptiest(leaves, range(int(i) + 1, int(j) + 1), SPARSE * beside[i, j])
        return [*search(begin, hole.start), hole, *search(hole.stop, end)]

    return search(0, many)


def _emptiest(leaves: Sequence[Leaf], among: range, density: float) -> range:
    """The leaves in a row that together are the farthest below a density; all of them where there are none."""
    best, begin, lacking, most = among, among.start, 0.0, 0.0
    for i in among:
        lacking += density * float(leaves[i].width) - leaves[i].count
        if lacking <= 0:
            begin, lacking = i + 1, 0.0
        elif lacking > most:
            best, most = range(begin, i + 1), lacking
    return best


def _density(sizes: Iterable[tuple[float, float]], significant: float, least: float) -> float:
    """How dense numbers are in as many leaves as stand out together and have some width; 0 where none stand out.

    Of each leaf its count and its width are given, the nearest first.
    """
    count = width = 0.0
    for more, wider in sizes:
        count, width = count + more, width + wider
        if count >= significant and width >= least:
            break
    return count / max(width, least) if count >= significant else 0.0


def _between(leaves: Sequence[Leaf], holes: Sequence[range]) -> list[Sequence[Leaf]]:
    """The leaves before, between and after holes."""
    ends = [0, *(end for hole in holes for end in (hole.start, hole.stop)), len(leaves)]
    return [leaves[begin:end] for begin, end in zip(ends[::2], ends[1::2], strict=True)]


def find_cells(leaves: Sequence[Leaf], std: float, evident: float = 0.0, step: Fraction | None = None) -> "list[_Cell]":
    """Cells of about the same count, while a leaf that has as much has a cell of its own; none reaches over a hole.

    >>> ones = [Leaf(Fraction(i), Fraction(i + 1), 100.0) for i in range(1, 5)]
    >>> [int(point) for point in cut_points(find_cells([Leaf(Fraction(0), Fraction(1), 600.0), *ones], 25.0))]
    [1, 3]
    """
    share = sum(leaf.count for leaf in leaves) / CELLS
    light = [leaf.count for leaf in leaves if leaf.count < share]
    most = max(CELLS - (len(leaves) - len(light)), CELLS // 4)  # what is left of the cells for those that share one
    least = max(sum(light) / most, LEAST_CELL * std)
    holes = find_holes(leaves, std, evident)
    groups = _between(leaves, holes)
    spikes = _find_spikes(leaves, std, evident, step)
    found = [_join_leaves(group, std, share, least, step, spikes) for group in groups]
    for hole, group, cells in zip(holes, groups[1:], found[1:], strict=True):
        # What noise hides in a hole is taken for a number on the side that is nearer: it is cut about in the middle.
        middle = (leaves[hole.start - 1].high + group[0].low) / 2
        ends = [*(leaves[i].high for i in hole), group[0].low]
        cells[0] = replace(cells[0], cut_in_hole=min(ends, key=lambda end: abs(float(end) - float(middle))))
    cells = [cell for cells in found for cell in cells]
    if cells and not cells[-1].heavy:
        cells[-1:] = _cut_tail(cells[-1], leaves, std, evident)
    if cells and not cells[0].heavy:
        cells[:1] = _cut_tail(cells[0], leaves[::-1], std, evident)
    return cells


def _cut_tail(cell: "_Cell", leaves: Sequence[Leaf], std: float, evident: float) -> "list[_Cell]":
    """The cell at the end of all leaves, cut in two where numbers thin out within it: each is drawn from evenly."""
    is_high = leaves[0].low < leaves[-1].low
    inside = [leaf for leaf in leaves if (leaf.low >= cell.low if is_high else leaf.high <= cell.high)]
    inside = inside[: len(inside) - find_end(inside[::-1], stand_out(std, evident) / std)] if inside else []
    count, width = sum(leaf.count for leaf in inside), sum(float(leaf.width) for leaf in inside)
    inner = outer = 0.0
    best, most = None, THIN
    for leaf in inside[:-1]:
        inner, outer = inner + leaf.count, outer + float(leaf.width)
        thin = inner / count - outer / width
        if thin > most and count - inner >= max(LEAST_CELL * std, count / 4):
            best, most = (leaf, inner), thin
    if best is None or cell.cut_in_hole is not None:
        return [cell]
    leaf, inner = best
    cut, rest = leaf.high if is_high else leaf.low, cell.count - inner
    if is_high:
        return [replace(cell, high=cut, count=inner), _Cell(cut, cell.high, rest, False)]
    return [_Cell(cell.low, cut, rest, False), replace(cell, low=cut, count=inner)]


def _find_spikes(leaves: Sequence[Leaf], std: float, evident: float, step: Fraction | None) -> set[Leaf]:
    """Single numbers that stand out far from all others: 9999 among ages. Few as they are, each has a cell."""
    standing = [leaf for leaf in leaves if leaf.count >= stand_out(leaf.std, evident / std * leaf.std)]
    spikes = set()
    for leaf, others in ((standing[0], standing[1:]), (standing[-1], standing[:-1])) if len(standing) > 1 else ():
        far = max(others[0].low - leaf.high, leaf.low - others[-1].high)
        if leaf.is_number(step) and far >= others[-1].high - others[0].low:
            spikes.add(leaf)
    return spikes


def _join_leaves(
    leaves: Sequence[Leaf],
    std: float,
    share: float,
    least: float,
    step: Fraction | None,
    spikes: Collection[Leaf],
) -> "list[_Cell]":
    cells: list[_Cell] = []
    for leaf in leaves:
        last = cells[-1] if cells else None
        heavy = leaf.count >= max(least, share) or leaf in spikes
        if last is None or heavy or last.heavy or last.count >= least:
            cells.append(_Cell(leaf.low, leaf.high, leaf.count, heavy, heavy and leaf.is_number(step)))
        else:
            cells[-1] = _Cell(last.low, leaf.high, last.count + leaf.count, False)
    kept: list[_Cell] = []
    for cell in cells:
        after_light = bool(kept) and not kept[-1].heavy
        if not cell.heavy and cell.count < (least / 2 if after_light else SIGNIFICANT * std):
            if kept:  # too little for a cell of its own: it joins the one below, which keeps its limits if it is heavy
                kept[-1] = replace(kept[-1], count=kept[-1].count + cell.count)
            continue  # and what lies below the first cell joins that
        kept.append(cell)
    return kept


def cut_points(cells: "Sequence[_Cell]") -> list[End]:
    """Where cells are cut."""
    # Next to nothing lies between a common number and the cell after it, and 0.01 is a plainer limit than 1e-6.
    points = [b.low if b.heavy or not a.heavy else max(a.high, min(b.low, CENT)) for a, b in pairwise(cells)]
    for i, (a, b) in enumerate(pairwise(cells)):
        if b.cut_in_hole is not None and not (a.is_number or b.is_number):
            points[i] = b.cut_in_hole
    return points


def find_gaps(leaves: Sequence[Leaf], std: float, evident: float, step: Fraction | None) -> list[Interval]:
    """Between which numbers there are none: in holes, and beside numbers that fill a cell by themselves.

    These reach up to where others are; a cell of others that holds something in most of its width reaches to its end.
    """
    significant, cells = stand_out(std, evident), find_cells(leaves, std, evident, step)
    solid = [leaf for group in _between(leaves, find_holes(leaves, std, evident)) for leaf in group]
    limits = [leaves[0].low, *cut_points(cells), leaves[-1].high]
    held: list[Interval] = []
    for place, (cell, (low, high)) in enumerate(zip(cells, pairwise(limits), strict=True)):
        inside = [leaf for leaf in solid if low <= leaf.low < high]
        if cell.is_number or not inside:
            held.append((cell.low, cell.low))
            continue
        low = low if cell.cut_in_hole is None else inside[0].low
        if place + 1 < len(cells) and cells[place + 1].cut_in_hole is not None:
            high = inside[-1].high
        i, j = sorted((_reach(inside, significant), len(inside) - 1 - _reach(inside[::-1], significant)))
        first, last = inside[i].low, inside[j].high
        wide = isinf(low) or isinf(high)
        first = low if not wide and 2 * (first - low) < high - low else first
        last = high if not wide and 2 * (high - last) < high - low else last
        held.append((first, last - (step or 0)))
    gaps = [(a[1], b[0]) for a, b in pairwise(held)]
    beside = [a.is_number or b.is_number or b.cut_in_hole is not None for a, b in pairwise(cells)]
    found = [gap for gap, is_one in zip(gaps, beside, strict=True) if is_one and gap[1] - gap[0] > (step or 0)]
    return [gap for gap in found if _holds_little(leaves, gap, std)]


def _holds_little(leaves: Sequence[Leaf], gap: Interval, std: float) -> bool:
    """Whether the noisy counts within a gap may be those of next to nothing."""
    inside = [leaf.count for leaf in leaves if gap[0] < leaf.low and leaf.high <= gap[1]]
    noise, every = 2 * std * sqrt(len(inside)), sum(leaf.count for leaf in leaves)
    return sum(inside) <= max(noise, NEARLY_NONE * every)


@dataclass(frozen=True)
class _Cell:
    low: End
    high: End
    count: float
    heavy: bool
    is_number: bool = False
    cut_in_hole: End | None = None  # where a hole below it is cut, if there is one


def _power_below(width: End) -> Fraction:
    """The largest power of ten that is at most a width."""
    return Fraction(10) ** floor(log10(width) + 1e-9)
