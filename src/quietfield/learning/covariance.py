"""How far the answers of a fit by ``map`` may be off: the error of the estimate, to first order, and its parts.

The fit weighs each cell's response psi / W (psi the score of its error, W its information) by the inverse of their
covariance V = R + N J, with R = 1/W - v what the noise adds to the sampling variance v. With S the inverse of the
curvature N^2 J V^-1 J + P, P the precision of the prior as the fit used it,

    theta_hat - theta  =  S (N J V^-1 psi / W  -  P theta)

so an answer q with gradient g errs by g.S.(...). With u = V^-1 N J S g, its variance has three parts:

    noise       sum u_i^2 R_i r_i                         what the responses owe to the noise
    sampling    u . N J u                                 what they owe to the sample; the cells' full covariance
    prior       (S g) . P T P (S g)                       what the prior cannot know, theta being a draw of covariance T

W is the expected information, right where many cells speak of one parameter. A cell that speaks alone is fitted
exactly, and its Laplace noise of variance 2 b^2 counts in full, not the b^2 of an average: r_i goes from 1 to that
ratio with the cell's leverage N^2 W_i (J S J)_ii. An estimated N adds its own error and its part in the responses.

The prior's pull on an answer as far as the fit itself shows it is no spread but a bias: g.S.P.theta_hat, to first
order. As theta_hat was pulled itself, ``pull`` takes the second order too: g.S.P.(theta_hat + S.P.theta_hat).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.inference.tangents import batch, spread
from quietfield.learning.likelihood import information
from quietfield.learning.map import sampling_variance
from quietfield.learning.newton import solve
from quietfield.learning.problem import Data, Shape, noise_scales, shape_of
from quietfield.privacy.noise import Gaussian

if TYPE_CHECKING:
    from quietfield.models.model import Model

DENSE = 4000  # parameters: up to here a factorised matrix is faster than iterations, and takes at most 0.3 GB
_PROBES = 48


class ErrorParts(NamedTuple):
    """The parts of an answer's error, one entry an answer."""

    noise: np.ndarray  # variances
    sampling: np.ndarray
    prior: np.ndarray
    total: np.ndarray  # of an estimated number of records, with its part in the noise; may be negative
    shared: np.ndarray  # covariance with the share among the people that were counted
    pull: np.ndarray  # of the prior, as the fit shows it


