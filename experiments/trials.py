"""Trials: what is varied in the figures, the rows that come out, and what is computed from many of them.

The paper's trials are nested: one true model a structure, five populations from it, five noisy releases of each
population. A *trial* names one of them and a method; its seeds follow from its name, so that every method sees the same
releases, and a trial that is run again gives the same numbers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple, get_args

from quietfield.errors import Error
from quietfield.study.simulation import STRUCTURES, Potentials, Simulation, simulate
from quietfield.text import join_names

#: The epsilon of what sees the data without noise.
NO_NOISE = inf
#: Published Bayesian networks, which stand for a true model of their name.
NETWORKS = ("asia", "sachs", "child", "insurance", "alarm")


class Trial(NamedTuple):
    """One learned model: which problem, which population, which noise, which method (and its setting)."""

    figure: str
    structure: str  # of a simulated model, or the name of a data set
    states: int
    records: int
    epsilon: float
    model: int  # seed of the true model
    population: int
    replication: int
    method: str
    setting: str = ""


class Row(NamedTuple):
    """What was measured in a trial. ``seconds`` is the trial's share of the call that learned it."""

    trial: Trial
    measure: str
    value: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a figure varies. Its trials are all combinations."""

    structures: tuple[str, ...] = ("chain",)
    states: tuple[int, ...] = (10,)
    sizes: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    epsilons: tuple[float, ...] = (0.01, 0.1, 0.5, 1.0)
    methods: tuple[str, ...] = ("naive", "map")
    settings: tuple[str, ...] = ("",)
    models: tuple[int, ...] = (0,)
    populations: int = 5
    replications: int = 5

    def chosen(self, **choices: Any) -> "Plan":
        """The plan with some of it chosen otherwise; what is None stays as it is."""
        known = {field.name for field in fields(self)}
        if strange := [name for name in choices if name not in known]:
            raise Error(f"{join_names(strange)} cannot be chosen; expected some of {join_names(known)}.")
        return replace(self, **{name: value for name, value in choices.items() if value is not None})

    def trials(self, figure: str) -> list[Trial]:
        """Every trial; methods that do not see the noise are run once a population, others on every release.

        A setting that was chosen as ``plain`` is a method's own, and no others beside it.
        """
        from experiments.estimators import get

        found = []
        for structure, states, model in _product(self.structures, self.states, self.models):
            for method, named in _product(self.methods, self.settings):
                setting = "" if named == "plain" else named
                sees = get(method).sees
                # A blind method knows nothing of sizes and noise: one cell stands for all.
                sizes = (0,) if sees == "nothing" else self.sizes
                epsilons = (NO_NOISE,) if sees in ("nothing", "tables") else self.epsilons
                replications = 1 if sees == "tables" else self.replications
                for records, epsilon, population, replication in _product(
                    sizes, epsilons, range(self.populations), range(replications)
                ):
                    found.append(
                        Trial(
                            figure, structure, states, records, epsilon, model, population, replication, method, setting
                        )
                    )
        return found


def _product(*choices: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    from itertools import product

    return product(*choices)


def simulation_of(trial: Trial) -> Simulation:
    """The population of a trial at its epsilon; populations of different sizes and numbers are independent."""
    base = _population(trial.structure, trial.states, trial.records, trial.model, trial.population)
    _ = base.tables  # counted once for all that is released of them
    return base.with_epsilon(trial.epsilon if isfinite(trial.epsilon) else 1.0)


@lru_cache(maxsize=256)
def _population(structure: str, states: int, records: int, model: int, population: int) -> Simulation:
    seed = population + 1000 * records
    truth = true_model(structure, states, model)
    return simulate(model=truth, records=max(records, 1), seed=seed)


def check_structure(structure: str, figure: str, named: Collection[str] = (), simulates: bool = True) -> None:
    """Refuse a name that a figure cannot be run with: it takes names of its own, structures to simulate, or both.

    >>> check_structure("chain-6", "fig1b")
    >>> check_structure("chain-6", "fig3b", ["building"], simulates=False)
    Traceback (most recent call last):
    quietfield.errors.Error: fig3b cannot be run with 'chain-6'; it takes 'building'.
    """
    name, *more = structure.split("-")
    known = name in STRUCTURES and all(word.isdigit() or word in get_args(Potentials) for word in more)
    if structure in named or (simulates and known):
        return
    takes = [f"{join_names(STRUCTURES)} (chain-6 has six attributes, chain-gaussian other potentials)"] * simulates
    takes += [join_names(named, 20)] * bool(named)
    raise Error(f"{figure} cannot be run with {structure!r}; it takes {', and '.join(takes)}.")


@lru_cache(maxsize=32)
def true_model(structure: str, states: int, model: int) -> Any:
    """The one true model of a structure, shared by all its populations as in the paper.

    ``structure`` is a name that :func:`quietfield.simulate` knows. ``chain-gaussian`` has Gaussian potentials and
    ``chain-6`` six attributes; both may be combined.
    """
    from quietfield.study.simulation import random_model

    if structure in NETWORKS:
        from experiments.networks import network

        return network(structure)
    name, *more = structure.split("-")
    options: dict[str, Any] = {}
    for word in more:
        options.update({"attributes": int(word)} if word.isdigit() else {"potentials": word})
    return random_model(name, states=states, seed=model, **options)


class Summary(NamedTuple):
    """The mean over trials, and its standard error from the spread between what is independent."""

    mean: float
    error: float
    trials: int
    groups: int = 0  # independent groups of trials: true models, or the populations of one
    models: int = 1

    @property
    def half(self) -> float:
        """Half the width of the 95% interval, by Student's t; one group says nothing of the spread between groups."""
        from scipy.special import stdtrit

        return float(stdtrit(self.groups - 1, 0.975)) * self.error if self.groups > 1 else inf


