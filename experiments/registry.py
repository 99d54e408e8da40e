"""The figures by name, and the sizes at which they can be run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from experiments.trials import Plan, Row, Trial
from quietfield.errors import Error
from quietfield.text import join_names

Size = Literal["full", "quick", "tiny"]

#: Every figure, in the paper's order; each is a module of that name in this folder.
FIGURES = ("fig1a", "fig1b", "fig1c", "fig2", "fig3a", "fig3b", "timing", "propositions", "networks")


@dataclass(frozen=True)
class Figure:
    """A figure: its title, its plan for each size, its trials, its run on a group, its drawing and its claims."""

    name: str
    title: str
    plans: dict[Size, Plan]
    trials: Callable[[Plan], list[Trial]]
    run: Callable[[Sequence[Trial]], list[Row]]
    draw: Callable[[list[Row], Path], list[Path]]
    claims: Callable[[list[Row]], list[Any]]
    module: str
    alone: bool = False  # in one process, whatever was asked for
    named: tuple[str, ...] = ()  # what it has besides structures to simulate: data sets, checks
    simulates: bool = True  # whether it takes structures to simulate
    is_available: Callable[[str], bool] = lambda structure: True  # whether what it needs for one is there
    measure: str = "kl"  # what methods are compared by; "" where they are not
    cell: Callable[[Trial], Any] = lambda trial: (trial.structure, trial.states, trial.epsilon, trial.records)
    sign: int = -1  # 1 where more is better
    counted: Callable[[list[Row]], list[Row]] = list  # the rows that count, with fits that broke down
    #: Claims from the trials of other figures and pages, for the page alone.
    elsewhere: Callable[[Mapping[str, list[Row]]], list[Any]] = lambda results: []
    no_claim: tuple[str, ...] = ()  # data sets that no verdict counts
    #: What the section says beside its claims, as Markdown.
    notes: Callable[[list[Row]], list[str]] = lambda rows: []


def figure(name: str) -> Figure:
    """The figure of this name."""
    if name not in FIGURES:
        raise Error(f"there is no figure {name!r}; expected one of {join_names(FIGURES, 20)}, or all.")
    path = f"experiments.{name}"
    module = import_module(path)
    trials = getattr(module, "trials", None) or (lambda plan: plan.trials(name))
    return Figure(
        name,
        module.TITLE,
        module.PLANS,
        trials,
        module.run,
        module.draw,
        module.claims,
        path,
        alone=getattr(module, "ALONE", False),
        named=getattr(module, "NAMED", ()),
        simulates=getattr(module, "SIMULATES", True),
        is_available=getattr(module, "is_available", lambda structure: True),
        measure=getattr(module, "MEASURE", "kl"),
        sign=getattr(module, "SIGN", -1),
        counted=getattr(module, "counted", list),
        elsewhere=getattr(module, "elsewhere", lambda results: []),
        no_claim=getattr(module, "NO_CLAIM", ()),
        notes=getattr(module, "notes", lambda rows: []),
    )