@dataclass(frozen=True, eq=False)
class Covariance:
    """The fit's errors around one set of parameters. ``total_weights`` has one entry a cell."""

    shape: Shape
    theta: np.ndarray
    b: np.ndarray
    noise_variance: np.ndarray
    total: float
    total_variance: float
    total_weights: np.ndarray
    variances: np.ndarray  # of the prior as the fit used it
    drawn: np.ndarray  # of the parameters themselves, as the release shows them

    @cached_property
    def shares(self) -> np.ndarray:
        """m at the fit."""
        with jax.enable_x64(True):
            return np.asarray(_compiled(self.shape)[0](self.theta))

    @cached_property
    def _cells(self) -> tuple[np.ndarray, np.ndarray]:
        """(v, W): sampling variance and information of each cell; none where nothing was counted."""
        with jax.enable_x64(True):
            v, w = _compiled(self.shape)[2](self.shares, self.b, self.total)
            return np.asarray(v), np.asarray(w)

    @cached_property
    def dense(self) -> bool:
        return self.shape.size <= DENSE

    @cached_property
    def jacobian(self) -> np.ndarray:
        """J as a matrix."""
        rows = [
            spread(self.shape.engine, self._engine_theta, self._to_engine(part))[2] for part in _parts(self.shape.size)
        ]
        found = np.concatenate([self.to_parameters(part) for part in rows])
        return 0.5 * (found + found.T)

    @cached_property
    def _engine_theta(self) -> np.ndarray:
        return self.theta[self.shape.places]

    def _to_engine(self, rows: np.ndarray) -> np.ndarray:
        return np.eye(self.shape.size)[rows][:, self.shape.places]

    def to_parameters(self, rows: np.ndarray) -> np.ndarray:
        """Derivatives by cells of the engine as derivatives by parameters: tied cliques add up."""
        if self.shape.size == rows.shape[1]:
            return rows[:, np.argsort(self.shape.places)]
        found = np.zeros((len(rows), self.shape.size))
        np.add.at(found.T, self.shape.places, rows.T)
        return found

    def _prior(self, x: np.ndarray, variances: np.ndarray | None = None) -> np.ndarray:
        """P x for columns x; with other variances, P of those."""
        first, second = self.variances if variances is None else variances
        with jax.enable_x64(True):
            part = np.asarray(_compiled(self.shape)[1](x.T)).T
        return part / first + (x - part) / second

    @cached_property
    def _factors(self) -> tuple[Any, np.ndarray, Any]:
        """V of the counted cells as a Cholesky factor L, L^-1 N J, and the factor of the curvature."""
        from scipy.linalg import cholesky, solve_triangular

        v, w = self._cells
        counted = w > 0
        j = self.jacobian[counted]
        root = cholesky(np.diag(1 / w[counted] - v[counted]) + self.total * j[:, counted], lower=True)
        half = solve_triangular(root, self.total * j, lower=True)
        return root, half, cholesky(half.T @ half + self._prior(np.eye(self.shape.size)), lower=True)

    def _solve(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S g, u) for columns g."""
        _, w = self._cells
        if self.dense:
            from scipy.linalg import cho_solve, solve_triangular

            root, half, curvature = self._factors
            x = cho_solve((curvature, True), g)
            u = np.zeros_like(g)
            u[w > 0] = solve_triangular(root, half @ x, lower=True, trans="T")
            return x, u
        call = _iterative(self.shape)
        v, _ = self._cells
        with jax.enable_x64(True):
            found = [
                call(self.theta, v, w, self.total, self.variances, g[:, part].T)
                for part in _parts(g.shape[1], batch(self.shape.engine))
            ]
        x, u = (np.concatenate([np.asarray(part[i]) for part in found]).T for i in (0, 1))
        return x, u

    def _apply(self, x: np.ndarray) -> np.ndarray:
        """J x for columns x."""
        if self.dense:
            return self.jacobian @ x
        found = spread(self.shape.engine, self._engine_theta, x.T[:, self.shape.places])[2]
        return self.to_parameters(found).T

    @cached_property
    def _inflation(self) -> np.ndarray:
        """r: how much more of the noise counts in each cell than an average of many would show."""
        v, w = self._cells
        if self.dense:
            from scipy.linalg import solve_triangular

            half = solve_triangular(self._factors[2], self.jacobian, lower=True)
            inside = np.einsum("ij,ij->j", half, half)
        else:
            # The diagonal from random signs, the same in every call.
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.shape.size, _PROBES))
            inside = (signs * self._apply(self._solve(self._apply(signs))[0])).mean(1)
        leverage = np.clip(self.total**2 * w * inside, 0, 1)
        known = w > 0
        ratio = np.ones_like(w)
        ratio[known] = np.maximum(self.noise_variance[known] / (1 / w[known] - v[known]), 1)
        return 1 + leverage * (ratio - 1)

    def errors(self, gradients: np.ndarray) -> ErrorParts:
        """The errors of answers with these gradients, one a row."""
        g = gradients.T
        v, w = self._cells
        rest = np.where(w > 0, 1 / np.where(w > 0, w, 1.0) - v, 0.0)
        x, u = self._solve(g)
        # An N that is off by d moves the expected counts by m d; the noise that moved N is in the cells too.
        moved = u.T @ self.shares
        both = u.T @ (self.total_weights * rest)
        return ErrorParts(
            np.einsum("ij,i,ij->j", u, rest * self._inflation, u),
            np.maximum(self.total * np.einsum("ij,ij->j", u, self._apply(u)), 0),
            np.einsum("ij,ij->j", x, self._prior(x, self.variances**2 / self.drawn)),
            moved**2 * self.total_variance - 2 * moved * both,
            np.einsum("ij,ij->j", u, g),
            self._prior(x).T @ self._unpulled,
        )

    @cached_property
    def _unpulled(self) -> np.ndarray:
        """The parameters with the prior's pull taken back, to first order."""
        return self.theta + self._solve(self._prior(self.theta[:, None]))[0][:, 0]


def _parts(size: int, rows: int = 512) -> list[np.ndarray]:
    return [np.arange(start, min(start + rows, size)) for start in range(0, size, rows)]


@lru_cache(maxsize=32)
def _compiled(shape: Shape) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    def cells(m: jax.Array, b: jax.Array, total: Any) -> tuple[jax.Array, jax.Array]:
        v = sampling_variance(shape, Data(jnp.zeros_like(b), b, total), m)
        return v, information(v, b, shape.per_cell(shape.gaussian)) * shape.counted

    return jax.jit(shape.shares), jax.jit(jax.vmap(shape.interactions)), jax.jit(cells)


@lru_cache(maxsize=32)
def _iterative(shape: Shape) -> Callable[..., Any]:
    """(S g, u) by conjugate gradients within conjugate gradients, for rows g."""

    def call(theta: jax.Array, v: Any, w: Any, total: Any, variances: Any, rows: Any) -> tuple[jax.Array, jax.Array]:
        m, jacobian = jax.linearize(shape.shares, theta)
        counted = w > 0
        safe = jnp.where(counted, w, 1.0)
        rest = 1 / safe - v

        def covariance(p: jax.Array) -> jax.Array:
            return jnp.where(counted, rest * p + total * jacobian(jnp.where(counted, p, 0.0)), p)

        def weighed(p: jax.Array) -> jax.Array:
            """V^-1 N J p."""
            right = jnp.where(counted, total * jacobian(p), 0.0)
            return jnp.where(counted, solve(covariance, right, 1 / safe, 1e-6, 300)[0], 0.0)

        def curvature(p: jax.Array) -> jax.Array:
            part = shape.interactions(p)
            return total * jacobian(weighed(p)) + part / variances[0] + (p - part) / variances[1]

        diagonal = total**2 * w * m * m + 1 / variances.max()

        def one(g: jax.Array) -> tuple[jax.Array, jax.Array]:
            x, _ = solve(curvature, g, diagonal, 1e-5, 1000)
            return x, weighed(x)

        return jax.vmap(one)(rows)

    return jax.jit(call)


def covariance_of(model: "Model") -> Covariance:
    """The errors of a model's parameters, from what it keeps of its fit."""
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
