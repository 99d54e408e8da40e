"""The pictures of a report as inline SVG, coloured by the page's style sheet so they follow dark mode and print."""

import struct
import zlib
from base64 import b64encode
from math import exp, pi, sqrt
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    import numpy as np

#: Steps of the diverging scale: a ratio r has level k where 2**STEPS[k-1] <= r, and -k below its inverse.
STEPS = (0.14, 0.5, 1.0, 2.0)
#: Red, green and blue of the levels -4 ... 4, for pictures that no style sheet reaches.
COLOURS = (
    (138, 74, 16), (191, 118, 48), (222, 170, 112), (242, 217, 186), (245, 245, 243),
    (199, 221, 238), (133, 179, 216), (66, 129, 181), (20, 79, 128),
)  # fmt: skip


def level(ratio: float) -> int:
    """The colour of a ratio to independence: -4 (far fewer) to 4 (far more)."""
    from math import log2

    if not ratio > 0:
        return -len(STEPS)
    reached = sum(abs(log2(ratio)) >= step for step in STEPS)
    return reached if ratio > 1 else -reached


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


def histogram(z: "np.ndarray", label: str, description: str) -> Markup:
    """Normalised residuals as a histogram with the normal curve that they should follow if all is well."""
    import numpy as np

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


def pixels(ratios: "np.ndarray") -> str:
    """A heat map too large for a table as a PNG in a data address, one pixel a cell."""
    rows, columns = ratios.shape
    lines = b"".join(
        b"\0" + b"".join(bytes(COLOURS[level(r) + 4] if r == r else (160, 160, 160)) for r in row)
        for row in ratios.tolist()
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(png).decode()
