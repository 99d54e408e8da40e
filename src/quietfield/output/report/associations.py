"""How strongly two attributes hang together, from their joint distribution.

With p the joint distribution, q = p_a p_b what independence would give:

    V  = sqrt( sum (p - q)^2 / q  /  (min(r, c) - 1) )      Cramér's V, from 0 (independent) to 1 (one tells the other)
    MI = sum p log2(p / q)                                  mutual information, in bits
"""

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from quietfield.errors import Error
from quietfield.output.report.limits import MOST_DERIVATIVES, MOST_INFERRED

if TYPE_CHECKING:
    from quietfield.models.model import Model


def expect_independent(p: np.ndarray) -> np.ndarray:
    """What independence would give, with the same margins."""
    return p.sum(1, keepdims=True) * p.sum(0, keepdims=True)


def ratios(p: np.ndarray) -> np.ndarray:
    """Each cell against independence: 1 where nothing is learned, NaN where independence gives nothing.

    >>> import numpy as np
    >>> ratios(np.array([[0.4, 0.1], [0.1, 0.4]])).round(1).tolist()
    [[1.6, 0.4], [0.4, 1.6]]
    """
    q = expect_independent(p)
    return np.divide(p, q, out=np.full_like(p, np.nan), where=q > 0)


def cramers_v(p: np.ndarray) -> float:
    """Cramér's V of a joint distribution; 0 where an attribute takes one value only.

    >>> import numpy as np
    >>> cramers_v(np.array([[0.5, 0.0], [0.0, 0.5]]))
    1.0
    """
    rows, columns = int((p.sum(1) > 0).sum()), int((p.sum(0) > 0).sum())
    if min(rows, columns) < 2:
        return 0.0
    q = expect_independent(p)
    chi = float(np.divide((p - q) ** 2, q, out=np.zeros_like(p), where=q > 0).sum())
    return min(1.0, float(np.sqrt(chi / (min(rows, columns) - 1))))


def slopes(p: np.ndarray) -> np.ndarray:
    """The derivative of Cramér's V by each cell of p, its margins moving along; 0 where V is.

    With f the sum of p^2 / (p_a p_b) and k = min(r, c) - 1, V^2 = (f - 1) / k where p sums to 1.
    """
    v = cramers_v(p)
    most = min(int((p.sum(1) > 0).sum()), int((p.sum(0) > 0).sum())) - 1
    if v <= 0 or most < 1:
        return np.zeros_like(p)
    q = expect_independent(p)
    t = np.divide(p * p, q, out=np.zeros_like(p), where=q > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(q > 0, 2 * p / q, 0.0)
        rows = np.where(p.sum(1) > 0, t.sum(1) / p.sum(1), 0.0)
        columns = np.where(p.sum(0) > 0, t.sum(0) / p.sum(0), 0.0)
    return (own - rows[:, None] - columns[None, :]) / (2 * v * most)


def v_interval(p: np.ndarray, half: float, spreads: np.ndarray) -> tuple[float, float]:
    """An interval of Cramér's V from that of its linear approximation (half as wide as ``half`` on each side).

    V cannot be negative, so errors of the cells, with standard deviations ``spreads``, push it away from 0 by a known
    amount: V^2 grows by about sum spread^2 / (q k). A noisy estimate has that much too much, and one that was shrunk
    towards independence may have as much too little; the interval allows for either.
    """
    v, q = cramers_v(p), expect_independent(p)
    most = max(min(p.shape) - 1, 1)
    grown = float(np.divide(spreads**2, q, out=np.zeros_like(p), where=q > 0).sum()) / most
    low = float(np.sqrt(max(v * v - grown, 0.0))) - half
    return max(low, 0.0), min(float(np.sqrt(v * v + grown)) + half, 1.0)


def mutual_information(p: np.ndarray) -> float:
    """Mutual information in bits."""
    q = expect_independent(p)
    return max(0.0, float(np.sum(p * np.log2(np.divide(p, q, out=np.ones_like(p), where=(p > 0) & (q > 0))))))


def name_strength(v: float) -> str:
    """A Cramér's V in a word."""
    return "strong" if v >= 0.3 else "moderate" if v >= 0.1 else "weak" if v >= 0.03 else "hardly any"


def joined_pairs(model: "Model") -> list[tuple[str, str]]:
    """The pairs that some clique holds together, each in the domain's order."""
    place = model.domain.position
    pairs = {tuple(sorted(pair, key=place)) for clique in model.cliques for pair in combinations(clique, 2)}
    return sorted(((a, b) for a, b in pairs), key=lambda pair: (place(pair[0]), place(pair[1])))


def inferred_pairs(model: "Model", strength: dict[tuple[str, str], float]) -> list[tuple[str, str]]:
    """Pairs that no clique joins but one attribute between them does, the most promising first.

    What two attributes know of each other through a third is at most what each knows of it, so pairs are ranked by the
    product of the two strengths.
    """
    if model.inference != "exact":
        return []
    near: dict[str, dict[str, float]] = {}
    for (a, b), v in strength.items():
        near.setdefault(a, {})[b] = v
        near.setdefault(b, {})[a] = v
    promise: dict[tuple[str, str], float] = {}
    for between in near.values():
        for a, b in combinations(sorted(between, key=model.domain.position), 2):
            if b not in near[a]:
                promise[a, b] = max(promise.get((a, b), 0.0), between[a] * between[b])
    return sorted(promise, key=lambda pair: -promise[pair])[:MOST_INFERRED]


def all_strengths(model: "Model") -> np.ndarray | None:
    """Cramér's V of every pair, in the domain's order; None where inference is approximate or that would take long."""
    if model.inference != "exact" or sum(model.domain.shape) * model.parameters > MOST_DERIVATIVES:
        return None
    taken = np.array([int((model.marginal(name) > 0).sum()) for name in model.domain])
    most = np.minimum.outer(taken, taken) - 1
    return np.sqrt(np.clip(model._calibration.contingency() / np.maximum(most, 1), 0, 1)) * (most > 0)


def joint(model: "Model", pair: tuple[str, str]) -> np.ndarray | None:
    """The joint distribution of a pair, or None where inference cannot give it."""
    if model.inference != "exact" and not model.structure.joins(pair):
        return None  # a sample would answer, with errors that the report has no room to state
    try:
        return model.marginal(pair)
    except Error:  # too large: the report leaves the pair out
        return None
