"""One answer from several synthetic data sets: the rule of Raghunathan, Reiter and Rubin (2003).

Each data set is drawn from parameters that were themselves drawn (:meth:`quietfield.Model.draws`). With estimates q_i
and their usual variances u_i in m sets, mean u and variance b of the q_i, the mean estimate errs by

    T = (1 + 1/m) b - u        with (m - 1) (1 - u / ((1 + 1/m) b))^2 degrees of freedom.

b holds what the release leaves unknown and, once, the chance of making up records; the latter, u, is taken out. With
few sets the difference is uncertain and may even be negative. (1 + 1/m) b with m - 1 degrees of freedom is then taken
as it stands: it is too large by u, and never too small.

The sets of a model whose parameters stay as they were fitted do not differ by what the noise and the sample of people
may have changed: no rule finds that in them, and none is given here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from quietfield.errors import Error


class CombinedEstimate(NamedTuple):
    """An estimate from several synthetic data sets: numbers, or arrays of the shape of one estimate."""

    estimate: Any
    std: Any
    low: Any
    high: Any


def combine_estimates(
    estimates: Sequence[Any] | np.ndarray, variances: Sequence[Any] | np.ndarray, level: float = 0.9
) -> CombinedEstimate:
    """Combine the same analysis of several synthetic data sets, each from a model of :meth:`quietfield.Model.draws`.

    Args:
        estimates: One estimate per data set: a number, or an array of them.
        variances: The variance of each, as the analysis gives it for any data of that size (a squared standard error).
        level: The level of the interval.

    Returns:
        The mean estimate, its standard error, and the ends of an interval for the source of the records.

    Raises:
        Error: There are fewer than two data sets, or other variances than estimates.

    >>> found = combine_estimates([0.31, 0.28, 0.33, 0.30], [0.0001] * 4)
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (0.305, 0.25, 0.36)
    """
    from scipy.special import stdtrit

    q, u = np.asarray(estimates, float), np.asarray(variances, float)
    if q.ndim == 0 or len(q) < 2 or q.shape != u.shape:
        raise Error("give an estimate and its variance for each of at least two data sets, in arrays of one shape.")
    if not 0 < level < 1:
        raise Error(f"the level of an interval lies between 0 and 1, for instance 0.9; it is not {level!r}.")
    if not np.isfinite(q).all() or not (u >= 0).all():
        raise Error("estimates are finite numbers, and variances are not negative.")
    m, mean = len(q), q.mean(0)
    whole, inner = (1 + 1 / m) * q.var(0, ddof=1), u.mean(0)
    std, half = np.sqrt(whole), stdtrit(m - 1, 0.5 + level / 2) * np.sqrt(whole)
    share = np.clip(1 - inner / np.maximum(whole, 1e-300), 0, 1)
    finer = np.sqrt(whole * share)
    narrow = stdtrit(np.maximum((m - 1) * share**2, 1e-2), 0.5 + level / 2) * finer
    better = (share > 0) & (narrow < half)
    std, half = np.where(better, finer, std), np.where(better, narrow, half)
    found = CombinedEstimate(mean, std, mean - half, mean + half)
    return found if q.ndim > 1 else CombinedEstimate(*map(float, found))
