"""``quietfield release``: from records to a file that may be published."""

import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quietfield.cli import arguments, outputs, passphrases, silence, summaries
from quietfield.cli import config as configuration
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.curator.counting import describe_spilling, lines
from quietfield.curator.counting.sources import check_there
from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_words import describe_ledger, describe_remaining
from quietfield.curator.loading import read_payment
from quietfield.curator.policy import read_policy
from quietfield.curator.publish import charge_and_publish
from quietfield.curator.release import open_records, plan_any, warn_of_plan
from quietfield.curator.steps import StepPlan
from quietfield.errors import Error, FileError
from quietfield.memory import readable_bytes
from quietfield.privacy.accounting import format_number
from quietfield.privacy.units import Person
from quietfield.releases.release import Release
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.curator.publish import ReleasePlan

app = typer.Typer()

EXAMPLE = (
    "Example: quietfield release visits.parquet --schema schema.json --structure chain --epsilon 1 --unit rows:1 "
    "--ledger budget.db --out visits.qfr"
)


@app.command(epilog=EXAMPLE)
def release(
    context: typer.Context,
    data: arguments.DataArgument,
    schema: arguments.SchemaOption,
    structure: arguments.StructureOption,
    epsilon: Annotated[str, arguments.EPSILON],
    unit: Annotated[str, arguments.UNIT],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The release file to write.")] = None,
    ledger: arguments.LedgerOption = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="An anchor or release whose line the ledger must still have. May be repeated."),
    ] = None,
    no_ledger: arguments.NoLedgerOption = False,
    delta: arguments.DeltaOption = None,
    noise: arguments.NoiseOption = "laplace",
    neighbours: arguments.NeighboursOption = "add_remove",
    total: arguments.TotalOption = "auto",
    weights: arguments.WeightsOption = None,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    one_line_per_record: arguments.OneLinePerRecordOption = False,
    key: Annotated[Path | None, typer.Option(help="A private key (PEM) that signs the release.")] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with any of these settings, such as epsilon = 0.5; what is said here wins.",
            is_eager=True,
            callback=configuration.loader(
                {"data", "schema", "structure", "out", "ledger", "against", "weights", "key", "passphrase_file"},
                {"structure", "unit"},
            ),
        ),
    ] = None,
    id: arguments.IdOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a release that is at --out already.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; do not open the data, pay nothing.")
    ] = False,
    progress: Annotated[bool, typer.Option(help="Show progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as JSON.")] = False,
) -> None:
    """Count, pay, add noise, and write a file that may be published."""
    if arguments.is_given(context, "ledger"):
        no_ledger = arguments.is_given(context, "no_ledger")
    elif arguments.is_given(context, "no_ledger"):
        ledger = None
    arguments.check_payer(ledger, no_ledger)
    known = arguments.schema(schema)
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "unit": arguments.unit(unit),
        "neighbours": neighbours,
        "total": arguments.total(total),
        "weights": arguments.weights(weights),
        "noise": noise,
    }
    records = arguments.records(data, values, delimiter, encoding, one_line_per_record)
    check_there(records)
    cliques = arguments.structure(structure, known.domain)
    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    prepared = plan_any(known, cliques, **asked)
    lines.check_neighbours(records, prepared.unit, prepared.statistics.neighbours)
    lines.check_unit(records, prepared.unit)
    protects = lines.describe_unit(records, prepared.unit)
    policy = read_policy()
    if policy is not None:
        policy.check_signer(signer)
    warnings = warn_of_plan(prepared)
    arguments.warn(*warnings)
    book = None if ledger is None else Ledger(ledger)
    if against and book is None:
        raise Error("--against is for a ledger: say which with --ledger FILE.")
    if book is not None:
        book.check_against({str(path): read_payment(path) for path in against or ()})
    if out is not None:
        reads = [
            schema,
            *(path for path in (key, weights, config, *(against or ())) if path is not None),
            Path(structure),
        ]
        if ledger is not None:
            reads += [
                ledger,
                *(ledger.with_name(ledger.name + end) for end in ("-journal", "-wal", "-shm")),
            ]  # SQLite's
        _check_disk(out, prepared)
        outputs.check(out, "release", force, [*arguments.read_paths(data), *reads])
    if dry_run:
        if as_json:
            outputs.show_json(summaries.of_plan(prepared, book, protects, warnings))
        else:
            outputs.show_facts(_describe_plan(prepared, book, protects))
        return
    if out is None:
        raise Error("say where the release goes: --out FILE.")
    with arguments.tell_charge(), outputs.keep_measured(out, signer, force, paid=book is not None):
        made = charge_and_publish(open_records(records, prepared), prepared, book, id=id, progress=progress)
    loaded = outputs.keep_release(Release.of(made), out, signer, force, paid=book is not None)
    facts = [(name, text) for name, text in loaded._facts() if name != "note"]
    if not loaded.complete:
        arguments.warn(f"{out} waits for its second signature: quietfield sign {out} --key SECOND.pem.")
    try:
        paid = summaries.of_payment(loaded, book)
        if as_json:
            outputs.show_json(summaries.of_release(loaded, out, warnings, paid))
        else:
            notes = {"notes": "; ".join(loaded.notes), **_describe_payment(paid, book)}
            many = {"counted": summaries.describe_count(loaded, lines.is_lines(records))} if loaded.complete else {}
            outputs.show_facts({"written": out, **dict(facts), **many, **notes})
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except OSError as error:  # a reader that went away, a full disk: no reason to think that the release failed
        silence()
        typer.echo(f"{out} is written; the standard output is not: {error.strerror}.", err=True)
    except Error as error:  # the ledger was taken away meanwhile
        typer.echo(f"{out} is written and paid for; the ledger cannot be read any more: {error}", err=True)


