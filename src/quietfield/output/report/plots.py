"""The pictures of a report as inline SVG, coloured by the page's style sheet so they follow dark mode and print."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from math import exp, pi, sqrt

import numpy as np
from markupsafe import Markup

from quietfield.drawing.columns import text_width, truncate
from quietfield.text import printable

#: Steps of the diverging scale: a ratio r has level k where 2**STEPS[k-1] <= r, and -k below its inverse.
STEPS = (0.14, 0.5, 1.0, 2.0)
#: Where the colours of a matrix of Cramér's V change.
STRENGTHS = (0.03, 0.1, 0.3, 0.6)
#: Red, green and blue of the levels -4 ... 4, for pictures that no style sheet reaches.
COLOURS = (
    (138, 74, 16), (191, 118, 48), (222, 170, 112), (242, 217, 186), (245, 245, 243),
    (199, 221, 238), (133, 179, 216), (66, 129, 181), (20, 79, 128),
)  # fmt: skip


def levels(ratios: np.ndarray) -> np.ndarray:
    """The colours of ratios to independence: -4 (far fewer) to 4 (far more), and 0 where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.searchsorted(STEPS, np.abs(np.log2(ratios)), side="right")
    return np.where(np.isnan(ratios), 0, np.where(ratios > 1, reached, -reached))


def bar(
    share: float, low: float | None = None, high: float | None = None, top: float = 1.0, mark: float | None = None
) -> Markup:
    """A bar with its interval, or with a mark across it, as wide as its column.

    The numbers stand beside it, so screen readers are spared the picture.
    """
    scale = 100 / top if top > 0 else 0.0
    parts = [f'<rect width="{share * scale:.2f}" height="10"/>']
    if low is not None and high is not None:
        a, b = max(low, 0.0) * scale, min(high * scale, 100.0)
        parts.append(f'<path d="M{a:.2f} 5H{b:.2f}M{a:.2f} 2V8M{b:.2f} 2V8"/>')
    if mark is not None:
        parts.append(f'<path d="M{min(mark * scale, 100.0):.2f} -1V11"/>')
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">{}</svg>'
    ).format(Markup("".join(parts)))  # numbers alone


def histogram(z: np.ndarray, label: str, description: str) -> Markup:
    """Normalised residuals as a histogram with the normal curve that they should follow if all is well."""
    width, height, base, reach = 480, 190, 160, 4.0
    values = np.clip(z[np.isfinite(z)], -reach, reach)
    bins = 16 if len(values) < 60 else 32
    heights, edges = np.histogram(values, bins=bins, range=(-reach, reach))
    density = heights / max(len(values), 1) / (edges[1] - edges[0])
    top = max(float(density.max(initial=0.0)), 0.42)

    def x(value: float) -> float:
        return 20 + (value + reach) / (2 * reach) * (width - 40)

    def y(value: float) -> float:
        return base - value / top * (base - 14)

    step = x(edges[1]) - x(edges[0])
    bars = "".join(
        f'<rect x="{x(edge) + 0.5:.1f}" y="{y(d):.1f}" width="{step - 1:.1f}" height="{base - y(d):.1f}"/>'
        for edge, d in zip(edges, density, strict=False)
        if d > 0
    )
    points = [i / 10 for i in range(-40, 41)]
    curve = "".join(
        f"{'L' if i else 'M'}{x(p):.1f} {y(exp(-p * p / 2) / sqrt(2 * pi)):.1f}" for i, p in enumerate(points)
    )
    ticks = "".join(
        f'<text x="{x(t):.1f}" y="{base + 18}" text-anchor="middle">{"−" if t < 0 else ""}{abs(t)}</text>'
        f'<path class="axis" d="M{x(t):.1f} {base}v4"/>'
        for t in range(-4, 5, 2)
    )
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-label="{label}"><title>{label}</title>'
        '<desc>{description}</desc><g class="fill">{bars}</g><path class="curve" d="{curve}"/>'
        '<path class="axis" d="M20 {base}H{end}"/>{ticks}</svg>'
    ).format(
        w=width, h=height, label=label, description=description, bars=Markup(bars), curve=curve, base=base,
        end=width - 20, ticks=Markup(ticks),
    )  # fmt: skip


def matrix(names: Sequence[str], v: np.ndarray, joined: np.ndarray) -> Markup:
    """Cramér's V of all pairs as a triangle: rows by name, columns by the number on the diagonal.

    A dot marks pairs that a table joins; where V is NaN, it was not worked out. One path per colour, not one per cell.
    """
    shown = [truncate(printable(name), 26) for name in names]
    side, left, n = 10, 12 + 5 * max(map(text_width, shown)), len(names)
    colour = np.searchsorted(STRENGTHS, v, side="right")

    def path(chosen: np.ndarray, mark: str, off: float) -> str:
        return "".join(f"M{left + side * j + off:g} {side * i + off:g}{mark}" for i, j in np.argwhere(chosen).tolist())

    below = np.tril(~np.isnan(v), -1)
    square = f"h{side - 1}v{side - 1}h-{side - 1}z"
    cells = "".join(
        f'<path class="c{k}" d="{path(below & (colour == k), square, 0.5)}"/>' for k in range(len(STRENGTHS) + 1)
    )
    text = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
    texts = Markup("").join(
        text.format(left - 5, side * i + 8, "end", name)
        + text.format(left + side * (i + 0.5), side * i + 8, "middle", i + 1)
        for i, name in enumerate(shown)
    )
    width, height = left + side * n + 8, side * n + 4
    about = f"Cramér’s V of {int(below.sum()):,} pairs of {n} attributes"
    return Markup(
        '<svg class="matrix" width="{w}" height="{h}" style="min-width:{least:.0f}px" viewBox="0 0 {w} {h}" role="img" '
        'aria-label="{about}"><title>{about}</title><desc>The strongest are in the list below.</desc>{cells}'
        '<path class="dots" d="{dots}"/>{texts}</svg>'
    ).format(
        w=width, h=height, least=0.8 * width, about=about, cells=Markup(cells),
        dots=path(below & joined, "h0", side / 2), texts=texts,
    )  # fmt: skip


def pixels(ratios: np.ndarray) -> str:
    """A heat map too large for a table as a PNG in a data address, one pixel a cell."""
    rows, columns = ratios.shape
    colours = np.array(COLOURS, np.uint8)[levels(ratios) + 4]
    colours[np.isnan(ratios)] = 160
    lines = np.insert(colours.reshape(rows, -1), 0, 0, axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(png).decode()
