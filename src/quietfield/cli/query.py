"""``quietfield query``: what a model says about some attributes, or its most probable record.

Answers have error bars where the model knows its errors, and say what they rest on.
"""

import math
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from quietfield.cli import arguments, outputs, questions
from quietfield.drawing.columns import format_level, format_shares, pad_left, quote_label, text_width
from quietfield.drawing.graph import bars
from quietfield.errors import Error
from quietfield.inference.tree import calibrate_given
from quietfield.models.basis import COUNTED, INFERRED, describe_basis
from quietfield.models.intervals import QUICK_ANSWER, QUICK_MODEL
from quietfield.models.model import Model
from quietfield.status import is_terminal, show_status
from quietfield.text import join_names, printable

if TYPE_CHECKING:
    from quietfield.domain import Label

app = typer.Typer()


@app.command(epilog="Example: quietfield query visits.qfm visits --given age=65+ --given smokes=yes")
def query(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    attributes: Annotated[
        list[str] | None, typer.Argument(help="One attribute or several: their joint distribution.")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option(help="ATTRIBUTE=LABEL, what is known; may be said several times.")
    ] = None,
    level: Annotated[float, typer.Option(help="The confidence of the error bars, between 0 and 1.")] = 0.9,
    error_bars: Annotated[
        bool | None,
        typer.Option(
            "--error-bars/--no-error-bars",
            help="Work them out, however long it takes, or leave them out. Unless said: where that is quick.",
        ),
    ] = None,
    most_probable: Annotated[
        bool, typer.Option("--most-probable", help="Instead: the most probable record, among those with --given.")
    ] = False,
    trust: arguments.Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the table as JSON.")] = False,
) -> None:
    """Ask a model for a distribution, on its own or where something is known, with error bars.

    A joint distribution that no published table holds is marked as the model's inference. With approximate inference,
    it and conditional distributions are estimated from a Gibbs sample, and the answer says so with its error.
    """
    if bool(attributes) == most_probable:
        raise typer.BadParameter(
            "the most probable record is about all attributes; name none with --most-probable."
            if most_probable
            else "name one attribute or several, or say --most-probable."
        )
    if not 0 < level < 1:
        raise Error(f"--level lies between 0 and 1, for instance 0.9; it is not {level!r}.")
    learned = Model.load(model, trust or None)
    known = questions.evidence(given or [], learned.domain)
    if most_probable:
        _show_most_probable(learned, known, as_json)
        return
    wanted = questions.attributes(attributes or [], learned.domain)
    both = [name for name in known if name in wanted]
    if both:
        raise Error(f"{both[0]!r} is both asked for and given; name each attribute once.")
    with show_status("asking the model ...", is_terminal()):  # a Gibbs sample of a large one takes a while
        shares = (learned.conditional(wanted, known) if known else learned.marginal(wanted)).ravel()
    ends, why = _error_bars(learned, wanted, level, known, error_bars)
    if error_bars and ends is None:
        raise Error(f"there are no error bars: {why}. Leave out --error-bars for the answer alone.")
    basis = describe_basis(learned, (*wanted, *known))
    estimate = learned.estimate(wanted, known)
    cells = list(product(*(learned.domain.labels(name) for name in wanted)))
    if as_json:
        content = _content(wanted, known, cells, shares, level, ends, why)
        if estimate is not None:
            content["estimate"] = str(estimate)
            for row, error in zip(content["cells"], estimate.errors.ravel().tolist(), strict=True):
                row["monte_carlo_error"] = error
        outputs.show_json({**content, "basis": basis})
        return
    typer.echo(printable(", ".join(map(quote_label, wanted)) + _where(known)))
    many = len(wanted) > 1
    lines = bars([", ".join(map(quote_label, cell)) if many else cell[0] for cell in cells], shares).splitlines()
    if ends is not None:
        lows, highs = map(format_shares, ends)
        places = max(len(text.partition(".")[2]) - 1 for text in (*lows, *highs))
        # As many more as it takes to tell the ends of each interval apart.
        while places < 6 and any(
            a == b and x != y for a, b, x, y in zip(lows, highs, *map(np.ravel, ends), strict=True)
        ):
            places += 1
            lows, highs = (format_shares(end, places) for end in ends)
        wide = max(6, *map(len, [*lows, *highs]))
        bounds = zip(lines, lows, highs, strict=True)
        lines = [f"{line}   {low:>{wide}} to {high:>{wide}}" for line, low, high in bounds]
    typer.echo("\n".join(lines))
    if basis == INFERRED:
        which = "the answer assumes" if ends is None else "the answer and its error bars assume"
        typer.echo(f"{basis}; {which} that nothing but the model's structure connects them")
    elif basis != COUNTED:
        typer.echo(basis)
    if estimate is not None:
        typer.echo(str(estimate))
    sure = f"{format_level(level)} confidence"
    typer.echo(
        f"no error bars: {why}"
        if ends is None
        else f"with {sure} a share lies between the two numbers after it, if the model's structure is right"
    )


