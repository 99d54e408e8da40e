"""Exact inference: all clique marginals and log Z in one compiled call.

Variables are summed out in the order of the plan; the marginals are the gradient of log Z with respect to the
log-potentials (Darwiche 2003), so that the way back costs about two more forward passes. Three kernels compute it:

* ``plain``: tables are exponentiated and multiplied as they are: fastest, where nothing can leave float range;
* ``scaled``: each message is divided by its maximum, whose logarithm is added up;
* ``log``: sums of logarithms, for extreme potentials.

Which is safe follows from the spans (maximum minus minimum) of the potentials and is chosen for the caller.

Long models repeat one step many times. Steps of equal shape run in one batched operation where they do not depend on
each other, and as one scanned loop where they form a path; otherwise compilation would grow with the model.

Glossary: theta log-potentials (flat vector), psi = exp(theta - max), mu marginals (flat vector), A = log Z.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import log, prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.cliques import Structure, hashable
from quietfield.domain import Domain
from quietfield.inference.layout import IMPOSSIBLE, Layout
from quietfield.inference.plan import EliminationPlan, EliminationStep, plan_elimination

KERNELS = ("plain", "scaled", "log")
SHORTEST_RUN = 24  # fewer equal steps in a row run faster one by one, and compile in seconds


class Signature(NamedTuple):
    """The shape of a step: two steps with one signature run the same code."""

    sizes: tuple[int, ...]  # of the bag's axes
    factors: tuple[tuple[int, ...], ...]  # each factor's axes, as positions in the bag
    masks: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Block:
    """Steps that run together: independent ones as a batch, a path of them as a loop."""

    signature: Signature
    steps: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]  # per slot of the signature, the factor of every step
    masks: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]
    carried: int | None  # for a loop, the slot of the message that one step hands to the next


@dataclass(frozen=True, eq=False)
class Exact:
    """Compiled exact inference for one domain and set of cliques. Get it from :meth:`of`."""

    plan: EliminationPlan

    name = "exact"

    @classmethod
    def of(cls, domain: Domain, cliques: Structure | Iterable[str | Iterable[str]]) -> "Exact":
        """Planned and compiled once a structure; refused at the first call if it would not fit in memory."""
        try:
            return _exact(domain, cliques)  # type: ignore[arg-type]
        except TypeError:  # lists cannot be looked up
            return _exact(domain, hashable(cliques))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return _blocks(self.plan)

    @cached_property
    def layout(self) -> Layout:
        """Tables in the order in which blocks read them, axes by elimination rank."""
        order = tuple(f for block in self.blocks for slot in block.factors for f in slot)
        axes = tuple(
            tuple(clique.index(self.plan.domain.attributes[v]) for v in scope)
            for clique, scope in zip(self.plan.cliques, self.plan.scopes, strict=False)
        )
        return Layout(self.plan.domain, self.plan.cliques, order, axes)

    @cached_property
    def _groups(self) -> tuple[tuple[int, int, int], ...]:
        """Stretches of the vector that hold tables of equal size: (start, number of tables, cells of each)."""
        groups: list[list[int]] = []
        start = 0
        for size in self.layout.sizes:
            if groups and groups[-1][2] == size:
                groups[-1][1] += 1
            else:
                groups.append([start, 1, size])
            start += size
        return tuple((a, n, c) for a, n, c in groups)

    @cached_property
    def _reach(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plan's reach for one sweep over all steps: places in the vector's order, starts of steps, log terms."""
        at = {f: i for i, f in enumerate(self.layout.order)}
        rows = [(row, terms) for row, terms in zip(self.plan.reach, self.plan.log_terms, strict=True) if row]
        starts = np.cumsum([0, *(len(row) for row, _ in rows)])[:-1]
        return np.array([at[f] for row, _ in rows for f in row]), starts, np.array([terms for _, terms in rows])

    @cached_property
    def _log_cells(self) -> float:
        return sum(log(size) for size in self.plan.domain.shape)

    @cached_property
    def _free_log_cells(self) -> float:
        return float(sum(log(self.plan.domain.shape[v]) for v in self.plan.free))

    def kernel(self, theta: np.ndarray) -> str:
        """The fastest kernel that is safe for these parameters (of one model, or of each row)."""
        if not theta.size:
            return "plain"
        rows = theta.reshape(-1, theta.shape[-1])
        # Terms may shrink to exp(-room), and gradients grow to exp(room), before floats run out of exponents.
        room = 650.0 if theta.dtype == np.float64 else 80.0
        room_plain = room - self._log_cells
        # A coarse bound first: it settles ordinary models in one pass over the vector.
        if 2 * float(np.abs(rows).max()) * len(self.layout.sizes) <= room_plain:
            return "plain"
        spans = np.concatenate([_span(rows[:, a : a + n * c].reshape(len(rows), n, c)) for a, n, c in self._groups], 1)
        if float(spans.sum(1).max()) <= room_plain:
            return "plain"
        places, starts, terms = self._reach
        worst = (np.add.reduceat(spans[:, places], starts, axis=1) + terms).max()
        return "scaled" if worst <= room else "log"

    def log_partition(self, theta: jax.Array) -> jax.Array:
        """A(theta), a pure function that JAX can differentiate, batch and compile."""
        return self.marginals_and_log_partition(theta)[1]

    def marginals_and_log_partition(self, theta: jax.Array, kernel: str = "scaled") -> tuple[jax.Array, jax.Array]:
        """(mu, A) of the flat theta; pure. mu = dA/dtheta."""
        if kernel == "log":
            log_z, mu = jax.value_and_grad(partial(self._sum_out, kernel="log"))(self._split(theta))
            return _join(mu, theta), log_z + self._free_log_cells
        tops = [theta[a : a + n * c].reshape(n, c).max(1, keepdims=True) for a, n, c in self._groups]
        psi = [
            jnp.exp(theta[a : a + n * c].reshape(n, c) - top).ravel()
            for (a, n, c), top in zip(self._groups, tops, strict=True)
        ]
        flat = _join(psi, theta)
        log_z, slopes = jax.value_and_grad(partial(self._sum_out, kernel=kernel))(self._split(flat))
        return flat * _join(slopes, theta), log_z + sum(top.sum() for top in tops) + self._free_log_cells

    def run(self, theta: np.ndarray, kernel: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(mu, A) on the host, compiled at first use; rows of theta are a batch."""
        kernel = kernel or self.kernel(theta)
        rows = len(theta) if theta.ndim > 1 else 1
        cleared = self.__dict__.setdefault("_cleared", {})  # the largest batch that was found to fit
        if rows > cleared.get((kernel, theta.dtype.itemsize), 0):
            self.plan.check_memory(log_space=kernel == "log", rows=rows, itemsize=theta.dtype.itemsize)
            cleared[kernel, theta.dtype.itemsize] = rows
        with jax.enable_x64(theta.dtype == np.float64):
            found = self.compiled(kernel, theta.ndim > 1)(theta)
            mu, log_z = np.asarray(found[0]), np.asarray(found[1])
        if kernel == "scaled" and not np.isfinite(mu).all():  # beyond every bound that we know of
            return self.run(theta, "log")
        return mu, log_z

    def compiled(self, kernel: str, batch: bool = False) -> Callable[[Any], tuple[jax.Array, jax.Array]]:
        """The jitted function of one kernel."""
        cache = self.__dict__.setdefault("_compiled", {})
        if (kernel, batch) not in cache:
            call = partial(self.marginals_and_log_partition, kernel=kernel)
            cache[kernel, batch] = jax.jit(jax.vmap(call) if batch else call)
        return cache[kernel, batch]

    def _split(self, flat: jax.Array) -> list[jax.Array]:
        """One array per block and slot. Leaves of their own, or each backward step would touch the whole vector."""
        leaves, start = [], 0
        for block in self.blocks:
            for slot, axes in zip(block.factors, block.signature.factors, strict=True):
                shape = tuple(block.signature.sizes[i] for i in axes)
                size = len(slot) * prod(shape)
                leaves.append(flat[start : start + size].reshape(len(slot), *shape))
                start += size
        return leaves

    def _sum_out(self, leaves: list[jax.Array], kernel: str) -> jax.Array:
        """log Z from the tables by block; in linear space they are psi, in log space theta."""
        step = _log_step if kernel == "log" else partial(_linear_step, scaled=kernel == "scaled")
        dtype = leaves[0].dtype if leaves else jnp.result_type(float)
        messages: dict[int, tuple[jax.Array, int]] = {}  # step -> (messages of its block, place among them)
        log_z = jnp.zeros((), dtype)
        taken = iter(leaves)
        for block in self.blocks:
            tables = [next(taken) for _ in block.factors]
            masks = [jnp.asarray(self._mask(slot, kernel), dtype) for slot in block.masks]
            sides = [
                None if slot == block.carried else _gather(messages, children)
                for slot, children in enumerate(block.children)
            ]
            if block.carried is not None:
                stacked, at = messages[block.children[block.carried][0]]
                message, logs = _loop(step, block, tables, masks, sides, stacked[at])
                messages[block.steps[-1]] = (message[None], 0)
                log_z = log_z + logs
                if not message.ndim:
                    log_z = log_z + (message if kernel == "log" else jnp.log(message))
                continue
            inputs = (tables, masks, sides)
            if len(block.steps) == 1:
                out, logs = step(block.signature, *jax.tree.map(lambda leaf: leaf[0], inputs))
                out = out[None]
            else:
                out, logs = jax.vmap(partial(step, block.signature))(*inputs)
            log_z = log_z + jnp.sum(logs)
            if out.ndim == 1:  # nothing is left: a connected part of the model is done
                log_z = log_z + jnp.sum(out if kernel == "log" else jnp.log(out))
            messages.update({s: (out, i) for i, s in enumerate(block.steps)})
        return log_z

    def _mask(self, slot: tuple[int, ...], kernel: str) -> np.ndarray:
        """The masks of one slot, axes by elimination rank, as factors of the kernel's kind."""
        domain = self.plan.domain
        scopes = [tuple(domain.attributes[v] for v in self.plan.scopes[f]) for f in slot]
        possible = np.stack([domain.mask_over(scope) for scope in scopes])
        return np.where(possible, 0.0, IMPOSSIBLE) if kernel == "log" else possible.astype(float)


@lru_cache(maxsize=256)
def _exact(domain: Domain, cliques: Any) -> Exact:
    return Exact(plan_elimination(domain, cliques))


def _span(tables: np.ndarray) -> np.ndarray:
    return tables.max(-1) - tables.min(-1)


def _join(leaves: list[jax.Array], like: jax.Array) -> jax.Array:
    flat = [leaf.ravel() for leaf in leaves]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat) if flat else jnp.zeros_like(like)


