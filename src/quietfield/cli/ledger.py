"""``quietfield ledger``: what a data set may cost in all, and what is spent."""

from pathlib import Path
from typing import Annotated, Any

import typer

from quietfield.cli import arguments, outputs
from quietfield.curator import anchors
from quietfield.curator.ledger import PLACES, Ledger
from quietfield.curator.ledger_words import describe_ledger
from quietfield.curator.loading import read_payment
from quietfield.errors import Error, RolledBack
from quietfield.text import printable

app = typer.Typer(
    no_args_is_help=True,
    help="Make and show ledgers.",
    epilog="Example: quietfield ledger show budget.db",
)


@app.callback()
def root() -> None:
    """Make and show ledgers."""


@app.command(epilog="Example: quietfield ledger create budget.db --epsilon 4 --delta 1e-6 --unit rows:1")
def create(
    path: Annotated[Path, typer.Argument(help="The file to make; it must not exist.")],
    unit: Annotated[
        str,
        typer.Option(
            help="Who is protected: rows:1 or rows for one row each, rows:3 for persons with at most 3 rows, "
            "person:COLUMN for persons, person:COLUMN+COLUMN where several columns tell them apart, or JSON."
        ),
    ],
    epsilon: Annotated[str | None, typer.Option(help="The total epsilon, such as 4 or 0.5 or 1/3.")] = None,
    delta: Annotated[
        str | None, typer.Option(help="For Gaussian noise and discovered labels: the delta in all, such as 1e-6.")
    ] = None,
    rho: Annotated[str | None, typer.Option(help="With --delta, a total in place of epsilon.")] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove, replace or paper.")] = "add_remove",
    accounting: Annotated[
        str | None,
        typer.Option(help="pure (sums epsilon) or zcdp (sums rho). By default zcdp with --delta, else pure."),
    ] = None,
    name: Annotated[str, typer.Option(help="A name for the data set, for people.")] = "",
) -> None:
    """Make a ledger for one data set. Its unit, neighbours and accounting never change afterwards."""
    accounting = accounting or ("pure" if delta is None and rho is None else "zcdp")
    _check_total(path, unit, epsilon, delta, rho, accounting)
    book = Ledger.create(
        path,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        unit=arguments.ledger_unit(unit),
        neighbours=neighbours,
        accounting_by=accounting,  # type: ignore[arg-type]
        name=name,
    )
    _describe(book)


@app.command(epilog="Example: quietfield ledger anchor budget.db --out anchor.json")
def anchor(
    path: Annotated[Path, typer.Argument(help="The ledger.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: to print, to sign, to commit.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier anchor of this ledger.")] = False,
) -> None:
    """Write down where a ledger ends, outside of it, so that a copy that is put back later is found out.

    An anchor holds the ledger's id, the number of charges and a digest: nothing of the data, and no secret.
    """
    book = Ledger(path)
    outputs.check(out, "anchor", force, [path])
    written = anchors.write_anchor(book, out).ledger
    assert written is not None
    typer.echo(f"ledger  {written.id}\ncharges {written.number}\ndigest  {written.digest}")


@app.command(epilog="Example: quietfield ledger show budget.db --against anchor.json visits.qfr")
def show(
    path: Annotated[Path, typer.Argument(help="The ledger.")],
    more: Annotated[list[Path] | None, typer.Argument(help="Further files for --against.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="An anchor, release, score or discovered schema (or several) whose line should be in the ledger; exit "
            "code 6 if it is gone, 1 if it is of another ledger."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, with exact rationals as text.")] = False,
) -> None:
    """Show what is spent and what remains.

    It also says what the figures mean, and what a ledger cannot know.
    """
    if more and not against:
        raise Error("files are named after --against: quietfield ledger show LEDGER --against FILE ...")
    named = {str(one): read_payment(one) for one in [*(against or ()), *(more or ())]}
    book = Ledger(path)
    charges = book.charges
    places = {name: book.place(one, charges) for name, one in named.items()}
    found = {
        name: f"charge {one.ledger.number}" if places[name] == "here" and one.ledger else PLACES[places[name]]
        for name, one in named.items()
    }
    gone = any(place in ("rolled back", "forked") for place in places.values())
    code = RolledBack.exit_code if gone else int(any(place != "here" for place in places.values()))
    if as_json:
        content: dict[str, Any] = {
            "id": book.id, "name": book.name, "created": book.created, "unit": book.unit, "neighbours": book.neighbours,
            "accounting": book.accounting, "total": str(book.total), "spent": str(book.spent),
            "remaining": str(book.remaining),
            "delta": None if book.delta is None else str(book.delta),
            "thresholds": str(book.thresholds), "limit": str(book.limit), "meaning": describe_ledger(book),
            "charges": [
                {"number": c.number, "release": c.release, "time": c.time, "epsilon": str(c.epsilon),
                 "delta": None if c.delta is None else str(c.delta), "cost": str(c.cost),
                 "threshold": None if c.threshold is None else str(c.threshold), "what": c.what}
                for c in charges
            ],
            "against": found,
        }  # fmt: skip
        outputs.show_json(content)
        raise typer.Exit(code)
    _describe(book)
    for c in charges:
        delta = "" if c.delta is None else f", delta {float(c.delta):.6g}"
        delta += "" if c.threshold is None else f" ({float(c.threshold):.6g} of it by thresholds)"
        typer.echo(f"{c.number:>5}  {c.time}  epsilon {float(c.epsilon):.6g}{delta}  {c.what!r}  {c.release}")
    for name, text in found.items():
        typer.echo(printable(f"{name}: {text}"))
    raise typer.Exit(code)


def _describe(book: Ledger) -> None:
    if book.name:
        typer.echo(f"Ledger of {printable(book.name)}")
    typer.echo(describe_ledger(book))


def _check_total(
    path: Path, unit: str, epsilon: str | None, delta: str | None, rho: str | None, accounting: str
) -> None:
    """Refuse a total that is not said, or said in the terms of the other accounting, in words of the command line."""
    from shlex import quote

    example = f"quietfield ledger create {quote(str(path))} --unit {quote(unit)}"
    if accounting == "pure" and (delta is not None or rho is not None):
        raise Error("--delta and --rho go with --accounting zcdp; a pure ledger has --epsilon alone.")
    if accounting == "pure" and epsilon is None:
        raise Error(f"say what all releases of these data may cost together, for instance: {example} --epsilon 4.")
    if accounting == "zcdp" and (delta is None or (epsilon is None) == (rho is None)):
        raise Error(
            "a zcdp ledger has --delta, and a total as --epsilon or as --rho (not both), for instance: "
            f"{example} --epsilon 2 --delta 1e-6."
        )
