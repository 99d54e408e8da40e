"""``quietfield plan``: what inference and noise would cost, and a rehearsal, before anything is counted or paid."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quietfield.cli import arguments, outputs
from quietfield.cliques import Structure
from quietfield.errors import Error, TooLarge
from quietfield.files import write_atomically
from quietfield.inference.plan import plan_elimination
from quietfield.memory import available_memory, readable_bytes
from quietfield.privacy import planning
from quietfield.privacy.calibration import choose_statistics
from quietfield.privacy.planning import TableNoise
from quietfield.status import is_terminal
from quietfield.study import rehearsal
from quietfield.text import join_names, plural

if TYPE_CHECKING:
    from quietfield.domain import Domain
    from quietfield.study.choice import Choice
    from quietfield.study.rehearsal import Measure, Rehearsal

app = typer.Typer()
REHEARSAL = "With --rehearse"
rehearsal_option = partial(typer.Option, rich_help_panel=REHEARSAL)

EXAMPLE = (
    "Examples: quietfield plan schema.json --structure chain:2 --epsilon 1 --records 10000; "
    "quietfield plan schema.json --structure chain --records 10000 --epsilon 0.1,1,10 --rehearse --error 0.02"
)


@app.command(epilog=EXAMPLE)
def plan(
    context: typer.Context,
    schema: Annotated[
        Path, typer.Argument(help="A schema, or a domain (also in mbi's {attribute: size} form), as JSON.")
    ],
    structure: arguments.StructureOption,
    epsilon: Annotated[
        str | None,
        arguments.privacy_option(
            help="Show the noise of each table at this epsilon; with --rehearse, candidates separated by commas "
            "(0.1,0.3,1,3,10 unless said)."
        ),
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="A guess of the number of records. Guess: do not count them for this.")
    ] = None,
    unit: Annotated[str, arguments.UNIT] = "rows:1",
    noise: Annotated[
        Literal["laplace", "gaussian", "both"],
        arguments.privacy_option(help="laplace is pure; gaussian needs --delta; both are compared with --rehearse."),
    ] = "laplace",
    delta: arguments.DeltaOption = None,
    neighbours: arguments.NeighboursOption = "add_remove",
    total: arguments.TotalOption = "auto",
    weights: arguments.WeightsOption = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Rehearse release and fit on made-up people; needs --records.")
    ] = False,
    error: Annotated[
        str | None, rehearsal_option(help="Which epsilon for this error? A share such as 0.02, or 2%.")
    ] = None,
    measure: Annotated[
        Literal["mean", "p95", "single", "distance"], rehearsal_option(help="The error that is plotted and asked for.")
    ] = "mean",
    rows_each: Annotated[
        int, rehearsal_option(min=1, help="With person:COLUMN:normalise, a guess of the rows of a person.")
    ] = 1,
    repeats: Annotated[int, rehearsal_option(min=1, help="How many models of each strength of dependence.")] = 2,
    seconds: Annotated[float, rehearsal_option(min=1, help="After this time no further model is begun.")] = 60.0,
    seed: Annotated[int, rehearsal_option(min=0, help="The same seed gives the same rehearsal.")] = 0,
    svg: Annotated[Path | None, rehearsal_option(help="A file for the curve as a picture.")] = None,
    force: Annotated[bool, rehearsal_option("--force", help="Replace a picture that is at --svg already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the figures as JSON.")] = False,
) -> None:
    """Show the cost of exact inference and whether it fits; with --epsilon, also the noise of each table.

    With --rehearse, show how wrong tables and learned model would be at several epsilons: releases of made-up people
    from plausible models are learned from. No record is read, nothing is paid.
    """
    wanted = None if error is None else _share(error)
    if rehearse:
        if records is None:
            raise Error("--rehearse needs a guess of the number of records: --records 10000, for instance.")
        outputs.picture(svg, force)
    else:
        said = [
            param.opts[0]
            for param in context.command.params
            if getattr(param, "rich_help_panel", None) == REHEARSAL and arguments.is_given(context, str(param.name))
        ]
        if said or noise == "both" or "," in (epsilon or ""):
            what = join_names(said) or ("--noise both" if noise == "both" else "several epsilons")
            raise Error(f"{what} is for a rehearsal: add --rehearse.")
    domain = arguments.domain(schema)
    cliques = arguments.structure(structure, domain)
    if not isinstance(cliques, Structure):
        if rehearse:
            raise Error("a choice of tables cannot be rehearsed, since made-up people have no structure of yours.")
        if total != "auto" or weights is not None:  # as quietfield release says it
            raise Error(
                "total and weights are for given tables; tables that are chosen privately have weights of theirs."
            )
        _show_choice(domain, cliques, as_json)
        return
    asked: dict[str, Any] = {
        "unit": arguments.unit(unit),
        "neighbours": neighbours,
        "total": arguments.total(total),
        "weights": arguments.weights(weights),
        "noise": noise,
        "delta": delta,
    }
    if not rehearse:
        _show_plan(domain, cliques, epsilon, records, asked, as_json)
        return

    epsilons: list[str] | tuple[float, ...] = rehearsal.EPSILONS
    if epsilon is not None:
        epsilons = epsilon.split(",")
        if not all(text.strip() for text in epsilons):
            raise Error(
                f"--epsilon names candidates separated by commas, such as 0.1,1,10; {epsilon!r} leaves one empty."
            )
    assert records is not None
    found = rehearsal.rehearse(
        domain, cliques, records=records, epsilons=epsilons, rows_each=rows_each, repeats=repeats, seconds=seconds,
        seed=seed, progress=is_terminal(), **asked,
    )  # fmt: skip
    _show_rehearsal(found, measure, wanted, svg, as_json)


def _show_choice(domain: "Domain", choice: "Choice", as_json: bool) -> None:
    """What a private choice may ask for: public facts alone."""
    tables = choice.tables(domain)
    cells = sum(domain.cells(clique) for clique in tables)
    rounds = choice.rounds_for(domain)
    facts: dict[str, Any] = {
        "attributes": len(domain),
        "candidates": len(tables) - len(domain),
        "cells": cells,
        "rounds": rounds,
    }
    if as_json:
        outputs.show_json(facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name:>18}  {value:,}")
    typer.echo(
        f"\nAll {len(domain)} one-way tables are released, then about {len(domain) - 1} pairs that join the attributes "
        f"in a tree, then about {max(1, len(domain) // 2)} more tables in each further round. Which ones is chosen "
        "privately, and paid for by the same epsilon. Where noise is little beside the counts, the tables of all "
        "questions (of attributes of two values, their interactions) are measured at once instead: nothing is chosen."
    )


def _show_plan(
    domain: "Domain",
    structure: Structure,
    epsilon: str | None,
    records: int | None,
    asked: dict[str, Any],
    as_json: bool,
) -> None:
    arguments.warn(planning.warn_of_uncovered(domain, structure))
    whom, near, noise, weights = (asked[name] for name in ("unit", "neighbours", "noise", "weights"))
    measured, weights = planning.allocate_budget(structure, domain, whom, near, weights, noise, asked["total"])
    figures = plan_elimination(domain, measured)
    apart = set(measured.interactions)  # one log-potential each; tied cliques share theirs
    parameters = sum(1 if group[0] in apart else domain.cells(group[0]) for group in measured.groups)
    free = available_memory()
    advice = ""
    try:
        figures.check_memory(free)
    except TooLarge as refusal:
        advice = str(refusal)
    guess = None if records is None else planning.check_guess(records)
    tables: tuple[TableNoise, ...] = ()
    reason = ""
    if epsilon is not None:
        counted, reason = choose_statistics(measured, domain, whom, near, asked["total"], noise, weights)
        planned = planning.calibrate_noise(counted, epsilon=epsilon, delta=asked["delta"], noise=noise, weights=weights)
        arguments.warn(planning.warn_of_budget(epsilon, asked["delta"], planned))
        normalised = getattr(whom, "normalise", False)  # each record then adds 1/K, which needs a guess of its own
        tables = planning.table_noises(counted, planned, None if normalised else guess)
    if as_json:
        content: dict[str, Any] = {
            **figures.to_json(),
            "parameters": parameters,
            "available_bytes": free,
            "fits": not advice,
            "tables": None if epsilon is None else [table.to_dict() for table in tables],
            "total": None if epsilon is None else reason,
        }
        outputs.show_json(content)
        return
    added = "".join(
        f"; {text}, unless you say --weights equal" for text in planning.describe_added(structure, measured)
    )
    rows = {
        "attributes": f"{len(domain)}",
        "cliques": f"{len(figures.cliques)}{added}",
        "log-potentials": f"{parameters:,}",
        "treewidth": f"at most {figures.treewidth} (the best of several orders tried)",
        "largest table": plural(figures.largest_table, "cell") if figures.largest_table < 10**15 else "astronomical",
        "memory": f"{readable_bytes(figures.bytes)} of {readable_bytes(free)} free",
        "multiplications": f"{float(min(figures.operations, 10**300)):.3g} a call",
        "elimination order": " ".join(domain.attributes[step.bag[0]] for step in figures.steps[:12])
        + (" ..." if len(figures.steps) > 12 else ""),
    }
    for name, value in rows.items():
        typer.echo(f"{name:>18}  {value}")
    typer.echo(f"\n{'Exact inference fits.' if not advice else 'Does not fit: ' + advice}")
    if tables:
        typer.echo(f"\nWith epsilon {epsilon}, {asked['noise']} noise; a total of its own: {reason}.")
        typer.echo(f"{'cells':>9}  {'std':>8}  {'19 of 20 below':>14}  {'std of a share':>14}  distance  table")
        for table in tables:
            share, distance = (
                "-" if v is None else planning.format_points(v) for v in (table.share_std, table.distance)
            )
            name = " = ".join(" × ".join(clique) for clique in table.cliques[:3]) + " = ..." * (len(table.cliques) > 3)
            name += " (interaction)" * table.interaction
            numbers = f"{table.cells:>9,}  {table.std:>8.3g}  {table.margin:>14.3g}  {share:>14}  {distance:>8}"
            typer.echo(f"{numbers}  {name}")


def _show_rehearsal(
    found: "Rehearsal", measure: "Measure", wanted: float | None, svg: Path | None, as_json: bool
) -> None:
    needed = {} if wanted is None else {kind: found.epsilon_for(wanted, measure, kind) for kind in found.noise}
    if svg is not None:
        write_atomically(svg, found.svg(measure, wanted).encode())
    if as_json:
        answers = {kind: answer.to_dict() for kind, answer in needed.items()}
        outputs.show_json({**found.to_dict(), "needed": answers or None})
        return
    for line in found.lines():
        typer.echo(line)
    if found.trials:
        typer.echo(f"\n{found.plot(measure)}")
    typer.echo("")
    for kind, answer in needed.items():
        typer.echo(f"{kind:<12} {answer.note}")
    for note in found.notes:
        typer.echo(f"note         {note}")
    if svg is not None:
        typer.echo(f"written      {svg}")


def _share(text: str) -> float:
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%")) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise Error(f"--error is a share such as 0.02, or a percentage such as 2%, not {text!r}.")
    return value
