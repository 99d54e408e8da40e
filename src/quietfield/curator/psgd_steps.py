"""The steps of private gradient descent on the device: many settings in one compiled loop.

The host draws batches and noise, for a block of steps at a time, from the operating system's entropy (a seed replaces
it in simulations); the device runs the block. Nothing is truncated: a batch larger than the room made for it makes the
room larger.

Glossary: w parameters, m = E[n] under the model (laid out as w), cells the places in w that a record is in.
"""

import secrets
from collections.abc import Sequence
from functools import lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.domain import Domain
from quietfield.inference.exact import Exact
from quietfield.model import Model
from quietfield.structures import Structure

if TYPE_CHECKING:
    from quietfield.curator.psgd import Settings

BLOCK_BYTES = 2**26  # of noise and batches drawn at a time
CHUNK = 2**15  # records whose gradients are summed at a time
SLACK = 1e-12  # norms are rounded up by this share, so that no rounding error lets a gradient be longer than the clip


class Draws:
    """Uniform and normal numbers from the operating system's entropy, or from a seed in simulations."""

    def __init__(self, seed: int | None = None) -> None:
        self._generator = None if seed is None else np.random.default_rng(seed)

    def uniforms(self, count: int) -> np.ndarray:
        """Numbers strictly between 0 and 1."""
        return ((self._words(count) >> np.uint64(11)) + 0.5) * 2.0**-53

    def normals(self, shape: tuple[int, ...]) -> np.ndarray:
        """Standard normal numbers, by the inverse of their distribution in one tail and a random sign."""
        from scipy.special import ndtri

        if self._generator is not None:
            return self._generator.standard_normal(shape)
        words = self._words(int(np.prod(shape)))
        tail = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-54)
        return np.where(words & np.uint64(1), tail, -tail).reshape(shape)

    def batches(self, rate: float, records: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """A Poisson sample of the records for each step, as (step, record) pairs in order.

        The gaps between the members of a Poisson sample are geometric, so the work is that of the members alone.
        """
        whole = records * steps
        if rate >= 1 or not whole:
            places = np.arange(whole)
        else:
            parts, last = [], -1
            while last < whole:
                left = rate * (whole - last)
                gaps = np.log(self.uniforms(int(left + 6 * sqrt(left)) + 16)) / np.log1p(-rate)
                part = last + np.cumsum(1 + np.minimum(gaps, whole).astype(np.int64))
                parts.append(part)
                last = int(part[-1])
            places = np.concatenate(parts)
            places = places[places < whole]
        step = places // max(records, 1)
        return step, places - step * records

    def _words(self, count: int) -> np.ndarray:
        source = secrets.token_bytes if self._generator is None else self._generator.bytes
        return np.frombuffer(source(8 * count), dtype=np.uint64)


class Field:
    """One structure, ready for gradients: where records lie in w, and the compiled block of steps."""

    def __init__(self, domain: Domain, structure: Structure) -> None:
        self.exact = Exact.of(domain, structure.cliques)
        self.domain, self.structure = domain, structure
        starts: dict[Any, int] = {}
        self.size = 0
        for group in structure.groups:
            starts.update(dict.fromkeys(group, self.size))
            self.size += domain.cells(group[0])
        self.starts = starts
        self.tied = bool(structure.ties)
        #: theta = w[spread]
        numbered = {c: starts[c] + np.arange(domain.cells(c)).reshape(domain.table_shape(c)) for c in structure.cliques}
        self.spread = self.exact.layout.pack(numbered, dtype=np.int64)
        self.back = np.argsort(self.spread)
        # Parameters stay within a box in which the fast kernel cannot leave float range. It is far beyond any useful
        # model (odds of exp(24) and more), and without it a run that diverges would end in NaN.
        plan = self.exact.plan
        most = max((len(row) for row in plan.reach), default=1) or 1
        self.bound = min((600.0 - log(plan.largest_table)) / (2 * most), 50.0)
        self.kernel = "scaled"
        if self.bound < 12.0:
            self.kernel, self.bound = "log", 50.0
        self.block = jax.jit(self._block)

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Where each record lies in w, one column a clique."""
        columns = []
        for clique in self.structure.cliques:
            index = [codes[:, self.domain.position(name)] for name in clique]
            columns.append(self.starts[clique] + np.ravel_multi_index(index, self.domain.table_shape(clique)))
        return np.stack(columns, axis=1).astype(np.int32)

    def squares(self, cells: np.ndarray) -> np.ndarray:
        """|n_i|^2: the number of cliques, unless tied ones fall into one cell."""
        if not self.tied:
            return np.full(len(cells), float(cells.shape[1]))
        ranked = np.sort(cells, axis=1)
        total, run = np.zeros(len(cells)), np.zeros(len(cells))
        for k in range(ranked.shape[1]):  # a run of r equal cells adds 1 + 3 + ... + (2r - 1) = r^2
            same = ranked[:, k] == ranked[:, k - 1] if k else np.zeros(len(cells), bool)
            run = np.where(same, run + 1, 1.0)
            total += 2 * run - 1
        return total

    def expectation(self, w: jax.Array) -> jax.Array:
        """m(w)."""
        mu, _ = self.exact.marginals_and_log_partition(w[self.spread], self.kernel)
        return jnp.zeros_like(w).at[self.spread].add(mu) if self.tied else mu[self.back]

    def clipped_sum(
        self, m: jax.Array, cells: jax.Array, squares: jax.Array, batch: jax.Array, clip: jax.Array
    ) -> jax.Array:
        """The sum over a batch of min(1, clip/|g|) g with g = n - m; places beyond the last record are padding."""
        length = m @ m

        def add(carry: tuple[jax.Array, jax.Array], part: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            counts, weight = carry
            inside, square = cells[part], squares[part]
            norm = jnp.sqrt(jnp.maximum(square - 2 * m[inside].sum(-1) + length, 0.0) + SLACK * (square + length))
            factor = jnp.where(part < len(cells) - 1, jnp.minimum(1.0, clip * (1 - SLACK) / norm), 0.0)
            return (counts.at[inside].add(factor[:, None]), weight + factor.sum()), None

        start = (jnp.zeros_like(m), jnp.zeros((), m.dtype))
        (counts, weight), _ = jax.lax.scan(add, start, batch)
        return counts - weight * m

    def _block(self, w: Any, mean: Any, cells: Any, squares: Any, draws: Any, numbers: Any) -> Any:
        """Some steps of several runs; ``draws`` are (batches, noise, whether it is a step, its weight in the mean)."""

        def one(w: Any, batch: Any, z: Any, numbers: Any) -> Any:
            rate, clip, noise, l2 = numbers
            total = self.clipped_sum(self.expectation(w), cells, squares, batch, clip)
            return jnp.clip(w + rate * (total + noise * z) - l2 * w, -self.bound, self.bound)

        def step(carry: Any, drawn: Any) -> Any:
            w, mean = carry
            batch, z, active, weight = drawn
            moved = jnp.where(active, jax.vmap(one)(w, batch, z, numbers), w)
            return (moved, mean + weight * moved), None

        return jax.lax.scan(step, (w, mean), draws)[0]

    def model(self, w: np.ndarray) -> Model:
        """The field with parameters w."""
        tables: dict[Any, np.ndarray] = {**self.exact.layout.unpack(w[self.spread])}
        return Model(self.domain, tables)


@lru_cache(maxsize=64)
def field(domain: Domain, structure: Structure) -> Field:
    """Compiled once a structure."""
    return Field(domain, structure)


def run(
    domain: Domain,
    structure: Structure,
    codes: np.ndarray,
    settings: "Sequence[Settings]",
    sigmas: Sequence[float],
    population: int,
    draws: Draws,
) -> list[Model]:
    """The models of all settings. Runs with as many steps and as much room for a batch go together."""
    learner = field(domain, structure)
    # One row more than there are records: padding points to it.
    cells = np.concatenate([learner.cells(codes), np.zeros((1, len(structure.cliques)), np.int32)])
    squares = learner.squares(cells)
    groups: dict[tuple[int, int], list[int]] = {}
    for i, one in enumerate(settings):
        groups.setdefault((int(one.steps), _room(one.rate * len(codes), len(codes))), []).append(i)
    found: dict[int, Model] = {}
    with jax.enable_x64(True):
        held = jax.device_put((cells, squares))
        for (steps, room), members in groups.items():
            chosen = [(settings[i], sigmas[i]) for i in members]
            for i, w in zip(members, _together(learner, held, chosen, steps, room, population, draws), strict=True):
                found[i] = learner.model(w)
    return [found[i] for i in range(len(settings))]


def _together(
    learner: Field,
    held: Any,
    chosen: "list[tuple[Settings, float]]",
    steps: int,
    room: int,
    population: int,
    draws: Draws,
) -> np.ndarray:
    records, runs = len(held[0]) - 1, len(chosen)
    share = [s.learning_rate / (s.rate * population) for s, _ in chosen]
    numbers = tuple(
        np.array(column, dtype=float)
        for column in (
            share,
            [s.clip for s, _ in chosen],
            [s.clip * sigma for s, sigma in chosen],
            [s.learning_rate * s.l2 for s, _ in chosen],
        )
    )
    blocks = -(-steps // max(1, BLOCK_BYTES // (runs * (8 * learner.size + 4 * room))))
    length = -(-steps // blocks)
    w = mean = np.zeros((runs, learner.size))
    averaged = steps - steps // 2  # the second half
    for start in range(0, steps, length):
        at = start + np.arange(length)
        batches = _padded([draws.batches(s.rate, records, length) for s, _ in chosen], length, room, records)
        noise = draws.normals((length, runs, learner.size))
        weights = np.where((at >= steps - averaged) & (at < steps), 1.0 / averaged, 0.0)
        w, mean = learner.block(w, mean, *held, (batches, noise, at < steps, weights), numbers)
    averages = np.array([s.average for s, _ in chosen])[:, None]
    return np.where(averages, np.asarray(mean), np.asarray(w))


def _room(mean: float, records: int) -> int:
    """Room for a batch of this mean size: enough nearly always, and of few different sizes, each a compilation."""
    wanted = min(mean + 6 * sqrt(mean) + 8, records)
    step = 2 ** max(3, int(wanted).bit_length() - 3)
    return -(-max(int(wanted), 1) // step) * step


def _padded(pairs: list[tuple[np.ndarray, np.ndarray]], steps: int, room: int, records: int) -> np.ndarray:
    """Batches as an array (step, run, chunk, record), filled up with the number of records."""
    counts = [np.bincount(step, minlength=steps) for step, _ in pairs]
    largest = max(int(count.max()) for count in counts)
    while room < largest:
        room *= 2
    chunks = -(-room // CHUNK)
    width = -(-room // chunks)
    out = np.full((steps, len(pairs), chunks * width), records, dtype=np.int32)
    for k, ((step, record), count) in enumerate(zip(pairs, counts, strict=True)):
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        out[step, k, np.arange(len(step)) - first[step]] = record
    return out.reshape(steps, len(pairs), chunks, width)
