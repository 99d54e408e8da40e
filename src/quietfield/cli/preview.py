"""``quietfield preview``: rehearse a release on made-up people, before anything is paid."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

EXAMPLE = "Example: quietfield preview schema.json --structure chain --records 10000 --epsilon 0.1,1,10 --error 0.02"


@app.command(epilog=EXAMPLE)
def preview(
    schema: Annotated[Path, typer.Argument(help="A schema, or a domain, as JSON.")],
    structure: Annotated[
        str,
        typer.Option(
            help="chain, chain:2, homogeneous, star, star:CENTRE, complete, complete:3, grid:4, or cliques as JSON: a "
            """file, or '[["a", "b"]]' itself."""
        ),
    ],
    records: Annotated[int, typer.Option(help="A guess of the number of records. Guess: do not count them for this.")],
    epsilon: Annotated[str, typer.Option(help="The candidates, separated by commas.")] = "0.1,0.3,1,3,10",
    unit: Annotated[
        str, typer.Option(help="Who is protected: rows:1, person:COLUMN:3, person:COLUMN:normalise, or JSON.")
    ] = "rows:1",
    noise: Annotated[str, typer.Option(help="laplace, gaussian or both (the last two need --delta).")] = "laplace",
    delta: Annotated[str | None, typer.Option(help="The delta of Gaussian noise, such as 1e-6.")] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove, replace or paper.")] = "add_remove",
    total: Annotated[str, typer.Option(help="Release a noisy total: auto, yes or no.")] = "auto",
    weights: Annotated[Path | None, typer.Option(help='A JSON file of weights, [[["a", "b"], 2], ...].')] = None,
    rows_each: Annotated[
        int, typer.Option(min=1, help="With person:COLUMN:normalise, a guess of the rows of a person.")
    ] = 1,
    error: Annotated[
        str | None, typer.Option(help="Which epsilon for this error? A share such as 0.02, or 2%.")
    ] = None,
    measure: Annotated[
        str, typer.Option(help="The error that is plotted and asked for: mean, p95, single or distance.")
    ] = "mean",
    svg: Annotated[Path | None, typer.Option(help="A file for the curve as a picture.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a picture that is at --svg already.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="How many models of each strength of dependence.")] = 2,
    seconds: Annotated[float, typer.Option(min=1, help="After this time no further model is begun.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same rehearsals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write everything as JSON.")] = False,
) -> None:
    """Show how wrong tables and learned model would be at several epsilons. No record is read, nothing is paid.

    Releases of made-up people from plausible models are rehearsed, from what is public and a guessed number of records.
    """
    from quietfield.cli import arguments, outputs
    from quietfield.errors import Error
    from quietfield.files import write_atomically
    from quietfield.status import is_terminal
    from quietfield.study import preview as previews
    from quietfield.text import join_names

    if measure not in previews.MEASURES:
        raise Error(f"--measure is one of {join_names(previews.MEASURES)}, not {measure!r}.")
    wanted = None if error is None else _share(error)
    epsilons = epsilon.split(",")
    if not all(text.strip() for text in epsilons):
        raise Error(f"--epsilon names candidates separated by commas, such as 0.1,1,10; {epsilon!r} leaves one empty.")
    outputs.picture(svg, force)
    domain = arguments.domain(schema)
    found = previews.preview(
        domain,
        arguments.structure(structure, domain),
        records=records,
        epsilons=epsilons,
        unit=arguments.unit(unit),
        neighbours=neighbours,  # type: ignore[arg-type]  # checked there
        total=arguments.total(total),
        weights=arguments.weights(weights),
        noise=noise,  # type: ignore[arg-type]  # checked there
        delta=delta,
        rows_each=rows_each,
        repeats=repeats,
        seconds=seconds,
        seed=seed,
        progress=is_terminal(),
    )
    needed = {
        kind: found.epsilon_for(wanted, measure, kind)  # type: ignore[arg-type]  # checked above
        for kind in (found.noise if wanted is not None else ())
        if wanted is not None
    }
    if svg is not None:
        write_atomically(svg, found.svg(measure, wanted).encode())  # type: ignore[arg-type]
    if as_json:
        answers = {kind: answer.to_dict() for kind, answer in needed.items()}
        content = {**found.to_dict(), "needed": answers or None}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for line in found.lines():
        typer.echo(line)
    if found.trials:
        typer.echo(f"\n{found.plot(measure)}")  # type: ignore[arg-type]
    typer.echo("")
    for kind, answer in needed.items():
        typer.echo(f"{kind:<12} {answer.note}")
    for note in found.notes:
        typer.echo(f"note         {note}")
    if svg is not None:
        typer.echo(f"written      {svg}")


def _share(text: str) -> float:
    from quietfield.errors import Error

    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%")) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise Error(f"--error is a share such as 0.02, or a percentage such as 2%, not {text!r}.")
    return value
