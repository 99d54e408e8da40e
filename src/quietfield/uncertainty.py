"""Error bars: how far a model's answers may be from the truth, given its structure.

Three things make a learned answer wrong: the privacy noise, the sample of people, and the estimation itself, which
pulls what the tables do not determine towards the prior. :class:`Uncertainty` keeps what is needed to weigh them;
``learning/covariance.py`` does so. Here a question becomes a gradient, and an error an interval:

* the spread is that of noise, sample and prior together (normal, to first order);
* the prior's pull as the fit shows it is a bias of known direction: it is added on the side that it hides, and half of
  it again, since the fit shows only part of it (noise lifts the many small cells of a table at the large ones' cost);
* answers near an end of their range (shares near 0) have a skewed error: away from that end, steps are even on the
  plain scale where data decide and on that of the logarithm where the prior does, which is normal there; in between,
  on a Box-Cox scale of power (1 - f)^3, with f the prior's part of the variance.

The last two were chosen among some twenty variants on simulated chains; ``benchmarks/coverage.py`` measures them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quietfield.domain import Clique, Domain, Label
from quietfield.errors import Error, names
from quietfield.noise import Gaussian, Noise, noise_from_json
from quietfield.releases import Release

if TYPE_CHECKING:
    import numpy as np

    from quietfield.learning.covariance import Covariance
    from quietfield.model import Model

OF = ("source", "records")
MOST_CELLS = 20_000  # of one question
_LEAST_VARIANCE = 1e-200  # stands for 0, to which the variance of discrete noise of a tiny scale rounds


@dataclass(frozen=True)
class Uncertainty:
    """What a model remembers of its release so that it can give intervals; nothing in it is private."""

    groups: tuple[tuple[Clique, ...], ...]  # the cliques that each table sums
    noise: tuple[Noise, ...]  # of each table
    excluded: tuple[tuple[int, ...] | None, ...]  # per table, the cell that was not counted
    total: float  # N, public or estimated
    total_variance: float  # of the estimate's error; 0 where N is public
    total_weights: tuple[float, ...]  # per table, how much one more in each cell adds to the estimate of N
    variances: tuple[
        float, float
    ]  # of the prior as the fit used it: of interactions, and of effects of fewer attributes
    drawn: tuple[float, float]  # of the parameters themselves, as the release shows them

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "tables": [
                {
                    "cliques": [list(clique) for clique in group],
                    "noise": noise.to_json(),
                    "excluded": None if excluded is None else list(excluded),
                    "total_weight": weight,
                }
                for group, noise, excluded, weight in zip(
                    self.groups, self.noise, self.excluded, self.total_weights, strict=True
                )
            ],
            "total": self.total,
            "total_variance": self.total_variance,
            "prior_variances": list(self.variances),
            "drawn_variances": list(self.drawn),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Uncertainty":
        """What :meth:`to_json` wrote down, checked."""
        tables = content["tables"]
        excluded = tuple(None if t["excluded"] is None else tuple(int(i) for i in t["excluded"]) for t in tables)
        first, second = (float(value) for value in content["prior_variances"])
        third, fourth = (float(value) for value in content["drawn_variances"])
        found = cls(
            tuple(tuple(tuple(str(name) for name in clique) for clique in table["cliques"]) for table in tables),
            tuple(noise_from_json(table["noise"]) for table in tables),
            excluded,
            float(content["total"]),
            float(content["total_variance"]),
            tuple(float(table["total_weight"]) for table in tables),
            (first, second),
            (third, fourth),
        )
        least = min(found.total, first, second, third, fourth)
        if not (least > 0 and found.total_variance >= 0 and found.groups):
            raise Error("what the intervals need must be positive numbers, and it names at least one table.")
        return found


def variance_of(noise: Noise) -> float:
    """The variance of some noise, never 0: it is divided by."""
    return max(noise.variance, _LEAST_VARIANCE)


def of_fit(release: Release, total: float, variances: "np.ndarray", drawn: "np.ndarray | None" = None) -> Uncertainty:
    """What a fit to a release leaves behind: ``total`` and the prior's two variances as the fit used them.

    ``drawn`` are the variances that the release shows, where the fit used others on purpose.
    """
    drawn = variances if drawn is None else drawn
    parts = sorted(release.parts, key=lambda part: part.values.shape)  # as the learners order them
    weights = [0.0] * len(parts)
    variance = 0.0
    if not release.total_is_public:
        # The estimate of N is the mean of the noisy total and of all table sums, weighted by their noise.
        evidence = [
            0.0 if p.excluded is not None else len(p.cliques) / (p.values.size * variance_of(p.noise)) for p in parts
        ]
        precision = sum(w * len(p.cliques) for w, p in zip(evidence, parts, strict=True))
        if release.total_noise is not None:
            precision += 1 / variance_of(release.total_noise)
        variance = 1 / precision
        weights = [w * variance for w in evidence]
    return Uncertainty(
        tuple(part.cliques for part in parts),
        tuple(part.noise for part in parts),
        tuple(part.excluded for part in parts),
        float(total),
        variance,
        tuple(weights),
        (float(variances[0]), float(variances[1])),
        (float(drawn[0]), float(drawn[1])),
    )


def interval(
    model: "Model",
    query: "str | Iterable[str] | Mapping[Any, Any]",
    level: float = 0.9,
    given: Mapping[str, Label | Sequence[Label]] | None = None,
    of: str = "source",
) -> "tuple[Any, Any]":
    """(low, high) of a question; see :meth:`quietfield.model.Model.interval`."""
    import numpy as np
    from scipy.special import ndtri

    if not isinstance(level, int | float) or not 0 < level < 1:
        raise Error(f"the level of an interval lies between 0 and 1, for instance 0.9; it is not {level!r}.")
    if of not in OF:
        raise Error(f"an interval is of the 'source' of the records or of the 'records' themselves, not of {of!r}.")
    if model.uncertainty is None:
        raise Error(
            "this model has no record of its errors, so it gives no intervals: only models learned by method 'map' "
            "(the default of qf.fit) do. Learn it again from the release with qf.fit(release)."
        )
    weights, shape = _weights(model.domain, query)
    known = {name for clique in model.cliques for name in clique}
    unknown = [name for name in dict.fromkeys([*(n for c in weights for n in c), *(given or {})]) if name not in known]
    if unknown:
        raise Error(f"no table of the release holds {names(unknown)}: nothing is known there, so there is no interval.")
    answer = _answer(model, weights, given or {})
    errors = model._covariance.errors(answer.gradients)
    variance = errors.noise + errors.sampling + errors.prior + errors.total
    if of == "records":
        variance = variance + answer.sample_variance - 2 * errors.shared
    step = ndtri(0.5 + level / 2) * np.sqrt(np.maximum(variance, 0))
    ranges = [(float(array.min()), float(array.max())) for array in weights.values()]
    # The cells of a table are shares; weighed, an answer lies between the sums of the least and largest weights.
    least, most = (0.0, 1.0) if shape is not None else (sum(r[0] for r in ranges), sum(r[1] for r in ranges))
    prior = errors.prior / np.maximum(errors.noise + errors.sampling + errors.prior, 1e-300)
    low, high = _ends(answer.values, step, errors.pull, (1 - prior) ** 3, least, most)
    return (float(low[0]), float(high[0])) if shape is None else (low.reshape(shape), high.reshape(shape))


def _weights(domain: Domain, query: Any) -> "tuple[dict[Clique, np.ndarray], tuple[int, ...] | None]":
    """Weights of the cells of some tables: one row a number that is asked for; the shape of a table of answers."""
    import numpy as np

    if not isinstance(query, Mapping):
        wanted = domain.clique(query)
        cells = domain.cells(wanted)
        if cells > MOST_CELLS:
            raise Error(f"{names(wanted)} have {cells:,} combinations; ask for intervals of at most {MOST_CELLS:,}.")
        return {wanted: np.eye(cells)}, domain.table_shape(wanted)
    if not query:
        raise Error("a weighted question maps attributes to weights, for instance {'age': [0, 0, 1]}; it is empty.")
    weights: dict[Clique, np.ndarray] = {}
    for attributes, given in query.items():
        wanted = domain.clique(attributes)
        try:
            table = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise Error(f"the weights of {names(wanted)} are not an array of numbers.") from None
        if table.shape != domain.table_shape(wanted):
            raise Error(
                f"the weights of {names(wanted)} have shape {table.shape}; expected {domain.table_shape(wanted)}, one "
                "weight a combination."
            )
        if not np.isfinite(table).all():
            raise Error(f"the weights of {names(wanted)} hold NaN or infinite values; they must be finite.")
        if wanted in weights:
            raise Error(f"{names(wanted)} is weighed twice; add its weights up and give it once.")
        weights[wanted] = table.reshape(1, -1)
    return weights, None


@dataclass(frozen=True)
class _Answer:
    values: "np.ndarray"
    gradients: "np.ndarray"  # by the parameters of the fit
    sample_variance: "np.ndarray"  # of the same number among the records


def _answer(model: "Model", weights: "Mapping[Clique, np.ndarray]", given: Mapping[str, Any]) -> _Answer:
    """Answers and gradients. The derivative of E[f] by a log-potential is Cov(f, its cell): one pass of inference in
    the direction f, in the model with the evidence and with a (zero) potential wherever f needs one."""
    import numpy as np

    from quietfield import inference
    from quietfield.inference.layout import IMPOSSIBLE
    from quietfield.learning.covariance import spread

    known = _evidence(model.domain, weights, given)
    if known:
        model._need_exact("an interval of a conditional distribution")
    homes = {wanted: _home(model, wanted) for wanted in weights}
    added = [wanted for wanted, home in homes.items() if home == wanted and wanted not in model.cliques]
    added += [(name,) for name in known if (name,) not in model.cliques and (name,) not in added]
    if added:
        model._need_exact(f"an interval of the joint distribution of {names(added[0])} (no clique holds them together)")
    cliques = (*model.cliques, *added)
    engine = inference.engine(model.domain, cliques, model.method, **model.options)
    if model.method == "exact":
        engine.plan.check_memory()
    theta = {c: model.potentials[c] if c in model.cliques else np.zeros(model.domain.table_shape(c)) for c in cliques}
    for name, possible in known.items():
        theta[name,] = np.where(possible, theta[name,], IMPOSSIBLE)
    parts = {wanted: _at_home(model.domain, w, wanted, homes[wanted]) for wanted, w in weights.items()}
    rows = len(next(iter(weights.values())))
    blank = {c: np.zeros((rows, *model.domain.table_shape(c))) for c in cliques}
    for wanted, part in parts.items():
        blank[homes[wanted]] = blank[homes[wanted]] + part
    directions = engine.layout.pack(blank, batch=True)
    mu, log_z, moved = spread(engine, engine.layout.pack(theta), directions)
    if not np.isfinite(mu).all() or not np.isfinite(moved).all():
        raise Error(f"the given values {dict(given)!r} have probability 0 in this model.")
    covariance = model._covariance
    back = covariance.shape.engine.layout
    tables = engine.layout.unpack(moved)
    gradients = covariance.to_parameters(back.pack({c: tables[c] for c in back.cliques}, batch=True))
    chance = 1.0
    if known:
        model.log_partition()
        chance = float(np.exp(log_z - model.log_partition()))
    variance = np.einsum("ij,ij->i", directions, moved) / (covariance.total * chance)
    return _Answer(directions @ mu, gradients, variance)


def _evidence(domain: Domain, weights: Iterable[Clique], given: Any) -> "dict[str, np.ndarray]":
    import numpy as np

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
    holders = [clique for clique in model.cliques if set(wanted) <= set(clique)]
    return min(holders, key=model.domain.cells) if holders else wanted


def _at_home(domain: Domain, weights: "np.ndarray", wanted: Clique, home: Clique) -> "np.ndarray":
    """Weights of the cells of a table as weights of the cells of a larger one, axes in that one's order."""
    import numpy as np

    table = weights.reshape(-1, *domain.table_shape(wanted))
    order = [name for name in home if name in wanted]
    table = table.transpose(0, *(1 + wanted.index(name) for name in order))
    sizes = [domain.shape[domain.position(name)] if name in wanted else 1 for name in home]
    return np.broadcast_to(table.reshape(-1, *sizes), (len(table), *domain.table_shape(home)))


