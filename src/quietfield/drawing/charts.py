"""Curves for people: as an SVG that needs no script and no network, and as plain text for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, exp, floor, inf, isfinite, log, log10

#: Colours that are told apart by those who see fewer, and when printed; markers tell them apart without any.
COLOURS = ("#1b5e8c", "#b4501f", "#3d7a3d", "#7a3d7a", "#6b6b6b")
MARKS = "o+x*#"


@dataclass(frozen=True)
class Series:
    """One curve of positive numbers against positive numbers, with a band where ``low`` and ``high`` are given."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def ticks(low: float, high: float) -> list[float]:
    """Round numbers (1, 2, 5 and their multiples by ten) within a range of positive numbers.

    >>> ticks(0.04, 1.2)
    [0.05, 0.1, 0.2, 0.5, 1.0]
    """
    found = [
        float(f"{m}e{e}") for e in range(floor(log10(low)), ceil(log10(high)) + 1) for m in (1, 2, 5)
    ]  # as written, so that 0.1 is 0.1
    within = [value for value in found if low * 0.999 <= value <= high * 1.001]
    if len(within) > 7:
        within = [value for value in within if f"{value:e}"[0] == "1"]
    return within if len(within) > 1 else [float(f"{value:.2g}") for value in (low, high)]


def curves_svg(
    series: Sequence[Series], *, title: str, x: str, y: str, marked: tuple[float, float] | None = None
) -> str:
    """Curves on logarithmic axes. ``marked`` is a point to show with lines to both axes."""
    width, height, left, right, top, bottom = 560, 320, 64, 16, 34, 46
    xs, ys = _values(series, marked)
    (x0, x1), (y0, y1) = _range(xs), _range(ys)

    def at(value: float) -> float:
        return left + (_log(value, x0) - x0) / (x1 - x0) * (width - left - right)

    def up(value: float) -> float:
        return height - bottom - (_log(value, y0) - y0) / (y1 - y0) * (height - top - bottom)

    parts = []
    for tick in ticks(10**x0, 10**x1):
        parts.append(f'<line x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{top}" y2="{height - bottom}"/>')
    for tick in ticks(10**y0, 10**y1):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
    grid = f'<g stroke="#d5dae0" stroke-width="1">{"".join(parts)}</g>'
    labels = [
        f'<text x="{at(tick):.1f}" y="{height - bottom + 16}" text-anchor="middle">{tick:g}</text>'
        for tick in ticks(10**x0, 10**x1)
    ]
    labels += [
        f'<text x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in ticks(10**y0, 10**y1)
    ]
    middle = (top + height - bottom) / 2
    labels += [
        f'<text x="{(left + width - right) / 2:.1f}" y="{height - 8}" text-anchor="middle">{escape(x)}</text>',
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle">{escape(y)}</text>',
    ]
    drawn = []
    for i, one in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        if one.low and one.high:
            there = [(a, b) for a, b in zip(one.x, one.high, strict=True)]
            back = [(a, b) for a, b in zip(one.x, one.low, strict=True)][::-1]
            corners = " ".join(f"{at(a):.1f},{up(b):.1f}" for a, b in there + back)
            drawn.append(f'<polygon points="{corners}" fill="{colour}" opacity="0.15"/>')
        places = " ".join(f"{at(a):.1f},{up(b):.1f}" for a, b in zip(one.x, one.y, strict=True))
        dash = "" if i == 0 else f' stroke-dasharray="{3 + 2 * i} 3"'
        drawn.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        drawn += [
            f'<circle cx="{at(a):.1f}" cy="{up(b):.1f}" r="3.5" fill="{colour}">'
            f"<title>{escape(one.name)}: {escape(x)} {a:g}, {escape(y)} {b:.3g}</title></circle>"
            for a, b in zip(one.x, one.y, strict=True)
        ]
        drawn.append(
            f'<text x="{width - right - 4}" y="{top + 14 + 15 * i}" text-anchor="end" fill="{colour}">'
            f"{escape(one.name)}</text>"
        )
    if marked is not None:
        a, b = marked
        drawn.append(
            f'<path d="M{left} {up(b):.1f} H{at(a):.1f} V{height - bottom}" fill="none" stroke="#222" '
            'stroke-dasharray="2 3"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'style="max-width:100%;height:auto" role="img" aria-label="{escape(title)}">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
        f'{grid}<g font-size="11" font-family="sans-serif" fill="#222">'
        f'<text x="{left}" y="18" font-size="13" font-weight="bold">{escape(title)}</text>'
        f"{''.join(labels)}{''.join(drawn)}</g></svg>"
    )


