"""Private synthesis by other libraries, each as ``method(codes, sizes, epsilon, delta, seed) -> Synthesis``.

Neighbours differ in one record that is added or removed. ``aim`` (McKenna, Mullins, Sheldon and Miklau 2022), ``mst``
(McKenna, Miklau and Sheldon 2021) and ``swift`` (the mechanism of google/dpsynth) are written here after their
descriptions, since no package of the registry brings them for mbi 2.0; mbi estimates and samples. ``mst-plain`` is
``mst`` without the merging of rare values, as in dpsynth. ``opendp-`` and ``smartnoise-`` are those libraries' own, on
the mbi 1.1 that they ask for. Nothing here imports quietfield before a method is called, so that peers can run in an
environment of their own.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from importlib import metadata
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

HALF_NORMAL = math.sqrt(2 / math.pi)  # mean absolute value of standard normal noise
Columns = tuple[int, ...]


class Synthesis(NamedTuple):
    """Synthetic records, with the model that they came from where it can be asked."""

    codes: np.ndarray
    marginal: Callable[[Columns], np.ndarray] | None = None  # columns to their joint distribution
    log_prob: Callable[[np.ndarray], np.ndarray] | None = None  # records to log-probabilities


class Method(NamedTuple):
    """A function that synthesizes, and the packages that it needs, each with the start of its version."""

    run: Callable[[np.ndarray, Sequence[int], float, float, int], Synthesis]
    needs: dict[str, str]

    def missing(self) -> str:
        """The packages that this interpreter lacks, as words; empty where the method can run."""
        lacking = []
        for name, version in self.needs.items():
            try:
                found = metadata.version(name)
            except metadata.PackageNotFoundError:
                found = "none"
            if not found.startswith(version):
                lacking.append(f"{name} {version} ({found} is installed)".replace("  ", " "))
        return ", ".join(lacking)

    def version(self) -> str:
        """The versions of its packages that are installed."""
        return " ".join(f"{name} {metadata.version(name)}" for name in self.needs)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose zCDP implies (epsilon, delta) (Canonne, Kamath and Steinke 2020, proposition 12)."""
    from scipy.optimize import brentq, minimize_scalar

    def excess(rho: float) -> float:
        def log_delta(u: float) -> float:
            alpha = 1 + math.exp(u)
            return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - u

        return minimize_scalar(log_delta, bounds=(-7, 14), method="bounded").fun - math.log(delta)

    return brentq(excess, 1e-12, epsilon + 1, xtol=1e-14)


