"""docs/results/learning.md and .svg from the rows that ``python -m benchmarks.learning`` wrote."""

from collections import defaultdict
from pathlib import Path

from benchmarks._pages import draw_table, fill, geometric_mean, read_rows, tell_where

PEERS = ("naive*", "em*", "mbi*")
COLUMNS = ("map", "cgm", "naive*", "em*", "mbi*", "mbi")
WITHIN = "mbi* within 1,000"
MAIN = ("chain", "random")
SUMMARY = "suite|cells|at most 1.02|worst|to the best peer|to mbi*|to mbi, best of its 1,000|to mbi"
CELLS = "suite|N|epsilon|releases|KL of map|map / best peer|cgm|naive*|em*|mbi*|mbi"
WITHOUT = "suite|epsilon|KL of map|KL of mbi at its best|after iterations|map / mbi"
COLOURS = {
    "map": "#0b6e4f",
    "cgm": "#c05621",
    "naive*": "#6b7280",
    "em*": "#d69e2e",
    "mbi*": "#2b6cb0",
    "mbi": "#90cdf4",
}


def page(rows: Path) -> None:
    """Write the page and the picture beside the rows."""
    text, cells = contents(rows)
    (rows.parent / "learning.md").write_text(text)
    _picture(cells, rows.parent / "learning.svg")