def summary(values: Mapping[int, Sequence[float]]) -> Summary:
    """The summary of values by group."""
    means = [sum(group) / len(group) for group in values.values()]
    mean = sum(means) / len(means)
    spread = sum((m - mean) ** 2 for m in means) / (len(means) - 1) if len(means) > 1 else 0.0
    return Summary(mean, sqrt(spread / len(means)), sum(len(group) for group in values.values()), len(means))


def nested(values: Mapping[int, Mapping[int, Sequence[float]]]) -> Summary:
    """The summary of values by true model and population.

    Trials are nested: releases in populations, populations in models. Of several models each counts once, and the
    spread is that between models; of one model, that between its populations.

    >>> nested({0: {0: [1.0, 3.0], 1: [2.0]}, 1: {0: [4.0]}})[:2]
    (3.0, 1.0)
    """
    if len(values) == 1:
        return summary(next(iter(values.values())))
    by_model = {model: [summary(inside).mean] for model, inside in values.items()}
    trials = sum(len(group) for inside in values.values() for group in inside.values())
    return summary(by_model)._replace(trials=trials, models=len(values))


def pick(rows: Iterable[Row], measure: str | None = None, **wanted: Any) -> list[Row]:
    """The rows of a measure whose trials have these values."""
    return [
        row
        for row in rows
        if (measure is None or row.measure == measure)
        and all(getattr(row.trial, name) == value for name, value in wanted.items())
    ]


def curve(rows: Iterable[Row], along: str | Callable[[Trial], Any]) -> dict[Any, Summary]:
    """Summaries of the rows' values along an axis, in its order."""
    of = along if callable(along) else (lambda trial: getattr(trial, along))
    groups: dict[Any, dict[int, dict[int, list[float]]]] = {}
    for row in rows:
        models = groups.setdefault(of(row.trial), {})
        models.setdefault(row.trial.model, {}).setdefault(row.trial.population, []).append(row.value)
    return {x: nested(groups[x]) for x in sorted(groups)}
