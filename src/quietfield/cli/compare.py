"""``quietfield compare``: models or methods side by side, on a release or beside a known truth. No record is read."""

from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli import arguments, outputs
from quietfield.errors import Error
from quietfield.files import archive_kind, write_atomically
from quietfield.learning import check_methods
from quietfield.models.model import Model
from quietfield.status import is_terminal
from quietfield.study import comparison

app = typer.Typer()


@app.command(epilog="Example: quietfield compare visits.qfr --methods map,naive")
def compare(
    files: Annotated[list[Path], typer.Argument(help="A release, models, or a release and models of it.")],
    methods: Annotated[
        str | None,
        typer.Option(help="Methods of `fit` to learn the release by; map,naive unless said or models are given."),
    ] = None,
    inference: arguments.InferenceOption = "exact",
    truth: Annotated[
        Path | None, typer.Option(help="A model that is known to be true, in a simulation: how far is each from it?")
    ] = None,
    trust: arguments.Trust = None,
    max_epsilon: arguments.MaxEpsilon = None,
    allow_no_promise: arguments.AllowNoPromise = False,
    svg: Annotated[Path | None, typer.Option(help="A file for the distances as a picture.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a picture that is at --svg already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the comparison as JSON.")] = False,
) -> None:
    """Compare models or methods: fit to the tables of a release, divergences, largest differences, time.

    The first model is what the others are compared with. A release of records that a model has not seen tells how well
    it generalises; with --truth, each model is compared with the true one too. No record is read.
    """
    wanted = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    if methods is not None and not wanted:
        raise Error("--methods names methods separated by commas, such as map,naive; it is empty.")
    check_methods(wanted or (), inference)
    outputs.picture(svg, force)
    release = None
    models: dict[str, Model] = {}
    for path in files:
        if archive_kind(path) == "release":
            if release is not None:
                raise Error("two releases are given; compare on one release at a time.")
            release = arguments.load_release(path, trust, max_epsilon, allow_no_promise)
        else:
            name = path.name if path.name not in models else str(path)
            if name in models:
                raise Error(f"{path} is given twice; name each model once.")
            models[name] = Model.load(path, trust or None)
    count = len(models) + len(wanted or (comparison.DEFAULT_METHODS if release is not None and not models else ()))
    if release is None and truth is None and count == 1:
        raise Error(
            f"{files[0]} is one model alone, with nothing to compare it with; add a second model, --truth MODEL, or "
            f"the release that it was learned from: quietfield compare RELEASE {files[0]}."
        )
    if svg is not None and count == 1:
        raise Error("--svg draws how far models are from each other, and there is one alone; add another model.")
    found = comparison.compare(
        release,
        methods=wanted,
        models=models,
        truth=None if truth is None else Model.load(truth),
        inference=inference,
        progress=is_terminal(),
    )
    if svg is not None:
        write_atomically(svg, found.svg().encode())
    if as_json:
        outputs.show_json(found.to_dict())
        return
    for line in found.lines():
        typer.echo(line)
    for note in found.notes:
        typer.echo(f"note: {note}")
    if svg is not None:
        typer.echo(f"written: {svg}")
