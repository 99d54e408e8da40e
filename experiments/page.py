"""The page that walks through the results, claim by claim, written from the files of trials and nothing else."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import registry, storage
from experiments.claims import RULE, Claim, marked
from experiments.comparing import standings
from experiments.corrections import corrections, stands
from experiments.estimators import shown
from experiments.limits import limits
from experiments.trials import Row, Trial
from quietfield.errors import Error
from quietfield.files import write_atomically
from quietfield.text import plural

INTRODUCTION = """# The paper's figures and claims, again

{command} wrote this page from the files in `{folder}/` (and, for five true models a structure, mbi without a limit and
real tables, from [learning.csv](learning.csv), [learning-long.csv](learning-long.csv) and
[real-tables.csv](real-tables.csv)). Typed in are: statements, the paper's numbers, bounds and reasons, without the
measured numbers in them; under Corrections the columns "what was wrong" and "before", and "now" where it has no
measured number; under Limits all but numbers of trials and cells, what `again.csv` says and names of builds; the text
above the last table, and notes in it. `python -m experiments FIGURE` makes the trials ([how](../how-to/reproduce.md)).

## In short

Of {count} statements of the paper {stands}. Of {own_count} comparisons with our default, which are among those marked
(ours) in the sections below, {own}.

"""
JUDGED = """## How a statement is judged

{rule}

