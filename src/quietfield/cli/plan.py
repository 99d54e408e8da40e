"""``quietfield plan``: what inference in a model would cost, before anything is computed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from quietfield.domain import Domain
    from quietfield.privacy.calibration import TableNoise
    from quietfield.structures import Structure

app = typer.Typer()


@app.command(epilog="Example: quietfield plan schema.json --structure chain:2 --epsilon 1 --records 10000")
def plan(
    schema: Annotated[
        Path, typer.Argument(help="A schema, or a domain (also in mbi's {attribute: size} form), as JSON.")
    ],
    structure: Annotated[
        str,
        typer.Option(
            help="chain, chain:2, homogeneous, star, star:CENTRE, complete, complete:3, grid:4, or cliques as JSON: a "
            """file, or '[["a", "b"]]' itself."""
        ),
    ],
    epsilon: Annotated[
        str | None, typer.Option(help="Show the noise of each table of a release at this epsilon.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="A guess of the number of records: errors are shown as shares too.")
    ] = None,
    unit: Annotated[str, typer.Option(help="Who is protected: rows:1, person:COLUMN:3, ...")] = "rows:1",
    noise: Annotated[str, typer.Option(help="laplace (pure) or gaussian (needs --delta).")] = "laplace",
    delta: Annotated[str | None, typer.Option(help="The delta of Gaussian noise, such as 1e-6.")] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove, replace or paper.")] = "add_remove",
    as_json: Annotated[bool, typer.Option("--json", help="Write the figures as JSON.")] = False,
) -> None:
    """Show the cost of exact inference and whether it fits; with --epsilon, also the noise of each table.

    No record is read. `quietfield preview` goes on to rehearse release and fit.
    """
    from quietfield.cli import arguments
    from quietfield.errors import TooLarge
    from quietfield.inference.plan import plan_elimination
    from quietfield.memory import available_memory, readable_bytes
    from quietfield.privacy import calibration as planning
    from quietfield.text import plural

    domain = arguments.domain(schema)
    wanted = arguments.structure(structure, domain)
    arguments.warn(
        planning.warn_of_uncovered(domain, wanted),
        planning.warn_of_budget(epsilon, delta) if epsilon is not None else None,
    )
    figures = plan_elimination(domain, wanted)
    parameters = sum(domain.cells(group[0]) for group in wanted.groups)  # tied cliques share theirs
    free = available_memory()
    advice = ""
    try:
        figures.check_memory(free)
    except TooLarge as refusal:
        advice = str(refusal)
    guess = None if records is None else planning.check_guess(records)
    tables, reason = _noise(domain, wanted, epsilon, delta, unit, noise, neighbours, guess)
    if as_json:
        content: dict[str, Any] = {
            **figures.to_json(),
            "parameters": parameters,
            "available_bytes": free,
            "fits": not advice,
            "tables": None if epsilon is None else [table.to_dict() for table in tables],
            "total": None if epsilon is None else reason,
        }
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    rows = {
        "attributes": f"{len(domain)}",
        "cliques": f"{len(figures.cliques)}",
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
        typer.echo(f"\nWith epsilon {epsilon}, {noise} noise; a total of its own: {reason}.")
        typer.echo(f"{'cells':>9}  {'std':>8}  {'19 of 20 below':>14}  {'std of a share':>14}  distance  table")
        for table in tables:
            share, distance = (
                "-" if v is None else planning.format_points(v) for v in (table.share_std, table.distance)
            )
            name = " = ".join(" × ".join(clique) for clique in table.cliques[:3]) + " = ..." * (len(table.cliques) > 3)
            numbers = f"{table.cells:>9,}  {table.std:>8.3g}  {table.margin:>14.3g}  {share:>14}  {distance:>8}"
            typer.echo(f"{numbers}  {name}")


def _noise(
    domain: "Domain",
    structure: "Structure",
    epsilon: str | None,
    delta: str | None,
    unit: str,
    noise: str,
    neighbours: str,
    records: int | None,
) -> "tuple[tuple[TableNoise, ...], str]":
    from quietfield.cli import arguments
    from quietfield.privacy import calibration as planning
    from quietfield.privacy.units import choose_statistics

    if epsilon is None:
        return (), ""
    whom = arguments.unit(unit)
    counted, reason = choose_statistics(structure, domain, whom, neighbours, "auto", noise)  # type: ignore[arg-type]
    planned = planning.calibrate_noise(counted, epsilon=epsilon, delta=delta, noise=noise)
    normalised = getattr(whom, "normalise", False)  # each record then adds 1/K, which needs a guess of its own
    return planning.table_noises(counted, planned, None if normalised else records), reason
