"""The estimators that the figures compare: a list that anyone can add to.

An estimator is a function ``Release -> Model``; with ``batched=True``, a function from a list of releases to a list of
models. It is added by the decorator :func:`estimator`, or from another package by an entry point of the group
``quietfield.estimators`` that names a module with such decorators. Those that are built in may see more, and say so:
the true tables, or the records (a gradient method that is private by itself).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from quietfield.errors import Error, names

if TYPE_CHECKING:
    from quietfield.experiments.trials import Trial
    from quietfield.model import Model
    from quietfield.releases import Release
    from quietfield.simulation import Simulation

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
LABELS = {"mbi": "mbi 2.0 (default)"}
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
    if not isinstance(name, str) or not name or name.strip() != name or "," in name:
        raise Error(f"an estimator's name is a word without commas, not {name!r}.")

    def add(function: Any) -> Any:
        def learn(releases: "Sequence[Release]") -> "Sequence[Model]":
            found = list(function(list(releases))) if batched else [function(release) for release in releases]
            if len(found) != len(releases):
                raise Error(f"the estimator {name!r} gave {len(found)} models for {len(releases)} releases.")
            return found

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
        raise Error(
            f"no estimator is called {name!r}; expected one of {names(ESTIMATORS, 30)}. "
            "To add one of your own, load its module with --with."
        )
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
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    if name.endswith(".py"):
        spec = spec_from_file_location(Path(name).stem, name)
        if spec is None or spec.loader is None or not Path(name).exists():
            raise Error(f"there is no file {name}; check the path after --with.")
        spec.loader.exec_module(module_from_spec(spec))
        return
    import sys

    sys.path.insert(0, "")  # a module beside the caller, as with `python -m`
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise Error(f"there is no module {name!r} to load; check the name after --with.") from None
    finally:
        sys.path.remove("")


_built_in: set[str] = set()
_loaded = False


def _load() -> None:
    """The built-in estimators and those of other packages, when first asked for."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    from importlib.metadata import entry_points

    from quietfield.experiments import methods

    for one in methods.BUILT_IN:
        ESTIMATORS[one.name] = one
        _built_in.add(one.name)
    for point in entry_points(group="quietfield.estimators"):
        point.load()
