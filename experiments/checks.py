"""The checks behind ``propositions``: each takes a trial (for its seeds and sizes) and returns named numbers.

Glossary: n tables, y noisy tables, C cliques, N records, h(n) the number of data sets with tables n.
"""

from itertools import product
from math import lgamma, log, sqrt
from typing import Any

import numpy as np

from experiments.trials import Trial
from quietfield.domain import Domain
from quietfield.learning import fit
from quietfield.models.model import Model
from quietfield.privacy.noise import Laplace
from quietfield.releases.release import Release
from quietfield.study.simulation import random_model, simulate

#: Numbers of records at which the mode is held against the mean.
MODE_SIZES = (20, 100, 1000)


def post_processing(trial: Trial) -> dict[str, float]:
    """The chance of events of the *learned model*, for two populations that differ by one record.

    ``loss`` is the largest log-ratio over events, at the end of its confidence interval that is closer to 0; it must
    not be above epsilon = 1. With half the noise it must be: otherwise the check could not fail.
    """
    domain, clique = Domain({"a": 2, "b": 2}), ("a", "b")
    here, there = np.array([[3.0, 2.0], [1.0, 0.0]]), np.array([[3.0, 2.0], [1.0, 1.0]])
    random = np.random.default_rng([trial.population, 1])
    count = 2000
    found = {}
    for name, scale in (("loss", 1.0), ("loss at half the noise", 0.5)):
        corners = []
        for table in (here, there):
            noisy = table + random.laplace(0.0, scale, (count, 2, 2))
            releases = [Release.from_tables(domain, {clique: y}, noise=Laplace(scale), total=6) for y in noisy]
            models = fit(releases, "naive", regularisation=1e-3)
            corners.append(np.array([model.potentials[clique][1, 1] for model in models]))
        found[name] = max(
            _loss((corners[i] > limit).sum(), (corners[1 - i] > limit).sum(), count)
            for limit in np.quantile(np.concatenate(corners), np.linspace(0.02, 0.98, 20))
            for i in (0, 1)
        )
    return found


def _loss(a: int, b: int, count: int) -> float:
    """A lower limit of log(p/q) from counts, by the normal approximation of log-ratios; -inf where counts are few."""
    if min(a, b) < 25:
        return -np.inf
    spread = sqrt(1 / a - 1 / count + 1 / b - 1 / count)
    return float(log(a / b) - 2.9 * spread)  # 2.9: together over 40 events, 95% or more


def marginals_and_likelihood(trial: Trial) -> dict[str, float]:
    """Marginals of a random model, given as tables: maximum likelihood must find that model."""
    from quietfield.learning.references import fit_true_tables

    truth = random_model("random", attributes=6, states=3, potentials="gaussian", seed=trial.population)
    given = {c: 1e4 * mu for c, mu in truth.marginals().items()}
    learned = fit_true_tables(truth.domain, given)
    found = learned.marginals()
    gap = max(float(np.abs(found[c] - mu).max()) for c, mu in truth.marginals().items())
    return {"gap": gap, "kl": truth.kl(learned)}


def sensitivity(trial: Trial) -> dict[str, float]:
    """The L1 change of all tables by one record more, for random data sets and records, over |C|."""
    from quietfield.privacy.units import Rows, statistics

    changes, planned = [], []
    truth = random_model("random", attributes=6, states=3, seed=trial.population)
    for seed in range(20):
        study = simulate(model=truth, records=50, seed=seed)
        more = simulate(model=truth, records=1, seed=seed + 1000)
        change = sum(np.abs((study.tables[c] + n) - study.tables[c]).sum() for c, n in more.tables.items())
        cliques = len(study.model.cliques)
        changes.append(change / cliques)
        planned.append(float(statistics(study.model.structure, study.model.domain, Rows(1), total=False).l1) / cliques)
    return {"least": float(min(changes)), "most": float(max(changes)), "planned": float(max(planned))}


