"""The default learner: the most probable parameters given the noisy tables, with a prior that it learns itself.

Cell by cell, a count n has mean N m(theta) and variance about v = N m (1 - m), and y = n + noise is normal-Laplace
(or normal). We maximise

    sum_i log p(y_i - N m_i(theta); v_i, b_i)  -  1/2 theta . P theta

where the precision P weighs, table by table, the interaction of all attributes of the table and the rest, effects of
fewer attributes, each by a variance tau^2 of its own, more of it for smooth effects (:mod:`.smoothness`). These come
from the tables too (MacKay's evidence update, :meth:`Prior.learn`). A few rounds of both settle. The density is
averaged over what is uncertain (:func:`_blur`); three corrections end the fit: the scales are set for least divergence
rather than for the mode (:meth:`Prior.trusted`), the tables of surveys lean to the mean (:func:`_correct_skew`), and
one step accounts for the correlation of counts that the sum over cells ignores (:func:`_join`). Nothing is to tune.

The expected information W of the cells and the Jacobian J of m give the curvature N^2 J W J + P. Small problems solve
with it as a matrix, large ones by conjugate gradients.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from quietfield.errors import Error
from quietfield.learning.ascent import Climb, QuasiNewton, ascend, follow_counts
from quietfield.learning.conjugate import conjugate_gradients, dot
from quietfield.learning.effects import basis_of, effect_count
from quietfield.learning.learner import Learner
from quietfield.learning.likelihood import Density, information, noisy_normal
from quietfield.learning.prior import Curvature, Prior
from quietfield.learning.problem import Data, FitState, Point, Shape
from quietfield.models.uncertainty import OF, Uncertainty, remember_fit
from quietfield.releases.release import Release

_BLUR = 0.3  # 0, 0.1 and 1 were worse; 1 would be the whole leverage of a cell on its own fit
_LOOSER = 5.0  # many records determine effects whatever their scale
_START = 1e-3  # nats per parameter that the start may leave to the climbs
_LEFT = 0.2  # of a response, in standard deviations, that conjugate gradients may leave to the joint step
_MOST_EFFECTS = 2_000  # whose covariance is inverted
_MOST_PARAMETERS = 50_000  # of a problem whose effects are listed
_STEPS_TOGETHER = 20  # steps, at most, where interactions were measured apart
_LEAST_STEP = 1e-3  # part of one of these
_JOINED = 3  # joint steps where tables overlap much: the fourth moves nothing
_ROUNDING = 1e-9  # of a variance, which remains where another as large is taken from it
_LAST = 8  # times as many steps as other climbs may take, the last one may: what it leaves, no other makes up for
_SHORT = 5  # steps of a quasi-Newton method for one of Newton's
_EARLY = 4.0  # times what the last climb may leave, the others may: the prior moves by more
_LARGE = 5_000  # parameters from which quasi-Newton steps are faster
_EACH = 2_500  # parameters of these for which a climb may leave one gain; less takes longer and was no better
_PARTS = (1.0, 0.5, 0.25, 0.125)  # of the joint step that are tried
_COST = 0.2  # nats per parameter that the last step may cost: ordinary ones cost a fifth of that at most
_LEAST_VARIANCE = 3.0  # of the noise of a count, where the records are learned: none of their empty cells is certain


class Extra(NamedTuple):
    """What a fit carries from round to round beside its parameters."""

    prior: Prior
    round: int
    settled: bool  # the last update moved the scales so little that one more round ends the fit
    before: Prior | None = None  # the prior that the tables show, where the last climb used another


@dataclass(frozen=True)
class Map(Learner):
    """Noise-aware maximum a posteriori with learned prior scales."""

    rounds: int = 8  # each climbs and then updates the prior; at most
    first: int = 20  # Newton steps to the start, at most
    steps: int = 5  # Newton steps per round, at most: rounds go on from where the last one ended
    gain: float = 0.3  # nats: a climb ends when a step promises less
    settled: float = 0.03  # relative change of the interactions' scale that ends the fit; _LOOSER for effects
    probes: int = 4  # at most
    conjugate: int = 25
    tolerance: float = 0.1
    of: str = "source"  # what is learned: the distribution that the records came from, or the "records"

    name = "map"
    compiled = False
    learns_interactions = True

    def __post_init__(self) -> None:
        if self.rounds < 2:
            raise Error(f"the method 'map' needs at least 2 rounds, one of them to start, not {self.rounds}.")
        if self.of not in OF:
            raise Error(f"a model is learned of the 'source' of the records or of the 'records', not of {self.of!r}.")

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        return FitState(np.zeros(shape.size), -np.inf, 0, False, Extra(Prior.start(shape), 0, False))

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        """Climb under the prior as it stands, then learn the prior from where that ended."""
        prior, round, settled, _ = state.extra
        if round == 0:
            found = self._start(shape, data, state.theta)
            return FitState(found.theta, found.value, found.steps, False, Extra(prior, 1, False))
        last = settled or round == self.rounds - 1
        used = prior.trusted() if last else prior
        # A table of one attribute determines all that it holds.
        single = shape.per_cell(len(group[0]) == 1 for group in shape.groups)
        blur = _BLUR * np.where(single, 1.0, prior.determined[0].mean())
        leaned = _correct_skew(shape, data, state.theta, used, prior.wide) if last else data
        found, start = self._climb(shape, leaned, state.theta, used, blur, self.steps * (_LAST if last else 1))
        steps = state.steps + found.steps
        if last:
            if shape.apart:
                theta, prior, settled = self._fit_together(shape, leaned, found, prior, blur)
                used = prior.trusted()
            else:
                joined = _join(shape, leaned, data, found.theta, found.point, used, blur, start)
                theta = _guard(shape, leaned, found, joined, used, blur)
            if self.of == "records":
                theta = self._approach_records(shape, data, theta, blur)
            return FitState(theta, found.value, steps, settled, Extra(used, round + 1, True, prior))
        curvature = Curvature(found.point, weights(shape, data, found.point.shares), prior, start)
        fresh = prior.learn(curvature, self.probes)
        return FitState(found.theta, found.value, steps, False, Extra(fresh, round + 1, self._near(prior, fresh)))

    def _near(self, prior: Prior, fresh: Prior) -> bool:
        """Whether an update moved the scales of a prior so little that the next fit is the last."""
        moved = np.abs(np.log(fresh.variances.mean(1) / prior.variances.mean(1))) / 2
        return bool((moved < self.settled * np.array([1.0, _LOOSER])).all())

    def uncertainty(self, release: Release, data: Data, state: FitState) -> Uncertainty:
        """What intervals need: see :mod:`quietfield.models.uncertainty`."""
        used, shown = state.extra.prior, state.extra.before or state.extra.prior
        return remember_fit(release, float(data.total), used.variances, shown.variances, used.smoothness.amounts)

    def _start(self, shape: Shape, data: Data, theta: np.ndarray) -> Climb:
        """Naive maximum likelihood, kept from following noise by a penalty of b theta^2 a cell.

        It should rather be too near to 0 than too far: what the tables determine is found in a few steps, but only many
        would bring back what they do not.
        """
        penalty = 2.0 * data.b * shape.counted + 1e-6 * data.b
        gain = max(1.0, _START * shape.size)
        return follow_counts(shape, data, theta, penalty, steps=self.first, gain=gain)

    def _fit_together(
        self, shape: Shape, data: Data, found: Climb, prior: Prior, blur: np.ndarray
    ) -> tuple[np.ndarray, Prior, bool]:
        """The fit of all numbers together where interactions were measured apart, its prior, and whether both settled.

        Counts of cells have next to nothing to do with each other, but sums with signs over all records do. The fit one
        by one is no more than a start here, and so is the prior that was learned from it.
        """
        theta, settled = found.theta, False
        for _ in range(self.rounds):
            theta, curved, settled = _climb_together(shape, data, theta, prior, blur, self.gain)
            point = shape.at(theta)
            curvature = Curvature(point, weights(shape, data, point.shares), prior, together=curved)
            before, prior = prior, prior.learn(curvature, self.probes)
            if near := self._near(before, prior):
                break
        theta, _, last = _climb_together(shape, data, theta, prior.trusted(), blur, self.gain)
        return theta, prior, near and settled and last

    def _approach_records(self, shape: Shape, data: Data, theta: np.ndarray, blur: np.ndarray) -> np.ndarray:
        """From the distribution that the records came from to that of the records.

        Given theta, the most probable counts of the records under normal noise of variances D are N m(theta + u) where
        u maximises  y.u - N A(theta + u) - 1/2 u.D u: the E-step of collective graphical models by its dual.
        """
        point = shape.at(theta)
        response, _, variance = _responses(shape, data, point, blur)
        counts = data._replace(y=data.total * point.shares + response)
        penalty = np.maximum(variance, _LEAST_VARIANCE)
        return follow_counts(shape, counts, theta, penalty, steps=self.first, gain=self.gain).theta

    def _climb(
        self, shape: Shape, data: Data, theta: np.ndarray, prior: Prior, blur: np.ndarray, steps: int
    ) -> tuple[Climb, Curvature]:
        """Up to the most probable parameters; and the curvature at the start."""

        @lru_cache(maxsize=2)
        def look(point: Point) -> tuple[Density, np.ndarray]:
            return _density(shape, data, point.shares, blur), prior.precision(point.theta.astype(first.kind))

        def value(theta: np.ndarray, point: Point) -> float:
            density, pulled = look(point)
            return float(dot(shape.counted, density.log) - 0.5 * dot(theta, pulled))

        def slope(point: Point) -> np.ndarray:
            density, pulled = look(point)
            m = point.shares
            slope = shape.counted * data.total * (density.by_variance * shape.variance_slope(m) - density.by_error)
            return point.jacobian(slope) - pulled

        def newton(theta: np.ndarray, point: Point) -> tuple[np.ndarray, np.ndarray]:
            here = Curvature(point, weights(shape, data, point.shares, blur), prior, first)
            return (gradient := slope(point)), here.solve(gradient, self.tolerance, self.conjugate)

        start = shape.at(theta)
        first = Curvature(start, weights(shape, data, start.shares, blur), prior)
        if shape.size <= _LARGE:
            return ascend(shape, value, newton, theta, steps=steps, gain=self.gain), first
        gain = self.gain * shape.size / _EACH * (1.0 if steps > self.steps else _EARLY)
        quasi = QuasiNewton(first.approximate, first.kind)

        def direction(theta: np.ndarray, point: Point) -> tuple[np.ndarray, np.ndarray]:
            return (gradient := slope(point)), quasi(theta, gradient)

        found = ascend(shape, value, direction, theta, steps=_SHORT * steps, gain=gain, over=_SHORT)
        if found.steps == _SHORT * steps:  # it is far from the top still, as it may be where noise is small
            more = ascend(shape, value, newton, found.theta, steps=steps, gain=gain)
            found = more._replace(steps=found.steps + more.steps)
        return found, first


def _correct_skew(shape: Shape, data: Data, theta: np.ndarray, prior: Prior, wide: np.ndarray) -> Data:
    """The tables, each cell lowered by as much as its mean lies below the most probable count: :meth:`Prior.skew`."""
    if not wide.any():
        return data
    m = shape.at(theta).shares
    return data._replace(y=data.y - data.total * m * prior.skew(m, weights(shape, data, m), wide))


def _join(
    shape: Shape,
    data: Data,
    measured: Data,
    theta: np.ndarray,
    point: Point,
    prior: Prior,
    blur: np.ndarray,
    near: Curvature,
) -> np.ndarray:
    """One step from the fit cell by cell to the fit of all cells together.

    Counts of one population are correlated, within a table and between tables: the covariance of n is N J. With s the
    score of a cell and W its information, r = s / W is a response of variance 1 / W; all of them have the covariance
    V = 1 / W + N (J less its diagonal). The new parameters t solve  N J V^-1 (r - N J (t - theta)) = P t. Where noise
    is all, V is diagonal and nothing moves; where there is none, this is maximum likelihood.

    With u = V^-1 (r - N J (t - theta)) that is one system,  (V + N^2 J P^-1 J) u = r + N J theta  and  t = N P^-1 J u.
    It is solved for the effects E u of all tables together. Where there are too many of them, conjugate gradients do;
    where these do not get there, the tables overlap much and hold little noise, and V is nearly singular. Such tables
    are also where one step is not enough.
    """
    if point.dense is not None:
        return _join_effects(shape, data, theta, point, prior, blur)
    similar = Curvature(point, weights(shape, data, point.shares, blur), prior, near)
    parts = (shape.counted > 0, *_responses(shape, data, point, blur))
    counted, response, w, rest = (part.astype(similar.kind) for part in parts)
    total = float(data.total)

    def covariance(p: np.ndarray) -> np.ndarray:
        found = point.jacobian(p)
        found *= total * counted
        found += rest * p
        return found

    def solve(right: np.ndarray, tolerance: float) -> np.ndarray:
        """V^-1 times a vector."""
        return conjugate_gradients(covariance, counted * right, lambda r: w * r, tolerance, 30)

    def curved(p: np.ndarray) -> np.ndarray:
        return total * point.jacobian(solve(total * point.jacobian(p), 0.05)) + prior.precision(p)

    first = solve(response, 0.01)
    left = response - covariance(first)
    if dot(left, w * left) > _LEFT**2 * dot(response, w * response):
        if shape.size > _MOST_PARAMETERS or effect_count(shape) > _MOST_EFFECTS:
            return theta
        for _ in range(_JOINED):
            theta = _join_effects(shape, data, theta, shape.at(theta), prior, blur)
        return theta
    gradient = total * point.jacobian(first) - prior.precision(theta)
    step = similar.solve(gradient, 0.1, prior.limit(40), curved)
    # Conjugate gradients end early, and tables that were leaned disagree about sums of many cells: of a million records
    # with little noise the step can do more harm than good, which the sum over cells hardly shows. So it goes only as
    # far as it lessens  1/2 r . V^-1 r + 1/2 t . P t,  r being of the tables as they were measured.
    plain = _responses(shape, measured, point, blur)[0].astype(similar.kind)

    def misfit(t: np.ndarray, shares: np.ndarray) -> float:
        off = plain - counted * total * (shares - point.shares).astype(similar.kind)
        return 0.5 * float(dot(off, solve(off, 0.05)) + dot(t, prior.precision(t)))

    here = misfit(theta, point.shares)
    further = (theta + part * step for part in _PARTS)
    return next((t for t in further if misfit(t, shape.at(t).shares) <= here), theta)


def _climb_together(
    shape: Shape, data: Data, theta: np.ndarray, prior: Prior, blur: np.ndarray, gain: float
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Newton's steps up  -1/2 r . V^-1 r - 1/2 theta . P theta  with r and V as in :func:`_join`.

    Returns where they end, the curvature of the first term there, and whether they settled.
    """
    point, settled = shape.at(theta), False
    for step in range(_STEPS_TOGETHER + 1):
        moved = data.total * point.dense
        inverse = np.linalg.inv(np.diag(_responses(shape, data, point, blur)[2]) + moved)
        curved = moved @ inverse @ moved
        if settled or step == _STEPS_TOGETHER:
            break

        def misfit(theta: np.ndarray, point: Point, inverse: np.ndarray = inverse) -> float:
            response = _responses(shape, data, point, blur)[0]
            return 0.5 * float(response @ inverse @ response + theta @ prior.precision(theta))

        slope = moved @ inverse @ _responses(shape, data, point, blur)[0] - prior.precision(theta)
        direction = np.linalg.solve(curved + prior.matrix, slope)
        here, length = misfit(theta, point), 1.0
        while True:
            further = theta + length * direction
            if (reached := misfit(further, there := shape.at(further))) <= here:
                break
            length /= 2
            if length < _LEAST_STEP:
                return theta, curved, bool(slope @ direction <= gain)
        theta, point = further, there
        settled = here - reached < gain and (length == 1 or bool(slope @ direction < 2 * gain))
    return theta, curved, settled


