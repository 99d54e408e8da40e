"""Distributions as pictures: bars with error bars, lines and heat maps, as SVG that needs no style sheet.

What is drawn can be saved and shown elsewhere, so colours stand in the picture, on white. Numbers stand beside it in a
table, for whoever cannot see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, isnan

from quietfield.drawing.charts import COLOURS
from quietfield.drawing.columns import text_width, truncate
from quietfield.text import printable

INK, QUIET, GRID = "#1c2127", "#5a636d", "#d5dae0"
#: The most cells of a heat map in which the shares are written.
MOST_WRITTEN = 200


@dataclass(frozen=True)
class Distribution:
    """One distribution of a picture; ``low`` and ``high`` are the ends of its error bars, empty where it has none."""

    name: str
    shares: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def bars_svg(labels: Sequence[object], groups: Sequence[Distribution], title: str, notes: Sequence[str] = ()) -> str:
    """Horizontal bars, one a label and distribution, with error bars; ``notes`` stand below.

    >>> bars_svg(["f", "m"], [Distribution("all", [0.4, 0.6])], "sex").count("<rect")
    3
    """
    left, width, thick = 16 + _room(labels), 640, 16 if len(groups) < 2 else 11
    band = thick * len(groups) + 9
    top = 36 + 18 * (len(groups) > 1)
    height = top + band * len(labels) + 30
    most = _most(groups)
    room = width - left - 70

    parts = []
    for tick in _ticks(most):
        x = left + room * tick / most
        parts.append(f'<path d="M{x:.1f} {top - 4}V{height - 24}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="{QUIET}">{100 * tick:g}%</text>')
    for i, label in enumerate(labels):
        y = top + i * band
        middle = y + thick * len(groups) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{_name(label)}</text>')
        for j, group in enumerate(groups):
            share, at = group.shares[i], y + j * thick
            colour, long = COLOURS[j % len(COLOURS)], room * share / most
            parts.append(
                f'<rect x="{left}" y="{at}" width="{long:.1f}" height="{thick - 1}" fill="{colour}" opacity="0.75"/>'
            )
            end = share
            if len(group.low):
                a, b = (left + room * end / most for end in (group.low[i], group.high[i]))
                m, end = at + (thick - 1) / 2, max(share, group.high[i])
                parts.append(
                    f'<path d="M{a:.1f} {m}H{b:.1f}M{a:.1f} {m - 3}v6M{b:.1f} {m - 3}v6" stroke="{INK}" fill="none"/>'
                )
            x = left + room * end / most + 6
            parts.append(f'<text x="{x:.1f}" y="{at + thick - 3}" font-size="11">{_percent(share)}</text>')
    return _picture(width, height, title, [*parts, *_legend(groups, left)], notes)


def line_svg(labels: Sequence[object], groups: Sequence[Distribution], title: str, notes: Sequence[str] = ()) -> str:
    """Lines over labels that have an order, with bands for the error bars; ``notes`` stand below.

    >>> line_svg(["1", "2"], [Distribution("all", [0.4, 0.6])], "size").count("<polyline")
    1
    """
    left, width, bottom, top = 52, 640, 96, 36 + 18 * (len(groups) > 1)
    height = top + 230 + bottom
    most = _most(groups)

    def x(i: int) -> float:
        return left + (i + 0.5) * (width - left - 14) / len(labels)

    def y(share: float) -> float:
        return height - bottom - 230 * share / most

    parts = []
    for tick in _ticks(most):
        parts.append(f'<path d="M{left} {y(tick):.1f}H{width - 14}" stroke="{GRID}"/>')
        parts.append(
            f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="{QUIET}">{100 * tick:g}%</text>'
        )
    each = ceil(len(labels) / 24)
    for i, label in list(enumerate(labels))[::each]:
        place = f"{x(i):.1f} {height - bottom + 14}"
        parts.append(f'<text transform="translate({place}) rotate(-40)" text-anchor="end">{_name(label, 14)}</text>')
    for j, group in enumerate(groups):
        colour = COLOURS[j % len(COLOURS)]
        if len(group.low):
            ends = [(i, v) for i, v in enumerate(group.high)] + [(i, v) for i, v in enumerate(group.low)][::-1]
            corners = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in ends)
            parts.append(f'<polygon points="{corners}" fill="{colour}" opacity="0.18"/>')
        dash = "" if j == 0 else ' stroke-dasharray="6 3"'
        places = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(group.shares))
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [
            f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for i, v in enumerate(group.shares)
        ]
    return _picture(width, height, title, [*parts, *_legend(groups, left)], notes)


def heat_svg(
    rows: Sequence[object],
    columns: Sequence[object],
    cells: Sequence[Sequence[float]],
    title: str,
    percent: bool = True,
    notes: Sequence[str] = (),
    dotted: Sequence[Sequence[bool]] = (),
) -> str:
    """A table of numbers as colours, with the numbers where there is room; a place of NaN stays empty.

    Places that are ``dotted`` have a dot in their corner, and ``notes``, which say what it means, stand below.

    >>> heat_svg(["f", "m"], ["no", "yes"], [[0.1, 0.2], [0.3, 0.4]], "sex and smoking").count("<rect")
    5
    """
    left, tilted = 16 + _room(rows), _room(columns, 14)
    top = 46 + 0.7 * tilted
    side = min(64.0, (628 - left) / len(columns))
    high = 24 if len(rows) <= 40 else 12
    width = max(320, round(left + side * len(columns) + 0.8 * tilted))
    height = top + high * len(rows) + 12
    most = max((value for line in cells for value in line if not isnan(value)), default=0.0) or 1.0
    parts = []
    for j, name in enumerate(columns):
        place = f"{left + side * (j + 0.5):.1f} {top - 8}"
        parts.append(f'<text transform="translate({place}) rotate(-40)">{_name(name, 14)}</text>')
    written = len(rows) * len(columns) <= MOST_WRITTEN and side >= 30
    for i, name in enumerate(rows):
        y = top + high * i
        parts.append(f'<text x="{left - 8}" y="{y + high * 0.7:.1f}" text-anchor="end">{_name(name)}</text>')
        for j, value in enumerate(cells[i]):
            if isnan(value):
                continue
            depth = max(value, 0.0) / most
            red, green, blue = (round(a + (b - a) * depth) for a, b in ((238, 20), (243, 79), (248, 128)))
            x = left + side * j
            box = f'x="{x:.1f}" y="{y}" width="{side - 1:.1f}" height="{high - 1}"'
            parts.append(f'<rect {box} fill="rgb({red},{green},{blue})"/>')
            ink = "#fff" if depth > 0.5 else INK
            if dotted and dotted[i][j]:
                parts.append(f'<circle cx="{x + side - 5:.1f}" cy="{y + 4}" r="1.5" fill="{ink}"/>')
            if written:
                text = _percent(value) if percent else f"{value:.2f}"
                middle = f'x="{x + side / 2:.1f}" y="{y + high * 0.7:.1f}" text-anchor="middle" font-size="11"'
                parts.append(f'<text {middle} fill="{ink}">{text}</text>')
    return _picture(width, height, title, parts, notes)


def _picture(width: int, height: float, title: str, parts: Sequence[str], notes: Sequence[str]) -> str:
    said = escape(". ".join(printable(text) for text in (title, *notes)))
    width = max(width, min(640, 16 + 6 * max(map(text_width, map(printable, notes)), default=0)))
    below = [
        f'<text x="8" y="{height + 14 + 16 * i:.0f}" font-size="11" fill="{QUIET}">{_name(note, width // 6)}</text>'
        for i, note in enumerate(notes)
    ]
    height += 16 * len(notes) + 8 * bool(notes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" role="img" aria-label="{said}">'
        f'<rect width="{width}" height="{height:.0f}" fill="#fff"/>'
        f'<g font-size="12" font-family="system-ui,sans-serif" fill="{INK}">'
        f'<text x="8" y="20" font-size="14" font-weight="600">{escape(truncate(printable(title), 80))}</text>'
        f"{''.join([*parts, *below])}</g></svg>"
    )


def _legend(groups: Sequence[Distribution], left: float) -> list[str]:
    if len(groups) < 2:
        return []
    step = (640 - left) / len(groups)
    return [
        f'<text x="{left + step * j:.1f}" y="40" fill="{COLOURS[j % len(COLOURS)]}" font-weight="600">'
        f"■ {_name(group.name, 34)}</text>"
        for j, group in enumerate(groups)
    ]


def _most(groups: Sequence[Distribution]) -> float:
    return max((value for group in groups for value in (*group.shares, *group.high)), default=0.0) or 1.0


def _ticks(most: float) -> list[float]:
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0) if s * 6 >= most or s == 1)
    return [round(i * step, 3) for i in range(int(most / step) + 1)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _name(text: object, most: int = 26) -> str:
    return escape(truncate(printable(text), most))


def _room(names: Sequence[object], most: int = 26) -> float:
    """The width that names take."""
    return 7.0 * max((text_width(truncate(printable(name), most)) for name in names), default=0)
