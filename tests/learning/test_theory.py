"""The default learner, implemented a second time from docs/theory.md alone, by brute force over all records."""

from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr

import quietfield as qf

PROBLEMS = {
    "chain": {"attributes": 4, "states": 3, "records": 20_000, "epsilon": 1.0},
    "random": {"attributes": 4, "states": 3, "records": 5_000, "epsilon": 0.3},
    "tree": {"attributes": 5, "states": 3, "records": 1_000, "epsilon": 1.0},
}


def normal_laplace(z: Any, v: Any, b: float) -> tuple[Any, Any, Any]:
    """The log-density of a normal of variance v plus Laplace noise of scale b, its slopes in z and in v."""
    s = np.sqrt(v)
    left, right = log_ndtr((z - v / b) / s) - z / b, log_ndtr((-z - v / b) / s) + z / b
    either = np.logaddexp(left, right)
    log = v / (2 * b * b) + either - np.log(2 * b)
    normal = np.exp(-z * z / (2 * v) - np.log(2 * np.pi * v) / 2 - log)
    return log, (np.exp(right - either) - np.exp(left - either)) / b, (1 - normal) / (2 * b * b)


def information(v: np.ndarray, b: float) -> np.ndarray:
    """The expected square of the score, by the trapezoid rule."""
    z = np.linspace(-1, 1, 8001)[:, None] * (12 * np.sqrt(v) + 40 * b)
    log, slope, _ = normal_laplace(z, v, b)
    return np.trapezoid(np.exp(log) * slope**2, z, axis=0)


def cosines(size: int) -> np.ndarray:
    """Row k: k half waves along the values, of length 1."""
    k, i = np.indices((size, size))
    return np.cos(np.pi * k * (i + 0.5) / size) * np.where(k, np.sqrt(2 / size), np.sqrt(1 / size))


