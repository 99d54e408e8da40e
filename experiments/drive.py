"""One figure from plan to picture: what is missing is run, results are gathered, drawn and told claim by claim."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from experiments import running, storage
from experiments.comparing import standings
from experiments.estimators import shown
from experiments.registry import Figure, Size
from experiments.trials import Plan, Row, check_structure
from quietfield.errors import Error
from quietfield.text import plural

DATA_VARIABLE = "QUIETFIELD_DATA"
#: The trials behind the published page, in a checkout.
PUBLISHED = Path(__file__).parent.parent / "docs" / "results" / "paper"


@dataclass(frozen=True)
class Settings:
    """How to run: where results go, how many processes, and what else was asked for."""

    folder: Path
    jobs: int = 1
    batch: int = 50
    time_limit: float | None = None
    extra: tuple[str, ...] = ()
    figures: bool = True
    command: str = ""
    data: Path | None = None


def planned(figure: Figure, size: Size, choices: Mapping[str, Any]) -> Plan:
    """What a figure varies, with some of it chosen and methods that were added; what it cannot be run with is refused.

    >>> from experiments.registry import figure
    >>> planned(figure("fig3b"), "tiny", {"epsilons": (0.1,)}).epsilons
    (0.1,)
    """
    from experiments.estimators import added

    plan = figure.plans[size]
    if choices.get("methods") is None and added():
        plan = plan.chosen(methods=(*plan.methods, *(m for m in added() if m not in plan.methods)))
    plan = plan.chosen(**choices)
    for structure in plan.structures:
        check_structure(structure, figure.name, figure.named, figure.simulates)
    return plan


def reproduce(
    figure: Figure, size: Size, choices: Mapping[str, Any], settings: Settings, say: Callable[[str], object] = print
) -> running.Outcome:
    """Run what is missing of a figure, draw it and say what was found."""
    if settings.data is not None:
        os.environ[DATA_VARIABLE] = str(settings.data)  # so that worker processes find it too
    folder = storage.check_folder(settings.folder)
    # Data sets and networks whose file is not there are left out.
    trials = [trial for trial in figure.trials(planned(figure, size, choices)) if figure.is_available(trial.structure)]
    store = storage.Store(folder, figure.name)
    say(f"{figure.name}: {figure.title} ({plural(len(trials), 'trial')}, results in {folder})")
    jobs = 1 if figure.alone else settings.jobs
    started = time.monotonic()
    outcome = running.run(
        store,
        trials,
        figure.module,
        jobs=jobs,
        batch=settings.batch,
        time_limit=settings.time_limit,
        extra=settings.extra,
    )
    if outcome.finished:
        storage.log_run(folder, figure.name, settings.command, outcome.finished, time.monotonic() - started, jobs)
    say(f"  {plural(outcome.finished, 'trial')} run in {outcome.seconds:.0f} s, {outcome.left} left")
    for fault in outcome.faults:
        say(f"  {fault}")
    rows = store.read()
    if rows and outcome.left == outcome.broken:
        if settings.figures:
            for path in figure.draw(rows, folder / figure.name):
                say(f"  wrote {path}")
        for text in numbers_of(figure, rows):
            say(f"  {text}")
        for claim in figure.claims(rows):
            say(f"  [{claim.verdict}] {claim.statement}: {claim.found}")
    return outcome


def numbers_of(figure: Figure, rows: list[Row]) -> list[str]:
    """What each method reached, in a line each, those that were added included."""
    if not figure.measure:
        return []
    reference, found = standings(figure.counted(rows), figure.measure, figure.cell, figure.sign)
    lines = []
    for one in found:
        name, setting = one.kind
        text = f"{shown(name).label}{f' ({setting})' if setting else ''}: {figure.measure} {one.mean:.4g} on average, "
        text += f"{plural(one.trials, 'trial')} in {plural(one.cells, 'cell')}"
        if one.beside is not None and reference is not None:
            size = f"{one.beside.ratio:.3g} times" if figure.sign < 0 else f"{one.beside.gain:+.3g} beside"
            text += f"; {size} {shown(reference[0]).label} on the trials that both have"
        lines.append(text)
    return lines


@contextmanager
def compilations(jobs: int) -> Iterator[None]:
    """Let worker processes share what they compile, in a folder that only this run sees and that goes with it."""
    if jobs <= 1 or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="quietfield-", ignore_cleanup_errors=True) as folder:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
        try:
            yield
        finally:
            del os.environ["JAX_COMPILATION_CACHE_DIR"]


def page(folder: Path, command: str) -> list[Path]:
    """Write the page that walks through the results of a folder, claim by claim."""
    from experiments.page import write

    return write(folder, command)


def words(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(text: str | None, what: str) -> tuple[int, ...] | None:
    """Whole numbers separated by commas; 1e4 will do."""
    found = _decimals(text, what)
    if found is not None and any(value != int(value) or value < 0 for value in found):
        raise Error(f"--{what} takes whole numbers separated by commas, such as 1000,1e4, not {text!r}.")
    return None if found is None else tuple(int(value) for value in found)


def epsilons(text: str | None) -> tuple[float, ...] | None:
    """Epsilons separated by commas."""
    found = _decimals(text, "epsilons")
    if found is not None and not all(0 < value < inf for value in found):
        raise Error(f"--epsilons takes positive numbers separated by commas, such as 0.1,1, not {text!r}.")
    return found


def _decimals(text: str | None, what: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise Error(f"--{what} takes numbers separated by commas, such as 0.1,1, not {text!r}.") from None
