"""Noise for counts: exact discrete Laplace or Gaussian, drawn by OpenDP, at the smallest scale that keeps a promise.

The integers themselves go through the measurement. There is no seed: whoever knew it could subtract the noise.

Glossary: a scale "in steps" counts steps of 1/denominator; sensitivities ``l1`` and ``l2_squared`` are in counts.
"""

import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isqrt, nextafter
from typing import Any, Literal

import numpy as np

from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.calibration import Weights, check_budget, check_scale, relative_weights
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.privacy.units import Statistics, sensitivities

NoiseKind = Literal["laplace", "gaussian"]


@dataclass(frozen=True)
class NoisePlan:
    """What noise goes where and what it costs: public, made before any record is read.

    ``scales`` are in steps, one for each table of ``statistics`` and, where a total is counted, one more for it.
    ``rho`` is None for Laplace noise.
    """

    kind: NoiseKind
    epsilon: Fraction
    delta: Fraction | None
    rho: Fraction | None
    scales: tuple[float, ...]
    denominator: int

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each table (and of the total, last, where it is counted), in counts."""
        make = Laplace if self.kind == "laplace" else Gaussian
        step = Fraction(1, self.denominator)
        return tuple(make(Fraction(scale) * step, step) for scale in self.scales)  # type: ignore[arg-type]


def plan_noise(
    statistics: Statistics,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    noise: NoiseKind = "laplace",
    weights: Weights = None,
) -> NoisePlan:
    """The noise that makes ``statistics`` (epsilon)- or (epsilon, delta)-differentially private, and no more than that.

    With ``weights``, a table of weight 2 gets half the noise of a table of weight 1; the empty tuple names the total.
    """
    budget, chance = check_budget(epsilon, delta, noise)
    return _plan(statistics, noise, budget, chance, None, weights)


def plan_step(
    statistics: Statistics, noise: NoiseKind, budget: Fraction, weights: Weights = None
) -> tuple[NoisePlan, Fraction]:
    """The noise of some of several steps that share a promise, for a part of its epsilon (or rho); and what it costs.

    Args:
        statistics: What is measured in this step.
        noise: The kind of noise.
        budget: Epsilon with Laplace noise, rho with Gaussian noise.
        weights: As in :func:`plan_noise`.

    Returns:
        The plan, and its exact cost, which is at most the budget.
    """
    if noise == "laplace":
        plan = _plan(statistics, noise, budget, None, None, weights)
    else:
        plan = _plan(statistics, noise, Fraction(1), Fraction(1, 2), budget, weights)
    l1s, l2s = sensitivities(statistics)
    scales = [one.exact for one in plan.noises]
    if noise == "laplace":
        return plan, accounting.laplace_epsilon(l1s, sum(l1s, Fraction(0)), scales)
    return plan, accounting.gaussian_rho(l2s, sum(l2s, Fraction(0)), scales)


def _plan(
    statistics: Statistics,
    noise: NoiseKind,
    budget: Fraction,
    chance: Fraction | None,
    rho: Fraction | None,
    weights: Weights,
) -> NoisePlan:
    """The plan for an epsilon (and delta), or for a rho alone."""
    if not statistics.tables:
        raise Error("there is no table to release; name at least one clique.")
    relative = relative_weights(statistics, weights, noise)
    l1s, l2s = sensitivities(statistics)
    grid = statistics.denominator
    if noise == "laplace":
        guess = accounting.laplace_epsilon(l1s, statistics.l1, [1 / w for w in relative]) / budget
        base = _smallest(lambda s: _laplace_holds(_scales(s, relative), l1s, statistics.l1, grid, budget), guess * grid)
        return NoisePlan("laplace", budget, None, None, _scales(base, relative), grid)
    assert chance is not None
    promise = (budget, chance) if rho is None else None
    rho = accounting.zcdp_rho(budget, chance) if rho is None else rho
    unit_rho = accounting.gaussian_rho(l2s, statistics.l2_squared, [1 / w for w in relative])
    base = _smallest(
        lambda s: _gaussian_holds(_scales(s, relative), l2s, statistics.l2_squared, grid, rho, promise),
        Fraction((float(unit_rho) / float(rho)) ** 0.5) * grid,
    )
    scales = _scales(base, relative)
    spent = accounting.gaussian_rho(l2s, statistics.l2_squared, [Fraction(s) / grid for s in scales])
    stated = min(rho, accounting.round_up(spent, 1024))  # with hundreds of weights it has more digits than a file takes
    return NoisePlan("gaussian", budget, chance, stated, scales, grid)


def draw_noise(
    plan: NoisePlan, tables: Sequence[np.ndarray], total: int | None = None
) -> tuple[list[np.ndarray], int | None]:
    """Noisy integers for integers, each table (and the total) with the scale that was planned for it."""
    values = [np.asarray(table) for table in tables]
    if len(values) + (total is not None) != len(plan.scales):
        raise Error(f"the plan is for {len(plan.scales)} tables, not for {len(values) + (total is not None)}.")
    for value in values:
        if value.dtype != np.int64:
            raise Error(f"counts must be 64-bit integers, not {value.dtype}; only integers take exact noise.")
    flat = [value.ravel() for value in values] + ([np.array([total], dtype=np.int64)] if total is not None else [])
    noisy: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(flat)
    together: dict[float, list[int]] = {}  # tables of one scale go through one measurement
    for i, scale in enumerate(plan.scales):
        together.setdefault(scale, []).append(i)
    for scale, places in together.items():
        drawn = measure(plan.kind, scale, np.concatenate([flat[i] for i in places]))
        for i, part in zip(places, np.split(drawn, np.cumsum([flat[i].size for i in places])[:-1]), strict=True):
            noisy[i] = part
    out = [noisy[i].reshape(value.shape) for i, value in enumerate(values)]
    return out, (int(noisy[-1][0]) if total is not None else None)


def plan_selection(noise: NoiseKind, budget: Fraction, sensitivity: int) -> float:
    """The smallest scale at which one noisy maximum, of scores that move by ``sensitivity``, costs at most a budget.

    Both the exact cost and OpenDP's map, which rounds up, have to fit.
    """
    move = Fraction(sensitivity)
    guess = 2 * move / budget if noise == "laplace" else move * Fraction((2 * float(budget)) ** -0.5)

    def holds(scale: float) -> bool:
        exact = accounting.selection_cost(noise, move, Fraction(scale))
        return exact <= budget and Fraction(_noisy_maximum(noise, scale).map(sensitivity)) <= budget

    return _smallest(holds, guess)


def select(noise: NoiseKind, scale: float, scores: np.ndarray) -> int:
    """The place of the largest score after exact noise: Gumbel within zCDP, exponential for pure epsilon."""
    return int(_noisy_maximum(noise, scale)(scores.tolist()))


def _noisy_maximum(noise: NoiseKind, scale: float) -> Any:
    dp = _opendp()
    measure = dp.measures.max_divergence() if noise == "laplace" else dp.measures.zero_concentrated_divergence()
    scores = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
    return dp.measurements.make_noisy_max(scores, dp.metrics.linf_distance(T="i64"), measure, scale=scale)


def _scales(base: float, relative: Sequence[Fraction]) -> tuple[float, ...]:
    return tuple(base if w == 1 else _float_up(Fraction(base) / w) for w in relative)


def _laplace_holds(
    scales: Sequence[float], l1s: Sequence[Fraction], l1: Fraction, grid: int, epsilon: Fraction
) -> bool:
    """Whether both the exact loss and the sum of OpenDP's maps, which round up, are at most epsilon."""
    exact = [Fraction(s) / grid for s in scales]
    if accounting.laplace_epsilon(l1s, l1, exact) > epsilon:
        return False
    _, moves = accounting.worst_case(l1s, l1, [1 / s for s in exact])
    spent = Fraction(0)
    for scale, moved in _moved_by_scale(scales, moves).items():
        loss = _measurement("laplace", scale).map(ceil(moved * grid))
        if loss == inf:  # a map beyond the largest float
            return False
        spent += Fraction(loss)
    return spent <= epsilon