def contents(rows: Path) -> tuple[str, dict[tuple[str, int, float], dict[str, list[float]]]]:
    """The page as text, and by cell and method the mean KL and how many releases it is of."""
    cells: dict[tuple[str, int, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seen: dict[tuple[str, int, float], dict[str, dict[tuple[str, str], float]]] = defaultdict(lambda: defaultdict(dict))
    late = set()
    for row in read_rows(rows):
        cell = (row["suite"], int(row["records"]), float(row["epsilon"]))
        release = (row["population"], row["replication"])
        seen[cell][row["method"]][release] = float(row["kl"])
        if row["method"] == "mbi*" and float(row["setting"]) > 1000:
            late.add((cell, release))
    for cell, methods in seen.items():
        # Where its best comes later, mbi is still improving when its default run ends.
        for release, kl in methods["mbi*"].items():
            methods[WITHIN][release] = methods["mbi"][release] if (cell, release) in late else kl
    ratios = {}
    for cell, methods in seen.items():
        # Only releases that the default and every peer that the cell has were fitted on.
        shared = set.intersection(*(set(methods[m]) for m in ("map", *PEERS) if m in methods))
        for method, values in methods.items():
            kept = [values[key] for key in sorted(shared) if key in values]
            if kept:
                cells[cell][method] = [sum(kept) / len(kept), len(kept)]
        ratios[cell] = cells[cell]["map"][0] / min(cells[cell][m][0] for m in PEERS if m in cells[cell])
    suites = list(dict.fromkeys(cell[0] for cell in sorted(cells, key=_order)))
    rows_of = {suite: [cell for cell in cells if cell[0] == suite] for suite in suites}
    main = [cell for cell in cells if cell[0] in MAIN]
    rows_of |= {f"**{' and '.join(MAIN)}**": main} if main else {}
    rows_of |= {"**all**": list(cells)}
    summary = []
    for name, mine in rows_of.items():
        to = [
            _mean([cells[c]["map"][0] / cells[c][m][0] for c in mine if m in cells[c]]) for m in ("mbi*", WITHIN, "mbi")
        ]
        good = sum(ratios[c] <= 1.02 for c in mine)
        worst = f"{max(ratios[c] for c in mine):.3f}"
        summary.append([name, len(mine), good, worst, _mean([ratios[c] for c in mine]), *to])
    table = []
    for cell in sorted(cells, key=_order):
        suite, records, epsilon = cell
        best = min(cells[cell][m][0] for m in PEERS if m in cells[cell])
        others = [f"{cells[cell][m][0] / best:.3f}" if m in cells[cell] else "" for m in COLUMNS if m != "map"]
        kl, count = cells[cell]["map"]
        table.append([suite, f"{records:,}", f"{epsilon:g}", count, f"{kl:.4g}", f"**{ratios[cell]:.3f}**", *others])
    long = without_limit(rows.with_name("learning-long.csv"))
    to_mbi = {cell: cells[cell]["map"][0] / cells[cell]["mbi*"][0] for cell in main}
    lines = [
        [suite, f"{epsilon:g}", f"{one['map']:.4g}", f"{one['mbi*']:.4g}", f"{one['iterations']:,.0f}",
         f"{one['ratio']:.3f}"]
        for (suite, _, epsilon), one in sorted(long.items())
    ]  # fmt: skip
    parts = {
        "summary": draw_table(SUMMARY, summary),
        "cells": draw_table(CELLS, table),
        "without": draw_table(WITHOUT, lines),
        "patient": _mean(list((to_mbi | {cell: one["ratio"] for cell, one in long.items()}).values())),
    }
    parts |= {"holdout": _holdout(rows.with_name("holdout.csv")), "batch": _batch(rows.with_name("batch.csv"))}
    parts |= _fitting(rows.with_name("fitting.csv")) | _limit(rows.with_name("limit.csv"))
    text = fill(Path(__file__).with_suffix(".md"), parts)
    return text, cells


def without_limit(rows: Path) -> dict[tuple[str, int, float], dict[str, float]]:
    """By cell: KL of map and of mbi at its best iteration, which that is, and the ratio; one release a cell."""
    found: dict[tuple[str, int, float], dict[str, float]] = defaultdict(dict)
    for row in read_rows(rows):
        cell = found[row["suite"], int(row["records"]), float(row["epsilon"])]
        cell[row["method"]] = float(row["kl"])
        if row["method"] == "mbi*":
            cell["iterations"] = float(row["setting"])
    for cell in found.values():
        cell["ratio"] = cell["map"] / cell["mbi*"]
    return dict(found)


def _holdout(path: Path) -> str:
    """Log-likelihoods of held-out records, the best of each line marked."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in read_rows(path):
        found[row["data"], row["epsilon"]][row["method"]] = float(row["log_likelihood"])
    lines = []
    for cell, scores in found.items():
        marks = {method: "**" if score == max(scores.values()) else "" for method, score in scores.items()}
        lines.append([*cell, *(f"{marks[m]}{scores[m]:.3f}{marks[m]}" if m in scores else "" for m in COLUMNS)])
    return draw_table("|".join(["data", "epsilon", *COLUMNS]), lines)


def _batch(path: Path) -> str:
    """Seconds of one call for many releases."""
    lines = []
    for row in read_rows(path):
        each = f"{1000 * float(row['again_s']) / int(row['releases']):.0f}"
        named = [row["method"], f"{int(row['releases']):,}", row["states"]]
        lines.append([*named, row["first_s"], row["again_s"], each, row["settled"], row["kl_mean"], tell_where([row])])
    return draw_table("method|releases|values|first call, s|again, s|ms a model|settled|mean KL|where and when", lines)


def _fitting(path: Path) -> dict[str, str]:
    """Seconds of a fit, beside those of mbi and of naive maximum likelihood."""
    rows = read_rows(path)
    lines = [
        [
            row["method"],
            f"{float(row['epsilon']):g}",
            *(row[f] for f in ("seconds", "to_mbi", "to_naive", "compilation_s")),
        ]
        for row in sorted(rows, key=lambda row: (float(row["epsilon"]), float(row["seconds"])))
    ]
    return {
        "fitting": draw_table("method|epsilon|seconds|to mbi|to naive|compilation, s", lines),
        "fitting_where": tell_where(rows),
    }


def _limit(path: Path) -> dict[str, str]:
    """The default beside the posterior mean, release by release and in all."""
    rows = sorted(read_rows(path), key=lambda row: (int(row["records"]), float(row["epsilon"]), int(row["seed"])))
    settings: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    lines = []
    for row in rows:
        settings[row["records"], row["epsilon"]].append(row)
        figures = [row[field] for field in ("seed", "map", "posterior_mean", "worst_rhat")]
        size = f"{int(row['median_ess']):,}"
        lines.append([f"{int(row['records']):,}", f"{float(row['epsilon']):g}", *figures, size])
    sums = [[sum(float(row[field]) for row in of) for field in ("map", "posterior_mean")] for of in settings.values()]
    ratios = " and ".join(f"{ours / mean:.3f}" for ours, mean in sums)
    header = "N|epsilon|release|default|posterior mean|worst split R-hat|median effective size"
    return {"limit": draw_table(header, lines), "limits": f"In all {ratios} times the posterior mean."}


def _order(cell: tuple[str, int, float]) -> tuple[int, str, int, float]:
    first = ("chain", "random", "chain-20")
    return (first.index(cell[0]) if cell[0] in first else len(first), *cell)


def _mean(values: list[float]) -> str:
    return f"{geometric_mean(values):.3f}" if values else ""


def _picture(cells: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "quietfield"
    import matplotlib.pyplot as plt

    epsilons = (0.1, 0.5, 1.0)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), sharex=True, sharey="row", layout="constrained")
    for row, suite in zip(axes, MAIN, strict=True):
        for axis, epsilon in zip(row, epsilons, strict=True):
            for method in reversed(COLUMNS):
                points = sorted(
                    (n, cells[s, n, e][method][0])
                    for s, n, e in cells
                    if s == suite and e == epsilon and method in cells[s, n, e]
                )
                if points:
                    style = (
                        {"linewidth": 2.4, "zorder": 3}
                        if method == "map"
                        else {"linewidth": 1.2, "marker": ".", "markersize": 5}
                    )
                    axis.loglog(*zip(*points, strict=True), color=COLOURS[method], label=method, **style)
            axis.set_title(f"{suite}, epsilon {epsilon:g}", fontsize=10)
            axis.grid(True, which="major", alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("KL(true || learned), nats")
    for axis in axes[1]:
        axis.set_xlabel("records N")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right center", frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
