"""``quietfield report``: one HTML file on a release and a model, and the curator's private comparison."""

from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli.arguments import AllowNoPromise, MaxEpsilon, Trust, load_release

app = typer.Typer()


@app.command(epilog="Example: quietfield report visits.qfr --model visits.qfm --out report.html")
def report(
    release: Annotated[Path, typer.Argument(help="The release to report on.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The HTML file to write; report.html, or private-report.html, unless said."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model that was learned from it; without one, one is learned now.")
    ] = None,
    title: Annotated[str, typer.Option(help="The heading of the report.")] = "",
    level: Annotated[float, typer.Option(help="The level of intervals, between 0 and 1.")] = 0.9,
    trust: Trust = None,
    max_epsilon: MaxEpsilon = None,
    allow_no_promise: AllowNoPromise = False,
    private: Annotated[
        bool, typer.Option("--private", help="Compare the model with the true records instead: NOT PRIVATE.")
    ] = False,
    records: Annotated[str | None, typer.Option(help="With --private: the records that were released.")] = None,
    schema: Annotated[Path | None, typer.Option(help="With --private: the schema, a JSON file.")] = None,
    values: Annotated[str, typer.Option(help="Of SPSS and Stata files, read codes or labels.")] = "codes",
    delimiter: Annotated[str | None, typer.Option(help="Of CSV files, what separates fields: ';', '|' or tab.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of texts that are not UTF-8, such as cp1252 or utf-16.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report that is at --out already.")] = False,
) -> None:
    """Write a report as one HTML file that may be published: it needs no network, and nobody's record is in it.

    With --private, write the curator's comparison of model and true records instead. NOT PRIVATE: do not pass it on.
    """
    from quietfield import learning
    from quietfield.cli import arguments, outputs
    from quietfield.errors import Error
    from quietfield.models.model import load
    from quietfield.output.report import write_report
    from quietfield.status import is_terminal, show_status

    if private != (records is not None) or private != (schema is not None):
        raise Error(
            "--private, --records FILE and --schema FILE go together: they compare the model with the true records."
        )
    source = arguments.optional_records(records, values, delimiter, encoding)
    out = out or Path("private-report.html" if private else "report.html")
    reads = [path for path in (release, model, schema, *(trust or ())) if path is not None]
    outputs.check(out, "report", force, reads)
    loaded = load_release(release, trust, max_epsilon, allow_no_promise)
    known = None if model is None else load(model)
    if source is not None and schema is not None:
        from quietfield.curator import WARNING
        from quietfield.curator.confidential_report import write_private_report
        from quietfield.schema import Schema

        compared = learning.fit(loaded, progress=is_terminal()) if known is None else known
        with show_status("report: counting and comparing ...", is_terminal()):
            write_private_report(out, source, Schema.load(schema), loaded, compared, title=title, level=level)
        typer.echo(f"written     {out}\n{WARNING}")
        return
    names = (release.name, "model.qfm" if model is None else model.name)
    write_report(out, loaded, known, title=title, level=level, names=names, progress=is_terminal())
    typer.echo(f"written     {out}")
    if model is None:
        typer.echo("model       learned now, by the default method; `quietfield fit` keeps it in a file")