def _gather(messages: dict[int, tuple[jax.Array, int]], children: tuple[int, ...]) -> jax.Array:
    """The messages of some steps, stacked; a stretch of one block's messages is sliced, not copied one by one."""
    source, start = messages[children[0]]
    if all(messages[c][0] is source and messages[c][1] == start + i for i, c in enumerate(children)):
        return source[start : start + len(children)]
    return jnp.stack([messages[c][0][messages[c][1]] for c in children])


def _linear_step(
    signature: Signature, tables: list[Any], masks: list[Any], sides: list[Any], scaled: bool
) -> tuple[jax.Array, jax.Array]:
    """Multiply the inputs and sum the bag's first axis out: (message, logarithm of its scale)."""
    scopes = (*signature.factors, *signature.masks, *signature.children)
    merged: dict[tuple[int, ...], Any] = {}  # tables over the same axes first: many of them meet at a hub
    for scope, table in zip(scopes, (*tables, *masks, *sides), strict=True):
        merged[scope] = merged[scope] * table if scope in merged else table
    out = tuple(range(1, len(signature.sizes)))
    terms = [part for scope, table in merged.items() for part in (table, scope)]
    # The search for the best order of products is exhaustive, and takes hours from a dozen tables on.
    path = "optimal" if len(merged) <= 6 else "dp"
    message = jnp.einsum(*terms, out, optimize=path, precision=jax.lax.Precision.HIGHEST)
    if not scaled or not out:
        return message, jnp.zeros((), message.dtype)
    # The scale cancels in log Z, so no gradient need flow through it.
    top = jax.lax.stop_gradient(message.max())
    top = jnp.where(top > 0, top, 1.0)
    return message / top, jnp.log(top)


