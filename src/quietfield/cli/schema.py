"""``quietfield schema``: a schema to fill in, from the names and types of columns alone."""

import json
from glob import glob
from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli.arguments import DataArgument, DelimiterOption, EncodingOption, ValuesOption

app = typer.Typer()


@app.command(epilog="Example: quietfield schema visits.csv --header --out schema.json")
def schema(
    data: DataArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The schema file to write; without it, it is shown.")
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="Affirm that the first line of a CSV file holds names, and is no record.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    values: ValuesOption = "codes",
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
) -> None:
    """Start a schema from the names and types of columns. No value is looked at: the labels are for you to fill in.

    A schema is published, and only you can tell whether the first line of a CSV file holds names: then say --header.
    """
    from quietfield.cli import arguments
    from quietfield.cli.outputs import same_file
    from quietfield.curator.counting import columns, lines
    from quietfield.errors import Error, FileError
    from quietfield.files import write_atomically
    from quietfield.schema import FILL_IN, starter

    records = arguments.records(data, values, delimiter, encoding)
    is_lines = lines.is_lines(records)
    if is_lines:
        lines.check_header(records, header)
    elif header:
        raise Error(f"--header is for CSV files, which {str(data)!r} is not.")
    origin = (
        "the first line of the file, which holds names by the curator's word" if is_lines else "the file's own types"
    )
    made = starter(((name, "text" if kind == "other" else kind) for name, kind in columns(records).items()), origin)
    if is_lines:
        arguments.warn(lines.single_name_hint(records))
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    if any(same_file(out, path) for path in [data, *map(Path, glob(str(data), recursive=True))]):
        raise FileError(f"--out {out} is the data that this schema is for, which is not overwritten; choose another.")
    if out.exists() and not force:
        raise FileError(f"{out} is there already; choose another name, or say --force to overwrite it.")
    write_atomically(out, text.encode())
    typer.echo(
        f"Wrote {out}: replace each {FILL_IN!r} by labels, cut points or dates, and take out what is not needed."
    )
