"""The page that walks through the results, claim by claim, written from the files of trials and nothing else."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import fig2, registry, storage
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

{command} wrote this page from the files in `{folder}/` (and, for five true models per structure, mbi without a limit
and real tables, from [learning.csv](learning.csv), [learning-long.csv](learning-long.csv) and
[real-tables.csv](real-tables.csv)). Measured numbers come from the data files; statements, bounds and reasons are
written by hand (list at the end). `python -m experiments FIGURE` makes the trials ([how](../how-to/reproduce.md)).

## In short

Of {count} statements of the paper {stands}. Each has a row here, and all that was found in the section of its figure.
Corrections to earlier editions follow the limits.

{ours}

"""
JUDGED = """## How a statement is judged

{rule}

A cell of the *full plan* has so many trials: {trials} (its checks: one per population). The paper has 25 in figure 2,
nested: five populations, five noisy releases of each. Where not all of the plan was run, the section says which methods
are whole, and Limits how many trials the cells of figures 1a, 2 and 3b have.
"""
TYPED = """Written by hand are: statements, the paper's numbers, bounds and reasons, without the measured
numbers in them; under Corrections the columns "what was wrong" and "before", and "now" where it has no measured number;
under Limits all but numbers of trials and cells, what `again.csv` says and names of builds; the text above the last
table, and notes in it.
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
    text = INTRODUCTION.format(
        command=f"`{command}`", folder=folder.name, count=len(lead), stands=stands([claim.verdict for claim in lead]),
        ours=fig2.in_short_ours(results.get("fig2", [])),
    )  # fmt: skip
    runs = storage.runs(folder)
    parts = [text + overview(lead), JUDGED.format(rule=RULE, trials=_planned(results)), *sections]
    return "\n".join([*parts, limits(results, runs), *_corrections(results, claims), *_machines(runs)])


def _planned(names: Iterable[str]) -> str:
    """How many trials a cell of each figure's full plan has."""
    counts: dict[str, list[str]] = {}
    for name in names:
        plan = registry.figure(name).plans["full"]
        counts.setdefault(f"{plan.populations * plan.replications:,}", []).append(name)
    ordered = sorted(counts.items(), key=lambda item: ("propositions" in item[1], -len(item[1])))
    return "; ".join(f"{count} in {', '.join(names)}" for count, names in ordered)


def _corrections(results: Mapping[str, list[Row]], claims: Sequence[Claim]) -> list[str]:
    lines = ["## Corrections\n", "| what was wrong | before | now |", "|---|---|---|"]
    lines += [f"| {_cell(one.what)} | {_cell(one.before)} | {_cell(one.now)} |" for one in corrections(results, claims)]
    return ["\n".join(lines) + "\n"]


def section(figure: registry.Figure, rows: list[Row], folder: Path, claims: Sequence[Claim] | None = None) -> str:
    """One figure: how much of it was run, the picture, the claims table by table, and what each method reached."""
    claims = figure.claims(rows) if claims is None else claims
    done = {row.trial for row in rows}
    full = figure.trials(figure.plans["full"])
    other = len(done.difference(full))
    more = f", and {other:,} others" if other else ""
    scored = {row.trial for row in figure.counted(rows)} if figure.measure else done
    counting = {trial for trial in scored if trial.structure not in figure.no_claim}
    apart = f"and on {', '.join(figure.no_claim)}, which no verdict counts" if figure.no_claim else ""
    for measure, words, there in (
        ("failed", "fits that broke down, and count as a model that knows nothing", counting),
        ("failed", apart, scored - counting),
        ("failed", "and in sizes that count nowhere", done - scored),
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
    return "\n".join([*parts, *figure.notes(rows), *_numbers(figure, rows)])


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


def overview(claims: Iterable[Claim]) -> str:
    """The statements of the paper in short: the sections have all that was found."""
    lines = ["| the paper says | verdict | found here | in short, why |", "|---|---|---|---|"]
    lines += [f"| {_cell(c.statement)} | **{c.verdict}** | {_cell(c.brief)} | {_cell(c.reason)} |" for c in claims]
    return "\n".join(lines) + "\n"


def table(claims: Iterable[Claim]) -> str:
    """Claims as a Markdown table."""
    lines = ["| statement | found here | verdict | where and why |", "|---|---|---|---|"]
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
    return [*lines, "", TYPED]
