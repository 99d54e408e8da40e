"""Small pictures: a structure as an SVG graph, a distribution as bars of text."""

from collections.abc import Iterable
from html import escape
from math import cos, pi, sin

from quietfield.domain import Domain
from quietfield.structures import Structure

MARGIN = 50  # beside the circle, for names


def structure_svg(domain: Domain, structure: Structure, size: int = 240) -> str:
    """The independence graph on a circle, attributes clockwise in the domain's order, names as tooltips and labels."""
    radius = size / 2 - 46
    place = {
        name: (
            size / 2 + radius * sin(2 * pi * i / max(len(domain), 1)),
            size / 2 - radius * cos(2 * pi * i / max(len(domain), 1)),
        )
        for i, name in enumerate(domain)
    }
    parts = [
        f'<line x1="{place[a][0]:.1f}" y1="{place[a][1]:.1f}" x2="{place[b][0]:.1f}" y2="{place[b][1]:.1f}"/>'
        for a, b in structure.edges
    ]
    lines = f'<g stroke="#7a8aa0" stroke-width="1.2">{"".join(parts)}</g>'
    dot = 5 if len(domain) <= 40 else 2
    nodes = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{dot}"><title>{escape(name)}: {domain.size(name)}</title></circle>'
        for name, (x, y) in place.items()
    )
    texts = ""
    if len(domain) <= 24:
        for name, (x, y) in place.items():
            anchor = "middle" if abs(x - size / 2) < 8 else "start" if x > size / 2 else "end"
            dx = 0 if anchor == "middle" else 9 if anchor == "start" else -9
            dy = -9 if anchor == "middle" and y < size / 2 else 17 if anchor == "middle" else 4
            shown = name if len(name) <= 12 else name[:11] + "…"
            texts += f'<text x="{x + dx:.1f}" y="{y + dy:.1f}" text-anchor="{anchor}">{escape(shown)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + 2 * MARGIN}" height="{size}" '
        f'viewBox="{-MARGIN} 0 {size + 2 * MARGIN} {size}" '
        'role="img" '
        f'aria-label="Graph of {len(domain)} attributes and {len(structure.edges)} edges" overflow="visible">'
        f'{lines}<g fill="#2f5d8a">{nodes}</g>'
        f'<g font-size="11" font-family="sans-serif" fill="currentColor">{texts}</g></svg>'
    )


def bars(labels: Iterable[object], shares: Iterable[float], width: int = 40) -> str:
    """A distribution as lines of text: label, bar, percentage."""
    rows = [(str(label), float(share)) for label, share in zip(labels, shares, strict=True)]
    longest = max((len(label) for label, _ in rows), default=0)
    top = max((share for _, share in rows), default=1.0) or 1.0
    return "\n".join(f"{label:>{longest}}  {_bar(share / top * width):<{width}}  {share:6.1%}" for label, share in rows)


def _bar(length: float) -> str:
    eighths = round(length * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
