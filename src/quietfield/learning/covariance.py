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

Small problems work all this out with matrices. Large ones draw 8 to 24 of each kind for all answers: the sample
from a normal of covariance N J (:meth:`quietfield.learning.problem.Point.scatter`), noise and prior from theirs, and
follow each through the fit, S then being that of the fit cell by cell, whose step to all cells together can only help.
What the draws leave uncertain about a variance widens intervals as Student's t does.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quietfield.errors import Error
from quietfield.learning.ascent import follow_counts
from quietfield.learning.learner import one_blas_thread
from quietfield.learning.likelihood import information
from quietfield.learning.prior import Curvature, Prior
from quietfield.learning.problem import Data, Point, Shape, noise_scales, shape_of
from quietfield.learning.smoothness import Smoothness
from quietfield.privacy.noise import Gaussian

if TYPE_CHECKING:
    from quietfield.models.model import Model

DENSE = 1500  # parameters: up to here a factorised matrix is exact, and as fast
DRAWS = (8, 24)  # of the data, and of the prior, at least and at most: a standard deviation of 24 is right by a seventh
_DRAWN = 6_000_000  # parameters of all draws of a kind together: of more, fewer are drawn, and intervals are wider
_ACCURACY = 0.1  # of the equations for each draw, in units of its own size
_SMOOTH = 0.06  # the same where smooth tables are solved together: that preconditioner weighs what is left otherwise
_MOST = 150  # iterations for each
_TOGETHER = 8  # draws that are followed together
_STEPS = 40  # to the parameters of a draw, at most
_GAIN = (0.3, 1e-4)  # nats that it may leave: in all, or per parameter of a large model


