"""``quietfield schema``: a schema to fill in, from names and types alone, or one that is discovered and paid for."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from quietfield.cli import arguments
from quietfield.cli.outputs import same_file
from quietfield.curator.counting import columns, lines
from quietfield.curator.discovery import Forms, charge_and_discover, column_kinds, column_storage, plan_discovery
from quietfield.curator.ledger import Ledger
from quietfield.errors import Error, FileError
from quietfield.files import check_writable, read_json, write_atomically
from quietfield.models.values import describe_form
from quietfield.schema import FILL_IN, YEARS_FROM, DateForm, Decimal, Schema, Thousands, starter
from quietfield.text import plural, printable

app = typer.Typer()

DISCOVERY = "Discovery"
discovery_option = partial(typer.Option, rich_help_panel=DISCOVERY)
HeaderOption = Annotated[
    bool, typer.Option("--header", help="Affirm that the first line of a CSV file holds names, and is no record.")
]
KnownOption = Annotated[
    Path | None,
    discovery_option(
        "--known", help="A schema of what is public and costs nothing: rules that are filled in stay as they are."
    ),
]
LeaveOutOption = Annotated[
    list[str] | None,
    discovery_option(
        "--leave-out",
        help="A column to leave out, such as an identifier, whose numbers look like any others. May be repeated.",
    ),
]
DecimalOption = Annotated[
    Decimal | None,
    discovery_option("--decimal", help="What stands before decimal places. Unless said, it is found out."),
]
ThousandsOption = Annotated[
    Thousands | None,
    typer.Option(
        "--thousands",
        help="What stands between thousands: ',', '.', a blank or an apostrophe. Unless said, it is found out; 1,234 "
        "alone does not tell.",
        rich_help_panel=DISCOVERY,
    ),
]
DatesOption = Annotated[
    DateForm | None,
    discovery_option(
        "--dates", help="How dates are written that could be read in two ways: 01/02/2024 alone tells no order."
    ),
]
YearsFromOption = Annotated[
    int | None,
    typer.Option(
        "--years-from",
        help=f"The first of the hundred years that years of two digits are of: 1930 for 1930 to 2029. Unless said, "
        f"{YEARS_FROM}.",
        rich_help_panel=DISCOVERY,
    ),
]
MissingOption = Annotated[
    list[str] | None,
    discovery_option(
        "--missing",
        help="A text that stands for a missing value; may be repeated. Among numbers and dates, '-', '?', '.', NA, n/a "
        "and the like are such anyway.",
    ),
]


@app.command(
    epilog="Example: quietfield schema visits.csv --header --out schema.json. Or pay for labels and cut points: "
    "quietfield schema visits.csv --header --discover --epsilon 0.5 --delta 1e-7 --unit rows:1 --ledger budget.db "
    "--out schema.json"
)
def schema(
    data: arguments.DataArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The schema file to write; without it, it is shown.")
    ] = None,
    header: HeaderOption = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    discover: Annotated[
        bool, typer.Option("--discover", help="Find labels, cut points and periods with noise, and pay for them.")
    ] = False,
    known: KnownOption = None,
    leave_out: LeaveOutOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    dates: DatesOption = None,
    years_from: YearsFromOption = None,
    missing: MissingOption = None,
    epsilon: Annotated[str | None, arguments.EPSILON] = None,
    delta: arguments.DeltaOption = None,
    noise: arguments.NoiseOption = "laplace",
    unit: Annotated[str | None, arguments.UNIT] = None,
    neighbours: arguments.NeighboursOption = "add_remove",
    ledger: arguments.LedgerOption = None,
    no_ledger: arguments.NoLedgerOption = False,
    id: arguments.IdOption = None,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    one_line_per_record: arguments.OneLinePerRecordOption = False,
    progress: Annotated[bool, discovery_option("--progress/--no-progress", help="Show that reading goes on.")] = False,
) -> None:
    """Start a schema from the names and types of columns, or discover one with --discover.

    Without --discover no value is looked at: the labels are for you to fill in. With it, labels whose noisy counts
    reach a threshold, cut points and periods are found with differential privacy and paid for from a ledger; labels of
    texts take a --delta. A schema is published, and only you can tell whether the first line of a CSV file holds names:
    then say --header.
    """
    records = arguments.records(data, values, delimiter, encoding, one_line_per_record)
    is_lines = lines.is_lines(records)
    if is_lines:
        lines.check_header(records, header)
    elif header:
        raise Error(arguments.no_header(data))
    if out is not None:
        reads = [*arguments.read_paths(data), *(path for path in (ledger,) if path is not None)]
        if any(same_file(out, path) for path in reads):
            raise FileError(f"--out {out} is read or charged by this command, and not overwritten; choose another.")
        if out.exists() and not force:
            raise FileError(f"{out} is there already; choose another name, or say --force to overwrite it.")
        check_writable(out)
    if is_lines:
        if discover and delimiter is None:
            lines.check_separator(records)
        arguments.warn(lines.single_name_hint(records))
    told, time = "", ""
    if discover:
        if epsilon is None:
            raise Error("--discover is paid for: say --epsilon, and --delta where texts are to have labels.")
        if unit is None:
            raise Error(
                "say whom to protect: --unit rows:1, or --unit person:COLUMN:3 where persons have several rows."
            )
        arguments.check_payer(ledger, no_ledger)
        forms = read_forms(decimal, thousands, dates, years_from, missing)
        terms = {"epsilon": epsilon, "delta": delta, "noise": noise, "neighbours": neighbours, "forms": forms}
        found = _discover(records, known, leave_out or [], ledger, id, progress, unit=arguments.unit(unit), **terms)
        content: dict[str, Any] = found.to_json()
        assert found.discovered is not None
        told, time = _describe(found), found.discovered["created"]
    else:
        paid = (epsilon, delta, unit, ledger, id, known, leave_out, decimal, thousands, dates, years_from, missing)
        if any(one is not None for one in paid) or no_ledger:
            raise Error(
                "--epsilon, --delta, --unit, --ledger, --no-ledger, --id, --known, --leave-out, --decimal, "
                "--thousands, --dates, --years-from and --missing go with --discover."
            )
        content = _start(records, is_lines)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        typer.echo(told, err=True, nl=False)
        return
    try:
        write_atomically(out, text.encode(), time=time)  # from before the records were read
    except FileError as error:
        if not discover:
            raise
        typer.echo(text, nl=False)
        raise FileError(f"{error} The schema is paid for and cannot be made again: it is shown, keep it.") from None
    typer.echo(f"Wrote {out}{_to_do(discover)}")
    typer.echo(told, nl=False)


def _to_do(discovered: bool) -> str:
    if discovered:
        return ": look through it, edit what you know better, and release with it."
    return f": replace each {FILL_IN!r} by labels, cut points or dates, and take out what is not needed."


def _start(records: Any, is_lines: bool) -> dict[str, Any]:
    """The JSON of a schema to fill in."""
    origin = (
        "the first line of the file, which holds names by the curator's word" if is_lines else "the file's own types"
    )
    return starter(((name, "text" if kind == "other" else kind) for name, kind in columns(records).items()), origin)


def _discover(
    records: Any,
    known: Path | None,
    leave_out: list[str],
    ledger: Path | None,
    id: str | None,
    progress: bool,
    **asked: Any,
) -> Schema:
    """The schema that is discovered, given what is known of some columns."""
    told = {"known": read_known(known, leave_out), "storage": column_storage(records)}
    plan = plan_discovery(column_kinds(records), **told, **asked)
    arguments.warn(plan.warning, plan.advice)
    book = None if ledger is None else Ledger(ledger)
    with arguments.tell_charge():
        return charge_and_discover(records, plan, book, id=id, progress=progress)


def read_forms(
    decimal: Decimal | None,
    thousands: Thousands | None,
    dates: DateForm | None,
    years_from: int | None,
    missing: list[str] | None,
) -> Forms | None:
    """How texts are written, or None where nothing is said."""
    given = {"decimal": decimal, "thousands": thousands, "dates": dates, "years_from": years_from, "missing": missing}
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Forms(**said) if said else None


def read_known(known: Path | None, leave_out: list[str], *, whole: bool = True) -> Any:
    """What is known of columns: the rules of a schema file that are filled in, and columns to leave out.

    A schema where that says it all, impossible combinations included, and ``whole`` allows it; else rules by column.
    """
    from quietfield.schema.form import take_filled

    rules = None if known is None else take_filled(read_json(known))
    told: Any = None if rules is None else Schema.from_json(rules)
    if told is not None and told.domain.impossible and (leave_out or not whole):
        raise Error(
            "impossible combinations in --known go neither with --leave-out nor with synthesize: discover a schema "
            "first (quietfield schema --discover --known FILE), and use that."
        )
    if leave_out or (told is not None and not whole):
        told = {**(dict(told.attributes) if told is not None else {}), **dict.fromkeys(leave_out)}
    return told


def _describe(found: Schema) -> str:
    """What was discovered and what was left out, in lines."""
    assert found.discovered is not None
    said = []
    for name, rule in found.attributes:
        told = [describe_form(rule), found.discovered["columns"].get(name, {}).get("note", "")]
        said.append("  " + ", ".join([f"{printable(name)}: {plural(len(rule.labels), 'value')}", *filter(None, told)]))
    said += [f"  {printable(name)} is left out: {why}." for name, why in found.discovered["left_out"].items()]
    return "\n".join(said) + "\n"