def _show_most_probable(model: Model, known: "dict[str, Label]", as_json: bool) -> None:
    """Show the most probable record, and how probable it is among those with what is known."""
    record = model.mode(known)
    given = (
        calibrate_given(model.domain, model.potentials, model._known(known)).log_z - model.log_partition()
    )  # the log of the chance of what is known
    share = math.exp(min(0.0, model.log_prob({name: [label] for name, label in record.items()})[0] - given))
    if as_json:
        content = {"given": known, "most_probable": record, "probability": share}
        outputs.show_json(content)
        return
    typer.echo(printable("the most probable record" + _where(known)))
    names = {name: printable(quote_label(name)) for name in record}
    width = max(map(text_width, names.values()))
    for name, label in record.items():
        typer.echo(f"  {pad_left(names[name], width)}  {printable(quote_label(label))}")
    typer.echo(f"its probability{_where(known) and ' there'} is {share:.3g}")


def _error_bars(
    model: Model, wanted: list[str], level: float, known: "dict[str, Label]", asked: bool | None
) -> tuple[tuple[np.ndarray, np.ndarray] | None, str]:
    """The ends of the error bars of each cell; or None, and why there are none."""
    held = set(model.structure.attributes)
    unknown = [name for name in (*wanted, *known) if name not in held]
    if asked is False:
        return None, "they were not asked for"
    if model.uncertainty is None:
        return (
            None,
            "this model does not know its errors; models learned by `quietfield fit` with its default method do",
        )
    if unknown:
        return None, f"no published table holds {join_names(unknown)}"
    if asked is None and (model.parameters > QUICK_MODEL or model.domain.cells(wanted) > QUICK_ANSWER):
        return None, "for a model or a table of this size they take a while; say --error-bars to have them"
    try:
        with show_status("error bars; --no-error-bars leaves them out ...", is_terminal()):
            low, high = model.interval(wanted, level, given=known or None)
    except Error as error:
        return None, str(error).rstrip(".")
    return (low.ravel(), high.ravel()), ""


def _where(known: "dict[str, Label]") -> str:
    return (
        (" where " + ", ".join(f"{quote_label(name)}={quote_label(label)}" for name, label in known.items()))
        if known
        else ""
    )


def _content(
    wanted: list[str],
    known: "dict[str, Label]",
    cells: "list[tuple[Label, ...]]",
    shares: np.ndarray,
    level: float,
    ends: tuple[np.ndarray, np.ndarray] | None,
    why: str,
) -> dict[str, Any]:
    lows, highs = [[None] * len(cells)] * 2 if ends is None else (end.tolist() for end in ends)
    rows = [
        {"labels": list(cell), "probability": float(share), "low": low, "high": high}
        for cell, share, low, high in zip(cells, shares, lows, highs, strict=True)
    ]
    level_or_none = None if ends is None else level
    said = {"attributes": wanted, "given": known, "level": level_or_none, "no_error_bars": why or None}
    return {**said, "cells": rows}
