"""``quietfield synthesize``: from a raw table to a private model and its synthetic records, in one step."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from quietfield.cli import arguments, outputs, passphrases, summaries
from quietfield.cli.interrupts import advise
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.cli.schema import (
    DatesOption,
    DecimalOption,
    HeaderOption,
    KnownOption,
    LeaveOutOption,
    MissingOption,
    ThousandsOption,
    YearsFromOption,
    read_forms,
    read_known,
)
from quietfield.curator.counting import lines
from quietfield.curator.counting.sources import check_there
from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_words import describe_ledger, describe_remaining
from quietfield.curator.policy import read_policy
from quietfield.curator.publish import ReleasePlan
from quietfield.curator.synthesis import Synthesis, SynthesisPlan, charge_and_release, learn, plan_synthesis
from quietfield.errors import Error, FileError
from quietfield.files import set_time
from quietfield.output.records import (
    card_file,
    described_files,
    find_unmeasured,
    is_described,
    note_unmeasured,
    record_files,
    write_records,
)
from quietfield.output.report import write_report
from quietfield.privacy.accounting import format_number
from quietfield.releases.release import Release
from quietfield.schema import Schema
from quietfield.text import join_names, plural, printable

app = typer.Typer()

#: From how many columns on, and how many values that each needs, a dry run warns that most may be left out.
MANY_COLUMNS, MANY_VALUES = 20, 2_000
#: What is true of every CSV file, whatever it holds: it can be said before anything is paid.
LINES = (
    "each line of the file is taken for one record; a text with line breaks in it makes several lines, most of which "
    "are not counted (quietfield inspect, for your eyes alone, says how many; Parquet files have no such lines)"
)
UNSPENT = "not all that was paid is spent"  # in the notes of a release whose steps ended early


@app.command(
    epilog="Example: quietfield synthesize people.csv --header --epsilon 1 --delta 1e-9 --unit rows:1 --ledger "
    "budget.db --out people-synthetic.csv"
)
def synthesize(
    data: arguments.DataArgument,
    epsilon: Annotated[str, arguments.EPSILON],
    unit: Annotated[str, arguments.UNIT],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The records to write, .csv or .parquet; the other files go beside it.")
    ],
    delta: arguments.DeltaOption = None,
    ledger: arguments.LedgerOption = None,
    no_ledger: arguments.NoLedgerOption = False,
    id: arguments.IdOption = None,
    neighbours: arguments.NeighboursOption = "add_remove",
    schema: Annotated[
        Path | None, typer.Option("--schema", help="The schema of all columns, if you have one: it costs nothing.")
    ] = None,
    known: KnownOption = None,
    leave_out: LeaveOutOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    dates: DatesOption = None,
    years_from: YearsFromOption = None,
    missing: MissingOption = None,
    header: HeaderOption = False,
    structure: Annotated[
        str, typer.Option("--structure", help="With --schema: auto, or the tables, as quietfield release takes them.")
    ] = "auto",
    rows: Annotated[
        int | None, typer.Option(min=0, help="How many records to draw; by default as many as were counted.")
    ] = None,
    copies: Annotated[
        int, typer.Option(min=1, help="How many data sets; several are numbered, for inference: see the data card.")
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Of the records, not of the noise, which has none.")] = None,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    one_line_per_record: arguments.OneLinePerRecordOption = False,
    key: Annotated[Path | None, typer.Option(help="A private key (PEM) that signs release and model.")] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write a report.")] = True,
    for_programs: arguments.ForProgramsOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files of an earlier run; it says which.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; pay nothing.")] = False,
) -> None:
    """Discover what the columns hold, choose tables, measure, learn, and draw synthetic records: paid for once.

    Without --delta noise is Laplace and much larger, and labels of texts have to be known.

    Beside the records lie their data card (.card.md), the release (.qfr), the model (.qfm) and a report (.html) that
    says how well questions are answered. All of them may be published.
    """
    arguments.check_payer(ledger, no_ledger)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise FileError(f"records are written to a file whose name ends in .csv or .parquet, not to {out}.")
    forms = read_forms(decimal, thousands, dates, years_from, missing)
    if schema is not None and (known is not None or leave_out or forms is not None):
        raise Error(
            "--schema says all there is to know of the columns; --known, --leave-out, --decimal, --thousands, --dates, "
            "--years-from and --missing are for discovery."
        )
    if schema is None and structure != "auto":
        raise Error("--structure names attributes, which are not known before the schema: give --schema, too.")
    records = arguments.records(data, values, delimiter, encoding, one_line_per_record)
    check_there(records)
    if header and not lines.is_lines(records):
        raise Error(arguments.no_header(data))
    told: Any = Schema.load(schema) if schema is not None else read_known(known, leave_out or [], whole=False)
    cliques = arguments.structure(structure, told.domain) if schema is not None else "auto"
    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    plan = plan_synthesis(
        records, told, epsilon=epsilon, delta=delta, unit=arguments.unit(unit), cliques=cliques,
        neighbours=neighbours, forms=forms, header=header,
    )  # fmt: skip
    if plan.discovery is not None and delimiter is None and lines.is_lines(records):
        lines.check_separator(records)
    policy = read_policy()
    if policy is not None:
        policy.check_signer(signer)
    arguments.warn(*plan.warnings, None if plan.discovery is None else plan.discovery.advice)
    book = None if ledger is None else Ledger(ledger)
    tables, card, page = record_files(out, copies), card_file(out), out.with_suffix(".html") if report else None
    files = {"release": out.with_suffix(".qfr"), "model": out.with_suffix(".qfm"), "data card": card}
    files |= {} if page is None else {"report": page}
    before = _paid_before(files["release"], id)
    if before is not None:
        _check_same(before, files["release"], plan)
    reads = arguments.read_paths(data)
    reads += [path for path in (schema, known, ledger, key, passphrase_file) if path is not None]
    kept = set() if before is None or force else {path for path in (*tables, *files.values()) if path.exists()}
    if card in kept and not all(is_described(path, card) for path in tables):
        raise FileError(
            f"{card} describes other records of this release, and stays with them; draw more with: quietfield sample "
            f"{files['model']} --out OTHER."
        )
    if kept.issuperset([*tables, card]) and (rows is not None or seed is not None):
        arguments.warn(
            f"{join_names(map(str, tables))}: there already, and kept; --rows and --seed are for new records, which "
            f"quietfield sample {files['model']} --out OTHER draws."
        )
    kept = {path for path in kept if path not in tables or is_described(path, card)}  # others may be anybody's
    kept |= set() if before is None else {files["release"]}
    for what, path in [*(("file of records", path) for path in tables), *files.items()]:
        if path in kept:
            continue
        outputs.check(path, what, force, reads)
        if what == "file of records" and path.exists() and not is_described(path, card):
            raise FileError(
                f"{path} has no data card beside it that names it, so it may be anybody's records: it stays, --force "
                "or not; choose another path."
            )
    replaced = [str(path) for path in (*tables, *files.values()) if path.exists() and path not in kept]
    arguments.warn(f"--force replaces {', '.join(replaced)}." if replaced else None)
    if force:
        others = {name for name in described_files(card) if name not in {path.name for path in tables}}
        others |= {out.with_suffix(".html").name} if page is None else set()
        left = sorted(name for name in others if out.with_name(name).exists())
        arguments.warn(f"{join_names(left)}: of an earlier run, and left as they are." if left else None)
    if dry_run:
        _show_plan(plan, book, lines.describe_unit(records, plan.price.unit), lines.is_broken_up(records))
        return
    if before is not None:
        typer.echo(f"{files['release']} was made under this id: it is continued, and nothing is charged.", err=True)
        for note in before.notes:
            if UNSPENT in note:
                arguments.warn(f"{files['release']}: {note}.")
        release = before
    else:
        if lines.is_broken_up(records):
            arguments.warn(f"{LINES}. Say --one-line-per-record if you know that it is so.")
        keeping = outputs.keep_measured(files["release"], signer, force, paid=book is not None)
        with arguments.tell_charge(), _tell_what_is_kept(files["release"]), keeping:
            found = charge_and_release(records, plan, book, id=id, progress=True)
        release = outputs.keep_release(found, files["release"], signer, force, paid=book is not None)
    typer.echo(f"release     {files['release']}")
    if release.complete:
        typer.echo(f"counted     {summaries.describe_count(release, lines.is_lines(records))}")
    if before is None:  # the file tells names, and no reasons
        discovered = (found.schema and found.schema.discovered) or {"columns": {}, "left_out": {}}
        for name, facts in discovered["columns"].items():
            if "note" in facts:
                typer.echo(f"note        {printable(name)}: {facts['note']}")
        for name, why in discovered["left_out"].items():
            typer.echo(f"left out    {printable(name)}: {why}")
    if not release.complete:
        arguments.warn(
            f"{files['release']} waits for its second signature, and nothing is made of it before: quietfield sign "
            f"{files['release']} --key ...; then quietfield fit, and quietfield sample."
        )
        return
    with advise(_say_how_to_go_on(files["release"], release.id)):
        if files["model"] in kept:
            made = Synthesis.load(release, files["model"])
        else:
            made = learn(release, progress=True)
            if made.model.report is not None and made.model.report.interrupted:
                raise KeyboardInterrupt
            made.model.save(files["model"], signer)
            set_time(files["model"], release.created)  # else it would tell how long the count took
        typer.echo(f"model       {files['model']}")
        with warnings.catch_warnings(record=True) as told_of:
            warnings.simplefilter("always")
            if not kept.issuperset([*tables, card]):
                if rows is None:
                    outputs.check_counted(release, files["model"])
                write_records(
                    out, made.model, rows, seed=seed, copies=copies, release=release, for_programs=for_programs,
                    delimiter=arguments.parse_delimiter(delimiter) if delimiter else ",", progress=True,
                )  # fmt: skip
        for path in (*tables, card):
            typer.echo(f"{'data card' if path == card else 'records':<11} {path}")
        if page is not None:
            if page not in kept:
                names = (files["release"].name, files["model"].name)
                write_report(page, release, made.model, names=names, progress=True)
            typer.echo(f"report      {page}")
        unmeasured = find_unmeasured(made.model, made.schema)
        for text in dict.fromkeys([*note_unmeasured(unmeasured), *(str(warning.message) for warning in told_of)]):
            typer.echo(f"note        {text}")


def _say_how_to_go_on(path: Path, id: str) -> str:
    return f"{path} is kept: the same command again, with --id {id}, goes on from there, and nothing is charged again."


@contextmanager
def _tell_what_is_kept(path: Path) -> Iterator[None]:
    """Say how to go on where work ended early, and what it had measured is kept."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as stopped:
        if (found := getattr(stopped, "release", None)) is not None:
            typer.echo(_say_how_to_go_on(path, found.id), err=True)
        raise


