"""The estimators that the figures compare: a list that anyone can add to.

An estimator is a function ``Release -> Model``; with ``batched=True``, a function from a list of releases to a list of
models. It is added by the decorator :func:`estimator`, or from another package by an entry point of the group
``quietfield.estimators`` that names a module with such decorators. Those that are built in may see more, and say so:
the true tables, or the records (a gradient method that is private by itself).
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.faults import EstimatorError, checked, guarded, loading
from quietfield.errors import Error
from quietfield.text import join_names, plural, type_name

if TYPE_CHECKING:
    from experiments.trials import Trial
    from quietfield.models.model import Model
    from quietfield.releases.release import Release
    from quietfield.study.simulation import Simulation

Sees = Literal["release", "tables", "records", "nothing"]
#: lambda of the naive estimate, per record: one for all cells, as in the paper, which does not say which.
NAIVE_LAMBDA = 1e-3


@dataclass(frozen=True)
class Request:
    """What a built-in estimator is asked for: a trial and its population, from which it takes what it may see."""

    trial: "Trial"
    simulation: "Simulation"

    @property
    def release(self) -> "Release":
        return self.simulation.releases(1, start=self.trial.replication)[0]


@dataclass(frozen=True)
class Estimator:
    """A way to learn: its name, its words in a legend, what it sees, and the call for a list of requests.

    A model may be None: the estimator does not exist there. ``by_cell`` says that a call takes one size and epsilon
    only. ``apart`` marks what is shown for comparison but promises something else.
    """

    name: str
    label: str
    sees: Sees
    call: Callable[[Sequence[Request]], "Sequence[Model | None]"]
    by_cell: bool = False
    apart: bool = False
    #: The same from releases alone, for figures whose data are not simulated; None for what needs more.
    from_releases: "Callable[[Sequence[Release]], Sequence[Model]] | None" = None

    def learn(self, releases: "Sequence[Release]") -> "Sequence[Model]":
        """Models from releases."""
        if self.from_releases is None:
            raise Error(f"the estimator {self.name!r} needs more than a release; leave it out here.")
        return self.from_releases(releases)


#: What estimators are called that come from elsewhere, where results are drawn without them.
LABELS = {
    "mbi": "mbi 2.0 (default)",
    "psgd-better": "PSGD, better of both searches, δ = 1/N",
    "psgd-better-moments": "PSGD (moments accountant), better of both searches, δ = 1/N",
}
#: Every estimator, by the name that users type.
ESTIMATORS: dict[str, Estimator] = {}


def estimator(
    name: str, *, label: str | None = None, batched: bool = False, apart: bool = False
) -> Callable[[Any], Any]:
    """Add a function ``Release -> Model`` (``batched``: list of releases to list of models) to every figure.

    >>> import quietfield as qf
    >>> @estimator("doctest", label="two rounds")
    ... def quick(release):
    ...     return qf.fit(release, rounds=2)
    >>> get("doctest").label
    'two rounds'
    >>> del ESTIMATORS["doctest"]
    """
    if callable(name):
        raise Error("an estimator needs a name: write @estimator('mine') above the function, and not @estimator alone.")
    if not isinstance(name, str) or not name or name.strip() != name or "," in name:
        raise Error(f"an estimator's name is a word without commas, not {name!r}.")

    def add(function: Any) -> Any:
        def learn(releases: "Sequence[Release]") -> "Sequence[Model]":
            if not batched:
                return [checked(name, guarded(name, function, release), release) for release in releases]
            found = guarded(name, function, list(releases))
            if not isinstance(found, Sequence):
                what = "nothing" if found is None else type_name(found)
                raise EstimatorError(
                    f"your estimator {name!r} returned {what}; with batched=True it returns a list of models, one a "
                    "release."
                )
            if len(found) != len(releases):
                raise EstimatorError(
                    f"your estimator {name!r} gave {plural(len(found), 'model')} for "
                    f"{plural(len(releases), 'release')}."
                )
            return [checked(name, model, release) for model, release in zip(found, releases, strict=True)]

        _load()
        if name in _built_in:
            raise Error(f"an estimator called {name!r} is built in; choose another name.")
        ESTIMATORS[name] = of_releases(name, label or name, learn, apart=apart)
        return function

    return add


def of_releases(
    name: str, label: str, learn: "Callable[[Sequence[Release]], Sequence[Model]]", *, apart: bool = False
) -> Estimator:
    """An estimator that sees releases and nothing else."""

    def call(requests: Sequence[Request]) -> "Sequence[Model | None]":
        return learn([request.release for request in requests])

    return Estimator(name, label, "release", call, apart=apart, from_releases=learn)


def get(name: str) -> Estimator:
    """The estimator of this name, built in or added."""
    one = find(name)
    if one is None:
        broken = "".join(f" Note: {error}" for error in _broken)
        raise Error(
            f"no estimator is called {name!r}; expected one of {join_names(ESTIMATORS, 30)}. "
            f"To add one of your own, load its module with --with.{broken}"
        ) from next(iter(_broken), None)
    return one


def find(name: str) -> Estimator | None:
    """The estimator of this name, or None."""
    _load()
    return ESTIMATORS.get(name)


def shown(name: str) -> Estimator:
    """The estimator of this name, or, of results whose estimator is not loaded, its name alone: it can be drawn."""
    return find(name) or of_releases(name, LABELS.get(name, name), _not_loaded(name), apart=True)


def _not_loaded(name: str) -> "Callable[[Sequence[Release]], Sequence[Model]]":
    def learn(releases: "Sequence[Release]") -> "Sequence[Model]":
        return get(name).learn(releases)

    return learn


def added() -> tuple[str, ...]:
    """The estimators that are not built in, in the order in which they were added."""
    _load()
    return tuple(name for name in ESTIMATORS if name not in _built_in)


def load_module(name: str) -> None:
    """Load a module that adds estimators, by its name or the path of its file."""
    _load()
    before = dict(ESTIMATORS)
    if name.endswith(".py"):
        _load_file(name)
    elif name in sys.modules:  # its estimators were added when it was first imported
        return
    else:
        _import(name)
    if before == ESTIMATORS:
        raise EstimatorError(
            f"{name} adds no estimator; write @estimator('a name') from experiments above a function from a "
            "release to a model."
        )


def _load_file(path: str) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    known = f"quietfield_with_{Path(path).stem}"
    spec = spec_from_file_location(known, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise Error(f"there is no file {path}; check the path after --with.")
    module = module_from_spec(spec)
    sys.modules[known] = module  # where dataclasses and pickle look for what a module defines
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # what stands beside it can be imported, as by a script
    try:
        loading(path, partial(spec.loader.exec_module, module), path)
    except Error:
        del sys.modules[known]
        raise


def _import(name: str) -> None:
    sys.path.insert(0, "")  # a module beside the caller, as with `python -m`
    try:
        loading(name, partial(import_module, name))
    except EstimatorError as error:
        absent = error.__cause__
        if isinstance(absent, ModuleNotFoundError) and absent.name and f"{name}.".startswith(f"{absent.name}."):
            raise Error(f"there is no module {name!r} to load; check the name after --with.") from None
        raise
    finally:
        sys.path.remove("")


_built_in: set[str] = set()
#: What went wrong with estimators of other packages: told when one is asked for and not found.
_broken: list[EstimatorError] = []
_loaded = False


def _load() -> None:
    """The built-in estimators and those of other packages, when first asked for."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    from importlib.metadata import entry_points

    from experiments import methods

    for one in methods.BUILT_IN:
        ESTIMATORS[one.name] = one
        _built_in.add(one.name)
    for point in entry_points(group="quietfield.estimators"):
        try:
            loading(f"the entry point {point.name} = {point.value}", point.load)
        except EstimatorError as error:
            _broken.append(error)
            warnings.warn(f"{error} The others go on without it.", stacklevel=2)
