"""How far is the default from the posterior mean? Long Hamiltonian Monte Carlo on two small problems::

    python -m benchmarks.limit --draws 3000 --releases 3     # rows of docs/results/limit.csv

The model that minimises the posterior expected divergence matches the posterior mean of the clique marginals. The
posterior is the one that the default approximates: cell by cell normal-Laplace, with the prior scales that the release
shows. Four chains from scattered starts, in coordinates in which the posterior's curvature at the fit is a sphere;
split R-hat and effective sample sizes of the clique marginals are shown. The page of learners
(``python -m benchmarks.learning --page``) has them.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import quietfield as qf
from benchmarks._pages import RESULTS, replace_rows
from quietfield.learning.map import weights
from quietfield.learning.prior import Prior
from quietfield.learning.problem import problem_of
from quietfield.learning.smoothness import Smoothness

KEY = ["structure", "records", "epsilon", "seed"]
FIELDS = [*KEY, "draws", "leaps", "map", "posterior_mean", "accepted", "worst_rhat", "median_ess"]
CHAINS = 4
LEAST = 1e-6  # of b^2, as the default has it: the least sampling variance of a cell


def sample(shape: Any, data: Any, start: np.ndarray, variances: np.ndarray, draws: int, leaps: int, seed: int) -> Any:
    """(draws of m, acceptance): chains side by side, step sizes adapted in the first half, which is dropped."""

    curved = jax.jacobian(shape.shares)(jnp.asarray(start))
    prior = jnp.asarray(Prior(shape, variances, np.ones_like(variances), Smoothness.none(shape)).matrix)
    w = weights(shape, data, np.asarray(shape.shares(jnp.asarray(start))))
    factor = jnp.linalg.cholesky(curved @ (w[:, None] * curved) + prior)
    whitened = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(start)), lower=True).T

    def gradient(x: Any) -> tuple[Any, Any]:
        theta = start + whitened @ x
        m, jacobian = jax.linearize(shape.shares, theta)
        height, slope = jax.value_and_grad(lambda m: log_likelihood(shape, data, m))(m)
        pull = prior @ theta
        return height - 0.5 * jnp.vdot(theta, pull), (jacobian(slope) - pull) @ whitened

    def one(key: Any, x: Any) -> Any:
        def draw(carry: Any, key: Any) -> Any:
            x, size, count = carry
            keys = jax.random.split(key, 3)
            p = jax.random.normal(keys[0], x.shape)
            length = size * jax.random.uniform(keys[1], minval=0.6, maxval=1.4)
            value, slope = gradient(x)

            def leap(_: Any, state: Any) -> Any:
                t, q, _, g = state
                q = q + 0.5 * length * g
                t = t + length * q
                v, g = gradient(t)
                return t, q + 0.5 * length * g, v, g

            t, q, v, _ = jax.lax.fori_loop(0, leaps, leap, (x, p, value, slope))
            change = v - value + 0.5 * jnp.sum(p * p - q * q)
            chance = jnp.where(jnp.isfinite(change), jnp.exp(jnp.minimum(change, 0.0)), 0.0)
            x = jnp.where(jax.random.uniform(keys[2]) < chance, t, x)
            grow = jnp.exp((chance - 0.8) * 0.1)
            size = jnp.where(count < draws // 2, size * grow, size)
            return (x, size, count + 1), (shape.shares(start + whitened @ x), chance)

        return jax.lax.scan(draw, (x, 0.05, 0), jax.random.split(key, draws))[1]

    keys = jax.random.split(jax.random.key(seed), CHAINS)
    scatter = 2 * np.random.default_rng(seed).normal(size=(CHAINS, len(start)))
    m, chance = jax.jit(jax.vmap(one))(keys, jnp.asarray(scatter))
    return np.asarray(m)[:, draws // 2 :], float(np.asarray(chance)[:, draws // 2 :].mean())


def log_likelihood(shape: Any, data: Any, m: Any) -> Any:
    """Of the cells, each normal-Laplace, as in ``learning/likelihood.py``; in JAX, for gradients."""
    z, b = data.y - data.total * m, data.b
    v = data.total * m * (1 - m / shape.copies) + LEAST * b**2
    sides = [jax.scipy.stats.norm.logcdf((sign * z - v / b) / jnp.sqrt(v)) - sign * z / b for sign in (1, -1)]
    return jnp.sum(v / (2 * b**2) + jnp.logaddexp(*sides) - jnp.log(2 * b))


def diagnostics(draws: np.ndarray) -> tuple[float, float]:
    """(worst split R-hat, median effective size) over cells."""
    chains, length, cells = draws.shape
    halves = draws.reshape(2 * chains, length // 2, cells)
    within = halves.var(1, ddof=1).mean(0)
    between = halves.mean(1).var(0, ddof=1)
    rhat = np.sqrt((within * (1 - 2 / length) + between) / np.maximum(within, 1e-300))
    centred = draws - draws.mean((0, 1))
    spectrum = np.abs(np.fft.rfft(centred, 2 * length, axis=1)) ** 2
    correlation = np.fft.irfft(spectrum, axis=1)[:, :length].mean(0)
    correlation = correlation / correlation[0]
    sizes = []
    for cell in range(cells):
        pairs = correlation[0::2, cell][: length // 2] + correlation[1::2, cell][: length // 2]
        stop = int(np.argmax(pairs < 0)) or len(pairs)
        sizes.append(chains * length / max(2 * pairs[:stop].sum() - 1, 1e-3))
    return float(rhat.max()), float(np.median(sizes))


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and replace the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--leaps", type=int, default=16)
    parser.add_argument("--releases", type=int, default=4, help="of each problem")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows")
    asked = parser.parse_args(arguments)
    for structure, records, epsilon in (("chain", 2_500, 1.0), ("chain", 20_000, 0.3)):
        for seed in range(asked.releases):
            study = qf.simulate(
                structure, attributes=6, states=5, records=records, epsilon=epsilon, seed=seed, model_seed=seed
            )
            row = dict(zip(KEY, (structure, records, epsilon, seed), strict=True))
            row |= {"draws": asked.draws, "leaps": asked.leaps, **compare(study, asked.draws, asked.leaps)}
            print(*row.values(), flush=True)
            replace_rows(asked.out / "limit.csv", FIELDS, [row], KEY)


def compare(study: Any, draws: int, leaps: int) -> dict[str, float]:
    """The default's divergence, that of the model of the posterior mean, and how the chains did."""
    model = qf.fit(study.release)
    with jax.enable_x64(True):
        shape, data = problem_of(study.release, "exact", {})
        start = np.concatenate([model.potentials[group[0]].ravel() for group in shape.groups])
        drawn, accepted = sample(shape, data, start, np.array(model.uncertainty.drawn).T, draws, leaps, 0)
    rhat, size = diagnostics(drawn)
    mean = study.records * drawn.mean((0, 1))
    tables = {
        group[0]: mean[a : a + int(np.prod(cells))].reshape(cells)
        for group, a, cells in zip(shape.groups, shape.starts, shape.table_shapes, strict=False)
    }
    limit = qf.references.fit_true_tables(study.model.domain, tables, regularisation=1e-9)
    return {
        "map": round(study.model.kl(model), 4),
        "posterior_mean": round(study.model.kl(limit), 4),
        "accepted": round(accepted, 2),
        "worst_rhat": round(rhat, 4),
        "median_ess": round(size),
    }


if __name__ == "__main__":
    main()
