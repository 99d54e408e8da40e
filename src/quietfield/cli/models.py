"""``quietfield fit``, ``query`` and ``sample``: what an analyst does with a release."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quietfield.errors import many

if TYPE_CHECKING:
    from quietfield.model import Model

app = typer.Typer()


@app.command(epilog="Example: quietfield fit visits.qfr --out visits.qfm")
def fit(
    release: Annotated[Path, typer.Argument(help="The release to learn from.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    method: Annotated[str, typer.Option(help="map (nothing to tune), cgm, cgm-nlbp or naive.")] = "map",
    inference: Annotated[str, typer.Option(help="exact, loopy or convex.")] = "exact",
    trust: Annotated[
        Path | None, typer.Option(help="A public key (PEM): refuse a release that it did not sign.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is at --out already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the report as JSON.")] = False,
) -> None:
    """Learn a model from a release alone."""
    import sys

    from quietfield import learning
    from quietfield.cli import outputs
    from quietfield.comparison import check_methods
    from quietfield.releases import Release

    outputs.check(out, "model", force, [release])  # before the work, not after it
    check_methods([method], inference)
    loaded = Release.load(release) if trust is None else Release.load(release, trust=trust)
    model = learning.fit(loaded, method, inference=inference, progress=sys.stderr.isatty())
    model.save(out)
    report = model.report
    if report is None:
        return
    if as_json:
        typer.echo(json.dumps({**asdict(report), "written": str(out)}, indent=2))
        return
    typer.echo(f"written     {out}\nmodel       {model!r}")
    steps = many(report.steps, "step")
    typer.echo(f"fit         {report.method}, {steps}, {report.seconds:.1f} s, N about {report.total:.0f}")
    typer.echo(f"converged   {'yes' if report.converged else 'no: ' + report.advice}")


@app.command(epilog="Example: quietfield query visits.qfm visits --given age=65+ --given smokes=yes")
def query(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    attributes: Annotated[list[str], typer.Argument(help="One attribute or several: their joint distribution.")],
    given: Annotated[
        list[str] | None, typer.Option(help="ATTRIBUTE=LABEL, what is known; may be said several times.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the table as JSON.")] = False,
) -> None:
    """Ask a model for a distribution, on its own or where something is known."""
    from itertools import product

    from quietfield.drawing import bars
    from quietfield.model import load

    asked = load(model)
    known = _evidence(asked, given or [])
    table = asked.conditional(attributes, known) if known else asked.marginal(attributes)
    labels = list(product(*(asked.domain.labels(name) for name in attributes)))
    if as_json:
        cells = [{"labels": list(cell), "probability": float(p)} for cell, p in zip(labels, table.ravel(), strict=True)]
        typer.echo(json.dumps({"attributes": attributes, "given": known, "cells": cells}, ensure_ascii=False, indent=2))
        return
    typer.echo(bars([", ".join(map(str, cell)) for cell in labels], table.ravel()))


@app.command(epilog="Example: quietfield sample visits.qfm --rows 10000 --out people.csv")
def sample(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    rows: Annotated[int, typer.Option(min=0, help="How many records to draw.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, .csv or .parquet.")],
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same records.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Draw records from a model: nobody's, and like everybody's."""
    from quietfield.cli import outputs
    from quietfield.errors import FileError
    from quietfield.model import load

    if out.suffix.lower() not in (".csv", ".parquet"):
        raise FileError(f"records are written to a file whose name ends in .csv or .parquet, not to {out}.")
    outputs.check(out, "file of records", force, [model])
    frame = load(model).sample(rows, seed=seed)
    frame.save(out)
    typer.echo(f"written     {out}: {many(len(frame), 'record')} of {many(len(frame.columns), 'attribute')}")
    if frame.diagnostics is not None:
        typer.echo(f"note        {frame.diagnostics}")


def _evidence(model: "Model", given: list[str]) -> dict[str, str | int]:
    """ATTRIBUTE=LABEL as labels of the model: an integer label may be written as its digits."""
    from quietfield.errors import Error

    known: dict[str, str | int] = {}
    for text in given:
        name, separator, label = text.partition("=")
        if not separator:
            raise Error(f"--given {text!r} is not understood; write ATTRIBUTE=LABEL, for instance sex=f.")
        labels = model.domain.labels(name)
        known[name] = next((value for value in labels if str(value) == label), label)
    return known
