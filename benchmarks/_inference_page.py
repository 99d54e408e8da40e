"""docs/results/inference.md and its picture from the files that ``python -m benchmarks.inference`` wrote."""

import json
from pathlib import Path

from benchmarks._pages import draw_table, fill, read_rows, tell_where


def contents(folder: Path) -> str:
    """The page as text."""
    found = json.loads((folder / "inference.json").read_text(encoding="utf-8"))
    rows = read_rows(folder / "inference.csv")
    samples = found["samples"]
    parts = {
        "rounds": f"{found['rounds']} rounds of {found['calls']} calls",
        "versions": ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
        "where": tell_where([found]),
        "marginals": draw_table("|".join(rows[0]), [row.values() for row in rows]),
        "growth": draw_table(
            "T|ms a call|first call with planning and compilation, s",
            [[one["T"], f"{one['ms']:.2f}", f"{one['first_s']:.2f}"] for one in found["growth"]],
        ),
        "ours": f"{samples['quietfield_s']:.3f}",
        "mbis": f"{samples['mbi_s']:.2f}",
        "times": f"{samples['times']:.1f}",
        "pairs": str(samples["pairs"]),
        "least": f"{samples['least_p']:g}",
    }
    return fill(Path(__file__).with_suffix(".md"), parts)


def draw_growth(folder: Path) -> None:
    """The picture of cost against length."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "quietfield"
    import matplotlib.pyplot as plt

    rows = json.loads((folder / "inference.json").read_text(encoding="utf-8"))["growth"]
    figure, axes = plt.subplots(figsize=(5, 3.5))
    lengths, times = [row["T"] for row in rows], [row["ms"] for row in rows]
    axes.loglog(lengths, times, "o-", label="one call, all marginals and log Z")
    axes.loglog(lengths, [times[-1] * n / lengths[-1] for n in lengths], "--", color="grey", label="proportional to T")
    axes.set(xlabel="attributes T (chain of order 3, s=10)", ylabel="ms")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(folder / "inference-growth.svg", metadata={"Date": None})
    plt.close(figure)