def _check_disk(out: Path, prepared: "ReleasePlan | StepPlan") -> None:
    """Refuse a release for which the disk has no room: it would be paid for and lost."""
    from shutil import disk_usage

    needed = 8 * prepared.statistics.cells
    if out.parent.is_dir() and (free := disk_usage(out.parent).free) < needed:
        raise FileError(
            f"{out} takes {readable_bytes(needed)}, and {readable_bytes(free)} is free there; choose another path."
        )


def _describe_plan(prepared: "ReleasePlan | StepPlan", book: Ledger | None, protects: str) -> dict[str, Any]:
    counted, price = prepared.statistics, prepared.price
    paid = {}
    cost = prepared.price.check(book)
    if book is not None and cost is not None:
        paid = {"ledger": describe_ledger(book), "afterwards": describe_remaining(book, cost)}
    cells = plural(sum(prod(table.shape) for table in counted.tables), "cell")
    every = plural(len(counted.tables), "table")
    what: dict[str, Any]
    if isinstance(prepared, StepPlan):
        what = {
            "tables": f"chosen among, or equal to, {every} of {cells}, all counted in one pass",
            "noise": f"{prepared.kind}, scales by the tables that are chosen",
        }
    else:
        scales = dict.fromkeys(f"{n.scale:.6g}" for n in prepared.noise.noises)
        what = {
            "tables": "; ".join([f"{len(counted.tables)}, {cells}", *prepared.notes]),
            "noise": f"{prepared.noise.kind}, scales {', '.join(scales)}",
            "total": prepared.total_reason,
            "sensitivity": f"L1 {format_number(counted.l1)}, squared L2 {format_number(counted.l2_squared)}",
        }
    return {
        "dry run": "nothing was paid; the data are there and were not looked at, not even their columns",
        "look first": "`quietfield inspect` shows you, and nobody else, which lines and values would not be counted",
        **what,
        "promise": f"epsilon {format_number(price.epsilon)}"
        + (f", delta {format_number(price.delta)}" if price.delta is not None else ""),
        "protects": protects,
        **({"disk": describe_spilling()} if isinstance(prepared.unit, Person) else {}),
        **paid,
    }


def _describe_payment(paid: dict[str, Any] | None, book: Ledger | None) -> dict[str, str]:
    """What was paid and what is left, in words; nothing without a ledger."""
    from fractions import Fraction

    if paid is None or book is None:
        return {}
    cost, left, all_of_it = map(format_number, (Fraction(paid["cost"]), Fraction(paid["remaining"]), book.limit))
    what = "epsilon" if book.accounting == "pure" else "rho"
    said = f"line {paid['number']} of {book.path}: {what} {cost} was charged, {left} of {all_of_it} remains"
    return {"ledger": said}