The *full plan* has the paper's 25 nested trials (5 populations, 5 noisy releases of each) in every cell; where fewer
were run, the section says how many.
"""
MADE_BY = """The last column names the build of the learners by a digest of their source; "former" is the one of
15 November. It matters for quietfield, and for exact EM, which stops by a rule that uses it; other methods learn the
same with any. Trials of 16 November after 16:00, and of 18 November with Python 3.12, were handed out group by group to
up to sixteen runs of one process each; a line names a command that gives these trials, if others too, and its seconds
are those of the groups, summed.
Runs of which no trial is left, since all were run again, are left out; where those of single methods were, the line
says so.
"""


def write(folder: Path, command: str) -> list[Path]:
    """Write ``FOLDER.md`` and the figures in the folder."""
    results = {name: rows for name in registry.FIGURES if (rows := storage.Store(folder, name).read())}
    if not results:
        raise Error(f"{folder} holds no results; run `python -m experiments all --quick --out {folder}` first.")
    written = [path for name, rows in results.items() for path in registry.figure(name).draw(rows, folder / name)]
    path = folder.with_suffix(".md")
    write_atomically(path, contents(folder, command, results).encode())
    return [path, *written]


def contents(folder: Path, command: str, results: Mapping[str, list[Row]]) -> str:
    """The page as text: it follows from the results, the pictures that lie beside them and the log of runs."""
    sections = []
    claims: list[Claim] = []
    for name, rows in results.items():
        figure = registry.figure(name)
        found = [*figure.claims(rows), *figure.elsewhere(results)]
        claims += found
        sections.append(section(figure, rows, folder, found))
    lead = [claim for claim in claims if claim.lead]
    own = [claim.verdict for claim in claims if claim.statement.startswith("(ours)") and _of_default(claim.statement)]
    text = INTRODUCTION.format(
        command=f"`{command}`", folder=folder.name, count=len(lead), stands=stands([claim.verdict for claim in lead]),
        own_count=len(own), own=stands(own),
    )  # fmt: skip
    runs = storage.runs(folder)
    parts = [text + table(lead, first=True), JUDGED.format(rule=RULE), *_corrections(results), *sections]
    return "\n".join([*parts, limits(results, runs), *_machines(runs)])


def _of_default(statement: str) -> bool:
    return "exact EM" not in statement.partition(" above ")[0].partition(" below ")[0]


def _corrections(results: Mapping[str, list[Row]]) -> list[str]:
    lines = ["## Corrections\n", "| what was wrong | before | now |", "|---|---|---|"]
    lines += [f"| {_cell(one.what)} | {_cell(one.before)} | {_cell(one.now)} |" for one in corrections(results)]
    return ["\n".join(lines) + "\n"]


def section(figure: registry.Figure, rows: list[Row], folder: Path, claims: Sequence[Claim] | None = None) -> str:
    """One figure: how much of it was run, the picture, the claims table by table, and what each method reached."""
    claims = figure.claims(rows) if claims is None else claims
    done = {row.trial for row in rows}
    full = figure.trials(figure.plans["full"])
    other = len(done.difference(full))
    more = f", and {other:,} others" if other else ""
    counting = {row.trial for row in figure.counted(rows)} if figure.measure else done
    for measure, words, there in (
        ("failed", "fits that broke down, and count as a model that knows nothing", counting),
        ("failed", "and in sizes that count nowhere", done - counting),
        ("unconverged", "fits that ended before they had converged, of those that say so", done),
    ):
        counts = Counter(row.trial.method for row in rows if row.measure == measure and row.trial in there)
        if counts:
            told = ", ".join(f"{count} of {shown(method).label}" for method, count in sorted(counts.items()))
            more += f"; {words}: {told}"
    builds = dict.fromkeys(run.get("learners", "") for run in storage.runs(folder) if run["figure"] == figure.name)
    if named := [build for build in builds if build]:
        more += f"; builds of the learners: {', '.join(named)} (the last table says which made what)"
    parts = [
        f"## {figure.name}: {figure.title}\n",
        f"*{state(full, done)}{more}.* `python -m experiments {figure.name}`\n",
    ]
    if (folder / f"{figure.name}.svg").exists():
        parts.append(f"![{figure.title}]({folder.name}/{figure.name}.svg)\n")
    for heading in dict.fromkeys(claim.table for claim in claims):
        if heading:
            parts.append(f"### {heading}\n")
        parts.append(table([claim for claim in claims if claim.table == heading]))
    return "\n".join([*parts, *_numbers(figure, rows)])


def _numbers(figure: registry.Figure, rows: list[Row]) -> list[str]:
    """What each method reached, added ones included, beside one reference on the trials that both have."""
    if not figure.measure:
        return []
    reference, found = standings(figure.counted(rows), figure.measure, figure.cell, figure.sign)
    if reference is None or len(found) < 2:
        return []
    label = shown(reference[0]).label
    mean = "mean" if figure.sign > 0 else "geometric mean"
    beside = "median difference from" if figure.sign > 0 else "ratio to"
    lines = [
        "### What each method reached\n",
        f"| method | setting | trials | cells | {figure.measure}, {mean} of its cells | {beside} {label} | better in |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        if one.beside is None:
            size = good = "" if one.kind != reference else "the reference"
        else:
            size = f"{one.beside.gain:+.3g}" if figure.sign > 0 else f"{one.beside.ratio:.3g}"
            good = f"{len(one.beside.good)} of {len(one.beside.cells)}"
        lines.append(
            f"| {_cell(shown(one.kind[0]).label)} | {_cell(one.kind[1])} | {one.trials:,} | {one.cells} | "
            f"{one.mean:.4g} | {size} | {good} |"
        )
    note = f"Beside {label} are the cells and trials that both have; cells differ from method to method.\n"
    return ["\n".join(lines) + "\n", note]


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


def table(claims: Iterable[Claim], first: bool = False) -> str:
    """Claims as a Markdown table; the first of the page has statements of the paper alone."""
    lines = [f"| {'the paper says' if first else 'statement'} | found here | | where and why |", "|---|---|---|---|"]
    lines += [f"| {_cell(marked(c))} | {_cell(c.found)} | **{c.verdict}** | {_cell(c.why)} |" for c in claims]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _machines(runs: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## What was run, where and for how long\n",
        MADE_BY,
        "| figure | command | trials | seconds | when | machine | versions | learners |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        again = f" ({', '.join(run['replaced'])} run again)" if "replaced" in run else ""
        again += f" ({run['note']})" if "note" in run else ""
        lines.append(
            f"| {run['figure']} | `{_cell(run['command'])}`{again} | {run['trials']:,} | {run['seconds']:.0f} | "
            f"{run['when']} | {run['device']}, {run['cores']} cores, {plural(run['jobs'], 'process', 'processes')} | "
            f"quietfield {run['quietfield']}, jax {run['jax']}, Python {run['python']} | {run.get('learners', '')} |"
        )
    return [*lines, ""]
