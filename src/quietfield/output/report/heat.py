"""The joint distribution of two attributes as a heat map: each cell against what independence would give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quietfield.output.report import associations, plots
from quietfield.output.report.limits import MOST_LABELS, MOST_PIXELS, MOST_TELLING

if TYPE_CHECKING:
    from quietfield.learning.observation import Residuals
    from quietfield.releases.release import Release

#: A noisy count is told from zero where noise alone reaches it in fewer than one of twenty empty cells.
TOLD = 1.645


@dataclass(frozen=True)
class Cell:
    """One cell: its ratio as text, the step of its colour, all that it says, and its mark (~ noise, – impossible)."""

    text: str
    level: int
    said: str
    mark: str


@dataclass(frozen=True)
class Heat:
    """A heat map: as rows of cells, or as a list of its most telling cells and, where it is not huge, a picture."""

    rows: tuple[object, ...]
    columns: tuple[object, ...]
    cells: list[list[Cell]] | None
    picture: str
    telling: list[tuple[object, object, Cell]]
    any_noise: bool


def only_noise(fit: "Residuals") -> np.ndarray:
    """Which cells of a noisy table cannot be told from empty ones (or were not counted, and hold noise alone)."""
    return np.zeros(1, bool) if fit.interaction else (fit.noisy <= TOLD * fit.std) | ~np.isfinite(fit.z)


def heat(
    release: "Release",
    fits: "Sequence[Residuals]",
    pair: tuple[str, str],
    p: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray] | None,
) -> Heat:
    """The heat map of a pair with the joint distribution p; ``ends`` are those of the cells' intervals."""
    ratios = associations.ratios(p)
    levels = plots.levels(ratios)
    noise = _pair_noise(fits, pair, p.shape)
    possible = release.domain.mask_over(pair)
    a, b = (release.domain.labels(name) for name in pair)
    q = associations.expect_independent(p)

    def cell(i: int, j: int) -> Cell:
        if not possible[i, j]:
            return Cell("–", 0, "declared impossible", "–")
        ratio = float(ratios[i, j])
        text = "?" if np.isnan(ratio) else f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"
        said = f"{p[i, j]:.2%} of all, {text} times what independence gives"
        if ends is not None and q[i, j] > 0:
            said += f" ({ends[0][i, j] / q[i, j]:.2f} to {ends[1][i, j] / q[i, j]:.2f})"
        mark = "~" if noise is not None and noise[i, j] else ""
        if mark:
            said += "; the published count cannot be told from zero"
        return Cell(text, int(levels[i, j]), said, mark)

    marked = noise is not None and bool((noise & possible).any())
    if max(p.shape) <= MOST_LABELS:
        cells = [[cell(i, j) for j in range(p.shape[1])] for i in range(p.shape[0])]
        return Heat(a, b, cells, "", [], marked)
    # The most telling cells add most to the mutual information, in either direction.
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(possible & (p > 0) & (q > 0), np.abs(p * np.log(p / q)), 0.0)
    order = np.argsort(-weight, axis=None)[:MOST_TELLING]
    telling = [(a[i], b[j], cell(i, j)) for i, j in zip(*np.unravel_index(order, p.shape), strict=True)]
    picture = plots.pixels(np.where(possible, ratios, np.nan)) if p.size <= MOST_PIXELS else ""
    return Heat(a, b, None, picture, telling, marked)


def _pair_noise(fits: "Sequence[Residuals]", pair: tuple[str, str], shape: tuple[int, ...]) -> np.ndarray | None:
    """Which cells of a pair's table, summed from the smallest noisy table that holds both, are only noise."""
    holders = [(f, clique) for f in fits if not f.interaction for clique in f.cliques if set(pair) <= set(clique)]
    if not holders:
        return None
    fit, clique = min(holders, key=lambda found: found[0].noisy.size)
    summed = tuple(i for i, name in enumerate(clique) if name not in pair)
    noisy, missing = fit.noisy.sum(axis=summed), (~np.isfinite(fit.z)).all(axis=summed)
    if pair != tuple(name for name in clique if name in pair):
        noisy, missing = noisy.T, missing.T
    std = fit.std * np.sqrt(fit.noisy.size / noisy.size)
    return (noisy <= TOLD * std) | missing
