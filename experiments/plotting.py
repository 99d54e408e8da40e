"""How the figures look: one colour and marker a method everywhere, logarithmic axes, the legend outside the data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from experiments.estimators import shown
from experiments.trials import Row, Summary, curve, pick
from quietfield.errors import Error

# Colours that also people with a colour deficiency tell apart (Okabe and Ito 2008).
STYLES: dict[str, tuple[str, str, str]] = {  # method: colour, marker, line
    "random": ("#999999", "", ":"),
    "nonprivate": ("#000000", "s", "--"),
    "naive": ("#E69F00", "o", "-"),
    "naive MLE, λ = 1/N": ("#B8860B", "s", "--"),
    "naive-tuned": ("#E69F00", "o", ":"),
    "naive-unprojected": ("#D55E00", "v", "-"),
    "cgm-letter": ("#009E73", "^", "-"),
    "cgm": ("#56B4E9", "v", "-"),
    "cgm-nlbp": ("#56B4E9", "<", ":"),
    "map": ("#0072B2", "D", "-"),
    "map-gaussian": ("#0072B2", "d", ":"),
    "psgd": ("#CC79A7", "P", "-"),
    "psgd-wide": ("#AA3377", "p", "-"),
    "psgd-wide-moments": ("#AA3377", "p", ":"),
    "psgd-fixed": ("#CC79A7", "P", "--"),
    "psgd-small": ("#CC79A7", "P", "-"),
    "psgd-moments": ("#CC79A7", "X", ":"),
    "mbi": ("#8B5A2B", "*", "-."),
}
_OTHERS = ("#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499")


def style(method: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """The look of a method; those that were added take the remaining colours in turn."""
    if method in STYLES:
        colour, marker, line = STYLES[method]
    else:
        place = list(others).index(method) if method in others else 0
        colour, marker, line = _OTHERS[place % len(_OTHERS)], "h", "-"
    return {"color": colour, "marker": marker or None, "linestyle": line, "markersize": 4.5, "linewidth": 1.4}


def canvas(rows: int = 1, columns: int = 1, width: float = 3.0, height: float = 2.7, **options: Any) -> Any:
    """A figure and its grid of axes, without a display."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise Error(
            "drawing needs matplotlib; install it with: pip install 'quietfield[bench]', "
            "or leave the drawing out with --no-figures: the numbers are kept and can be drawn later."
        ) from None
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.5), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save(figure: Any, path: Path) -> list[Path]:
    """Write ``path.svg`` and ``path.png``; the same figure gives the same bytes."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "quietfield", "svg.fonttype": "path"}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
    return [path.with_suffix(".svg"), path.with_suffix(".png")]


def legend(figure: Any, axes: Any, columns: int = 4) -> None:
    """One legend for all axes, below them."""
    seen: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    figure.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def line(ax: Any, points: Mapping[Any, Summary], **look: Any) -> None:
    """A line through means with bars of 95% intervals, where there are several groups of trials."""
    x = list(points)
    if not x:
        return
    ax.errorbar(
        x,
        [points[at].mean for at in x],
        # On a logarithmic axis a bar that reaches below zero cannot be drawn: it ends at a tenth of the mean.
        yerr=[
            [min(bar(points[at]), 0.9 * abs(points[at].mean)) for at in x],
            [bar(points[at]) for at in x],
        ],
        capsize=2,
        elinewidth=0.9,
        **look,
    )


def bar(point: Summary) -> float:
    """The length of a bar on either side; none where the spread is not known."""
    return point.half if isfinite(point.half) else 0.0


def divergences(ax: Any, rows: Iterable[Row], methods: Sequence[str], along: str = "records") -> None:
    """KL against an axis, one line a method; what knows nothing of the axis is a level line."""
    listed = list(rows)
    for method in methods:
        mine = pick(listed, "kl", method=method)
        if not mine:
            continue
        look = style(method, [m for m in methods if m not in STYLES])
        label = shown(method).label
        points = curve(mine, along)
        if shown(method).sees == "nothing":
            ax.axhline(next(iter(points.values())).mean, label=label, **{**look, "marker": None})
        else:
            line(ax, points, label=label, **look)


def finish(ax: Any, title: str = "", x: str = "", y: str = "", log: str = "xy") -> None:
    """Labels, logarithmic axes and a light grid."""
    # Without a positive value, a logarithmic axis cannot be drawn.
    if "x" in log and isfinite(ax.dataLim.minposx):
        ax.set_xscale("log")
    if "y" in log and isfinite(ax.dataLim.minposy):
        ax.set_yscale("log")
    ax.set_title(title, fontsize=9)
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(True, which="major", linewidth=0.4, alpha=0.5)


def both_readings(rows: Iterable[Row]) -> list[Row]:
    """The rows of the settings that are drawn: each method's own, and the naive estimate's other reading of lambda."""
    return [
        row._replace(trial=row.trial._replace(method="naive MLE, λ = 1/N", setting=""))
        if (row.trial.method, row.trial.setting) == ("naive", "lambda=1/N")
        else row
        for row in rows
        if not row.trial.setting or (row.trial.method, row.trial.setting) == ("naive", "lambda=1/N")
    ]


def ordered(rows: Iterable[Row]) -> list[str]:
    """The methods that are there, in the order of the styles, those that were added last."""
    there = {row.trial.method for row in rows}
    return [m for m in STYLES if m in there] + sorted(there - set(STYLES))


Draw = Callable[[list[Row], Path], list[Path]]