def unbiased(trial: Trial) -> dict[str, float]:
    """Bias and mean squared error of y/N over populations and noise, cell by cell."""
    records, epsilon, count = 200, 1.0, 400
    truth = random_model("chain", attributes=4, states=3, seed=trial.population)
    mu = np.concatenate([table.ravel() for table in truth.marginals().values()])
    draws = np.empty((count, len(mu)))
    for i in range(count):
        study = simulate(model=truth, records=records, epsilon=epsilon, seed=1000 * (trial.population + 1) + i)
        tables = study.release.tables
        draws[i] = np.concatenate([tables[c].ravel() for c in truth.cliques]) / records
    variance = mu * (1 - mu) / records + 2 * (len(truth.cliques) / epsilon) ** 2 / records**2
    bias = np.abs(draws.mean(0) - mu) / np.sqrt(variance / count)
    return {
        "bias in standard errors": float(bias.max()),
        "mse ratio": float(((draws - mu) ** 2).mean() / variance.mean()),
    }


def consistency(trial: Trial) -> dict[str, float]:
    """KL of the naive estimate as N grows, with a regularisation that vanishes."""
    found = {}
    for records in (1000, 10_000, 100_000, 1_000_000):
        study = simulate("chain", attributes=5, states=3, records=records, seed=trial.population)
        learned = fit(study.release, "naive", regularisation=1 / records)
        found[f"kl {records}"] = study.model.kl(learned)
    return found


def stirling(trial: Trial) -> dict[str, float]:
    """log h(n) of a chain of three binary attributes: in closed form against counting, and against N H(q).

    h(n) = N! prod_S prod n_S! / prod_C prod n_C!; the approximation is N times the entropy of the one distribution of
    the family with marginals n/N.
    """
    truth = random_model("chain", attributes=3, states=2, seed=trial.population + 1)
    domain = truth.domain
    tree = Model(domain, {("x0", "x1"): truth.marginal(("x0", "x1")), ("x1", "x2"): truth.marginal(("x1", "x2"))})
    found = {"closed form": _counted(5)}
    for records in (10, 100, 1000, 10_000, 100_000):
        study = simulate(model=tree, records=records, seed=trial.population)
        a, b = study.tables.values()
        found[f"error {records}"] = abs(_log_h(a, b) - records * _entropy(a / records, b / records)) / records
    return found


def _log_h(a: np.ndarray, b: np.ndarray) -> float:
    def factorials(n: Any) -> float:
        return sum(lgamma(value + 1) for value in np.ravel(n))

    return lgamma(a.sum() + 1) + factorials(a.sum(0)) - factorials(a) - factorials(b)


def _entropy(a: np.ndarray, b: np.ndarray) -> float:
    """The entropy of the Markov chain with these edge marginals: H(a) + H(b) - H(shared)."""

    return _own(a) + _own(b) - _own(a.sum(0))


def _counted(records: int) -> float:
    """The largest difference between log h(n) and the log of the number of ordered data sets, over all n that occur."""
    counts: dict[tuple[int, ...], int] = {}
    cells = list(product((0, 1), repeat=3))
    for data in product(range(8), repeat=records):
        a, b = np.zeros((2, 2), int), np.zeros((2, 2), int)
        for i in data:
            x, y, z = cells[i]
            a[x, y] += 1
            b[y, z] += 1
        key = (*a.ravel().tolist(), *b.ravel().tolist())
        counts[key] = counts.get(key, 0) + 1
    return max(
        abs(_log_h(np.array(key[:4]).reshape(2, 2), np.array(key[4:]).reshape(2, 2)) - log(number))
        for key, number in counts.items()
    )


def _problem(member: np.ndarray, theta: np.ndarray, y: np.ndarray, records: float) -> tuple[Any, Any]:
    """Expected counts and N A at some parameters, by listing all records; and the dual of the E-step with its slope."""

    def inferred(parameters: np.ndarray) -> tuple[np.ndarray, float]:
        score = member.T @ parameters
        top = score.max()
        weight = np.exp(score - top)
        return records * member @ (weight / weight.sum()), records * (top + log(weight.sum()))

    def dual(u: np.ndarray) -> tuple[float, np.ndarray]:
        n, value = inferred(theta + u)
        return value - u @ y, n - y

    return inferred, dual