def _gaussian_holds(
    scales: Sequence[float],
    l2s: Sequence[Fraction],
    l2_squared: Fraction,
    grid: int,
    rho: Fraction,
    promise: tuple[Fraction, Fraction] | None,
) -> bool:
    """Whether the exact rho fits, and OpenDP's conversion of it too where one measurement makes up the whole."""
    convert = _opendp().combinators
    exact = [Fraction(s) / grid for s in scales]
    if accounting.gaussian_rho(l2s, l2_squared, exact) > rho:
        return False
    _, moves = accounting.worst_case(l2s, l2_squared, [1 / s for s in exact])
    spent = Fraction(0)
    for scale, moved in _moved_by_scale(scales, moves).items():
        distance = _root_up(moved * grid * grid)
        spent += Fraction(_measurement("gaussian", scale).map(distance))
        if promise is not None and len(set(scales)) == 1:
            epsilon, delta = promise
            fixed: Any = convert.make_fix_delta(
                convert.make_zCDP_to_approxDP(_measurement("gaussian", scale)), _float_down(delta)
            )
            if Fraction(fixed.map(distance)[0]) > epsilon:
                return False
    return spent <= rho or (promise is not None and len(set(scales)) == 1)


def _moved_by_scale(scales: Sequence[float], moves: Sequence[Fraction]) -> dict[float, Fraction]:
    """How far the tables of each scale move together: they go through one measurement."""
    moved = dict.fromkeys(scales, Fraction(0))
    for scale, move in zip(scales, moves, strict=True):
        moved[scale] += move
    return moved


