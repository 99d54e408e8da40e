"""Loopy inference: approximate marginals by passing messages on the factor graph until they settle.

Two members of one family, with a weight rho on every factor:

* ``loopy`` (rho = 1): sum-product belief propagation, exact on trees, often good elsewhere, may not converge;
* ``convex`` (rho < 1): tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005), whose objective is
  convex and whose log Z is an upper bound. rho is the share of random spanning forests of the factor graph that hold
  the factor, so it works for cliques of any size.

Both iterate, with m the message from a factor f to an attribute v, in log space and damped,

    m_fv(x_v) = logsumexp over the others of  theta_f / rho_f + sum_{u != v} (B_u - m_fu),   B_u = sum_g rho_g m_gu

until no message moves by more than a tolerance. Damping grows when progress stalls. The residual is returned.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, xlogy

from quietfield.cliques import Structure, hashable
from quietfield.domain import Clique, Domain
from quietfield.inference.layout import IMPOSSIBLE, Layout, plain_layout
from quietfield.inference.response import Settled

_STALL = 50  # iterations without the residual halving before damping grows
_MOST_DAMPING = 0.95
_FORESTS = 64
_ROWS, _ROOM = 16, 2**22  # directions that are followed together, at most, and numbers in all of them


class LoopyKind(NamedTuple):
    """Factors of one shape, stacked: their places in the list of factors and the attributes on each axis."""

    shape: tuple[int, ...]
    factors: tuple[int, ...]
    attributes: tuple[tuple[int, ...], ...]  # per axis, the attribute of every factor
    masks: bool


class LoopyState(NamedTuple):
    """The messages (per kind and axis), how far the last round moved them, and the record for the damping."""

    messages: Any
    iteration: jax.Array
    residual: jax.Array
    damping: jax.Array
    mark: jax.Array  # the residual to halve
    since: jax.Array  # iterations since it last halved


@dataclass(frozen=True, eq=False)
class Loopy:
    """Compiled loopy inference for one domain, set of cliques and choice of weights. Get it from :meth:`of`."""

    domain: Domain
    cliques: tuple[Clique, ...]
    reweighted: bool
    damping: float
    tolerance: float
    iterations: int

    @classmethod
    def of(
        cls,
        domain: Domain,
        cliques: Structure | Iterable[str | Iterable[str]],
        *,
        reweighted: bool = False,
        damping: float = 0.3,
        tolerance: float = 1e-8,
        iterations: int = 3000,
    ) -> "Loopy":
        """Belief propagation for a model (its convex, reweighted variant with ``reweighted``).

        ``inference.check_options`` has checked the options.
        """
        return _loopy(domain, hashable(cliques), reweighted, damping, tolerance, iterations)

    @property
    def name(self) -> str:
        return "convex" if self.reweighted else "loopy"

    @cached_property
    def layout(self) -> Layout:
        return plain_layout(self.domain, self.cliques)

    @cached_property
    def masks(self) -> tuple[tuple[Clique, np.ndarray], ...]:
        """The impossible combinations that no clique holds; the others are part of the tables of those that do."""
        return tuple(part for part in self.domain.masks if not any(set(part[0]) <= set(c) for c in self.cliques))

    @cached_property
    def scopes(self) -> tuple[tuple[int, ...], ...]:
        every = (*self.cliques, *(clique for clique, _ in self.masks))
        return tuple(tuple(self.domain.position(name) for name in clique) for clique in every)

    @cached_property
    def weights(self) -> np.ndarray:
        """rho of every factor."""
        return forest_shares(self.scopes) if self.reweighted else np.ones(len(self.scopes))

    @cached_property
    def kinds(self) -> tuple[LoopyKind, ...]:
        found: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
        for i, scope in enumerate(self.scopes):
            shape = tuple(self.domain.shape[v] for v in scope)
            found.setdefault((i >= len(self.cliques), shape), []).append(i)
        return tuple(
            LoopyKind(shape, tuple(at), tuple(zip(*(self.scopes[i] for i in at), strict=True)), masks)
            for (masks, shape), at in found.items()
        )

    @cached_property
    def _places(self) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
        """Attributes by size: (size, row) of each, and how many there are of each size."""
        counts: dict[int, int] = {}
        places = {}
        for v, size in enumerate(self.domain.shape):
            places[v] = (size, counts.get(size, 0))
            counts[size] = counts.get(size, 0) + 1
        return places, counts

    def _rows(self, attributes: tuple[int, ...]) -> np.ndarray:
        return np.array([self._places[0][v][1] for v in attributes])

    def tolerance_of(self, dtype: Any) -> float:
        """The tolerance, no finer than the numbers are."""
        return max(self.tolerance, 16 * float(np.finfo(dtype).eps))

    def run(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
        """(mu, log Z, residual, iterations, nodes) on the host; rows of theta are a batch.

        ``nodes`` holds the beliefs of all attributes, one after the other.
        """
        with jax.enable_x64(theta.dtype == np.float64):
            return tuple(np.asarray(part) for part in self.compiled(theta.ndim > 1)(theta)[:-1])

    def compiled(self, batch: bool = False) -> Callable[[Any], tuple[Any, ...]]:
        """What :meth:`run` returns, and the tables of all factors by kind."""
        cache = self.__dict__.setdefault("_compiled", {})
        if batch not in cache:
            cache[batch] = jax.jit(jax.vmap(self._solve) if batch else self._solve)
        return cache[batch]

    def settle(self, theta: np.ndarray) -> Settled:
        """Inference at some parameters, with its derivative."""
        with jax.enable_x64(True):
            mu, log_z, _, _, _, tables = self.compiled()(np.asarray(theta, dtype=np.float64))
            return Settled(self, np.asarray(mu), float(log_z), tuple(np.asarray(table) for table in tables))

    @cached_property
    def together(self) -> int:
        """How many directions to follow at once."""
        return max(1, min(_ROWS, _ROOM // (self.layout.size + 1)))

    def marginals_and_log_partition(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(mu, A) of the flat theta; pure. At a fixed point mu = dA/dtheta, and its Jacobian is symmetric."""
        mu, log_z, *_ = self.solve(theta)
        return mu, log_z

    def solve(self, theta: jax.Array) -> tuple[jax.Array, ...]:
        """(mu, log Z, residual, iterations, nodes) of the flat theta; pure."""
        return self._solve(theta)[:-1]

    def _solve(self, theta: jax.Array) -> tuple[Any, ...]:
        """The same, and the tables of all factors by kind."""
        tables = self._tables(theta)
        dtype = theta.dtype
        messages = [[jnp.zeros((len(k.factors), n), dtype) for n in k.shape] for k in self.kinds]
        far = jnp.asarray(jnp.inf, dtype)
        zero = jnp.zeros((), jnp.int32)
        start = LoopyState(messages, zero, far, jnp.asarray(self.damping, dtype), far, zero)

        def more(state: LoopyState) -> jax.Array:
            return (state.residual > self.tolerance_of(dtype)) & (state.iteration < self.iterations)

        state = jax.lax.while_loop(more, lambda state: self._round(tables, state), start)
        mu, log_z, nodes, found = self._results(tables, state.messages, theta)
        return mu, log_z, state.residual, state.iteration, nodes, found

    def _tables(self, theta: jax.Array) -> list[jax.Array]:
        """theta / rho by kind, with masks as very negative potentials."""
        tables = []
        for kind in self.kinds:
            rho = self.weights[list(kind.factors)].reshape(-1, *(1,) * len(kind.shape))
            possible = np.stack([self._possible(f) for f in kind.factors])
            table = jnp.asarray(np.where(possible, 0.0, IMPOSSIBLE), theta.dtype)
            if not kind.masks:
                table = theta[self.cells(kind)].reshape(-1, *kind.shape) / jnp.asarray(rho, theta.dtype) + table
            tables.append(table)
        return tables

    def _possible(self, factor: int) -> np.ndarray:
        """Where a factor's table is possible: its own mask, or those that a clique holds."""
        outside = factor - len(self.cliques)
        return self.domain.mask_over(self.cliques[factor] if outside < 0 else self.masks[outside][0])

    def cells(self, kind: LoopyKind) -> np.ndarray:
        """The places in the flat vector of the tables of one kind."""
        starts = np.cumsum([0, *self.layout.sizes])
        return np.concatenate([np.arange(starts[f], starts[f + 1]) for f in kind.factors])

    def _beliefs(self, messages: Any, dtype: Any) -> dict[int, jax.Array]:
        """B_v by size of attribute."""
        beliefs = {size: jnp.zeros((count, size), dtype) for size, count in self._places[1].items()}
        for kind, sent in zip(self.kinds, messages, strict=True):
            rho = jnp.asarray(self.weights[list(kind.factors)], dtype)[:, None]
            for axis, message in enumerate(sent):
                rows = self._rows(kind.attributes[axis])
                beliefs[kind.shape[axis]] = beliefs[kind.shape[axis]].at[rows].add(rho * message)
        return beliefs

    def _incoming(self, kind: LoopyKind, sent: Any, beliefs: dict[int, jax.Array]) -> list[jax.Array]:
        """What each axis's attribute tells the factors of a kind, shaped to be added to their tables."""
        out = []
        for axis, message in enumerate(sent):
            heard = beliefs[kind.shape[axis]][self._rows(kind.attributes[axis])] - message
            out.append(heard.reshape(-1, *(n if i == axis else 1 for i, n in enumerate(kind.shape))))
        return out

    def _round(self, tables: list[jax.Array], state: LoopyState) -> LoopyState:
        dtype = state.residual.dtype
        beliefs = self._beliefs(state.messages, dtype)
        moved, fresh = jnp.zeros((), dtype), []
        for kind, table, sent in zip(self.kinds, tables, state.messages, strict=True):
            heard = self._incoming(kind, sent, beliefs)
            kept = []
            for axis, old in enumerate(sent):
                total = sum((part for i, part in enumerate(heard) if i != axis), table)
                others = tuple(i + 1 for i in range(len(kind.shape)) if i != axis)
                new = logsumexp(total, axis=others) if others else total
                new = jnp.maximum(new - new.max(1, keepdims=True), IMPOSSIBLE)
                moved = jnp.maximum(moved, jnp.abs(jax.nn.softmax(new, 1) - jax.nn.softmax(old, 1)).max())
                kept.append(state.damping * old + (1 - state.damping) * new)
            fresh.append(kept)
        halved = moved < state.mark / 2
        stalled = ~halved & (state.since >= _STALL)
        return LoopyState(
            fresh,
            state.iteration + 1,
            moved,
            jnp.where(stalled, jnp.minimum(_MOST_DAMPING, (1 + state.damping) / 2), state.damping),
            jnp.where(halved | stalled, moved, state.mark),
            jnp.where(halved | stalled, 0, state.since + 1),
        )

    def _results(
        self, tables: list[jax.Array], messages: Any, theta: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, list[jax.Array]]:
        """Marginals of cliques; log Z = theta.mu + sum_f rho_f H_f + sum_v (1 - sum rho) H_v; marginals of attributes;
        those of all factors by kind."""
        beliefs = self._beliefs(messages, theta.dtype)
        found: list[jax.Array] = []
        log_z = jnp.zeros((), theta.dtype)
        cover = np.zeros(len(self.domain))
        for kind, table, sent in zip(self.kinds, tables, messages, strict=True):
            total = sum(self._incoming(kind, sent, beliefs), table)
            flat = jax.nn.softmax(total.reshape(len(kind.factors), -1), axis=1)
            rho = jnp.asarray(self.weights[list(kind.factors)], theta.dtype)
            entropies = -xlogy(flat, flat).sum(1)
            energy = jnp.where(flat > 0, flat * table.reshape(flat.shape), 0.0).sum(1)
            log_z = log_z + (rho * (energy + entropies)).sum()
            found.append(flat)
            for column in kind.attributes:
                np.add.at(cover, list(column), self.weights[list(kind.factors)])
        singles: dict[int, jax.Array] = {}
        for size in self._places[1]:
            rows = [v for v, (n, _) in self._places[0].items() if n == size]
            b = singles[size] = jax.nn.softmax(beliefs[size], axis=1)
            log_z = log_z + (jnp.asarray(1 - cover[rows], theta.dtype) * -xlogy(b, b).sum(1)).sum()
        kept = [(self.cells(k), flat.ravel()) for k, flat in zip(self.kinds, found, strict=True) if not k.masks]
        mu = _in_order(*zip(*kept, strict=True)) if kept else jnp.zeros_like(theta)
        starts = np.cumsum([0, *self.domain.shape])
        values = np.split(np.arange(starts[-1]), starts[1:-1])
        places = [np.concatenate([values[v] for v, (n, _) in self._places[0].items() if n == size]) for size in singles]
        nodes = _in_order(places, [b.ravel() for b in singles.values()]) if singles else mu
        return mu, log_z, nodes, found