class Page:
    """The steps of the page, on tables of pairs and of single attributes with Laplace noise."""

    def __init__(self, release: qf.Release, leave_out: str = "") -> None:
        self.leave_out = leave_out
        domain, self.cliques = release.domain, list(release.tables)
        names = list(domain)
        self.records = np.array(list(product(*(range(domain.size(name)) for name in names))))
        self.shapes = [tuple(domain.size(name) for name in clique) for clique in self.cliques]
        cells = [
            np.eye(prod(shape))[
                np.ravel_multi_index([self.records[:, names.index(name)] for name in clique], shape)
            ]
            for clique, shape in zip(self.cliques, self.shapes, strict=True)
        ]  # fmt: skip
        self.cells = np.concatenate(cells, axis=1)  # (records, cells): which cells a record lies in
        self.table = np.repeat(np.arange(len(cells)), [part.shape[1] for part in cells])
        self.y = np.concatenate([np.asarray(release.tables[clique]).ravel() for clique in self.cliques])
        self.n, self.b = float(release.total or 0), float(next(iter(release.noise.values())).scale)
        centred = [
            np.kron(*(np.eye(k) - 1 / k for k in shape)) if len(shape) > 1 else np.zeros((shape[0], shape[0]))
            for shape in self.shapes
        ]
        interactions = np.zeros((len(self.y), len(self.y)))
        for at, block in enumerate(centred):
            interactions[np.ix_(self.table == at, self.table == at)] = block
        self.parts = np.stack([interactions, np.eye(len(self.y)) - interactions])
        self.waves = np.zeros((len(self.y), len(self.y)))  # each row a wave
        for at, shape in enumerate(self.shapes):
            block = np.ones((1, 1))
            for size in shape:
                block = np.kron(block, cosines(size))
            self.waves[np.ix_(self.table == at, self.table == at)] = block
        self.numbers = {  # per attribute, k of each wave; 0 where a table does not have it
            name: np.concatenate([
                np.indices(shape)[clique.index(name)].ravel() if name in clique else np.zeros(prod(shape), int)
                for clique, shape in zip(self.cliques, self.shapes, strict=True)
            ])
            for name in names
        }  # fmt: skip
        along = np.stack(list(self.numbers.values())) > 0
        pairs = np.array([len(clique) > 1 for clique in self.cliques])[self.table]
        self.kind = np.where(pairs & (along.sum(0) == 2), 0, 1)  # of each wave
        self.no_smoothness = {name: np.zeros(2) for name in names}
        self.single = np.array([len(shape) == 1 for shape in self.shapes])
        self.sizes = np.array([prod(k - 1 for k in shape) if len(shape) > 1 else 0 for shape in self.shapes])
        alone = {clique[0] for clique in self.cliques if len(clique) == 1}
        self.beside = np.array([alone.issuperset(clique) for clique in self.cliques])
        effects = {effect for clique in self.cliques for effect in combinations(clique, 1)}
        self.dimensions = np.array([self.sizes.sum(), sum(domain.size(name) - 1 for (name,) in effects)])

    def at(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """A, mu and J."""
        scores = self.cells @ theta
        log_z = np.logaddexp.reduce(scores)
        chances = np.exp(scores - log_z)
        mu = self.cells.T @ chances
        return log_z, mu, (self.cells.T * chances) @ self.cells - np.outer(mu, mu)

    def by_table(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.table, values)

    def smooth(self, amounts: dict[str, np.ndarray]) -> np.ndarray:
        """The product of s over the attributes, of each wave."""
        found = np.ones(len(self.y))
        for name, k in self.numbers.items():
            every = np.arange(1, k.max() + 1)
            for kind in range(2):
                here = (k > 0) & (self.kind == kind)
                a = amounts[name][kind]
                found[here] *= (1 + a / k[here] ** 3) / (1 + a / every**3).mean()
        return found

    def curvature(self, tau2: np.ndarray, amounts: dict[str, np.ndarray]) -> np.ndarray:
        """T."""
        variances = tau2[self.kind, self.table] * self.smooth(amounts)
        return self.waves.T @ (self.waves / variances[:, None])

    def amounts(
        self, theta: np.ndarray, tau2: np.ndarray, before: dict[str, np.ndarray], determined: np.ndarray
    ) -> dict[str, np.ndarray]:
        """a of each attribute and kind."""
        gamma = np.diag(self.waves @ determined @ self.waves.T)
        squares = (self.waves @ theta) ** 2 / tau2[self.kind, self.table] / self.smooth(before)
        tried = [0.0, *np.exp(np.linspace(np.log(0.5), np.log(10_000), 35))]
        found = {}
        for name, k in self.numbers.items():
            n = k.max() + 1
            every = np.arange(1, n)
            found[name] = np.zeros(2)
            for kind in range(2 if n > 2 and (name,) in self.cliques else 0):
                of = [(k == one) & (self.kind == kind) for one in every]
                own = (1 + before[name][kind] / every**3) / (1 + before[name][kind] / every**3).mean()
                g = np.maximum([gamma[waves].sum() for waves in of], 0)
                e = own * [squares[waves].sum() for waves in of]

                def evidence(a: float, every: Any = every, g: Any = g, e: Any = e, n: int = n) -> float:
                    s = 1 + a / every**3
                    seen = g @ np.log(s) + g.sum() * np.log(max((e / s).sum(), 1e-300))
                    return -(seen + 20 / (n - 1) * (np.log(s) + 1 / s).sum()) / 2

                found[name][kind] = max(tried, key=evidence)
        return self.no_smoothness if self.leave_out == "smoothness" else found

    def spread(self, mu: np.ndarray, blur: Any) -> np.ndarray:
        return self.n * mu * (1 - mu) + blur * self.b**2

    def value(self, theta: np.ndarray, t: np.ndarray, blur: Any) -> float:
        mu = self.at(theta)[1]
        return normal_laplace(self.y - self.n * mu, self.spread(mu, blur), self.b)[0].sum() - theta @ t @ theta / 2

    def climb(self, theta: np.ndarray, t: np.ndarray, blur: Any, steps: int) -> np.ndarray:
        for _ in range(steps):
            _, mu, j = self.at(theta)
            v = self.spread(mu, blur)
            _, by_error, by_variance = normal_laplace(self.y - self.n * mu, v, self.b)
            gradient = j @ (self.n * (by_variance * (1 - 2 * mu) - by_error)) - t @ theta
            step = np.linalg.solve(self.n**2 * (j * information(v, self.b)) @ j + t, gradient)
            theta = self.uphill(theta, step, lambda x: self.value(x, t, blur))
            if gradient @ step < 0.3:
                break
        return theta

    def uphill(self, theta: np.ndarray, step: np.ndarray, value: Any) -> np.ndarray:
        here = value(theta)
        while value(theta + step) < here and np.abs(step).max() > 1e-9:
            step = step / 2
        return theta + step

    def start(self) -> np.ndarray:
        theta = np.zeros(len(self.y))
        for _ in range(20):
            _, mu, j = self.at(theta)
            gradient = self.y - self.n * mu - 2 * self.b * theta
            step = np.linalg.solve(self.n * j + 2 * self.b * np.eye(len(theta)), gradient)
            theta = self.uphill(theta, step, lambda x: self.y @ x - self.n * self.at(x)[0] - self.b * x @ x)
            if gradient @ step < 1:
                break
        return theta

    def scales(
        self, theta: np.ndarray, tau2: np.ndarray, amounts: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, float]:
        """Variances of each kind and table, a of each attribute and kind, d_1 of each table, and d_2."""
        _, mu, j = self.at(theta)
        seen = self.n**2 * (j * information(self.spread(mu, 1e-9), self.b)) @ j
        determined = np.linalg.solve(seen + self.curvature(tau2, amounts), seen)
        amounts = self.amounts(theta, tau2, amounts, determined)
        gamma = np.stack([self.by_table(np.diag(part @ determined)) for part in self.parts])
        squares = (self.waves @ theta) ** 2 / self.smooth(amounts)
        norms = np.stack([self.by_table(squares * (self.kind == kind)) for kind in range(2)])
        common = (norms.sum(1) + 20) / (gamma.sum(1) + 20)
        d = gamma.sum(1) / self.dimensions
        tau2 = (norms + 20 * common[:, None]) / (gamma + 20)
        return tau2, amounts, (gamma[0] + 20 * d[0]) / (self.sizes + 20), d[1]

    def learn(self) -> np.ndarray:
        theta = self.start()
        tau2, d_1, d_2 = np.ones((2, len(self.shapes))), np.full(len(self.shapes), 0.5), 0.5
        amounts = self.no_smoothness
        for _ in range(6):
            theta = self.climb(theta, self.curvature(tau2, amounts), self.blur(d_1), 5)
            fresh, amounts, d_1, d_2 = self.scales(theta, tau2, amounts)
            moved = np.abs(np.log(fresh.mean(1) / tau2.mean(1)))
            tau2 = fresh
            if moved[0] < 0.06 and moved[1] < 0.3:
                break
        wide = self.beside * np.clip((np.sqrt(tau2[1].mean()) - 0.85) / 0.1, 0, 1)
        if self.leave_out != "trust":
            inside = np.maximum(1.35 * (1.5 / 1.35) ** wide * d_1 ** (0.315 - 0.115 * wide), 0.05)
            tau2 = tau2 * np.stack([inside, (0.4 + 1.6 * d_2) * 2.4**wide]) ** 2
        if self.leave_out != "skew":
            self.y = self.y - self.lowered(theta, tau2[0], wide)
        t = self.curvature(tau2, amounts)
        theta = self.climb(theta, t, self.blur(d_1), 10)
        return theta if self.leave_out == "joint step" else self.joined(theta, t, self.blur(d_1))

    def blur(self, d_1: np.ndarray) -> np.ndarray:
        return 0.3 * np.where(self.single, 1.0, d_1.mean())[self.table]

    def lowered(self, theta: np.ndarray, tau2: np.ndarray, wide: np.ndarray) -> np.ndarray:
        """What step 6 takes from the tables."""
        mu = self.at(theta)[1]
        c = self.n**2 * information(self.spread(mu, 1e-9), self.b) * mu**2
        s = 1 - np.exp(-c / (c + 1 / tau2[self.table]) ** 2)
        found = np.zeros_like(s)
        for at in np.flatnonzero(~self.single):
            here = self.table == at
            part, shares = (x[here].reshape(self.shapes[at]) for x in (s, mu))
            part = part - (part * shares).sum(0) / shares.sum(0)
            part = part - ((part * shares).sum(1) / shares.sum(1))[:, None]
            found[here] = wide[at] * self.n * (shares * part).ravel()
        return found

    def joined(self, theta: np.ndarray, t: np.ndarray, blur: Any) -> np.ndarray:
        _, mu, j = self.at(theta)
        v = self.spread(mu, blur)
        score = -normal_laplace(self.y - self.n * mu, v, self.b)[1]
        w = information(v, self.b)
        weigh = self.n * j @ np.linalg.inv(np.diag(1 / w) + self.n * (j - np.diag(np.diag(j))))
        return theta + np.linalg.solve(weigh @ (self.n * j) + t, weigh @ (score / w) - t @ theta)

    def chances(self) -> np.ndarray:
        scores = self.cells @ self.learn()
        return np.exp(scores - np.logaddexp.reduce(scores))


def distance(model: qf.Model, release: qf.Release, leave_out: str = "") -> float:
    """KL of what the page learns from what the code learns, beside that from the truth to what the code learns."""
    page = Page(release, leave_out)
    learned = qf.fit(release)
    code = np.exp(np.asarray(learned.log_prob(page.records)))
    return float((code * np.log(code / page.chances())).sum()) / model.kl(learned)


@pytest.mark.parametrize("structure", PROBLEMS)
def test_what_is_written_is_what_is_computed(structure: str) -> None:
    study = qf.simulate(structure, **PROBLEMS[structure], seed=2, model_seed=2)
    assert distance(study.model, study.release) < 0.01
    missed = {name: distance(study.model, study.release, name) for name in ("trust", "joint step")}
    assert max(missed.values()) > 0.02, missed  # without a step of its own the page would learn something else


def test_what_is_written_of_surveys_is_what_is_computed() -> None:
    random = np.random.default_rng(2)
    domain = qf.Domain(dict.fromkeys("abcd", 3))
    effects = {(name,): random.permutation([2.0, 0.0, -2.0]) for name in domain}  # skewed: few have the last value
    pairs = {(a, b): random.normal(0, 1, (3, 3)) for a, b in ("ab", "bc", "cd")}
    model = qf.Model(domain, effects | pairs)
    tables = {c: 3_000 * table + random.laplace(0, 60, table.shape) for c, table in model.marginals().items()}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(60.0), total=3_000)
    assert distance(model, release) < 0.01
    assert distance(model, release, "skew") > 0.03


@pytest.mark.slow
def test_what_is_written_of_smooth_attributes_is_what_is_computed() -> None:
    random = np.random.default_rng(2)
    domain = qf.Domain({"a": 16, "b": 12, "c": 3})
    x, y = np.linspace(-1, 1, 16), np.linspace(-1, 1, 12)
    pairs = {("a", "b"): np.outer(x, 1.5 * y), ("b", "c"): np.outer(2 * y**2, [-1.0, 0.0, 1.0])}
    model = qf.Model(domain, pairs | {("a",): -2 * x**2 + x, ("b",): y, ("c",): [0.0, 1.0, -1.0]})
    tables = {c: 3_000 * table + random.laplace(0, 60, table.shape) for c, table in model.marginals().items()}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(60.0), total=3_000)
    assert distance(model, release) < 0.01
    assert distance(model, release, "smoothness") > 0.1
