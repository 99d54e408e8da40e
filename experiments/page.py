"""The page that walks through the results, claim by claim, written from the files of trials and nothing else."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments import registry, storage
from experiments.claims import Claim
from experiments.estimators import shown
from experiments.trials import Row, Trial
from quietfield.errors import Error
from quietfield.files import write_atomically

INTRODUCTION = """# The paper's figures and claims, again

{command} wrote this page from the files of trials in `{folder}/`; nothing in it is typed in.
`python -m experiments FIGURE` makes the trials ([how](../how-to/reproduce.md)). Error bars are two standard errors,
from the spread between populations. The *full plan* has the paper's 25 nested trials (5 populations, 5 noisy releases
of each) in every cell; where fewer were run, the page says how many, and its figures are for orientation.
"""


def write(folder: Path, command: str) -> list[Path]:
    """Write ``FOLDER.md`` and, where they are missing or old, the figures in the folder."""
    written, sections = [], []
    for name in registry.FIGURES:
        store = storage.Store(folder, name)
        rows = store.read()
        if rows:
            figure = registry.figure(name)
            written += figure.draw(rows, folder / name)
            sections.append(section(figure, rows, folder))
    if not sections:
        raise Error(f"{folder} holds no results; run `python -m experiments all --quick --out {folder}` first.")
    runs = storage.runs(folder)
    text = INTRODUCTION.format(command=f"`{command}`", folder=folder.name)
    path = folder.with_suffix(".md")
    write_atomically(path, "\n".join([text, *sections, *_machines(runs)]).encode())
    return [path, *written]


def section(figure: registry.Figure, rows: list[Row], folder: Path) -> str:
    """One figure: how much of it was run, the picture, the claims."""
    done = {row.trial for row in rows}
    full = figure.trials(figure.plans["full"])
    other = len(done.difference(full))
    more = f", and {other:,} others" if other else ""
    broken = Counter(row.trial.method for row in rows if row.measure == "failed")
    if broken:
        told = ", ".join(f"{count} of {shown(method).label}" for method, count in sorted(broken.items()))
        more += f"; fits that broke down, and are left out: {told}"
    parts = [
        f"## {figure.name}: {figure.title}\n",
        f"*{state(full, done)}{more}.* `python -m experiments {figure.name}`\n",
    ]
    if (folder / f"{figure.name}.svg").exists():
        parts.append(f"![{figure.title}]({folder.name}/{figure.name}.svg)\n")
    parts.append(table(figure.claims(rows)))
    return "\n".join(parts)


def state(full: Sequence[Trial], done: Collection[Trial]) -> str:
    """How much of the full plan was run: all of it, or by number of states which methods are whole."""
    share = sum(trial in done for trial in full)
    if share == len(full):
        return "run in full"
    told = [f"{share:,} of the {len(full):,} trials of the full plan were run"]
    for states in sorted({trial.states for trial in full}):
        planned = Counter(trial.method for trial in full if trial.states == states)
        found = Counter(trial.method for trial in full if trial.states == states and trial in done)
        whole = [shown(method).label for method in planned if found[method] == planned[method]]
        some = [
            f"{shown(method).label} ({found[method]:,} of {planned[method]:,})"
            for method in planned
            if 0 < found[method] < planned[method]
        ]
        if whole or some:
            lists = [f"in full {', '.join(whole)}"] * bool(whole) + [f"in part {', '.join(some)}"] * bool(some)
            told.append((f"s = {states}: " if states else "") + "; ".join(lists))
    return ". ".join(told)


def table(claims: Iterable[Claim]) -> str:
    """Claims as a Markdown table."""
    lines = ["| the paper says | found here | | why |", "|---|---|---|---|"]
    lines += [f"| {_cell(c.statement)} | {_cell(c.found)} | **{c.verdict}** | {_cell(c.why)} |" for c in claims]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _machines(runs: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## What was run, where and for how long\n",
        "| figure | command | trials | seconds | when | machine | versions |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(
            f"| {run['figure']} | `{_cell(run['command'])}` | {run['trials']:,} | {run['seconds']:.0f} | "
            f"{run['when']} | {run['device']}, {run['cores']} cores, {run['jobs']} processes | "
            f"quietfield {run['quietfield']}, jax {run['jax']}, Python {run['python']} |"
        )
    return [*lines, ""]
