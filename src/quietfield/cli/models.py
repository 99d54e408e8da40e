"""``quietfield fit`` and ``sample``: from a release to a model, and from a model to made-up records."""

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from quietfield import learning
from quietfield.cli import arguments, outputs, passphrases
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.errors import Error, FileError
from quietfield.files import set_time
from quietfield.models.frames import write_table
from quietfield.models.model import Model
from quietfield.models.spreadsheets import defuse_formulas
from quietfield.models.values import record_columns
from quietfield.output.records import card_file, find_unmeasured, note_unmeasured, record_files, write_records
from quietfield.releases.description import describe_signers, summarize_promise
from quietfield.schema import Schema
from quietfield.status import is_terminal, show_status
from quietfield.text import plural, printable

app = typer.Typer()


@app.command(epilog="Example: quietfield fit visits.qfr --out visits.qfm")
def fit(
    release: Annotated[Path, typer.Argument(help="The release to learn from.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    method: Annotated[
        Literal["map", "cgm", "cgm-nlbp", "naive"], typer.Option(help="How to learn; map has nothing to tune.")
    ] = "map",
    of: Annotated[
        Literal["source", "records"],
        typer.Option(help="What to learn: the distribution that the records came from, or the records themselves."),
    ] = "source",
    inference: arguments.InferenceOption = "exact",
    trust: arguments.Trust = None,
    require_signatures: arguments.RequireSignatures = 1,
    max_epsilon: arguments.MaxEpsilon = None,
    allow_no_promise: arguments.AllowNoPromise = False,
    key: Annotated[Path | None, typer.Option(help="A private key (PEM) to sign the model with.")] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is at --out already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the report as JSON.")] = False,
) -> None:
    """Learn a model from a release alone."""
    if of != "source" and method != "map":
        raise Error("--of is for the method map.")
    reads = [release, *(trust or ()), *(path for path in (key, passphrase_file) if path is not None)]
    outputs.check(out, "model", force, reads)  # before the work, not after it
    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    loaded = arguments.load_release(release, trust, max_epsilon, allow_no_promise, require_signatures)
    options: dict[str, Any] = {} if of == "source" else {"of": of}  # which only the default method has
    model = learning.fit(loaded, method, inference=inference, progress=is_terminal(), **options)
    if model.uncertainty is not None and inference == "exact":
        with show_status("drawing errors for error bars", is_terminal()):
            model.keep_errors()
    model.save(out, signer)
    set_time(out, loaded.created)  # else a script that counts and then learns would tell how long the count took
    report = model.report
    if report is None:
        return
    arguments.warn(report.advice or None)
    if as_json:
        told = {"release_signers": list(loaded.signers), "signed": signer is not None, "written": str(out)}
        outputs.show_json({**asdict(report), **told})
        return
    typer.echo(f"release     {printable(summarize_promise(loaded))}; {describe_signers(loaded.signers)}")
    typer.echo(f"written     {out}\nmodel       {model!r}")
    steps = plural(report.steps, "step")
    typer.echo(f"fit         {report.method}, {steps}, {report.seconds:.1f} s, N about {report.total:.0f}")
    typer.echo(f"converged   {'yes' if report.converged else 'no'}")


@app.command(epilog="Example: quietfield sample visits.qfm --out people.csv")
def sample(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, .csv or .parquet.")],
    rows: Annotated[
        int | None, typer.Option(min=0, help="How many records to draw; by default as many as the release counted.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same records.")] = None,
    copies: Annotated[
        int, typer.Option(min=1, help="How many data sets; several are numbered, for inference: see the data card.")
    ] = 1,
    labels: Annotated[
        bool, typer.Option("--labels", help="Write the labels of the model, without types and without a data card.")
    ] = False,
    schema: Annotated[
        Path | None, typer.Option(help="A schema that says more of the columns than the model's own: types, bounds.")
    ] = None,
    release: Annotated[
        Path | None, typer.Option(help="The model's release: the data card then says what was promised.")
    ] = None,
    delimiter: Annotated[
        str, typer.Option(help="Of a CSV file, what separates fields: a comma, ';', '|' or tab.")
    ] = ",",
    trust: arguments.Trust = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    for_programs: arguments.ForProgramsOption = False,
) -> None:
    """Draw synthetic records from a model: nobody's, and like everybody's.

    They have the columns and types of the source, as far as the schema of the release tells, and a data card beside
    them says how they were drawn and what must not be concluded.
    """
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise FileError(f"records are written to a file whose name ends in .csv or .parquet, not to {out}.")
    reads = [model, *(trust or ()), *(path for path in (schema, release) if path is not None)]
    files = record_files(out, copies)
    for path in files:
        outputs.check(path, "file of records", force, reads)
    learned = Model.load(model, trust or None)
    rules = learned.schema if schema is None else Schema.load(schema)
    typed = rules is not None and not labels
    if not typed and (copies > 1 or release is not None):
        raise Error("several data sets and data cards are for records with types: say no --labels, or give --schema.")
    counted = rows is None
    rows = learned.total if rows is None else rows
    if rows is None:
        raise Error("this model does not know how many records its release counted; say how many to draw: --rows.")
    separator = arguments.parse_delimiter(delimiter)
    names = tuple(record_columns(rules).values()) if typed and rules is not None else learned.domain.attributes
    for path in files:
        if (
            force
            and path.exists()
            and outputs.columns(path, separator) not in (names, tuple(map(defuse_formulas, names)))
        ):
            raise FileError(
                f"{path} has other columns than this model, so it stays, --force or not; choose another path."
            )
    if typed:
        outputs.check(card_file(out), "data card", force, reads)
    behind = None if release is None else arguments.load_release(release, trust, None, False)
    if behind is not None and counted:
        outputs.check_counted(behind, model)
    diagnostics = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if typed:
            written = write_records(
                out, learned, rows, seed=seed, copies=copies, schema=rules, release=behind, delimiter=separator,
                for_programs=for_programs, progress=True,
            )  # fmt: skip
        else:
            frame = learned.sample(rows, seed=seed)
            diagnostics = frame.diagnostics
            write_table(out, frame.to_arrow(), delimiter=separator, for_programs=for_programs)
            written = [out]
    for path in written[: len(files)]:
        typer.echo(f"written     {path}: {plural(rows, 'record')} of {plural(len(names), 'attribute')}")
    for path in written[len(files) :]:
        typer.echo(f"data card   {path}")
    if rules is None and not labels:
        typer.echo("note        labels, not values: the model does not know the columns of its source; give --schema")
    unmeasured = find_unmeasured(learned, rules if typed else None)
    for text in dict.fromkeys([*note_unmeasured(unmeasured), *(str(warning.message) for warning in told)]):
        typer.echo(f"note        {text}")
    if diagnostics is not None:
        typer.echo(f"note        {diagnostics}")