def _join_effects(
    shape: Shape, data: Data, theta: np.ndarray, point: Point, prior: Prior, blur: np.ndarray
) -> np.ndarray:
    """The same step by way of effects: with X = N F + N^2 F E P^-1 E' F, (D + E' X E) u = r + N J theta."""
    basis = basis_of(shape)
    to_effects, spread = basis.to_effects, basis.covariance(point)
    response, _, rest = _responses(shape, data, point, blur)
    known = shape.counted / rest
    right = response + data.total * point.jacobian(theta)
    variances = basis.variances(prior.variances, prior.smoothness)
    x = data.total * spread + data.total**2 * (spread * variances) @ spread
    inner = (to_effects * known) @ to_effects.T
    found = np.linalg.solve(np.eye(len(x)) + inner @ x, to_effects @ (known * right))
    return prior.variance(data.total * (to_effects.T @ (spread @ found)))


def _responses(shape: Shape, data: Data, point: Point, blur: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(r, W, 1 / W less the variance of the count) of each cell; r is 0 where nothing was counted, and W 1."""
    m, counted = point.shares, shape.counted > 0
    w = np.where(counted, weights(shape, data, m, blur) / data.total**2, 1.0)
    response = np.where(counted, -_density(shape, data, m, blur).by_error / w, 0.0)
    return response, w, np.maximum(1 / w - shape.sampling_variance(data, m), _ROUNDING / w)


def _guard(shape: Shape, data: Data, found: Climb, joined: np.ndarray, prior: Prior, blur: np.ndarray) -> np.ndarray:
    """As much of the step to ``joined`` as costs the fit cell by cell what correlations may.

    The step takes shares as linear in the parameters. Near a corner, where one cell holds nearly all, they are not:
    the data would seem to say nothing there, and the prior undo the fit.
    """
    allowed = found.value - 1.0 - _COST * shape.size
    part = 1.0
    while part > 1e-6:
        theta = found.theta + part * (joined - found.theta)
        if _objective(shape, data, theta, shape.at(theta), prior, blur) >= allowed:
            return theta
        part /= 2
    return found.theta


def _objective(shape: Shape, data: Data, theta: np.ndarray, point: Point, prior: Prior, blur: np.ndarray) -> float:
    """What a climb maximises."""
    density = _density(shape, data, point.shares, blur)
    return float(dot(shape.counted, density.log) - 0.5 * dot(theta, prior.precision(theta)))


def _blur(shape: Shape, data: Data, m: np.ndarray, blur: np.ndarray | float) -> np.ndarray:
    """v, and for Laplace noise blur b^2: part of what is still uncertain about the expected count itself.

    A Laplace density is sharp, and its mode fits many cells exactly, as a median does. Averaged over what is uncertain
    it is smooth, and its top is nearer to the mean of the posterior; it is easier to climb, too.
    """
    return shape.sampling_variance(data, m) + np.where(shape.is_gaussian, 0.0, blur * data.b**2)


def _density(shape: Shape, data: Data, m: np.ndarray, blur: np.ndarray | float) -> Density:
    """The density of each cell's error."""
    return noisy_normal(data.y - data.total * m, _blur(shape, data, m, blur), data.b, shape.is_gaussian)


def weights(shape: Shape, data: Data, m: np.ndarray, blur: np.ndarray | float = 0.0) -> np.ndarray:
    """N^2 times the information of each cell about its mean."""
    return data.total**2 * shape.counted * information(_blur(shape, data, m, blur), data.b, shape.is_gaussian)