def _ends(
    values: "np.ndarray", step: "np.ndarray", pull: "np.ndarray", power: "np.ndarray", least: float, most: float
) -> "tuple[np.ndarray, np.ndarray]":
    import numpy as np

    if not least < most:
        return values, values
    width = most - least
    share = np.clip((values - least) / width, 0, 1)
    power = np.maximum(power, 1e-3)

    def away(share: "np.ndarray", pull: "np.ndarray") -> "np.ndarray":
        """A step away from 0: even on the Box-Cox scale in the lower half of the range, plain in the upper."""
        hidden = np.maximum(pull, 0) / width
        length = step / width + hidden
        near = (share > 0) & (share < 0.5)
        safe = np.where(near, share, 1.0)
        bent = safe * np.exp(np.minimum(np.log1p(power * length / safe) / power, 700))
        return np.where(near, bent, share + length) + hidden / 2

    high, low = away(share, pull), 1 - away(1 - share, -pull)
    return least + width * np.clip(low, 0, 1), least + width * np.clip(high, 0, 1)


def covariance_of(model: "Model") -> "Covariance":
    """The errors of a model's parameters, from what it keeps of its fit."""
    import numpy as np

    from quietfield.learning.covariance import Covariance
    from quietfield.learning.problem import noise_scales, shape_of

    kept = model.uncertainty
    assert kept is not None
    shape = shape_of(
        model.domain,
        model.cliques,
        kept.groups,
        tuple(isinstance(noise, Gaussian) for noise in kept.noise),
        kept.excluded,
        model.method,
        tuple(sorted(model.options.items())),
    )
    return Covariance(
        shape,
        np.concatenate([model.potentials[group[0]].ravel() for group in kept.groups]),
        noise_scales(shape, kept.noise, kept.total),
        shape.per_cell(noise.variance for noise in kept.noise),
        kept.total,
        kept.total_variance,
        shape.per_cell(kept.total_weights),
        np.array(kept.variances),
        np.array(kept.drawn),
    )
