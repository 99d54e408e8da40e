"""docs/results/synthesis.md and .svg from the rows that ``python -m benchmarks.synthesis`` wrote."""

import re
from collections import defaultdict
from pathlib import Path

from benchmarks import interactions
from benchmarks._pages import draw_table, fill, geometric_mean, read_rows, tell_range
from benchmarks._synthesis_methods import METHODS
from benchmarks.allocation import summarize, tell_likelihood
from benchmarks.real_tables import ROWS

ORDER = ("titanic", "nltcs", "adult", "msnbc")
COLOURS = ("#2b6cb0", "#c05621", "#0b6e4f", "#6b7280", "#d69e2e", "#90cdf4", "#b83280", "#1a202c", "#9ae6b4", "#f6ad55")


def page(rows: Path) -> None:
    """Write the page and the picture beside the rows."""
    text, whole = contents(rows)
    (rows.parent / "synthesis.md").write_text(text)
    _picture(whole, rows.parent / "synthesis.svg")


def contents(rows: Path) -> tuple[str, dict[tuple[str, float], dict[str, list[dict[str, str]]]]]:
    """The page as text, and the rows of whole data sets by data set and epsilon, then by method."""
    every = read_rows(rows)
    found = [row for row in every if row["status"] == "ok"]
    failed = [row for row in every if row["status"] != "ok"]
    whole = _cells([row for row in found if float(row["held_out"]) == 0])
    kept = _cells([row for row in found if float(row["held_out"]) > 0])
    elsewhere = read_rows(rows.with_name("synthesis-elsewhere.csv"))
    parts = {
        "errors": _table(whole, ("tv3", "model3"), 3),
        "pairs": _table(whole, ("tv2", "model2"), 3),
        "singles": _table(whole, ("tv1", "model1"), 3),
        "auc": _table(kept, ("auc",), 3),
        "loglik": _table(kept, ("loglik",), 2),
        "costs": _costs(found),
        "allocation": summarize("by_size"),
        "default_allocation": summarize("default", [name for name in ROWS if name != "nltcs"]),
        "apart_allocation": summarize("default", ("nltcs",)),
        "lost_likelihood": tell_likelihood([name for name in ROWS if name != "nltcs"]),
        "interactions": interactions.summarize(),
        "simulated": interactions.summarize_simulated(),
        "swift": tell_range([float(row["model3"]) for row in whole["titanic", 1.0]["swift"]], 3),
        "aim_cpu": _cpu(whole["nltcs", 10.0]["aim"]),
        "our_cpu": _cpu(whole["nltcs", 10.0]["quietfield"]),
        "our_spread": tell_range([float(row["model3"]) for row in whole["titanic", 0.1]["quietfield"]], 3),
        "time_aim": _time_beside(whole, failed, "aim", 1 / 3, "at most a third of AIM's"),
        "time_swift": _time_beside(whole, failed, "swift", 1, "below SWIFT's"),
        **_lead(whole, elsewhere),
        **_elsewhere(elsewhere, whole),
        "failed": "\n".join(
            f"- {row['method']}, {row['data']}, epsilon {float(row['epsilon']):g}, seed {row['seed']}: {row['status']} "
            f"({row['machine']})"
            for row in failed
        ),
    }
    return fill(Path(__file__).with_suffix(".md"), {name: part or "None." for name, part in parts.items()}), whole


def _cells(rows: list[dict[str, str]]) -> dict[tuple[str, float], dict[str, list[dict[str, str]]]]:
    """Rows by data set and epsilon, then by method; of a run that was repeated on another machine, the first."""
    cells: dict[tuple[str, float], dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: (ORDER.index(row["data"]), float(row["epsilon"]))):
        cell = cells[row["data"], float(row["epsilon"])][row["method"]]
        if row["seed"] not in [other["seed"] for other in cell]:
            cell.append(row)
    return cells


