"""``quietfield fit`` and ``sample``: from a release to a model, and from a model to made-up records."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from quietfield.cli.arguments import (
    FOR_PROGRAMS,
    AllowNoPromise,
    InferenceOption,
    MaxEpsilon,
    RequireSignatures,
    Trust,
    load_release,
)
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.text import plural, printable

app = typer.Typer()


@app.command(epilog="Example: quietfield fit visits.qfr --out visits.qfm")
def fit(
    release: Annotated[Path, typer.Argument(help="The release to learn from.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    method: Annotated[
        Literal["map", "cgm", "cgm-nlbp", "naive"], typer.Option(help="How to learn; map has nothing to tune.")
    ] = "map",
    inference: InferenceOption = "exact",
    trust: Trust = None,
    require_signatures: RequireSignatures = 1,
    max_epsilon: MaxEpsilon = None,
    allow_no_promise: AllowNoPromise = False,
    key: Annotated[Path | None, typer.Option(help="A private key (PEM) to sign the model with.")] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is at --out already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the report as JSON.")] = False,
) -> None:
    """Learn a model from a release alone."""
    from quietfield import learning
    from quietfield.cli import arguments, outputs, passphrases
    from quietfield.files import set_time
    from quietfield.releases.description import describe_signers, summarize_promise
    from quietfield.status import is_terminal

    reads = [release, *(trust or ()), *(path for path in (key, passphrase_file) if path is not None)]
    outputs.check(out, "model", force, reads)  # before the work, not after it
    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    loaded = load_release(release, trust, max_epsilon, allow_no_promise, require_signatures)
    model = learning.fit(loaded, method, inference=inference, progress=is_terminal())
    model.save(out, signer)
    set_time(out, loaded.created)  # else a script that counts and then learns would tell how long the count took
    report = model.report
    if report is None:
        return
    arguments.warn(report.advice or None)
    if as_json:
        told = {"release_signers": list(loaded.signers), "signed": signer is not None, "written": str(out)}
        typer.echo(json.dumps({**asdict(report), **told}, indent=2))
        return
    typer.echo(f"release     {printable(summarize_promise(loaded))}; {describe_signers(loaded.signers)}")
    typer.echo(f"written     {out}\nmodel       {model!r}")
    steps = plural(report.steps, "step")
    typer.echo(f"fit         {report.method}, {steps}, {report.seconds:.1f} s, N about {report.total:.0f}")
    typer.echo(f"converged   {'yes' if report.converged else 'no'}")


@app.command(epilog="Example: quietfield sample visits.qfm --rows 10000 --out people.csv")
def sample(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    rows: Annotated[int, typer.Option(min=0, help="How many records to draw.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, .csv or .parquet.")],
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same records.")] = None,
    trust: Trust = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    for_programs: Annotated[bool, typer.Option("--for-programs", help=FOR_PROGRAMS)] = False,
) -> None:
    """Draw records from a model: nobody's, and like everybody's."""
    import warnings

    from quietfield.cli import outputs
    from quietfield.errors import FileError
    from quietfield.models.model import Model
    from quietfield.text import defuse_formulas

    if out.suffix.lower() not in (".csv", ".parquet"):
        raise FileError(f"records are written to a file whose name ends in .csv or .parquet, not to {out}.")
    outputs.check(out, "file of records", force, [model, *(trust or ())])
    learned = Model.load(model, trust or None)
    ours = (learned.domain.attributes, tuple(map(defuse_formulas, learned.domain.attributes)))
    if force and out.exists() and outputs.columns(out) not in ours:
        raise FileError(f"{out} has other columns than this model, so it stays, --force or not; choose another path.")
    frame = learned.sample(rows, seed=seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        frame.save(out, for_programs=for_programs)
    typer.echo(f"written     {out}: {plural(len(frame), 'record')} of {plural(len(frame.columns), 'attribute')}")
    for warning in told:
        typer.echo(f"note        {warning.message}")
    if frame.diagnostics is not None:
        typer.echo(f"note        {frame.diagnostics}")
