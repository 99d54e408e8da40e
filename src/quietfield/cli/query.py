"""``quietfield query``: what a model says about some attributes, with error bars where it knows its errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quietfield.cli.arguments import Trust

if TYPE_CHECKING:
    import numpy as np

    from quietfield.domain import Label
    from quietfield.models.model import Model

app = typer.Typer()

#: The most log-potentials of a model, and cells of an answer, whose error bars are worked out without being asked for.
QUICK_MODEL, QUICK_ANSWER = 2000, 1000


@app.command(epilog="Example: quietfield query visits.qfm visits --given age=65+ --given smokes=yes")
def query(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    attributes: Annotated[list[str], typer.Argument(help="One attribute or several: their joint distribution.")],
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
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the table as JSON.")] = False,
) -> None:
    """Ask a model for a distribution, on its own or where something is known, with error bars."""
    from itertools import product

    from quietfield.cli import questions
    from quietfield.drawing.graph import bars
    from quietfield.errors import Error
    from quietfield.models.model import Model
    from quietfield.text import format_level, printable, quote_label

    if not 0 < level < 1:
        raise Error(f"--level lies between 0 and 1, for instance 0.9; it is not {level!r}.")
    learned = Model.load(model, trust or None)
    wanted = questions.attributes(attributes, learned.domain)
    known = questions.evidence(given or [], learned.domain)
    both = [name for name in known if name in wanted]
    if both:
        raise Error(f"{both[0]!r} is both asked for and given; name each attribute once.")
    with _compiled_quickly(learned):
        shares = (learned.conditional(wanted, known) if known else learned.marginal(wanted)).ravel()
        ends, why = _error_bars(learned, wanted, level, known, error_bars)
    cells = list(product(*(learned.domain.labels(name) for name in wanted)))
    if as_json:
        typer.echo(json.dumps(_content(wanted, known, cells, shares, level, ends, why), ensure_ascii=False, indent=2))
        return
    typer.echo(printable(", ".join(map(quote_label, wanted)) + _where(known)))
    many = len(wanted) > 1
    lines = bars([", ".join(map(quote_label, cell)) if many else cell[0] for cell in cells], shares).splitlines()
    if ends is None:
        typer.echo("\n".join(lines))
        typer.echo(f"no error bars: {why}")
        return
    for line, low, high in zip(lines, *ends, strict=True):
        typer.echo(f"{line}   {low:6.1%} to {high:6.1%}")
    sure = f"{format_level(level)} confidence"
    typer.echo(f"with {sure} a share lies between the two numbers after it, if the model's structure is right")


@contextmanager
def _compiled_quickly(model: "Model") -> Iterator[None]:
    """Let JAX compile without much optimisation: for one answer of a small model, that takes longer than it saves."""
    if model.parameters > QUICK_MODEL:
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def _error_bars(
    model: "Model", wanted: list[str], level: float, known: "dict[str, Label]", asked: bool | None
) -> "tuple[tuple[np.ndarray, np.ndarray] | None, str]":
    """The ends of the error bars of each cell; or None, and why there are none."""
    from quietfield.errors import Error
    from quietfield.status import is_terminal, show_status
    from quietfield.text import join_names

    held = {name for clique in model.cliques for name in clique}
    unknown = [name for name in (*wanted, *known) if name not in held]
    if asked is False:
        return None, "they were not asked for"
    if model.uncertainty is None:
        return (
            None,
            "this model does not know its errors; models learned by `quietfield fit` with its default method do",
        )
    if unknown:
        return None, f"no published table holds {join_names(unknown)}, so its values are taken as equally likely"
    if asked is None and (model.parameters > QUICK_MODEL or model.domain.cells(wanted) > QUICK_ANSWER):
        return None, "for a model or a table of this size they take a while; say --error-bars to have them"
    try:
        with show_status("error bars; --no-error-bars leaves them out ...", is_terminal()):
            low, high = model.interval(wanted, level, given=known or None)
    except Error as error:
        if asked:
            raise
        return None, str(error).rstrip(".")
    return (low.ravel(), high.ravel()), ""


def _where(known: "dict[str, Label]") -> str:
    from quietfield.text import quote_label

    return (
        (" where " + ", ".join(f"{quote_label(name)}={quote_label(label)}" for name, label in known.items()))
        if known
        else ""
    )


def _content(
    wanted: list[str],
    known: "dict[str, Label]",
    cells: "list[tuple[Label, ...]]",
    shares: "np.ndarray",
    level: float,
    ends: "tuple[np.ndarray, np.ndarray] | None",
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