def nlbp_on_trees(trial: Trial) -> dict[str, float]:
    """How far Algorithm 1 is from the maximum of Problem (6) on a chain, in nats of its objective, at the true theta.

    The maximum is that of the dual, min over |u| <= 1/b of N A(theta + u) - u.y, so that what is found is an upper
    limit; ``maximum`` is its value. ``rest`` is the largest change of a cell in the last iteration over alpha, in
    records: 0 where it rests.
    """
    from scipy.optimize import minimize

    records, epsilon = 1000, 1.0
    study = simulate("tree", attributes=4, states=3, records=records, epsilon=epsilon, seed=trial.population)
    cliques, names = study.model.cliques, tuple(study.model.domain)
    cells = np.array(list(product(range(3), repeat=4)))
    member = np.concatenate(
        [
            (cells[:, [names.index(name) for name in c]] == values).all(1)[None]
            for c in cliques
            for values in product(range(3), repeat=2)
        ]
    ).astype(float)
    theta = np.concatenate([study.model.potentials[c].ravel() for c in cliques])
    y = np.concatenate([study.release.tables[c].ravel() for c in cliques])
    limit = epsilon / len(cliques)

    inferred, dual = _problem(member, theta, y, records)

    best = minimize(dual, np.zeros(len(y)), jac=True, method="L-BFGS-B", bounds=[(-limit, limit)] * len(y),
                    options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}).fun  # fmt: skip
    degree = {name: sum(name in c for c in cliques) for name in names}

    def objective(n: np.ndarray) -> float:
        shares = (n / records).reshape(len(cliques), 3, 3)
        entropy = sum(_own(share) for share in shares)
        for name, count in degree.items():
            at = next(i for i, c in enumerate(cliques) if name in c)
            entropy -= (count - 1) * _own(shares[at].sum(1 - cliques[at].index(name)))
        return float(theta @ n + records * entropy - limit * np.abs(y - n).sum())

    found = {"maximum": float(best)}
    for alpha, iterations in ((0.1, 50), (0.1, 5000), (0.001, 50_000)):
        n, _ = inferred(theta)
        for _ in range(iterations):
            step = inferred(theta + limit * np.sign(y - n))[0] - n
            n = n + alpha * step
        found[f"gap {alpha:g} {iterations}"] = float(best) - objective(n)
        found[f"rest {alpha:g} {iterations}"] = float(np.abs(step).max())
    return found


def mode_and_mean(trial: Trial) -> dict[str, float]:
    """How far the approximate mode of p(n | y; theta), a maximum of Problem (6), is from its mean, and its spread.

    For a chain of three binary attributes the mean is had by summing over all n: given the counts m of the middle one,
    each of its values has two counts of either edge, independent of all others. Both are root mean squares over cells,
    in records.
    """
    from scipy.special import gammaln, logsumexp

    truth = random_model([("x0", "x1"), ("x1", "x2")], attributes=3, states=2, seed=trial.population)
    found = {}
    for records in MODE_SIZES:
        study = simulate(model=truth, records=records, epsilon=trial.epsilon, seed=trial.population)
        limit = trial.epsilon / 2  # 1 / b: there are two tables
        # Both edges with the middle attribute last.
        pairs = [
            (table, noisy) if clique[1] == "x1" else (table.T, noisy.T)
            for clique, table, noisy in (
                (c, study.model.potentials[c], study.release.tables[c]) for c in study.model.cliques
            )
        ]
        log_m, moments = [], []
        for m in range(records + 1):
            parts = []
            for table, noisy in pairs:
                for j, of in enumerate((m, records - m)):
                    k = np.arange(of + 1)
                    score = table[0, j] * k + table[1, j] * (of - k) - gammaln(k + 1) - gammaln(of - k + 1)
                    score -= limit * (np.abs(noisy[0, j] - k) + np.abs(noisy[1, j] - (of - k)))
                    top = logsumexp(score)
                    weight = np.exp(score - top)
                    parts.append((top, weight @ k, weight @ (k * k), of))
            log_m.append(gammaln(m + 1) + gammaln(records - m + 1) + sum(part[0] for part in parts))
            cells = [(first, second, of - first, of * of - 2 * of * first + second) for _, first, second, of in parts]
            moments.append([[value for c in cells for value in (c[0], c[2])], [v for c in cells for v in (c[1], c[3])]])
        chances = np.exp(np.array(log_m) - logsumexp(log_m))
        mean, square = np.tensordot(chances, np.array(moments), 1)
        theta = np.concatenate([table.T.ravel() for table, _ in pairs])
        y = np.concatenate([noisy.T.ravel() for _, noisy in pairs])
        mode = _mode(theta, y, records, limit)
        found[f"distance {records}"] = float(np.sqrt(np.mean((mode - mean) ** 2)))
        found[f"spread {records}"] = float(np.sqrt(np.mean(square - mean**2)))
    return found


