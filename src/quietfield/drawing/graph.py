"""Small pictures: a structure as an SVG graph, a model in a notebook, a distribution as bars of text."""

from collections.abc import Iterable, Sequence
from html import escape
from math import cos, pi, sin
from typing import TYPE_CHECKING

import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Domain
from quietfield.drawing.columns import format_shares, pad_left, text_width, truncate
from quietfield.text import facts_html, plural, printable

if TYPE_CHECKING:
    from quietfield.models.model import Model

RADIUS = 11  # of a node, in the picture's units
PITCH = 96  # the usual length of an edge
WIDEST = 720
LETTER = 6.6  # the usual width of a letter
MOST_LAID_OUT = 150  # attributes; more go on a circle


def structure_svg(domain: Domain, structure: Structure) -> str:
    """The independence graph: numbered nodes in the domain's order, with names where they fit and as tooltips."""
    names = list(domain)
    number = {name: i for i, name in enumerate(names)}
    edges = [(number[a], number[b]) for a, b in structure.edges]
    places = _places(len(names), edges)
    width = max(x for x, _ in places) + 60
    height = max(y for _, y in places) + 34
    lines = "".join(
        f'<line x1="{places[a][0]:.1f}" y1="{places[a][1]:.1f}" x2="{places[b][0]:.1f}" y2="{places[b][1]:.1f}"/>'
        for a, b in edges
    )
    nodes = "".join(
        f"<g><title>{escape(printable(name))}: {plural(domain.size(name), 'value')}</title>"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>'
        f'<text x="{x:.1f}" y="{y + 3.6:.1f}" fill="#fff" font-size="10">{i + 1}</text></g>'
        for i, (name, (x, y)) in enumerate(zip(names, places, strict=True))
    )
    room = _room(places)
    texts = "".join(
        f'<text x="{x:.1f}" y="{y + RADIUS + 13:.1f}">{escape(truncate(printable(name), room, _width))}</text>'
        for name, (x, y) in zip(names, places, strict=True)
        if room
    )
    about = f"Graph of {plural(len(names), 'attribute')} and {plural(len(edges), 'edge')}"
    joined = "; ".join(f"{printable(a)} – {printable(b)}" for a, b in structure.edges[:40]) + (
        "; …" if len(edges) > 40 else ""
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width:.0f}" height="{height:.0f}" '
        f'style="min-width:{0.7 * width:.0f}px" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{about}"><title>{about}</title>'
        f"<desc>{escape(joined or 'No edges.')}</desc>"
        f'<g class="edges" stroke="#7a8aa0" stroke-width="1.5">{lines}</g>'
        f'<g class="nodes" fill="#2f5d8a" font-family="system-ui,sans-serif" text-anchor="middle">{nodes}</g>'
        f'<g class="names" font-size="12" font-family="system-ui,sans-serif" fill="currentColor" '
        f'text-anchor="middle">{texts}</g></svg>'
    )


def model_html(model: "Model") -> str:
    """What a notebook shows for a model: its graph, its cliques and how it was learned."""
    listed = "; ".join(" × ".join(clique) for clique in model.cliques[:12])
    more = f"; … {len(model.cliques) - 12} more" if len(model.cliques) > 12 else ""
    facts = [
        ("cliques", f"{listed}{more}"),
        ("parameters", plural(model.parameters, "log-potential")),
        ("inference", model.inference),
    ]
    if model.report is not None:
        how = model.report.advice or "converged"
        facts.append(("learned", f"by {model.report.method}, {plural(model.report.steps, 'step')}: {how}"))
    caption = f"Model of {plural(len(model.domain), 'attribute')} and {plural(len(model.cliques), 'clique')}"
    return facts_html(caption, facts, structure_svg(model.domain, model.structure))


def bars(labels: Iterable[object], shares: Iterable[float]) -> str:
    """A distribution as lines of text: label, bar, percentage."""
    width = 40
    rows = [(printable(label), float(share)) for label, share in zip(labels, shares, strict=True)]
    longest = max((text_width(label) for label, _ in rows), default=0)
    top = max((share for _, share in rows), default=1.0) or 1.0
    percents = format_shares(share for _, share in rows)
    wide = max(6, *map(len, percents)) if percents else 6
    return "\n".join(
        f"{pad_left(label, longest)}  {_bar(share / top * width):<{width}}  {percent:>{wide}}"
        for (label, share), percent in zip(rows, percents, strict=True)
    )


