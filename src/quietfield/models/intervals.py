"""Error bars: how far a model's answers may be from the truth, given its structure.

:class:`~quietfield.models.uncertainty.Uncertainty` is what a model keeps for them, ``learning/covariance.py`` weighs
the errors. Here a question becomes a gradient, and an error an interval:

* the spread is that of noise, sample and prior together (normal, to first order);
* the prior's pull as the fit shows it is a bias of known direction: it is added on the side that it hides, and half of
  it again, since the fit shows only part of it (noise lifts the many small cells of a table at the large ones' cost);
* answers near an end of their range (shares near 0) have a skewed error: away from that end, steps are even on the
  plain scale where data decide and on that of the logarithm where the prior does, which is normal there; in between,
  on a Box-Cox scale of power (1 - f)^3, with f the prior's part of the variance.

The last two were chosen among some twenty variants on simulated chains; ``benchmarks/coverage.py`` measures them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Clique, Domain, Label
from quietfield.errors import Error
from quietfield.inference.layout import IMPOSSIBLE
from quietfield.learning.learner import one_blas_thread
from quietfield.learning.problem import shape_of
from quietfield.models.uncertainty import OF
from quietfield.releases.tables import signs_of
from quietfield.text import join_names

if TYPE_CHECKING:
    from quietfield.learning.covariance import ErrorParts
    from quietfield.learning.problem import Point
    from quietfield.models.model import Model

MOST_CELLS = 20_000  # of one question
MOST_WEIGHTS = 50_000_000  # of one question, where something is known and inference approximate
MOST_ROWS = 500  # of the directions that are followed together
#: The most log-potentials of a model, and cells of an answer, whose error bars are worked out without being asked for.
QUICK_MODEL, QUICK_ANSWER = 100_000, 10_000


def interval(
    model: "Model",
    query: str | Iterable[str] | Mapping[Any, Any],
    level: float = 0.9,
    given: Mapping[str, Label | Sequence[Label]] | None = None,
    of: str = "source",
) -> tuple[Any, Any]:
    """(low, high) of a question; see :meth:`quietfield.models.model.Model.interval`."""
    _check(model, level, of)
    return _ask(model, [_question(model, query, given or {})], level, given or {}, of)[0]


def intervals(model: "Model", queries: Iterable[Any], level: float = 0.9) -> list[tuple[Any, Any]]:
    """(low, high) of many questions. What cliques of the model hold is worked out together, many times faster."""
    _check(model, level, "source")
    questions = [_question(model, query, {}) for query in queries]
    inside = [all(map(model.structure.joins, question.weights)) for question in questions]
    together = [question for question, held in zip(questions, inside, strict=True) if held]
    found = iter(_ask(model, together, level, {}, "source") if together else [])
    return [
        next(found) if held else _ask(model, [question], level, {}, "source")[0]  # it needs an inference of its own
        for question, held in zip(questions, inside, strict=True)
    ]


@dataclass(frozen=True)
class _Question:
    """Weights of the cells of some tables, one row a number that is asked for; the shape of a table of answers."""

    weights: dict[Clique, np.ndarray]
    shape: tuple[int, ...] | None

    @property
    def rows(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def range(self) -> tuple[float, float]:
        """Cells of a table are shares; weighed, an answer lies between the sums of the least and largest weights."""
        if self.shape is not None:
            return 0.0, 1.0
        return sum(float(w.min()) for w in self.weights.values()), sum(float(w.max()) for w in self.weights.values())


def _check(model: "Model", level: float, of: str) -> None:
    if not isinstance(level, Real) or not 0 < level < 1:
        raise Error(f"the level of an interval lies between 0 and 1, for instance 0.9; it is not {level!r}.")
    if of not in OF:
        raise Error(f"an interval is of the 'source' of the records or of the 'records' themselves, not of {of!r}.")
    check_errors_known(model)


def check_errors_known(model: "Model") -> None:
    """Refuse a model that keeps nothing of its fit."""
    if model.uncertainty is None:
        raise Error(
            "this model has no record of its errors, so it gives no intervals: only models learned by method 'map' "
            "(the default of qf.fit) do. Learn it again from the release with qf.fit(release)."
        )


def _question(model: "Model", query: Any, given: Mapping[str, Any]) -> _Question:
    question = _Question(*_weights(model.domain, query))
    known = set(model.structure.attributes)
    unknown = [name for name in dict.fromkeys([*(n for c in question.weights for n in c), *given]) if name not in known]
    if unknown:
        raise Error(
            f"no table of the release holds {join_names(unknown)}: nothing is known there, so there is no interval."
        )
    return question


def _ask(
    model: "Model", questions: Sequence[_Question], level: float, given: Mapping[str, Any], of: str
) -> list[tuple[Any, Any]]:
    from scipy.special import stdtrit

    answer = _answer(model, questions, given)
    errors = answer.errors
    variance = errors.noise + errors.sampling + errors.prior + errors.total
    if of == "records":
        if errors.shared is None:
            raise Error(
                "for a model of this size, an interval of the records is known for attributes that one table holds, "
                "without conditions; ask of='source', or about attributes of one table."
            )
        variance = variance + answer.sample_variance - 2 * errors.shared
    step = stdtrit(answer.freedom, 0.5 + level / 2) * np.sqrt(np.maximum(variance, 0))
    prior = errors.prior / np.maximum(errors.noise + errors.sampling + errors.prior, 1e-300)
    found: list[tuple[Any, Any]] = []
    start = 0
    for question in questions:
        rows, shape = slice(start, start + question.rows), question.shape
        power = (1 - prior[rows]) ** 3
        low, high = _ends(answer.values[rows], step[rows], errors.pull[rows], power, *question.range)
        found.append((float(low[0]), float(high[0])) if shape is None else (low.reshape(shape), high.reshape(shape)))
        start += question.rows
    return found


def _weights(domain: Domain, query: Any) -> tuple[dict[Clique, np.ndarray], tuple[int, ...] | None]:
    """Weights of the cells of some tables: one row a number that is asked for; the shape of a table of answers.

    Where a whole table is asked for, each row would be one of its cells, and is left empty.
    """
    if not isinstance(query, Mapping):
        wanted = domain.clique(query)
        cells = domain.cells(wanted)
        if cells > MOST_CELLS:
            raise Error(
                f"{join_names(wanted)} have {cells:,} combinations; ask for intervals of at most {MOST_CELLS:,}."
            )
        return {wanted: np.zeros((cells, 0))}, domain.table_shape(wanted)
    if not query:
        raise Error("a weighted question maps attributes to weights, for instance {'age': [0, 0, 1]}; it is empty.")
    weights: dict[Clique, np.ndarray] = {}
    for attributes, given in query.items():
        wanted = domain.clique(attributes)
        try:
            table = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise Error(f"the weights of {join_names(wanted)} are not an array of numbers.") from None
        if table.shape != domain.table_shape(wanted):
            raise Error(
                f"the weights of {join_names(wanted)} have shape {table.shape}; expected {domain.table_shape(wanted)}, "
                "one weight a combination."
            )
        if not np.isfinite(table).all():
            raise Error(f"the weights of {join_names(wanted)} hold NaN or infinite values; they must be finite.")
        if wanted in weights:
            raise Error(f"{join_names(wanted)} is weighed twice; add its weights up and give it once.")
        weights[wanted] = table.reshape(1, -1)
    return weights, None


@dataclass(frozen=True)
class _Answer:
    values: np.ndarray
    errors: "ErrorParts"
    sample_variance: np.ndarray  # of the same number among the records
    freedom: float  # how many draws a variance rests on; infinite where it is worked out


@one_blas_thread()
def _answer(model: "Model", asked: Sequence[_Question], given: Mapping[str, Any]) -> _Answer:
    """Answers and their errors, one question after the other.

    The derivative of E[f] by a log-potential is Cov(f, its cell). So either inference is followed in the direction f,
    in the model with the evidence and with a (zero) potential wherever f needs one, which gives a gradient; or, in a
    large model, in the direction of each error that was drawn, which gives what that error adds to all answers.
    """
    wanted = list(dict.fromkeys(clique for question in asked for clique in question.weights))
    known = _evidence(model.domain, wanted, given)
    if known and model.inference != "exact":
        inside = [_condition(model, question, known) for question in asked]
        answer = _answer(model, [question for question, _ in inside], {})
        return replace(answer, values=np.concatenate([values for _, values in inside]))
    homes = {clique: _home(model, clique) for clique in wanted}
    added = [clique for clique, home in homes.items() if home == clique and clique not in model.cliques]
    if added:
        model._need_exact(
            f"an interval of the joint distribution of {join_names(added[0])} (no clique holds them together)"
        )
    cells = Cells.of(model, tuple(added), known)
    if not np.isfinite(cells.point.shares).all() or cells.point.log_partition < IMPOSSIBLE / 10:
        raise Error(f"the given values {dict(given)!r} have probability 0 in this model.")
    values = _sums(cells, asked, homes, cells.point.shares[None])[:, 0]
    records = model._covariance.total
    if known:  # those with what is known; at least so many that their number is no 0
        records *= max(float(np.exp(cells.point.log_partition - model.log_partition())), 1e-200)
    if model._covariance.dense:
        found = [
            cells.spread(_directions(cells, question, homes, rows)) for question in asked for rows in _blocks(question)
        ]
        variances, gradients = (np.concatenate(part) for part in zip(*found, strict=True))
        return _Answer(values, model._covariance.errors(gradients), variances / records, np.inf)
    draws = model._covariance.draws
    scattered = None if known or added else _sums(cells, asked, homes, cells.from_parameters(draws.scattered))
    moved = model._moved if not known and not added else cells.moved(draws.directions)
    starts = np.cumsum([question.rows for question in asked])[:-1]
    own = [_spread(cells, one, homes, part) for one, part in zip(asked, np.split(values, starts), strict=True)]
    sample = np.concatenate(own) / records
    errors = draws.parts(_sums(cells, asked, homes, moved), model._covariance.total_variance, scattered, sample)
    return _Answer(values, errors, sample, float(len(draws.data)))


@dataclass(frozen=True, eq=False)
class Cells:
    """Inference on the cells of a model's tables and of some that were added, with evidence."""

    model: "Model"
    cliques: tuple[Clique, ...]
    starts: dict[Clique, int]
    point: "Point"

    @classmethod
    def of(
        cls, model: "Model", added: tuple[Clique, ...] = (), known: Mapping[str, np.ndarray] | None = None
    ) -> "Cells":
        cliques = (*model.cliques, *added)
        theta = {c: np.zeros(model.domain.table_shape(c)) for c in cliques} | dict(model.potentials)
        for name, possible in (known or {}).items():
            home = _home(model, (name,))
            theta[home] = np.where(_at_home(model.domain, possible[None], (name,), home)[0], theta[home], IMPOSSIBLE)
        shape = shape_of(
            model.domain, cliques, tuple((c,) for c in cliques), (False,) * len(cliques), (None,) * len(cliques),
            model.inference, tuple(sorted(model.options.items())),
        )  # fmt: skip
        if model.inference == "exact":  # what was added may need larger tables
            shape.tree.plan.check_memory(log_space=True)
        point = shape.at(np.concatenate([theta[c].ravel() for c in cliques]))
        return cls(model, cliques, dict(zip(cliques, shape.starts, strict=False)), point)

    @cached_property
    def parameters(self) -> np.ndarray:
        """For each cell, the parameter of the fit that it is; -1 in tables that were added."""
        fitted = self.model._covariance.shape
        places = dict.fromkeys(self.cliques, -1) | {
            clique: start for group, start in zip(fitted.groups, fitted.starts, strict=False) for clique in group
        }
        sizes = [self.model.domain.cells(clique) for clique in self.cliques]
        parts = [
            np.full(size, places[c]) if places[c] < 0 or c in fitted.apart else np.arange(places[c], places[c] + size)
            for c, size in zip(self.cliques, sizes, strict=True)
        ]
        return np.concatenate(parts)

    @cached_property
    def signs(self) -> np.ndarray:
        """For each cell, what that parameter is multiplied by."""
        apart = self.model._covariance.shape.apart
        sizes = {c: self.model.domain.cells(c) for c in self.cliques}
        return np.concatenate([signs_of(len(c)).ravel() if c in apart else np.ones(sizes[c]) for c in self.cliques])

    def from_parameters(self, rows: np.ndarray) -> np.ndarray:
        """Rows by parameters of the fit as rows by cells."""
        found = rows[:, self.parameters] * self.signs
        found[:, self.parameters < 0] = 0.0
        return found

    def moved(self, directions: np.ndarray) -> np.ndarray:
        """What errors of the parameters add to the shares of all cells."""
        parts = np.array_split(directions, -(-len(directions) // 16))  # a few dozen would take much memory
        return np.concatenate([self.point.jacobian(self.from_parameters(part)) for part in parts])

    def spread(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(variance in one record, gradient by the parameters of the fit) of sums of cells, one per row."""
        moved = self.point.jacobian(directions)
        gradients = np.zeros((len(moved), self.model._covariance.shape.size))
        fitted = self.parameters >= 0
        np.add.at(gradients.T, self.parameters[fitted], (moved * self.signs)[:, fitted].T)
        return np.einsum("ij,ij->i", directions, moved), gradients


def _sums(cells: Cells, asked: Sequence[_Question], homes: Mapping[Clique, Clique], rows: np.ndarray) -> np.ndarray:
    """Rows of numbers by cells, summed to what is asked: one row an answer."""
    parts = []
    for question in asked:
        total: Any = 0.0
        for clique, weights in question.weights.items():
            flat = _table(cells, clique, homes[clique], rows)
            total = total + (flat if question.shape is not None else weights @ flat)
        parts.append(total)
    return np.concatenate(parts)


def _table(cells: Cells, clique: Clique, home: Clique, rows: np.ndarray) -> np.ndarray:
    """Rows of numbers by cells, summed to those of one table: one row per cell of it."""
    start, shape = cells.starts[home], cells.model.domain.table_shape(home)
    table = rows[:, start : start + prod(shape)].reshape(-1, *shape)
    sums = np.einsum(table, range(len(home) + 1), (0, *(1 + home.index(name) for name in clique)))
    return np.asarray(sums.reshape(len(rows), -1).T)


def _spread(cells: Cells, question: _Question, homes: Mapping[Clique, Clique], values: np.ndarray) -> np.ndarray:
    """The variance in one record of each number of a question: of sums over one table, that table tells it."""
    if question.shape is not None:
        return values * (1 - values)
    if len(question.weights) > 1:
        return cells.spread(_directions(cells, question, homes, slice(None)))[0]
    ((clique, weights),) = question.weights.items()
    shares = _table(cells, clique, homes[clique], cells.point.shares[None])
    return np.maximum((weights**2 @ shares)[:, 0] - (weights @ shares)[:, 0] ** 2, 0.0)


def _directions(cells: Cells, question: _Question, homes: Mapping[Clique, Clique], rows: slice) -> np.ndarray:
    """Some of the numbers that are asked for, as weights of all cells."""
    domain = cells.model.domain
    found = np.zeros((len(range(question.rows)[rows]), len(cells.point.shares)))
    for clique, weights in question.weights.items():
        weights = np.eye(len(found), question.rows, rows.start or 0) if question.shape is not None else weights
        home = homes[clique]
        laid = _at_home(domain, weights, clique, home).reshape(len(found), -1)
        found[:, cells.starts[home] : cells.starts[home] + laid.shape[1]] += laid
    return found


def _blocks(question: _Question) -> Iterable[slice]:
    """The rows of a question, some at a time."""
    return [slice(start, start + MOST_ROWS) for start in range(0, question.rows, MOST_ROWS)]


def _evidence(domain: Domain, weights: Iterable[Clique], given: Any) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping):
        raise Error(f'given maps attributes to labels, for instance {{"sex": "f"}}; it is not {given!r}.')
    known = {}
    for name, value in given.items():
        if any(name in wanted for wanted in weights):
            raise Error(f"{name!r} is both asked for and given; name each attribute once.")
        possible = np.zeros(domain.shape[domain.position(name)], dtype=bool)
        possible[domain.codes(name, value)] = True
        known[name] = possible
    return known


def _home(model: "Model", wanted: Clique) -> Clique:
    """The smallest clique that holds some attributes, or they themselves."""
    holders = list(model.structure.holders(wanted))
    return min(holders, key=model.domain.cells) if holders else wanted


def _condition(model: "Model", question: _Question, known: Mapping[str, np.ndarray]) -> tuple[_Question, np.ndarray]:
    """A question where something is known as sums over tables that hold that too, to first order; and its answers."""
    weights: dict[Clique, np.ndarray] = {}
    values: Any = 0.0
    for clique, given in question.weights.items():
        both = (*known, *clique)
        if not model.structure.joins(both):
            model._need_exact(
                f"an interval of a distribution given {join_names(known)}, which no clique holds with it,"
            )
        size, cells = model.domain.cells(clique), model.domain.cells(both)
        if question.rows * cells > MOST_WEIGHTS:
            raise Error(f"an interval of {join_names(clique)} given {join_names(known)} takes too much memory; ask for "
                        "fewer attributes.")  # fmt: skip
        held = reduce(np.logical_and.outer, known.values())
        joint = model.marginal(both).reshape(-1, size) * held.reshape(-1, 1)
        if not (chance := joint.sum()) > 0:
            raise Error(f"the given values of {join_names(known)} have probability 0 in this model.")
        own = np.eye(size) if question.shape is not None else given
        answers = own @ (joint.sum(0) / chance)
        around = held.reshape(-1, 1) * (own - answers[:, None])[:, None] / chance
        weights[both] = around.reshape(question.rows, cells)
        values = values + answers
    return _Question(weights, None), values


def _at_home(domain: Domain, weights: np.ndarray, wanted: Clique, home: Clique) -> np.ndarray:
    """Weights of the cells of a table as weights of the cells of a larger one, axes in that one's order."""
    table = weights.reshape(-1, *domain.table_shape(wanted))
    order = [name for name in home if name in wanted]
    table = table.transpose(0, *(1 + wanted.index(name) for name in order))
    sizes = [domain.shape[domain.position(name)] if name in wanted else 1 for name in home]
    return np.broadcast_to(table.reshape(-1, *sizes), (len(table), *domain.table_shape(home)))


def _ends(
    values: np.ndarray, step: np.ndarray, pull: np.ndarray, power: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    if not least < most:
        return values, values
    width = most - least
    share = np.clip((values - least) / width, 0, 1)
    power = np.maximum(power, 1e-3)

    def away(share: np.ndarray, pull: np.ndarray) -> np.ndarray:
        """A step away from 0: even on the Box-Cox scale in the lower half of the range, plain in the upper."""
        hidden = np.maximum(pull, 0) / width
        length = step / width + hidden
        near = (share > 0) & (share < 0.5)
        safe = np.where(near, share, 1.0)
        bent = safe * np.exp(np.minimum(np.log1p(power * length / safe) / power, 700))
        return np.where(near, bent, share + length) + hidden / 2

    high, low = away(share, pull), 1 - away(1 - share, -pull)
    return least + width * np.clip(low, 0, 1), least + width * np.clip(high, 0, 1)