def _mode(theta: np.ndarray, y: np.ndarray, records: int, limit: float) -> np.ndarray:
    """The n of Problem (6) for two edges of binary attributes that share one, by the dual, as in ``nlbp_on_trees``."""
    from scipy.optimize import minimize

    cells = list(product(range(2), repeat=3))  # first, middle, last
    member = np.zeros((8, len(cells)))
    for i, (first, middle, last) in enumerate(cells):
        member[2 * middle + first, i] = member[4 + 2 * middle + last, i] = 1

    inferred, dual = _problem(member, theta, y, records)

    best = minimize(dual, np.zeros(8), jac=True, method="L-BFGS-B", bounds=[(-limit, limit)] * 8,
                    options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
    return inferred(theta + best.x)[0]


def _own(p: np.ndarray) -> float:
    """The entropy of a table of shares."""
    return -float(sum(value * log(value) for value in np.ravel(p) if value > 0))


def zeros(trial: Trial) -> dict[str, float]:
    """The share of empty cells in true tables and in projected noisy ones."""
    from quietfield.learning.naive import project_onto_simplex

    found = {}
    for records in (1000, 10_000, 100_000, 1_000_000):
        study = simulate(states=trial.states, records=records, epsilon=trial.epsilon, seed=trial.population)
        noisy = study.release.tables
        cells = sum(table.size for table in study.tables.values())
        found[f"true {records}"] = sum(int((table == 0).sum()) for table in study.tables.values()) / cells
        empty = sum(int((project_onto_simplex(noisy[c].ravel() / records) == 0).sum()) for c in study.tables)
        found[f"projected {records}"] = empty / cells
    return found


def output_perturbation(trial: Trial) -> dict[str, float]:
    """The contrast: noise on the parameters of the regularised estimate, at the best of several lambda (epsilon = 1).

    Per record the objective is 2 lambda-strongly concave, and one record moves its gradient by at most sqrt(2|C|) / N:
    the estimate moves by at most D = sqrt(2|C|) / (2 lambda N) in L2, and noise of density exp(-epsilon |z| / D)
    protects it (Chaudhuri et al. 2011).
    """
    from quietfield.learning.references import fit_true_tables

    records, epsilon = trial.records, 1.0
    study = simulate(states=trial.states, records=records, epsilon=epsilon, seed=trial.population)
    cliques = study.model.cliques
    random = np.random.default_rng([trial.population, 3])
    best = np.inf
    for weight in (1e-3, 1e-2, 1e-1, 1.0):
        theta = fit_true_tables(study.model.domain, study.tables, regularisation=weight).potentials
        size = sum(table.size for table in theta.values())
        direction = random.normal(size=size)
        length = random.gamma(size, sqrt(2 * len(cliques)) / (2 * weight * records) / epsilon)
        noise = direction / np.linalg.norm(direction) * length
        starts = np.cumsum([0, *(table.size for table in theta.values())])
        noised = {
            c: table + noise[start : start + table.size].reshape(table.shape)
            for (c, table), start in zip(theta.items(), starts, strict=False)
        }
        best = min(best, study.model.kl(Model(study.model.domain, noised)))
    naive = study.model.kl(fit(study.release, "naive", regularisation=1e-3))
    uniform = study.model.kl(
        Model(study.model.domain, {c: np.zeros(study.model.domain.table_shape(c)) for c in cliques})
    )
    return {"perturbed": best, "naive": naive, "uniform": uniform}


__all__ = [
    "MODE_SIZES", "consistency", "marginals_and_likelihood", "mode_and_mean", "nlbp_on_trees", "output_perturbation",
    "post_processing", "sensitivity", "stirling", "unbiased", "zeros",
]  # fmt: skip