def _mean(rows: list[dict[str, str]], field: str) -> float | None:
    values = [float(row[field]) for row in rows if row[field]]
    return sum(values) / len(values) if values else None


def _table(cells: dict, fields: tuple[str, ...], digits: int) -> str:
    """Means over repetitions: the first figure, the second in brackets, and how many there are where not three."""
    methods = [
        name
        for name in METHODS
        if any(_mean(methods[name], fields[0]) is not None for methods in cells.values() if name in methods)
        and not (name == "real" and fields[0].startswith("tv"))
    ]
    lines = []
    for (data, epsilon), by_method in cells.items():
        figures = []
        for name in methods:
            rows = by_method.get(name, [])
            first = _mean(rows, fields[0])
            if first is None:
                figures.append("")
                continue
            second = _mean(rows, fields[1]) if len(fields) > 1 else None
            brackets = f" ({_short(second, digits)})" if second is not None else ""
            figures.append(f"{_short(first, digits)}{brackets} ×{len(rows)}")
        if any(figures):
            lines.append([data, f"{epsilon:g}", *figures])
    return draw_table("|".join(["data", "epsilon", *methods]), lines)


def _short(value: float, digits: int) -> str:
    """So many decimal places, or significant digits where there are fewer of them."""
    return f"{value:.{digits}f}" if abs(value) >= 0.01 else f"{value:.2g}"


def _lead(cells: dict, elsewhere: list[dict[str, str]]) -> dict[str, str]:
    """How quietfield compares with the best peer in each cell: models, records, and models with earlier figures."""
    earlier = [row for row in elsewhere if row["kind"] == "other code"]
    return {
        "lead": _beside_best(cells, "model3", []),
        "lead_records": _beside_best(cells, "tv3", []),
        "lead_earlier": _beside_best(cells, "model3", earlier),
    }


def _beside_best(cells: dict, field: str, earlier: list[dict[str, str]]) -> str:
    ratios = {}
    for (data, epsilon), by_method in cells.items():
        peers = {name: _mean(rows, field) for name, rows in by_method.items() if not name.startswith("quietfield")}
        known = {name: value for name, value in peers.items() if value is not None}
        for row in earlier:
            if (row["data"], float(row["epsilon"])) == (data, epsilon):
                known[f"{row['variant']} by other code"] = float(row["model3"])
        best = min(known, key=known.__getitem__)
        ours = _mean(by_method["quietfield"], field)
        assert ours is not None
        ratios[data, epsilon] = (ours / known[best], best)
    behind = [f"{data} at {e:g} ({ratio:.4f} of {best})" for (data, e), (ratio, best) in ratios.items() if ratio > 1]
    mean = geometric_mean(ratio for ratio, _ in ratios.values())
    named = f" and above on {', '.join(behind)}" if behind else ""
    told = f"below in {len(ratios) - len(behind)} of {len(ratios)} cells{named}"
    return f"{told}; geometric mean of the ratios {mean:.3f}"


def _cpu(rows: list[dict[str, str]]) -> str:
    """The least and most CPU seconds."""
    return tell_range([float(row["cpu_s"]) for row in rows], 0)


def _time_beside(cells: dict, failed: list[dict[str, str]], peer: str, bound: float, told: str) -> str:
    """How many cells keep a bound on mean CPU seconds over those of the quickest variant of a peer, and all ratios.

    Where no variant ended, the processor time after which one was stopped stands for it, and ratios are at most these.
    """
    ended, stopped = {}, {}
    for cell, by_method in cells.items():
        ours = _mean(by_method["quietfield"], "cpu_s")
        theirs = [_mean(rows, "cpu_s") for name, rows in by_method.items() if name.startswith(peer)]
        rows = [row for row in failed if row["method"] == peer and (row["data"], float(row["epsilon"])) == cell]
        used = [_stopped_after(row["status"]) for row in rows]
        if theirs:
            ended[cell] = ours / min(theirs)
        elif any(used):
            stopped[cell] = ours / max(used)
    unended = "where it did not end, of the time that it had used when it was stopped, "
    told_of = ((ended, ""), (stopped, unended))
    return "; ".join(_keeps(ratios, bound, told, name) for ratios, name in told_of if ratios)