def _bar(length: float) -> str:
    eighths = round(length * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _width(text: str) -> float:
    """About how wide a text is in a picture, whatever the font; rather too wide than too narrow."""
    return LETTER * sum(
        2.0
        if c in "MWmw@%"
        else float(text_width(c))
        if text_width(c) != 1 or (c.isascii() and not c.isupper())
        else 1.5
        for c in text
    )


def _room(places: Sequence[tuple[float, float]]) -> float:
    """How wide a name may be under each node, or 0 if too little to be of use."""
    rooms = [
        abs(x - u) for i, (x, y) in enumerate(places) for u, v in places[:i] if abs(y - v) < 2 * RADIUS + 16
    ]  # fmt: skip
    room = min(rooms, default=2 * PITCH) - 6
    return 0.0 if room < 6 * LETTER else min(room, 16 * LETTER)


def _places(n: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Where each node goes: distances like those along the edges, or a circle where that would be crowded."""
    if 1 < n <= MOST_LAID_OUT:
        found = _stress(n, edges)
        span = found.max(0) - found.min(0)
        found = (found - found.min(0)) * min(PITCH, (WIDEST - 120) / max(float(span[0]), 1e-9))
        gaps = np.linalg.norm(found[:, None] - found[None], axis=2) + np.eye(n) * 1e9
        if gaps.min() >= 2 * RADIUS + 4 and _clear(found, edges):
            return [(float(x) + 60, float(y) + 20) for x, y in found]
    radius = max(n * (2 * RADIUS + 6) / (2 * pi), 40.0) if n > 1 else 0.0
    turn = {node: 2 * pi * i / max(n, 1) for i, node in enumerate(_walk(n, edges))}
    turns = [turn[i] for i in range(n)]
    return [(60 + radius + radius * sin(t), 20 + radius - radius * cos(t)) for t in turns]


def _walk(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The nodes in the order of a walk that goes deep first: neighbours end up side by side on a circle."""
    near: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    order: dict[int, None] = {}
    for start in range(n):
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node not in order:
                order[node] = None
                waiting += sorted(near[node], reverse=True)
    return list(order)


def _clear(places: np.ndarray, edges: Sequence[tuple[int, int]]) -> bool:
    """Whether no edge runs through a node that it does not end in."""
    for a, b in edges:
        along = places[b] - places[a]
        t = np.clip((places - places[a]) @ along / max(float(along @ along), 1e-9), 0, 1)
        away = np.linalg.norm(places - (places[a] + t[:, None] * along), axis=1)
        away[[a, b]] = 1e9
        if away.min() < RADIUS:
            return False
    return True


def _stress(n: int, edges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Stress majorisation: places whose distances are close to the number of edges between the nodes.

    From classical scaling, fifty steps of the Guttman transform with weights 1/d^2; then the wide side lies flat.
    """
    d = _distances(n, edges)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ d**2 @ centre)
    x = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    turns = 2 * pi * np.arange(n) / n
    x = x + 0.05 * np.column_stack([np.cos(turns), np.sin(turns)])  # nothing stays on a line only by symmetry
    weights = np.where(d > 0, 1 / np.maximum(d, 1) ** 2, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(50):
        apart = np.linalg.norm(x[:, None] - x[None], axis=2)
        pull = np.where(apart > 1e-9, weights * d / np.maximum(apart, 1e-9), 0.0)
        x = inverse @ ((np.diag(pull.sum(1)) - pull) @ x)
    x = x - x.mean(0)
    _, _, axes = np.linalg.svd(x, full_matrices=False)
    x = x @ axes.T
    if x.shape[1] < 2:
        x = np.column_stack([x, np.zeros(n)])
    return x * np.where(x[0] > 0, -1.0, 1.0)  # the first attribute is on the left, at the top


def _distances(n: int, edges: Sequence[tuple[int, int]]) -> np.ndarray:
    """The number of edges between any two nodes; nodes that nothing joins are a little further than the furthest."""
    from scipy.sparse.csgraph import shortest_path

    joined = np.zeros((n, n))
    for a, b in edges:
        joined[a, b] = 1.0
    found = shortest_path(joined, directed=False, unweighted=True)
    return np.where(np.isfinite(found), found, min(float(found[np.isfinite(found)].max()) + 1, 3.0))