def _paid_before(path: Path, id: str | None) -> Release | None:
    """The release that an earlier run under the same id has paid for and written, if there is one."""
    if id is None or not path.is_file():
        return None
    try:
        found = Release.load(path, complete=False)
    except FileError:
        return None  # outputs.check says what is wrong with it
    return found if found.id == id else None


def _check_same(release: Release, path: Path, plan: SynthesisPlan) -> None:
    """Refuse to go on with a release of something else, as far as public facts tell."""
    price, promise, schema = plan.price, release.promise, release.schema
    other = []
    if promise is not None:
        asked = {"epsilon": price.epsilon, "delta": price.delta, "neighbours": price.neighbours}
        other += [name for name, value in asked.items() if getattr(promise, name) != value]
        other += ["unit"] if dict(promise.unit) != price.unit.to_json() else []
    if schema is not None and plan.discovery is not None:
        possible = {*plan.discovery.known, *(column.name for column in plan.discovery.columns)}
        other += ["columns"] if not possible.issuperset(schema) else []
    elif schema is not None and plan.steps is not None:
        other += ["schema"] if schema.domain != plan.steps.schema.domain else []
        given = isinstance(plan.steps, ReleasePlan) and plan.steps.structure.cliques
        other += ["tables"] if given and given != release.structure.cliques else []
    if other:
        raise Error(
            f"{path} was made under this id, and differs in {', '.join(other)}: it is of other records, or of another "
            "request. Choose another --out, or repeat the command that made it."
        )