def _log_step(
    signature: Signature, tables: list[Any], masks: list[Any], sides: list[Any]
) -> tuple[jax.Array, jax.Array]:
    """The same with logarithms: add the inputs, log-sum-exp over the bag's first axis."""
    total = jnp.zeros((1,) * len(signature.sizes), [*tables, *masks, *sides][0].dtype)
    scopes = (*signature.factors, *signature.masks, *signature.children)
    for scope, table in zip(scopes, [*tables, *masks, *sides], strict=True):
        total = total + table.reshape([n if i in scope else 1 for i, n in enumerate(signature.sizes)])
    total = jnp.broadcast_to(total, signature.sizes)
    return jax.scipy.special.logsumexp(total, axis=0), jnp.zeros((), total.dtype)


def _loop(
    step: Callable[..., tuple[jax.Array, jax.Array]],
    block: Block,
    tables: list[jax.Array],
    masks: list[jax.Array],
    sides: list[jax.Array | None],
    message: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """A path of equal steps as one scan."""

    def body(carry: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        tables, masks, sides = row
        sides = [carry if i == block.carried else side for i, side in enumerate(sides)]
        return step(block.signature, tables, masks, sides)

    message, logs = jax.lax.scan(body, message, (tables, masks, sides))
    return message, logs.sum()


def _blocks(figures: EliminationPlan) -> tuple[Block, ...]:
    """Group the steps of a plan into paths and batches, children before parents."""
    steps = figures.steps
    parts = [_parts(figures, step) for step in steps]
    parent = {child: i for i, step in enumerate(steps) for child in step.children}
    inside: dict[int, tuple[int, ...]] = {}  # every step of a path -> the path
    slot_of: dict[tuple[int, ...], int] = {}
    for i in range(len(steps)):
        if i in inside:
            continue
        found, slot = [i], None
        while (up := parent.get(found[-1])) is not None and parts[up][0] == parts[i][0] and up not in inside:
            place = parts[up][3].index(found[-1])
            if slot is not None and place != slot:
                break
            slot = place
            found.append(up)
        if slot is not None and len(found) >= SHORTEST_RUN:
            inside.update(dict.fromkeys(found, tuple(found)))
            slot_of[tuple(found)] = slot
    height: dict[int, int] = {}
    groups: dict[tuple[int, Any], list[tuple[int, ...]]] = {}
    for i, step in enumerate(steps):
        path = inside.get(i)
        if path is None:
            height[i] = 1 + max((height[child] for child in step.children), default=-1)
            groups.setdefault((height[i], parts[i][0]), []).append((i,))
        elif i == path[-1]:
            outside = [c for s in path for c in steps[s].children if c not in path]
            height.update(dict.fromkeys(path, 1 + max((height[c] for c in outside), default=-1)))
            groups.setdefault((height[i], path), []).append(path)
    blocks = []
    for (_, key), members in sorted(groups.items(), key=lambda item: (item[0][0], item[1])):
        chosen = tuple(i for path in members for i in path)
        signature, *_ = parts[chosen[0]]
        factors, masks, children = (tuple(zip(*(parts[i][k] for i in chosen), strict=True)) for k in (1, 2, 3))
        blocks.append(Block(signature, chosen, factors, masks, children, carried=slot_of.get(key)))
    return tuple(blocks)


def _parts(
    figures: EliminationPlan, step: EliminationStep
) -> tuple[Signature, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A step's signature, and its factors, masks and children in the order of the signature's slots."""
    place = {v: i for i, v in enumerate(step.bag)}

    def local(scope: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place[v] for v in scope)

    count = len(figures.cliques)
    factors = sorted((local(figures.scopes[f]), f) for f in step.factors if f < count)
    masks = sorted((local(figures.scopes[f]), f) for f in step.factors if f >= count)
    children = sorted((local(figures.steps[c].message), c) for c in step.children)
    signature = Signature(
        tuple(figures.domain.shape[v] for v in step.bag),
        *(tuple(scope for scope, _ in found) for found in (factors, masks, children)),
    )
    return signature, *(tuple(i for _, i in found) for found in (factors, masks, children))  # type: ignore[return-value]
