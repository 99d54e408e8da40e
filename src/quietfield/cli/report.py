"""``quietfield report``: one HTML file on a release and a model, and the curator's confidential comparison."""

from pathlib import Path
from typing import Annotated

import typer

from quietfield import learning
from quietfield.cli import arguments, outputs
from quietfield.curator import WARNING
from quietfield.curator.confidential_report import write_confidential_report
from quietfield.errors import Error
from quietfield.models.model import Model
from quietfield.output.report import write_report
from quietfield.status import is_terminal, show_status

app = typer.Typer()


@app.command(epilog="Example: quietfield report visits.qfr --model visits.qfm --out report.html")
def report(
    release: Annotated[Path, typer.Argument(help="The release to report on.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The HTML file: report.html, or confidential-report.html, unless said."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model that was learned from it; without one, one is learned now.")
    ] = None,
    title: Annotated[str, typer.Option(help="The heading of the report.")] = "",
    level: Annotated[float, typer.Option(help="The level of intervals, between 0 and 1.")] = 0.9,
    trust: arguments.Trust = None,
    require_signatures: arguments.RequireSignatures = 1,
    max_epsilon: arguments.MaxEpsilon = None,
    allow_no_promise: arguments.AllowNoPromise = False,
    confidential: Annotated[
        bool, typer.Option("--confidential", help="Compare the model with the true records instead: NOT PRIVATE.")
    ] = False,
    records: Annotated[str | None, typer.Option(help="With --confidential: the records that were released.")] = None,
    schema: Annotated[Path | None, typer.Option(help="With --confidential: the schema, a JSON file.")] = None,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report that is at --out already.")] = False,
) -> None:
    """Write a report as one HTML file that may be published: it needs no network, and nobody's record is in it.

    With --confidential, write the curator's comparison of model and true records. NOT PRIVATE: do not pass it on.
    """
    if confidential != (records is not None) or confidential != (schema is not None):
        raise Error(
            "--confidential, --records FILE and --schema FILE go together: they compare the model with true records."
        )
    source = arguments.optional_records(records, values, delimiter, encoding)
    out = out or Path("confidential-report.html" if confidential else "report.html")
    reads = [path for path in (release, model, schema, *(trust or ())) if path is not None]
    outputs.check(out, "report", force, reads)
    loaded = arguments.load_release(release, trust, max_epsilon, allow_no_promise, require_signatures)
    known = None if model is None else Model.load(model, trust or None)
    if source is not None and schema is not None:
        compared = learning.fit(loaded, progress=is_terminal()) if known is None else known
        with show_status("report: counting and comparing ...", is_terminal()):
            write_confidential_report(out, source, arguments.schema(schema), loaded, compared, title=title, level=level)
        typer.echo(f"written     {out}\n{WARNING}")
        return
    names = (release.name, "model.qfm" if model is None else model.name)
    write_report(out, loaded, known, title=title, level=level, names=names, progress=is_terminal())
    typer.echo(f"written     {out}")
    if model is None:
        typer.echo("model       learned now, by the default method; `quietfield fit` keeps it in a file")