def _opendp() -> Any:
    """OpenDP, as far as noise needs it: its prelude would load scikit-learn, too, which takes seconds."""
    try:
        import opendp.combinators
        import opendp.domains
        import opendp.measurements
        import opendp.measures
        import opendp.metrics
        import opendp.mod
    except ImportError:
        raise Error(
            "releasing needs OpenDP for its exact noise; install it with: pip install 'quietfield[curator]'."
        ) from None
    opendp.mod.enable_features("contrib")
    return opendp


def _measurement(kind: str, scale: float) -> Any:
    dp = _opendp()
    check_scale(scale)
    cells = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
    if kind == "laplace":
        return dp.measurements.make_laplace(cells, dp.metrics.l1_distance(T="i64"), scale=scale)
    return dp.measurements.make_gaussian(cells, dp.metrics.l2_distance(T="f64"), scale=scale)


def measure(kind: NoiseKind, scale: float, values: np.ndarray) -> np.ndarray:
    """One measurement on a long vector. Cells are independent, so threads may share the work."""
    measurement = _measurement(kind, scale)

    def one(part: np.ndarray) -> np.ndarray:
        return np.asarray(measurement(part.tolist()), dtype=np.int64)

    if values.size < 20_000:
        return one(values)
    workers = min(os.cpu_count() or 1, values.size // 10_000)
    parts = np.array_split(values, max(workers, -(-values.size // 250_000)))
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(one, parts)))


def _smallest(holds: Callable[[float], bool], guess: Fraction) -> float:
    """The smallest float for which a monotone condition holds, searched outward from a guess and then halved."""
    check_scale(guess, room=2)
    middle = max(_bits(float(guess)), 1)
    step = 1
    if holds(_float(middle)):
        high, low = middle, middle - step
        while holds(_float(low)):
            step *= 2
            high, low = low, low - step
    else:
        low, high = middle, middle + step
        while not holds(_float(high)):
            step *= 2
            low, high = high, high + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(_float(middle)) else (middle, high)
    return _float(high)


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])  # positive floats are ordered as their bits are


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _float_up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else nextafter(near, inf)


def _float_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else nextafter(near, 0.0)


def _root_up(value: Fraction) -> float:
    """The square root, rounded up."""
    shift = 1 << 120
    root = isqrt(ceil(value * shift * shift))
    return (
        _float_up(Fraction(root + 1, shift))
        if root * root < value * shift * shift
        else _float_up(Fraction(root, shift))
    )