def _show_plan(plan: "SynthesisPlan", book: "Ledger | None", protects: str, in_lines: bool) -> None:
    """A dry run, in lines."""
    price = plan.price
    delta = "" if price.delta is None else f", delta {format_number(price.delta)}"
    facts = {"dry run": "nothing was paid, and no record was read"}
    if plan.discovery is not None:
        found = plan.discovery
        needed = found.least_of_kinds
        facts["schema"] = (
            f"a tenth of the budget discovers {plural(len(found.columns), 'column')}; one of fewer than about "
            f"{found.least_values:,} values is left out, as is one of fewer than about {needed['numbers']:,} numbers "
            f"or {needed['dates']:,} dates, and of more where these lie far apart"
        )
        if len(found.columns) > MANY_COLUMNS and max(needed.values()) > MANY_VALUES:
            arguments.warn(
                f"{len(found.columns):,} columns share a tenth of the budget, so that most will be left out unless "
                f"there are far more than {max(needed.values()):,} records: give a --schema, say what is known of "
                "columns (--known), leave some out (--leave-out), or take a larger epsilon."
            )
        if found.label_threshold is not None:
            facts["labels"] = (
                f"a text that about {found.label_threshold:,} records or more have in common is found; rarer ones "
                "become 'other', and a column of nothing else is left out"
            )
        if found.left_out:
            facts["left out"] = join_names(found.left_out)
        facts["tables"] = "chosen privately among those of one to four attributes, with the rest of the budget"
    elif plan.steps is not None:
        many = plural(len(plan.steps.statistics.tables), "table")
        given = isinstance(plan.steps, ReleasePlan) and [many, *plan.steps.notes]
        facts["tables"] = "; ".join(given) if given else f"chosen privately among {many}"
    facts |= {"noise": price.noise, "promise": f"epsilon {format_number(price.epsilon)}{delta}"}
    facts["protects"] = protects
    facts |= {"records": LINES} if in_lines else {}
    cost = price.check(book)
    if book is not None and cost is not None:
        facts |= {"ledger": describe_ledger(book), "afterwards": describe_remaining(book, cost, price.threshold)}
    outputs.show_facts(facts)