def curves_text(series: Sequence[Series], *, x: str, y: str) -> str:
    """The same curves as lines of text: a mark a series, interpolated between the points."""
    width, height = 58, 12
    xs, ys = _values(series, None)
    (x0, x1), (y0, y1) = _range(xs), _range(ys)
    cells = [[" "] * width for _ in range(height)]

    def column(value: float) -> int:
        return min(width - 1, max(0, round((_log(value, x0) - x0) / (x1 - x0) * (width - 1))))

    def row(value: float) -> int:
        return min(height - 1, max(0, round((y1 - _log(value, y0)) / (y1 - y0) * (height - 1))))

    for one in series:
        points = list(zip(one.x, one.y, strict=True))
        for (a, b), (c, d) in pairwise(points):
            for place in range(column(a) + 1, column(c)):
                share = (place - column(a)) / (column(c) - column(a))
                cells[row(10 ** (_log(b, y0) * (1 - share) + _log(d, y0) * share))][place] = "·"
    for i, one in enumerate(series):
        for a, b in zip(one.x, one.y, strict=True):
            cells[row(b)][column(a)] = MARKS[i % len(MARKS)]
    names = {row(tick): f"{tick:g}" for tick in ticks(10**y0, 10**y1)}
    margin = max(map(len, names.values()), default=0)
    lines = [y + ("   " + "  ".join(f"{MARKS[i % len(MARKS)]} {one.name}" for i, one in enumerate(series)))]
    lines += [f"{names.get(i, ''):>{margin}} │{''.join(line).rstrip()}" for i, line in enumerate(cells)]
    axis, below = ["─"] * width, [" "] * (width + 8)
    for tick in ticks(10**x0, 10**x1):
        place, text = column(tick), f"{tick:g}"
        if "".join(below[max(0, place - 1) : place + len(text) + 1]).strip():
            continue
        axis[place] = "┬"
        below[place : place + len(text)] = list(text)
    lines += [f"{'':>{margin}} └{''.join(axis)}", f"{'':>{margin}}  {''.join(below).rstrip()}  {x}"]
    return "\n".join(lines)


def crossing(x: Sequence[float], y: Sequence[float], level: float) -> float:
    """The smallest x at which a curve, smoothed to one that only falls, reaches a level; infinite if it never does.

    Between the points it is a straight line on logarithmic scales.

    >>> round(crossing([0.1, 1, 10], [0.3, 0.03, 0.003], 0.03), 6)
    1.0
    """
    from scipy.optimize import isotonic_regression

    smooth = isotonic_regression([log(max(value, 1e-300)) for value in y], increasing=False).x
    target = log(level)
    if smooth[0] <= target:
        return x[0]
    for a, b, high, low in zip(x, x[1:], smooth, smooth[1:], strict=False):
        if low <= target:
            share = (high - target) / (high - low)
            return exp(log(a) + share * (log(b) - log(a)))
    return inf


def _values(series: Sequence[Series], marked: tuple[float, float] | None) -> tuple[list[float], list[float]]:
    xs = [value for one in series for value in one.x] + ([] if marked is None else [marked[0]])
    ys = [value for one in series for value in (*one.y, *one.low, *one.high)] + ([] if marked is None else [marked[1]])
    return xs, ys


def _log(value: float, least: float) -> float:
    """The logarithm of a value, or the end of the axis for 0, which has none."""
    return log10(value) if value > 0 else least


def _range(values: Sequence[float]) -> tuple[float, float]:
    good = [log10(value) for value in values if value > 0 and isfinite(value)]
    low, high = (min(good), max(good)) if good else (0.0, 1.0)
    room = max(0.04 * (high - low), 0.05)
    return low - room, high + room
