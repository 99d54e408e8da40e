"""Gibbs sampling: records of a model where exact inference is out of reach, how far to trust them, and answers by them.

The random stream depends on the seed alone, so that the same seed gives the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.inference.elimination import Factor, restrict_factors
from quietfield.learning.observation import count_codes, independent_variance
from quietfield.models.sampling import check_memory, check_whole, code_type

RECORDS, CHAINS = 10_000, 500  # of the samples behind answers: a share of one half is then right within 0.005
MOST_SAMPLES = 4  # that are kept


@dataclass(frozen=True)
class GibbsReport:
    """How far a Gibbs sample can be trusted.

    ``effective`` is the smallest effective sample size of a value's share, from the spread between independent chains;
    ``distance`` the mean total variation distance between a clique's table in the sample and the model's marginal (and
    ``worst`` the largest), ``expected`` the mean distance that sampling ``effective`` records alone would give.
    """

    chains: int
    sweeps: int
    effective: float
    distance: float
    expected: float
    worst: float
    stuck: tuple[str, ...] = ()

    def __str__(self) -> str:
        warning = (
            f"; NOT TO BE TRUSTED: most chains never changed {', '.join(map(repr, self.stuck[:4]))}, since impossible "
            "combinations or extreme potentials leave them no single step; use exact inference"
            if self.stuck
            else ""
        )
        return (
            f"Gibbs sample from {self.chains} chains of {self.sweeps} sweeps; effective sample size at least "
            f"{self.effective:.0f}; mean distance to the model's clique marginals {self.distance:.3f} "
            f"(sampling alone: at most about {self.expected:.3f}), largest {self.worst:.3f}{warning}"
        )


class GibbsSample(NamedTuple):
    """Columns of ``rounds x chains`` records, each round one record of every chain."""

    columns: list[np.ndarray]
    chains: int
    sweeps: int
    stuck: tuple[str, ...]  # attributes that never changed in most chains


def sample_gibbs(
    domain: Domain,
    factors: Sequence[Factor],
    start: Sequence[np.ndarray],
    count: int,
    seed: int | None,
    *,
    chains: int = 250,
    burn_in: int = 100,
    thin: int = 5,
) -> GibbsSample:
    """At least ``count`` records from many chains of single-attribute updates.

    ``start`` gives each attribute's distribution for the first state. Attributes that share no factor are updated
    together, so a sweep takes a few array operations even in large models.
    """
    check_memory(domain, count)
    chains, burn_in, thin = (
        check_whole("chains", chains, 2),
        check_whole("burn_in", burn_in, 0),
        check_whole("thin", thin, 1),
    )
    chains = max(2, min(chains, count))
    rounds = -(-count // chains)
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    # An impossible combination outweighs all potentials together, yet is finite, so that a chain can leave it.
    tops = [table[np.isfinite(table)].max() for _, table in factors]
    spans = [top - table[np.isfinite(table)].min() for top, (_, table) in zip(tops, factors, strict=True)]
    penalty = -(1e3 + float(sum(spans)))
    soft = [
        (scope, np.where(np.isneginf(table), penalty, table - top))
        for top, (scope, table) in zip(tops, factors, strict=True)
    ]
    groups = _update_groups(domain, soft)
    state = (
        np.stack([random.choice(len(p), size=chains, p=p / p.sum()) for p in start]) if start else np.zeros((0, chains))
    )
    columns: list[np.ndarray] = [np.empty(rounds * chains, code_type(size)) for size in domain.shape]
    first, moved = state.copy(), np.zeros(state.shape, bool)
    sweeps = 0
    for taken in range(rounds):
        for _ in range(thin if taken else burn_in):
            for group in groups:
                group.update(state, random)
            moved |= state != first
            sweeps += 1
        for v, column in enumerate(columns):
            column[taken * chains : (taken + 1) * chains] = state[v]
    for scope, table in factors:
        if np.isneginf(table[tuple(columns[v] for v in scope)]).any():
            raise Error(
                "Gibbs sampling did not find possible records from every start: the impossible combinations are too "
                "tight for it. Use exact inference, or more burn_in."
            )
    still = [v for v, p in enumerate(start) if p.max() < 0.99 and moved[v].mean() < 0.5]
    return GibbsSample(columns, chains, sweeps, tuple(domain.attributes[v] for v in still) if sweeps > 20 else ())


class _Group:
    """Attributes of one colour and one pattern of tables, updated together."""

    def __init__(self, domain: Domain, attributes: list[int], tables: list[list[Factor]]) -> None:
        self.attributes = np.array(attributes)
        self.size = domain.shape[attributes[0]]
        self.slots = []
        for slot in zip(*tables, strict=True):  # one factor of every attribute, the attribute on the last axis
            others = np.array([scope[:-1] for scope, _ in slot], dtype=int).reshape(len(slot), -1)
            rows = slot[0][1].size // self.size
            strides = np.cumprod([1, *slot[0][1].shape[-2::-1]])[-2::-1] if others.shape[1] else np.zeros(0, int)
            stacked = np.concatenate([table.reshape(rows, self.size) for _, table in slot])
            self.slots.append((others, strides, (np.arange(len(slot)) * rows)[:, None], stacked))

    def update(self, state: np.ndarray, random: np.random.Generator) -> None:
        logits = np.zeros((len(self.attributes), state.shape[1], self.size))
        for others, strides, base, table in self.slots:
            index = base + np.zeros((1, state.shape[1]), int)
            for axis, stride in enumerate(strides):
                index += state[others[:, axis]] * stride
            logits += table[index]
        logits -= logits.max(-1, keepdims=True)
        cumulative = np.cumsum(np.exp(logits, out=logits), axis=-1)
        uniform = random.random(cumulative.shape[:2]) * cumulative[..., -1]
        state[self.attributes] = (cumulative <= uniform[..., None]).sum(-1).clip(max=self.size - 1)


def _update_groups(domain: Domain, factors: Sequence[Factor]) -> list[_Group]:
    """Colour the attributes greedily so that no factor joins two of a colour, then group by pattern."""
    touching: dict[int, list[Factor]] = {v: [] for v in range(len(domain))}
    neighbours: dict[int, set[int]] = {v: set() for v in range(len(domain))}
    for scope, table in factors:
        for axis, v in enumerate(scope):
            neighbours[v].update(u for u in scope if u != v)
            touching[v].append(((*scope[:axis], *scope[axis + 1 :], v), np.moveaxis(table, axis, -1)))
    colour: dict[int, int] = {}
    for v in sorted(neighbours, key=lambda v: -len(neighbours[v])):
        used = {colour[u] for u in neighbours[v] if u in colour}
        colour[v] = next(c for c in range(len(used) + 1) if c not in used)
    members: dict[tuple[int, int, tuple[tuple[int, ...], ...]], list[int]] = {}
    for v, found in touching.items():
        found.sort(key=lambda factor: factor[1].shape)
        members.setdefault((colour[v], domain.shape[v], tuple(t.shape for _, t in found)), []).append(v)
    return [_Group(domain, vs, [touching[v] for v in vs]) for _, vs in sorted(members.items())]


class Estimate(NamedTuple):
    """A distribution as a Gibbs sample shows it."""

    shares: np.ndarray
    errors: np.ndarray  # Monte Carlo standard errors of the shares
    records: int
    chains: int
    stuck: tuple[str, ...]

    def __str__(self) -> str:
        warning = f"; NOT TO BE TRUSTED: most chains never changed {self.stuck[0]!r}" if self.stuck else ""
        return (
            f"estimated from a Gibbs sample of {self.records:,} records in {self.chains} chains; Monte Carlo standard "
            f"error at most {self.errors.max():.2g}{warning}"
        )


def estimate_joint(domain: Domain, sample: GibbsSample, wanted: Sequence[int]) -> Estimate:
    """The joint distribution of some attributes, by position, with errors from the spread between chains.

    Chains are independent, whatever the correlation along each. No error is smaller than that of as many independent
    records, of which one more had the value: none is 0.
    """
    shape = tuple(domain.shape[v] for v in wanted)
    records, chains = len(sample.columns[0]), sample.chains
    cells = np.zeros(records, np.int64)
    for v in wanted:
        cells = cells * domain.shape[v] + sample.columns[v]
    size = int(np.prod(shape))
    shares = np.bincount(cells, minlength=size) / records
    each, counts = np.unique(cells * chains + np.arange(records) % chains, return_counts=True)
    squares = np.bincount(each // chains, (counts * chains / records) ** 2, size)
    between = np.sqrt(np.maximum(squares - chains * shares**2, 0) / (chains - 1) / chains)
    more = (shares * records + 1) / (records + 2)
    errors = np.maximum(between, np.sqrt(more * (1 - more) / records))
    return Estimate(shares.reshape(shape), errors.reshape(shape), records, chains, sample.stuck)


def check_gibbs(domain: Domain, sample: GibbsSample, marginals: Mapping[Clique, np.ndarray]) -> GibbsReport:
    """How far a sample is from what inference says of every clique, and from what chance alone would leave."""
    columns, chains, sweeps, stuck = sample
    effective = effective_size(domain, columns, chains)
    gaps, spreads = [], []
    for clique, table in marginals.items():
        shares = count_codes(domain, clique, columns) / len(columns[0])
        gaps.append(0.5 * float(np.abs(shares - table).sum()))
        spreads.append(0.5 * float(np.sqrt(2 / np.pi * independent_variance(1 / effective, table)).sum()))
    mean, expected = float(np.mean(gaps or 0)), float(np.mean(spreads or 0))
    return GibbsReport(chains, sweeps, effective, mean, expected, max(gaps, default=0.0), stuck)


def effective_size(domain: Domain, columns: Sequence[np.ndarray], chains: int) -> float:
    """The smallest effective sample size of any value's share that is not close to 0 or 1.

    From the spread of the chains' means: chains are independent, whatever the correlation along each.
    """
    count = len(columns[0]) if columns else 0
    worst = float(count)
    for codes, size in zip(columns, domain.shape, strict=True):
        table = codes.reshape(-1, chains)
        for value in range(size):
            means = (table == value).mean(0)
            share = means.mean()
            if 0.02 < share < 0.98:
                worst = min(worst, share * (1 - share) / max(means.var(ddof=1) / chains, 1e-300))
    return worst


class GibbsAnswers:
    """Answers of a model without exact inference, from samples that are always the same; the last few are kept."""

    def __init__(self, domain: Domain, factors: list[Factor], start: Mapping[str, np.ndarray]) -> None:
        self._domain, self._factors, self._start = domain, factors, start
        self._samples: dict[tuple[Any, ...], GibbsSample] = {}

    def joint(self, wanted: Clique, known: Mapping[str, Sequence[int]]) -> Estimate:
        """The joint distribution of attributes where some others have one of some codes."""
        key = tuple(sorted((name, tuple(codes)) for name, codes in known.items()))
        if key not in self._samples:
            drawn = self._draw(known)
            while len(self._samples) >= MOST_SAMPLES:
                del self._samples[next(iter(self._samples))]
            self._samples[key] = drawn
        return estimate_joint(self._domain, self._samples[key], [self._domain.position(name) for name in wanted])

    def _draw(self, known: Mapping[str, Sequence[int]]) -> GibbsSample:
        factors = restrict_factors(self._domain, self._factors, known)
        if any(np.isneginf(table).all() for _, table in factors):
            labels = {name: [self._domain.labels(name)[c] for c in codes] for name, codes in known.items()}
            raise Error(f"the given values {labels!r} have probability 0 in this model.")
        start = dict(self._start)
        for name, codes in known.items():
            start[name] = np.isin(np.arange(self._domain.size(name)), codes).astype(float)
        factors = [factor for factor in factors if factor[0]]
        return sample_gibbs(
            self._domain, factors, [start[name] for name in self._domain], RECORDS, seed=0, chains=CHAINS
        )