def _in_order(places: Iterable[np.ndarray], values: Iterable[jax.Array]) -> jax.Array:
    """Values put where they belong in one vector."""
    return jnp.concatenate(list(values))[np.argsort(np.concatenate(list(places)))]


def forest_shares(scopes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """The share of spanning forests of the factor graph that hold each factor; every factor is in at least one.

    Forests are grown at random, the factors that were chosen least first, so that shares come out even.
    """
    draw = random.Random(0)
    chosen = np.zeros(len(scopes))
    rounds = 0
    while rounds < _FORESTS or chosen.min(initial=1) == 0:
        component = list(range(1 + max((v for scope in scopes for v in scope), default=0)))

        def root(v: int, component: list[int] = component) -> int:
            while component[v] != v:
                component[v] = component[component[v]]
                v = component[v]
            return v

        for i in sorted(range(len(scopes)), key=lambda i: (chosen[i], draw.random())):
            roots = [root(v) for v in scopes[i]]
            if len(set(roots)) == len(roots):
                chosen[i] += 1
                for other in roots[1:]:
                    component[other] = roots[0]
        rounds += 1
    return chosen / rounds


@lru_cache(maxsize=128)
def _loopy(
    domain: Domain,
    cliques: Structure | tuple[Any, ...],
    reweighted: bool,
    damping: float,
    tolerance: float,
    iterations: int,
) -> Loopy:
    return Loopy(domain, Structure.of(cliques, domain).cliques, reweighted, damping, tolerance, iterations)
