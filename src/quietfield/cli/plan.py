"""``quietfield plan``: what inference in a model would cost, before anything is computed."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: quietfield plan schema.json --structure chain:2")
def plan(
    schema: Annotated[
        Path, typer.Argument(help="A schema, or a domain (also in mbi's {attribute: size} form), as JSON.")
    ],
    structure: Annotated[
        str,
        typer.Option(
            help="chain, chain:2, homogeneous, star, star:CENTRE, complete, complete:3, grid:4, or a JSON file."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Write the figures as JSON.")] = False,
) -> None:
    """Show the elimination order, treewidth, memory and operations of exact inference, and whether it fits."""
    from quietfield.cli import arguments
    from quietfield.errors import TooLarge
    from quietfield.inference.memory import available_memory, readable_bytes
    from quietfield.inference.plan import plan_for

    domain = arguments.domain(schema)
    wanted = arguments.structure(structure, domain)
    figures = plan_for(domain, wanted)
    parameters = sum(domain.cells(group[0]) for group in wanted.groups)  # tied cliques share theirs
    free = available_memory()
    advice = ""
    try:
        figures.check_memory(free)
    except TooLarge as refusal:
        advice = str(refusal)
    if as_json:
        content = {**figures.to_json(), "parameters": parameters, "available_bytes": free, "fits": not advice}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    rows = {
        "attributes": f"{len(domain)}",
        "cliques": f"{len(figures.cliques)}",
        "log-potentials": f"{parameters:,}",
        "treewidth": f"at most {figures.treewidth} (the best of several orders tried)",
        "largest table": f"{figures.largest_table:,} cells" if figures.largest_table < 10**15 else "astronomical",
        "memory": f"{readable_bytes(figures.bytes)} of {readable_bytes(free)} free",
        "multiplications": f"{float(min(figures.operations, 10**300)):.3g} a call",
        "elimination order": " ".join(domain.attributes[step.bag[0]] for step in figures.steps[:12])
        + (" ..." if len(figures.steps) > 12 else ""),
    }
    for name, value in rows.items():
        typer.echo(f"{name:>18}  {value}")
    typer.echo(f"\n{'Exact inference fits.' if not advice else 'Does not fit: ' + advice}")