def _stopped_after(status: str) -> float:
    """The processor time of a run that did not end, as its status tells it; 0 where it tells none."""
    found = re.search(r"([\d,.]+) s of processor time", status)
    return float(found.group(1).replace(",", "")) if found else 0.0


def _keeps(ratios: dict[tuple[str, float], float], bound: float, told: str, name: str) -> str:
    above = [f"{data} at {epsilon:g}" for (data, epsilon), ratio in ratios.items() if ratio > bound]
    named = f", not on {', '.join(above)}" if above else ""
    data, epsilon = max(ratios, key=ratios.__getitem__)
    ends = tell_range(list(ratios.values()), 3)
    kept = f"{name}{told} in {len(ratios) - len(above)} of {len(ratios)} cells{named}"
    return f"{kept}: {ends} times, most on {data} at {epsilon:g}"


def _elsewhere(rows: list[dict[str, str]], cells: dict) -> dict[str, str]:
    """Figures that have no row in the comparison: by other code, by another draw, of variants that were left out."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        name = f"{row['variant']} on {row['data']} at {float(row['epsilon']):g}"
        here = _mean(cells[row["data"], float(row["epsilon"])][row["method"]], "model3")
        beside = f" ({_short(here, 3)})" if row["kind"] == "other code" and here is not None else ""
        found[row["kind"]][name].append(f"{row['model3']}{beside}")
    told = {kind: "; ".join(f"{name}: {', '.join(of)}" for name, of in named.items()) for kind, named in found.items()}
    return {
        "other_code": told["other code"],
        "left_out": told["left out"],
        "other_draw": ", ".join(row["model3"] for row in rows if row["kind"] == "other draw"),
    }


def _costs(rows: list[dict[str, str]]) -> str:
    """Seconds and memory by machine, data set and method, over all epsilons and repetitions."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        if row["method"] != "real":
            groups[row["machine"], row["data"], row["method"]].append(row)
    lines = []
    methods = list(METHODS)
    for key in sorted(groups, key=lambda key: (key[0], ORDER.index(key[1]), methods.index(key[2]))):
        wall, cpu = ([float(row[field]) for row in groups[key]] for field in ("wall_s", "cpu_s"))
        memory = max(float(row["peak_mb"]) for row in groups[key]) / 1024
        lines.append([*key, len(wall), tell_range(wall, 0), tell_range(cpu, 0), f"{memory:.1f}"])
    return draw_table("machine|data|method|runs|wall, s|CPU, s|memory, GB", lines)


def _picture(cells: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "quietfield"
    import matplotlib.pyplot as plt

    names = [name for name in ORDER if any(data == name for data, _ in cells)]
    figure, axes = plt.subplots(1, len(names), figsize=(11, 3.6), sharex=True, layout="constrained", squeeze=False)
    methods = [name for name in METHODS if name != "real" and any(name in by_method for by_method in cells.values())]
    for axis, data in zip(axes[0], names, strict=True):
        for i, method in enumerate(methods):
            points = [(e, _mean(by[method], "tv3")) for (d, e), by in cells.items() if d == data and method in by]
            if points:
                colour = COLOURS[i % len(COLOURS)]
                axis.loglog(*zip(*points, strict=True), color=colour, marker="o", markersize=4, label=method)
        axis.set_title(data, fontsize=10)
        axis.set_xlabel("epsilon")
        axis.grid(True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("mean total variation, triples")
    entries = {
        label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    shown = [method for method in methods if method in entries]
    figure.legend([entries[m] for m in shown], shown, loc="outside right center", frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