def real(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """The records themselves, which no privacy protects: what a classifier learns from them is the mark to reach."""
    return Synthesis(codes)


def count(codes: np.ndarray, sizes: Sequence[int], columns: Columns) -> np.ndarray:
    """A contingency table."""
    shape = [sizes[i] for i in columns]
    cells = np.ravel_multi_index([codes[:, i] for i in columns], shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(float)


class _Measured:
    """Noisy tables of one data set, and mbi's estimate from them."""

    def __init__(self, codes: np.ndarray, sizes: Sequence[int], seed: int) -> None:
        import mbi

        self.codes, self.sizes = codes, [int(size) for size in sizes]
        self.domain = mbi.Domain(tuple(range(len(self.sizes))), tuple(self.sizes))
        self.random = np.random.default_rng(seed)
        np.random.seed(seed)  # noqa: NPY002 - mbi draws its records from the global generator
        self.measurements: list[Any] = []
        self.total: float | None = None  # the number of records, where it is estimated beforehand

    def table(self, columns: Columns) -> np.ndarray:
        return count(self.codes, self.sizes, columns)

    def measure(self, columns: Columns, scale: float) -> None:
        import mbi

        table = self.table(columns)
        noisy = table + self.random.normal(0, scale, table.shape)
        self.measurements.append(mbi.LinearMeasurement(noisy.ravel(), columns, stddev=scale))

    def estimate(self, iterations: int, start: Any = None) -> Any:
        import mbi

        learner = mbi.estimation.MirrorDescent()
        return learner.estimate(
            self.domain, self.measurements, known_total=self.total, iters=iterations, warm_start=start
        )

    def choose(self, scores: np.ndarray, epsilon: float, sensitivity: float) -> int:
        """The exponential mechanism."""
        return int(np.argmax(epsilon / (2 * sensitivity) * scores + self.random.gumbel(size=len(scores))))


def _share(model: Any, columns: Columns) -> np.ndarray:
    """A model's joint distribution of some columns."""
    table = np.asarray(model.project(columns).transpose(columns).values, float)
    return table / table.sum()


class _Beliefs:
    """A model's marginals on its junction tree, from which those of any columns follow without compiling anything."""

    def __init__(self, model: Any) -> None:
        import networkx as nx
        from mbi import junction_tree
        from scipy.special import logsumexp

        self.tree, _ = junction_tree.make_junction_tree(model.domain, [tuple(c) for c in model.cliques])
        logs = {node: np.zeros([model.domain[i] for i in node]) for node in self.tree.nodes}

        def add(node: Columns, columns: Columns, table: np.ndarray) -> None:
            logs[node] += table.reshape([model.domain[i] if i in columns else 1 for i in node])

        def reduced(node: Columns, columns: Columns) -> np.ndarray:
            return logsumexp(logs[node], axis=tuple(axis for axis, i in enumerate(node) if i not in columns))

        for clique in model.potentials.cliques:
            columns = tuple(sorted(clique))
            table = np.asarray(model.potentials[clique].transpose(columns).values, float)
            add(next(node for node in logs if set(node).issuperset(clique)), columns, table)
        for part in nx.connected_components(self.tree):
            edges = [(a, b, tuple(sorted(set(a) & set(b)))) for a, b in nx.dfs_edges(self.tree, min(part))]
            sent = {}
            for parent, child, between in reversed(edges):
                sent[child] = reduced(child, between)
                add(parent, between, sent[child])
            for parent, child, between in edges:
                add(child, between, reduced(parent, between) - sent[child])
        self.tables = {node: np.exp(table - logsumexp(table)) for node, table in logs.items()}

    def share(self, columns: Columns) -> np.ndarray:
        """The joint distribution of some columns: the product of what the least subtree that has them holds."""
        import opt_einsum

        # Leaves that add no wanted column are cut off again and again; what is left is the subtree.
        tree = self.tree.copy()
        wanted = set(columns)
        cut = True
        while cut:
            cut = False
            for node in list(tree.nodes):
                around = list(tree.neighbors(node))
                own = wanted & set(node)
                if len(around) <= 1 and (own <= set(around[0]) if around else not own and len(tree) > 1):
                    tree.remove_node(node)
                    cut = True
        operands: list[Any] = []
        for node in tree.nodes:
            operands += [self.tables[node], node]
        for one, other in tree.edges:
            between = tuple(sorted(set(one) & set(other)))
            if between:
                gone = tuple(i for i, name in enumerate(one) if name not in between)
                operands += [1 / np.maximum(self.tables[one].sum(gone), 1e-300), tuple(n for n in one if n in between)]
        return opt_einsum.contract(*operands, columns)


def _log_prob(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Log-probabilities of records: potentials added up, less the constant that a junction tree gives."""

    def log_prob(codes: np.ndarray) -> np.ndarray:
        energy = np.zeros(len(codes))
        for clique in model.potentials.cliques:
            factor = model.potentials[clique]
            energy += np.asarray(factor.values, float)[tuple(codes[:, i] for i in factor.domain.attributes)]
        likeliest = int(np.argmax(energy))  # the record whose beliefs are furthest from underflow
        beliefs = _Beliefs(model)

        def log_belief(columns: Columns) -> float:
            return math.log(beliefs.share(columns)[tuple(codes[likeliest, i] for i in columns)])

        between = [tuple(sorted(set(one) & set(other))) for one, other in beliefs.tree.edges]
        exact = sum(map(log_belief, beliefs.tree.nodes)) - sum(map(log_belief, filter(None, between)))
        return energy - energy[likeliest] + exact

    return log_prob


def _synthesis(model: Any) -> Synthesis:
    """Records of mbi's own generator (as many as the model believes in), and the model."""
    drawn = model.synthetic_data()
    codes = np.stack([np.asarray(drawn.data[i]) for i in range(len(model.domain))], 1).astype(int)
    return Synthesis(codes, _Beliefs(model).share, _log_prob(model))


def aim(
    codes: np.ndarray,
    sizes: Sequence[int],
    epsilon: float,
    delta: float,
    seed: int,
    cells: float = math.inf,
    megabytes: float = 80.0,
    iterations: int = 1000,
) -> Synthesis:
    """AIM for all triples: rounds that measure what the model so far gets most wrong, and learn again."""
    from mbi import junction_tree

    rho = zcdp_rho(epsilon, delta)
    data = _Measured(codes, sizes, seed)
    columns = range(len(data.sizes))
    workload = [c for c in combinations(columns, 3) if data.domain.size(c) <= cells]
    candidates = sorted({c for triple in workload for length in (1, 2, 3) for c in combinations(triple, length)})
    weights = {c: sum(len(set(c) & set(triple)) for triple in workload) for c in candidates}
    answers = {c: data.table(c).ravel() for c in candidates}
    rounds = 16 * len(data.sizes)
    scale, choice = math.sqrt(rounds / (2 * 0.9 * rho)), math.sqrt(8 * 0.1 * rho / rounds)
    for column in columns:
        data.measure((column,), scale)
    spent = len(data.sizes) / (2 * scale**2)
    model = data.estimate(iterations)
    last = False
    while not last:
        if rho - spent < 2 * (1 / (2 * scale**2) + choice**2 / 8):
            last = True
            scale, choice = math.sqrt(1 / (2 * 0.9 * (rho - spent))), math.sqrt(8 * 0.1 * (rho - spent))
        spent += 1 / (2 * scale**2) + choice**2 / 8
        held = [set(c) for c in model.cliques]
        limit = megabytes * spent / rho
        allowed = [
            c
            for c in candidates
            if math.prod(data.sizes) * 8 / 2**20 <= limit
            or any(clique.issuperset(c) for clique in held)
            or junction_tree.hypothetical_model_size(data.domain, [*model.cliques, c]) <= limit
        ]
        beliefs = _Beliefs(model)
        before = {c: beliefs.share(c).ravel() * float(model.total) for c in allowed}
        scores = [
            weights[c] * (np.abs(answers[c] - before[c]).sum() - HALF_NORMAL * scale * len(answers[c])) for c in allowed
        ]
        chosen = allowed[data.choose(np.array(scores), choice, max(weights[c] for c in allowed))]
        data.measure(chosen, scale)
        model = data.estimate(iterations, model)
        moved = np.abs(_share(model, chosen).ravel() * float(model.total) - before[chosen]).sum()
        if moved <= HALF_NORMAL * scale * len(before[chosen]):  # nothing learned: less noise from here on
            scale, choice = scale / 2, choice * 2
    return _synthesis(model)


def aim_small(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """AIM for the triples of at most 10,000 cells, the limit of the authors' script."""
    return aim(codes, sizes, epsilon, delta, seed, cells=10_000)


class _Merged:
    """The values that noisy one-way tables show too rarely, below three standard deviations, as one value each."""

    def __init__(self, data: _Measured, seed: int, merge: bool) -> None:
        import mbi

        self.maps = [np.arange(size) for size in data.sizes]
        for column, one in enumerate(data.measurements):
            rare = np.asarray(one.noisy_measurement) < 3 * one.stddev
            if merge and rare.sum() > 1:
                self.maps[column] = np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1)
        self.counts = [np.bincount(mapping) for mapping in self.maps]
        self.data = _Measured(self.shrink(data.codes), [len(counts) for counts in self.counts], seed)
        for column, one in enumerate(data.measurements):
            root = np.sqrt(self.counts[column])
            noisy = np.bincount(self.maps[column], np.asarray(one.noisy_measurement)) / root
            query = {} if np.all(root == 1) else {"query": mbi.WeightedQuery(1 / root)}
            self.data.measurements.append(mbi.LinearMeasurement(noisy, (column,), stddev=one.stddev, **query))
        self.data.total = mbi.estimation.minimum_variance_unbiased_total(data.measurements)

    def shrink(self, codes: np.ndarray) -> np.ndarray:
        return np.stack([mapping[codes[:, i]] for i, mapping in enumerate(self.maps)], 1)

    def synthesis(self, model: Any) -> Synthesis:
        """A model of merged values as one of the values themselves, rare ones alike."""
        found = _synthesis(model)
        grown = np.empty_like(found.codes)
        for i, (mapping, counts) in enumerate(zip(self.maps, self.counts, strict=True)):
            first = np.cumsum(counts) - counts
            inside = found.codes[:, i]
            grown[:, i] = mapping.argsort(kind="stable")[first[inside] + self.data.random.integers(counts[inside])]

        def marginal(columns: Columns) -> np.ndarray:
            table = found.marginal(columns)
            for axis, i in enumerate(columns):
                along = self.counts[i].reshape([-1 if a == axis else 1 for a in range(len(columns))])
                table = np.take(table / along, self.maps[i], axis)
            return table

        def log_prob(codes: np.ndarray) -> np.ndarray:
            inside = self.shrink(codes)
            return found.log_prob(inside) - sum(np.log(c[inside[:, i]]) for i, c in enumerate(self.counts))

        return Synthesis(grown, marginal, log_prob)


def _mst(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int, merge: bool) -> Synthesis:
    rho = zcdp_rho(epsilon, delta)
    whole = _Measured(codes, sizes, seed)
    columns = range(len(whole.sizes))
    for column in columns:
        whole.measure((column,), math.sqrt(3 * len(columns) / (2 * rho)))
    merged = _Merged(whole, seed + 1000, merge)
    data = merged.data
    errors = _distances_from_independence(data, data.estimate(2500), list(combinations(columns, 2)))
    part = list(columns)
    choice = math.sqrt(8 * rho / 3 / (len(part) - 1))
    for _ in part[1:]:
        free = [pair for pair in errors if part[pair[0]] != part[pair[1]]]
        a, b = free[data.choose(np.array([errors[pair] for pair in free]), choice, 1.0)]
        data.measure((a, b), math.sqrt(3 * (len(part) - 1) / (2 * rho)))
        part = [part[a] if name == part[b] else name for name in part]
    return merged.synthesis(data.estimate(10_000))


def mst(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """MST: one third of rho each for single columns, for choosing a tree of pairs and for measuring it."""
    return _mst(codes, sizes, epsilon, delta, seed, merge=True)


def mst_plain(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """MST on the values as they are."""
    return _mst(codes, sizes, epsilon, delta, seed, merge=False)


def _distances_from_independence(data: _Measured, model: Any, cliques: list[Columns]) -> dict[Columns, float]:
    """L1 distances of tables of counts from those of a model of independent columns."""
    alone = [_share(model, (i,)) for i in range(len(data.sizes))]
    total = float(model.total)
    return {
        c: float(np.abs(data.table(c) - total * reduce(np.multiply.outer, [alone[i] for i in c])).sum())
        for c in cliques
    }


def swift(
    codes: np.ndarray,
    sizes: Sequence[int],
    epsilon: float,
    delta: float,
    seed: int,
    most: float = 1e7,
) -> Synthesis:
    """SWIFT: noisy scores of all tables at once, a clique tree for the best pairs, and its tables in one batch."""
    rho = zcdp_rho(epsilon, delta)
    data = _Measured(codes, sizes, seed)
    columns = range(len(data.sizes))
    for column in columns:
        data.measure((column,), math.sqrt(len(columns) / (2 * 0.1 * rho)))
    candidates = [c for length in (1, 2, 3) for c in combinations(columns, length) if data.domain.size(c) <= 1e6]
    errors = _distances_from_independence(data, data.estimate(10_000), candidates)
    noise = math.sqrt(len(candidates) / (2 * 0.09 * rho))
    errors = {c: error + data.random.normal(0, noise) for c, error in errors.items()}
    pairs = {c: error for c, error in errors.items() if len(c) == 2}

    def gain(nodes: list[frozenset[int]]) -> float:
        return sum(error for pair, error in pairs.items() if any(node.issuperset(pair) for node in nodes))

    nodes = max((_grow(data.domain, pairs, penalty, most) for penalty in (0, 1, 2, 4, 8, 16, 32)), key=gain)
    held = [c for c in candidates if any(node.issuperset(c) for node in nodes)]
    for clique, share in _spread(held, errors, data.domain, 2 * 0.81 * rho).items():
        data.measure(clique, math.sqrt(1 / share))
    return _synthesis(data.estimate(10_000))


def swift_small(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """SWIFT with cliques of at most 300,000 cells instead of dpsynth's ten million, which can take hours on a core."""
    return swift(codes, sizes, epsilon, delta, seed, most=3e5)


def _grow(domain: Any, pairs: dict[Columns, float], penalty: float, most: float) -> list[frozenset[int]]:
    """The cliques of a tree that takes in pairs by their score, while no clique has more cells than ``most``."""
    import networkx as nx

    tree = nx.Graph()
    tree.add_nodes_from(frozenset([name]) for name in domain.attributes)
    waiting = sorted(pairs, key=lambda pair: pairs[pair] - penalty * domain.size(pair), reverse=True)
    settled = False
    while not settled:
        settled = True
        parts = list(nx.connected_components(tree))
        joins = [(u, v) for one, other in combinations(parts, 2) for u in one for v in other] + list(tree.edges)
        for pair in list(waiting):
            new = frozenset(pair)
            ways = [
                (min(domain.size(tuple(u | new)), domain.size(tuple(v | new))), i)
                for i, (u, v) in enumerate(joins)
                if new <= u | v
            ]
            if not ways:
                continue
            cost, way = min(ways)
            if cost > most:
                waiting.remove(pair)
                continue
            _join(tree, *joins[way], new, domain)
            waiting = [p for p in waiting if not any(node.issuperset(p) for node in tree.nodes)]
            settled = False
            break
    return list(tree.nodes)


def _join(tree: Any, u: frozenset[int], v: frozenset[int], pair: frozenset[int], domain: Any) -> None:
    """Let a pair into a tree between two of its cliques."""
    import networkx as nx

    if tree.has_edge(u, v):
        new = min(v | pair, u | pair, key=lambda node: domain.size(tuple(node)))
        names = {node: new for node in (u, v) if node <= new}
    else:
        new = pair
        names = {node: new for node in (u, v) if node <= new}
        tree.add_node(new)
        tree.add_edges_from((new, node) for node in (u, v) if node not in names)
    nx.relabel_nodes(tree, {old: name for old, name in names.items() if old != name}, copy=False)
    if tree.has_edge(new, new):
        tree.remove_edge(new, new)


def _spread(cliques: list[Columns], errors: dict[Columns, float], domain: Any, budget: float) -> dict[Columns, float]:
    """Shares of a budget (of inverse variances) for the cliques that are worth their noise."""
    reward = {c: len(c) * errors[c] for c in cliques}
    cost = {c: (len(c) * domain.size(c) * HALF_NORMAL) ** (2 / 3) for c in cliques}
    taken: list[Columns] = []
    best = -math.inf
    for clique in sorted(cliques, key=lambda c: reward[c] / cost[c], reverse=True):
        trial = [*taken, clique]
        score = sum(reward[c] for c in trial) - sum(cost[c] for c in trial) ** 1.5 / math.sqrt(budget)
        if score <= best:
            break
        taken, best = trial, score
    whole = sum(cost[c] for c in taken)
    return {c: budget * cost[c] / whole for c in taken}


def _opendp(algorithm: str, codes: np.ndarray, sizes: Sequence[int], rho: float, seed: int) -> Synthesis:
    """OpenDP's contingency table; its noise has no seed. Values are cut into bins of one value each."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    np.random.seed(seed)  # noqa: NPY002 - mbi draws its records from the global generator
    names = [f"c{i:02d}" for i in range(len(sizes))]
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: codes[:, i].astype(np.int64) for i, name in enumerate(names)}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    cuts = {name: list(range(int(size) - 1)) for name, size in zip(names, sizes, strict=True)}
    table = context.query(rho=rho).contingency_table(cuts=cuts, algorithm=getattr(dp.mbi, algorithm)()).release()
    drawn = table.model.synthetic_data().df
    return Synthesis(
        np.stack([drawn[name].to_numpy() for name in names], 1).astype(int),
        lambda columns: _share(table.model, tuple(names[i] for i in columns)),
    )


def opendp_aim(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """OpenDP's AIM with its defaults."""
    return _opendp("AIM", codes, sizes, zcdp_rho(epsilon, delta), seed)


def opendp_mst(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """OpenDP's MST with its defaults.

    OpenDP 0.16 refuses most budgets, since the parts it makes of them add up to more by the last digit. The nearest
    below that it takes is looked for; with 9 columns there is none.
    """
    rho = zcdp_rho(epsilon, delta)
    lower = [rho * (1 - k * 1e-7) for k in range(1000)]
    return _opendp("MST", codes, sizes, next((r for r in lower if _adds_up(r, len(sizes) - 1)), rho), seed)


def _adds_up(rho: float, parts: int) -> bool:
    """Whether the parts that OpenDP's MST makes of its budget are no more than it, added up and rounded upwards."""
    pairs = _below(_below(rho - rho * 0.5))
    choice = _below(_below(pairs - pairs * 0.9))
    total = 0.0
    for _ in range(parts):
        exact = Fraction(total) + Fraction(_below(choice / parts))
        total = float(exact)
        if total < exact:
            total = math.nextafter(total, math.inf)
    return total <= choice


def _below(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _smartnoise(algorithm: str, codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float) -> Synthesis:
    """SmartNoise's synthesizers, which take the number of records as known. The values are given, not read off."""
    import pandas as pd
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer

    values = TableTransformer([LabelTransformer(nullable=False) for _ in sizes])
    values.fit(pd.DataFrame([[min(i, size - 1) for size in sizes] for i in range(max(sizes))]))
    learner = Synthesizer.create(algorithm, epsilon=epsilon, delta=delta)
    learner.fit(pd.DataFrame(codes), transformer=values)
    return Synthesis(np.asarray(learner.sample(len(codes))).astype(int))


def smartnoise_aim(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """SmartNoise's AIM with its defaults; its noise has no seed."""
    return _smartnoise("aim", codes, sizes, epsilon, delta)


def smartnoise_mst(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """SmartNoise's MST with its defaults; its noise has no seed."""
    return _smartnoise("mst", codes, sizes, epsilon, delta)


def _quietfield(codes: np.ndarray, sizes: Sequence[int], seed: int, **promised: Any) -> Synthesis:
    """What ``qf.synthesize`` does where the values of columns are known; its noise has no seed."""
    import quietfield as qf

    schema = qf.Schema({f"c{i:02d}": int(size) for i, size in enumerate(sizes)})
    found = qf.synthesize(codes, schema, unit=qf.Rows(1), ledger=None, **promised)
    names, model = list(schema), found.model
    drawn = model.sample(model.total or len(codes), seed=seed, even=True).codes
    return Synthesis(
        np.asarray(drawn),
        lambda columns: model.marginal(tuple(names[i] for i in columns)),
        model.log_prob,
    )


def quietfield(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """Ours, with Gaussian noise."""
    return _quietfield(codes, sizes, seed, epsilon=epsilon, delta=delta)


def quietfield_pure(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Synthesis:
    """Ours for pure epsilon, with Laplace noise: it promises more, without delta."""
    return _quietfield(codes, sizes, seed, epsilon=epsilon)


METHODS = {
    "quietfield": Method(quietfield, {"quietfield": "", "opendp": "0.16"}),
    "quietfield-pure": Method(quietfield_pure, {"quietfield": "", "opendp": "0.16"}),
    "aim": Method(aim, {"mbi": "2."}),
    "aim-small": Method(aim_small, {"mbi": "2."}),
    "swift": Method(swift, {"mbi": "2."}),
    "swift-small": Method(swift_small, {"mbi": "2."}),
    "mst": Method(mst, {"mbi": "2."}),
    "mst-plain": Method(mst_plain, {"mbi": "2."}),
    "opendp-aim": Method(opendp_aim, {"opendp": "0.16", "mbi": "1."}),
    "opendp-mst": Method(opendp_mst, {"opendp": "0.16", "mbi": "1."}),
    "smartnoise-aim": Method(smartnoise_aim, {"smartnoise-synth": "1."}),
    "smartnoise-mst": Method(smartnoise_mst, {"smartnoise-synth": "1."}),
    "real": Method(real, {}),
}
