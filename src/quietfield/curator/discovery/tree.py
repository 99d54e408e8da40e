"""A tree of intervals that are counted with noise, level by level: which are cut, and what all counts together tell.

Every level asks about the whole line. Intervals that may hold more than a cell's share, by what the levels above say,
are cut; all others are counted again, so that their counts get better: what is counted m times has noise of one over
the root of m. This costs nothing more: the intervals of a level are disjoint, so that a row adds to at most one of
them, and there are as many levels as are paid for, whatever is asked on them.

Nothing here sees a record: whoever asks hands over ``measure``, which returns noisy counts of intervals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import isinf, sqrt

#: The most cells that numbers are cut into.
CELLS = 32
#: A noisy count of so many scales of its noise is taken for a count of something: where nothing is, noise alone has it
#: once in 10^9 times, and a column has dozens of intervals with nothing in them.
EVIDENT = {"laplace": 20.0, "gaussian": 6.0}
#: The least count that is cut, that has a cell of its own or that ends a range, in standard deviations of its noise.
SIGNIFICANT = 5
#: The same for what lies beside something that is evident, and for what lies next to a range, if that is not wide.
NEAR, NEXT = 4, 2
#: The powers of ten between which numbers are cut: the least for numbers that are not whole.
LEAST_POWER, LARGEST_POWER = -6, 18
SMALLEST = Fraction(10) ** LEAST_POWER
#: After so many levels on which one part held everything, an interval is likely to hold one number: it is cut finer.
ALONE = 2
#: Of more parts than these, the ones that hold nothing would add up to much noise.
MANY = 40
#: An end of an interval: exact, or infinite.
End = Fraction | float
Interval = tuple[End, End]
Measure = Callable[[Sequence[Interval]], Sequence[float]]


@dataclass(frozen=True)
class Leaf:
    """An interval that is not cut further, and how many records it holds, by noisy counts."""

    low: End
    high: End
    count: float
    std: float = 0.0  # of the noise of its count
    alone: int = 0  # on how many levels in a row it held all that its parent did
    is_part: bool = False  # whether it was cut from another one

    @property
    def is_single(self) -> bool:
        """Whether it holds one whole number."""
        return not isinf(self.low) and self.high == self.low + 1 and self.low == int(self.low)

    @property
    def width(self) -> End:
        """How wide it is."""
        return self.high - self.low

    def is_number(self, step: Fraction | None) -> bool:
        """Whether it holds one number, its lower end, as far as digits tell; all are multiples of a step, if any."""
        if step == 1:
            return self.is_single
        return self.width == step or self.alone > ALONE or (self.low, self.high) == (0, SMALLEST)


def grow_leaves(
    roots: Sequence[Interval],
    split: Callable[[Leaf], Sequence[Interval]],
    measure: Measure,
    std: float,
    evident: float,
    levels: int,
) -> list[Leaf]:
    """The leaves of a tree, in order: each level is measured once, and children add up to what their parent holds.

    Args:
        roots: Disjoint intervals, in order.
        split: The parts of an interval, or none if it is not cut further.
        measure: Noisy counts of intervals, each with noise of the same standard deviation.
        std: That standard deviation.
        evident: The least noisy count of something.
        levels: How many levels, that of the roots included.

    Returns:
        The leaves below the roots that hold something.
    """
    leaves = [Leaf(*interval, count, std) for interval, count in zip(roots, measure(roots), strict=True)]
    for left in range(levels - 1, 0, -1):
        asked = _choose_parts(leaves, split, std / sqrt(left), evident / std)
        counts = iter(measure([interval for listed in asked for interval in listed]))
        grown: list[Leaf] = []
        for leaf, listed in zip(leaves, asked, strict=True):
            grown += _refine(leaf, listed, [next(counts) for _ in listed], std, evident)
        leaves = grown
    return _find_held(leaves, evident / std)


def _find_held(leaves: Sequence[Leaf], evident: float) -> list[Leaf]:
    """The leaves that are known to hold something, or to be parts of what does; beside these less will do."""
    held = [leaf.is_part or leaf.count >= evident * leaf.std for leaf in leaves]
    beside = [any(held[max(i - 1, 0) : i + 2]) for i in range(len(leaves))]
    near = max(NEAR, evident / 2)
    return [
        leaf
        for leaf, one, next_to in zip(leaves, held, beside, strict=True)
        if one or (next_to and leaf.count >= near * leaf.std)
    ]


def _choose_parts(
    leaves: Sequence[Leaf], split: Callable[[Leaf], Sequence[Interval]], std: float, evident: float
) -> list[list[Interval]]:
    """What is asked next of each leaf: its parts, or itself once more; ``std`` is the noise that parts will have."""
    held = _find_held(leaves, evident)
    parts = [list(split(leaf)) for leaf in held]
    total = sum(leaf.count for leaf in held)
    # What cannot be cut and fills a cell has one of its own: the others share what is left.
    light = sum(leaf.count for leaf, listed in zip(held, parts, strict=True) if listed or leaf.count < total / CELLS)
    least, outer = light / (2 * CELLS), _outermost(held)
    # What is cut has to stand out, and its parts must be able to.
    cut = {
        leaf: listed
        for i, (leaf, listed) in enumerate(zip(held, parts, strict=True))
        if leaf.count >= max(SIGNIFICANT, evident / 2) * max(leaf.std, std) and (leaf.count >= least or i in outer)
    }
    return [cut.get(leaf) or [(leaf.low, leaf.high)] for leaf in leaves]


def _refine(leaf: Leaf, parts: Sequence[Interval], counts: Sequence[float], std: float, evident: float) -> list[Leaf]:
    """A leaf that was counted again, or its parts: what was known of all of them together is not forgotten.

    Both are the best guesses from counts that are equal to the truth plus noise of known size (least squares).
    """
    known, new = leaf.std**2, std**2
    if list(parts) == [(leaf.low, leaf.high)]:
        weight = known / (known + new)
        return [replace(leaf, count=leaf.count + weight * (counts[0] - leaf.count), std=sqrt(weight * new))]
    if len(parts) > MANY:
        return _pick_common(leaf, parts, counts, std, evident)
    weight = new / (len(parts) * new + known)
    missed = weight * (leaf.count - sum(counts))
    most = leaf.count - max(leaf.count / 10, 4 * std)
    least = max(most, stand_out(std, evident))
    noise = sqrt(new - weight * new)
    return [
        Leaf(*interval, count + missed, noise, leaf.alone + 1 if count + missed >= least else 0, True)
        for interval, count in zip(parts, counts, strict=True)
    ]


def _pick_common(
    leaf: Leaf, parts: Sequence[Interval], counts: Sequence[float], std: float, evident: float
) -> list[Leaf]:
    """The parts of a leaf that hold something and what lies between them, if that is next to nothing; else the leaf."""
    common = [
        Leaf(*part, count, std, leaf.alone + 1, True)
        for part, count in zip(parts, counts, strict=True)
        if count >= evident
    ]
    rest = leaf.count - sum(part.count for part in common)
    if not common or rest > max(leaf.count / 10, 4 * std * (len(common) + 1) ** 0.5):
        return [replace(leaf, alone=0)]
    if len(common) > CELLS:
        common = [replace(part, alone=0) for part in common]
    ends = [leaf.low, *(end for part in common for end in (part.low, part.high)), leaf.high]
    between = [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high]
    width = sum(high - low for low, high in between)
    noise = std * sqrt(len(common) + 1)
    found = [
        *common,
        *(Leaf(low, high, rest * float((high - low) / width), noise, 0, True) for low, high in between),
    ]
    return sorted(found, key=lambda part: part.low)


def noise_of(leaves: Sequence[Leaf], std: float, evident: float) -> tuple[float, float]:
    """The standard deviation of leaves' noise, and the least count that is evident: what was counted often has less."""
    if not leaves:
        return std, evident
    share = sqrt(sum(leaf.std**2 for leaf in leaves) / len(leaves)) / std
    return share * std, share * evident


def stand_out(std: float, evident: float) -> float:
    """The least count that ends a range: half of what is evident, and no less than what is significant."""
    return max(SIGNIFICANT * std, evident / 2)


def _outermost(leaves: Sequence[Leaf]) -> set[int]:
    """The positions of leaves beside one that holds nothing: where numbers end is cut finer."""
    joined = [a.high == b.low and all(leaf.count >= NEXT * leaf.std for leaf in (a, b)) for a, b in pairwise(leaves)]
    inner = {i for i, (before, after) in enumerate(pairwise(joined), 1) if before and after}
    return {*range(len(leaves))} - inner