class ErrorParts(NamedTuple):
    """The parts of an answer's error, one entry an answer."""

    noise: np.ndarray  # variances; of draws, with that of the sample
    sampling: np.ndarray
    prior: np.ndarray
    total: np.ndarray  # of an estimated number of records, with its part in the noise; may be negative
    shared: np.ndarray | None  # covariance with the share among the people that were counted, where it is known
    pull: np.ndarray  # of the prior and of leaning to the mean, as the fit shows them


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
    prior: Prior  # as the fit used it
    drawn: Prior  # of the parameters themselves, as the release shows them

    @cached_property
    def point(self) -> Point:
        """Inference at the fit."""
        return self.shape.at(self.theta)

    @property
    def shares(self) -> np.ndarray:
        """m at the fit."""
        return self.point.shares

    @cached_property
    def _cells(self) -> tuple[np.ndarray, np.ndarray]:
        """(v, W): sampling variance and information of each cell; none where nothing was counted."""
        v = self.shape.sampling_variance(Data(np.zeros_like(self.b), self.b, self.total), self.shares)
        return v, information(v, self.b, self.shape.is_gaussian) * self.shape.counted

    @cached_property
    def _rest(self) -> np.ndarray:
        """R: what the noise adds to the sampling variance."""
        v, w = self._cells
        return np.where(w > 0, 1 / np.where(w > 0, w, 1.0) - v, 0.0)

    @property
    def dense(self) -> bool:
        return self.shape.size <= DENSE or bool(self.shape.apart)

    @cached_property
    def jacobian(self) -> np.ndarray:
        """J as a matrix."""
        found = self.point.jacobian(np.eye(self.shape.size))
        return 0.5 * (found + found.T)

    @cached_property
    def _factors(self) -> tuple[Any, np.ndarray, Any]:
        """V of the counted cells as a Cholesky factor L, L^-1 N J, and the factor of the curvature."""
        from scipy.linalg import cholesky, solve_triangular

        _, w = self._cells
        counted = w > 0
        j = self.jacobian[counted]
        try:
            root = cholesky(np.diag(self._rest[counted]) + self.total * j[:, counted], lower=True)
            half = solve_triangular(root, self.total * j, lower=True)
            return root, half, cholesky(half.T @ half + self.prior.matrix, lower=True)
        except np.linalg.LinAlgError:
            why = (
                "its counts are too large for the digits of floats"
                if self.shape.inference == "exact"
                else f"{self.shape.inference} inference gives its cells no proper covariance; use exact inference"
            )
            raise Error(f"this model has no error bars: {why}.") from None

    def _solve(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S g, u) for columns g."""
        from scipy.linalg import cho_solve, solve_triangular

        root, half, curved = self._factors
        x = cho_solve((curved, True), g)
        u = np.zeros_like(g)
        u[self._cells[1] > 0] = solve_triangular(root, half @ x, lower=True, trans="T")
        return x, u

    def _inflation(self, inside: np.ndarray) -> np.ndarray:
        """r: how much more of the noise counts in each cell than an average of many would show.

        ``inside`` is the diagonal of J S J.
        """
        _, w = self._cells
        leverage = np.clip(self.total**2 * w * inside, 0, 1)
        known = w > 0
        ratio = np.ones_like(w)
        ratio[known] = np.maximum(self.noise_variance[known] / self._rest[known], 1)
        return 1 + leverage * (ratio - 1)

    @cached_property
    def _noise(self) -> np.ndarray:
        """R r, with matrices."""
        from scipy.linalg import solve_triangular

        half = solve_triangular(self._factors[2], self.jacobian, lower=True)
        return self._rest * self._inflation(np.einsum("ij,ij->j", half, half))

    def errors(self, gradients: np.ndarray) -> ErrorParts:
        """The errors of answers with these gradients, one per row; with matrices."""
        g = gradients.T
        x, u = self._solve(g)
        # An N that is off by d moves the expected counts by m d; the noise that moved N is in the cells too.
        moved = u.T @ self.shares
        both = u.T @ (self.total_weights * self._rest)
        pulled = self.prior.precision(x.T)
        return ErrorParts(
            np.einsum("ij,i,ij->j", u, self._noise, u),
            np.maximum(self.total * np.einsum("ij,ij->j", u, self.jacobian @ u), 0),
            np.einsum("ij,ij->i", pulled, self.drawn.variance(pulled)),
            moved**2 * self.total_variance - 2 * moved * both,
            np.einsum("ij,ij->j", u, g),
            pulled @ self._unpulled + self.total * (x.T @ (self.jacobian @ (self._cells[1] * self._leaned))),
        )

    @one_blas_thread()
    def draw_parameters(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Parameters around those of the fit, one row per draw, as far off as these may be.

        Errors are normal in expected counts, as :meth:`errors` has them. Added to the parameters, those of the many
        cells that tables hardly determine would multiply their shares, and the mean of exp(error) is far above 1: such
        cells would take over the margins, which are known well. So a draw has the expected counts that the error leads
        to, to first order, but for a penalty that holds cells of less than about one record where they are.
        """
        found, one = [], np.ones(self.shape.size)
        gain = max(_GAIN[0], _GAIN[1] * self.shape.size)
        for error in self.draw_errors(count, random):
            counts = self.total * (self.shares + self.point.jacobian(error))
            data = Data(counts, self.b, self.total)
            found.append(follow_counts(self.shape, data, self.theta, one, steps=_STEPS, gain=gain).theta)
        return np.stack(found)

    def draw_errors(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Errors of the parameters, one per row: normal, with the covariance behind :meth:`errors`."""
        if self.dense:
            x, u = self._solve(np.eye(self.shape.size))
            pulled = self.prior.precision(x)  # S is symmetric, and so are its rows and columns
            spread = u.T @ (self._noise[:, None] * u + self.total * (self.jacobian @ u))
            spread += pulled @ self.drawn.variance(pulled).T
            moved, both = u.T @ self.shares, u.T @ (self.total_weights * self._rest)
            basis = np.eye(len(spread))
        else:
            moved, both, _ = self.draws.known
            drawn = np.concatenate([self.draws.data, self.draws.prior, self.draws.extra]).astype(float)
            drawn /= np.sqrt(len(self.draws.data))
            basis, rows = np.linalg.qr(np.concatenate([drawn, [moved, both]]).T)
            spread = rows[:, : len(drawn)] @ rows[:, : len(drawn)].T
            moved, both = basis.T @ moved, basis.T @ both
        shared = np.outer(moved, both)
        spread += self.total_variance * np.outer(moved, moved) - shared - shared.T
        values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        # Rounding, and the noise that moved N being drawn apart from it, may leave a variance a little below 0.
        root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T  # of all roots the one that has no choice of signs
        return random.standard_normal((count, len(values))) @ root @ basis.T

    @cached_property
    def _leaned(self) -> np.ndarray:
        """By how many counts the tables were lowered before the last climb: :meth:`Prior.skew`."""
        known = self.total**2 * self._cells[1]
        return self.total * self.shares * self.prior.skew(self.shares, known, self.drawn.wide)

    @cached_property
    def _unpulled(self) -> np.ndarray:
        """The parameters with the prior's pull taken back, to first order."""
        return self.theta + self._solve(self.prior.precision(self.theta)[:, None])[0][:, 0]

    @cached_property
    @one_blas_thread()
    def draws(self) -> "Draws":
        """Errors of the parameters, drawn.

        Raises:
            Error: Inference is approximate, and did not settle so that its cells have a covariance.
        """
        _, w = self._cells
        counted = w > 0
        curvature = Curvature(self.point, self.total**2 * w, self.prior)

        accuracy = _ACCURACY if curvature.preconditioner.pairs is None else _SMOOTH

        def follow(right: np.ndarray) -> np.ndarray:
            return curvature.solve(right, accuracy, _MOST)

        def respond(response: np.ndarray) -> np.ndarray:
            """S N J W of errors of the cells."""
            return follow(self.total * self.point.jacobian(w * np.where(counted, response, 0.0)))

        random = np.random.default_rng(0)  # the same in every call: the same model gives the same intervals
        count = min(max(_DRAWN // self.shape.size, DRAWS[0]), DRAWS[1])
        size = (count, self.shape.size)
        scattered = np.sqrt(self.total) * np.stack([self.point.scatter(random) for _ in range(count)])
        noise = np.sqrt(self._rest) * random.standard_normal(size)
        drawn = self.drawn.root(random.standard_normal(size))

        def pulled() -> np.ndarray:
            held = follow(self.prior.precision(self.theta + follow(self.prior.precision(self.theta))))
            return held + respond(self._leaned)

        with ThreadPoolExecutor(2) as pool:  # numpy lets go of the interpreter while it adds

            def each(call: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
                """Some rows at a time, as many as are faster together."""
                together = min(_TOGETHER, self.shape.together)
                return pool.map(call, np.array_split(rows, -(-len(rows) // together)))

            curvature.preconditioner  # noqa: B018 - threads share it
            pull = pool.submit(pulled)
            moved = each(respond, np.stack([self.shares, self.total_weights * self._rest]))
            parts = each(respond, scattered + noise), each(lambda x: follow(self.prior.precision(x)), drawn)
            data, prior = (np.concatenate(list(part)) for part in parts)
            extra = np.zeros((0, self.shape.size))
            if not self.shape.is_gaussian.all():
                # Both together are draws of covariance S where the prior is as drawn: they show the leverage.
                inside = (self.point.jacobian(data + prior) ** 2).mean(0)
                spread = np.sqrt(self._rest * (self._inflation(inside) - 1))
                extra = np.concatenate(list(each(respond, spread * random.standard_normal(size))))
            known = np.concatenate([*moved, pull.result()[None]])
        # As a file keeps them: the same intervals before and after.
        return Draws(*(x.astype(np.float32) for x in (data, prior, extra, known, scattered / self.total)))


class Draws(NamedTuple):
    """Errors of the parameters of a large model that were drawn, one per row: directions that answers move in."""

    data: np.ndarray
    prior: np.ndarray
    extra: np.ndarray
    known: np.ndarray  # what an error of N moves, what its noise shares with the cells, the prior's pull
    scattered: np.ndarray  # the errors of the sample's shares, cell by cell, that belong to ``data``

    def fits(self, size: int) -> bool:
        """Whether they can be those of a model of so many parameters."""
        if any(x.ndim != 2 for x in self):
            return False
        data, prior, extra, known, scattered = map(len, self)
        many = data == prior == scattered and 1 <= data <= DRAWS[1] and extra in (0, data) and known == 3
        return many and all(
            x.dtype == np.float32 and x.shape == (len(x), size) and bool(np.isfinite(x).all()) for x in self
        )

    @property
    def directions(self) -> np.ndarray:
        return np.concatenate(self[:4])

    def parts(
        self,
        products: np.ndarray,
        total_variance: float,
        scattered: np.ndarray | None = None,
        sample: np.ndarray | float = 0.0,
    ) -> ErrorParts:
        """The errors of answers: ``products`` of their gradients with the directions, one row an answer.

        ``total_variance`` is that of the number of records. ``scattered`` are the answers' own errors in the sample,
        where they are known, and ``sample`` their variance.
        """
        data, prior, extra, known = np.split(products, np.cumsum([len(part) for part in self[:3]]), axis=1)
        moved, both, pull = known.T
        variance = (data**2).mean(1) + ((extra**2).mean(1) if len(self.extra) else 0.0)
        shared = None
        if scattered is not None:  # so that the variance of the difference is that of the draws' differences
            shared = 0.5 * ((data**2).mean(1) + sample - ((data - scattered) ** 2).mean(1))
        return ErrorParts(
            variance,
            np.zeros_like(variance),
            (prior**2).mean(1),
            moved**2 * total_variance - 2 * moved * both,
            shared,
            pull,
        )


def covariance_of(model: "Model", drawn: Draws | None = None) -> Covariance:
    """The errors of a model's parameters, from what it keeps of its fit, and from errors that were drawn before."""
    kept = model.uncertainty
    assert kept is not None
    shape = shape_of(
        model.domain,
        model.cliques,
        kept.groups,
        tuple(isinstance(noise, Gaussian) for noise in kept.noise),
        kept.excluded,
        model.inference,
        tuple(sorted(model.options.items())),
        kept.apart,
    )
    nothing = np.zeros((2, len(kept.groups)))
    smoothness = Smoothness(shape, np.array([kept.smoothness.get(name, (0.0, 0.0)) for name in model.domain]).T)
    found = Covariance(
        shape,
        np.concatenate(
            [model.potentials[group[0]].ravel()[: 1 if group[0] in kept.apart else None] for group in kept.groups]
        ),
        noise_scales(shape, kept.noise, kept.total),
        shape.per_cell(noise.variance for noise in kept.noise),
        kept.total,
        kept.total_variance,
        shape.per_cell(kept.total_weights),
        Prior(shape, np.array(kept.variances).T, nothing, smoothness),
        Prior(shape, np.array(kept.drawn).T, nothing, smoothness),
    )
    if drawn is not None:
        found.__dict__["draws"] = drawn  # in the place of what would be drawn
    return found
