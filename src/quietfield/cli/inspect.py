"""``quietfield inspect``: the curator's confidential look at how schema and records agree."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from quietfield.cli import arguments, outputs
from quietfield.curator import WARNING
from quietfield.curator.counting import lines
from quietfield.curator.counting.sources import check_there
from quietfield.errors import Error
from quietfield.files import archive_kind
from quietfield.status import is_terminal, show_status
from quietfield.text import plural

app = typer.Typer()


@app.command(epilog="Example: quietfield inspect visits.parquet --schema schema.json")
def inspect(
    data: arguments.DataArgument,
    schema: Annotated[Path | None, typer.Option(help=arguments.SCHEMA)] = None,
    common: Annotated[int, typer.Option(min=0, max=100, help="How many unknown values to show for each column.")] = 5,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write what was found as JSON.")] = False,
) -> None:
    """Show nulls and unknown values, how many records they drop, and broken lines; without --schema, these alone.

    NOT PRIVATE: for the curator's eyes only. No file.
    """

    from quietfield.curator.inspection import count_dropped, inspect_lines, inspect_records, suggest_labels

    if kind := archive_kind(data):
        raise Error(
            f"{data} is a {kind} and holds no records to inspect; quietfield verify {data} says what it is, and "
            f"quietfield {'export' if kind == 'release' else 'query'} shows its numbers."
        )
    records = arguments.records(data, values, delimiter, encoding)
    if schema is None:
        given = {"--delimiter": delimiter, "--encoding": encoding}
        same = "".join(f" {name} {quote(value)}" for name, value in given.items() if value is not None)
        start = f"To start one: quietfield schema {quote(data)}{same} --out schema.json"
        start += " (and --header, if the first line holds names)." if lines.is_lines(records) else "."
        if not lines.is_lines(records) or as_json:
            raise Error(
                "say how columns become attributes with --schema FILE: a schema, or a release or a model of these "
                f"records. {start}"
            )
        check_there(records)
        with show_status("Looking for broken lines ...", is_terminal()):
            counts = inspect_lines(records, None)
        typer.echo(WARNING)
        if not _show_lines(records, counts, encoding):
            typer.echo(f"All of {plural(counts[3], 'line')} are in order: quotes, fields and bytes.")
        typer.echo(f"What columns hold is compared with a schema: --schema FILE. {start}")
        typer.echo(WARNING)
        return
    known = arguments.schema(schema)
    found = inspect_records(records, known, common, progress=is_terminal())
    with show_status("Counting what would be dropped ...", is_terminal()):
        dropped = count_dropped(records, known, found)
    suggestion = suggest_labels(records, known)
    with show_status("Looking for broken lines ...", is_terminal()):
        counts = inspect_lines(records, found[0].records if found else 0)
    if as_json:
        rows = [
            {
                "attribute": item.attribute,
                "column": item.column,
                "kind": item.kind,
                "null_share": item.null_share,
                "unknown_share": item.unknown_share,
                "common_unknown": [{"value": text, "records": many} for text, many in item.common],
            }
            for item in found
        ]
        content = {"warning": WARNING, "attributes": rows, "records": found[0].records, "dropped_records": dropped}
        broken, foreign, odd, _ = counts
        lines_found = {"broken_lines": broken, "not_in_encoding": foreign, "odd_quotes": odd}
        outputs.show_json({**content, **lines_found, "suggestion": suggestion or None})
        return
    typer.echo(WARNING)
    _show_lines(records, counts, encoding)
    width = max(len(item.attribute) for item in found)
    for item in found:
        rule = known[item.attribute]
        typer.echo(
            f"{item.attribute:<{width}}  {item.kind:<8} nulls {item.null_share:7.2%} ({_fate(rule.null)})"
            f"  unknown {item.unknown_share:7.2%} ({_fate(rule.unknown)})"
        )
        if item.common:
            shown = ", ".join(f"{text!r} x {many}" for text, many in item.common)
            typer.echo(f"{'':<{width}}  unknown values: {shown}")
    counted = found[0].records
    typer.echo(
        f"In all, {dropped:,} of {plural(counted, 'record')} ({dropped / max(counted, 1):.2%}) would be dropped from "
        "a release of all these attributes."
    )
    if suggestion:
        typer.echo(suggestion)
    typer.echo(WARNING)


def _show_lines(records: Any, counts: lines.LineCounts, encoding: str | None) -> bool:
    """Say which lines are not in order; whether any is not."""
    broken, foreign, odd, every = counts
    if broken:
        typer.echo(
            f"{broken:,} of {plural(every, 'line')} {'is' if broken == 1 else 'are'} broken and not counted: "
            "quotes, fields or bytes are not in order."
        )
    if foreign:
        typer.echo(
            f"{foreign:,} of them {'is' if foreign == 1 else 'are'} not {encoding or 'UTF-8'}: name the encoding of "
            "the file, such as --encoding cp1252."
        )
    if odd:
        typer.echo(
            f"{odd:,} of {plural(every, 'line')} {'holds' if odd == 1 else 'hold'} an odd number of quotes: a text "
            "with line breaks in it, whose lines may be rows under other ids, or a stray quote. If texts have line "
            f"breaks, do not say --one-line-per-record; convert the file to Parquet: {lines.parquet_command(records)}"
        )
    return bool(broken or foreign or odd)


def _fate(policy: object) -> str:
    return "the record is dropped" if policy == "drop" else f"become {policy!r}"
