"""The steps of private gradient descent on the device: many settings in one compiled loop.

The host draws batches and noise, for a block of steps at a time, from the operating system's entropy (a seed replaces
it in simulations); the device runs the block. Nothing is truncated: a batch larger than the room made for it makes the
room larger.

Glossary: w parameters, m = E[n] under the model (laid out as w), cells the places in w that a record is in.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Domain
from quietfield.inference.exact import Exact
from quietfield.models.model import Model

if TYPE_CHECKING:
    from experiments.psgd import Settings

BLOCK_BYTES = 2**26  # of noise and batches drawn at a time
BLOCK_STEPS = 256  # and never more steps than this: a block has one shape whatever the number of steps
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

    def _block(self, w: Any, mean: Any, cells: Any, squares: Any, draws: Any, count: Any, numbers: Any) -> Any:
        """The first ``count`` steps of several runs; ``draws`` are (batches, noise, weight in the mean) by step."""
        batches, noises, weights = draws

        def one(w: Any, batch: Any, z: Any, numbers: Any) -> Any:
            rate, clip, noise, l2 = numbers
            total = self.clipped_sum(self.expectation(w), cells, squares, batch, clip)
            return jnp.clip(w + rate * (total + noise * z) - l2 * w, -self.bound, self.bound)

        def step(t: Any, carry: Any) -> Any:
            w, mean = carry
            moved = jax.vmap(one)(w, batches[t], noises[t], numbers)
            return moved, mean + weights[t] * moved

        return jax.lax.fori_loop(0, count, step, (w, mean))

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
    """The models of all settings. Runs with as many steps and as much room for a batch go together.

    Settings that differ in ``average`` alone are two readings of one run, whose iterates cost together what it costs.
    """
    learner = field(domain, structure)
    # At least one row more than there are records: padding points to the last. Few numbers of rows, few compilations.
    cells = np.zeros((_rounded(len(codes) + 1), len(structure.cliques)), np.int32)
    cells[: len(codes)] = learner.cells(codes)
    squares = learner.squares(cells)
    groups: dict[tuple[int, int], list[list[int]]] = {}
    for readings in _paired(settings, sigmas):
        one = settings[readings[0]]
        groups.setdefault((int(one.steps), _room(one.rate * len(codes), len(codes))), []).append(readings)
    found: dict[int, Model] = {}
    with jax.enable_x64(True):
        held = jax.device_put((cells, squares))
        for (steps, room), members in groups.items():
            chosen = [(settings[readings[0]], sigmas[readings[0]]) for readings in members]
            last, mean = _together(learner, held, len(codes), chosen, steps, room, population, draws)
            for k, readings in enumerate(members):
                found.update({i: learner.model(mean[k] if settings[i].average else last[k]) for i in readings})
    return [found[i] for i in range(len(settings))]


def _paired(settings: "Sequence[Settings]", sigmas: Sequence[float]) -> list[list[int]]:
    """The numbers of the settings, those together that are the last iterate and the mean of one run."""
    runs: list[list[int]] = []
    alone: dict[tuple[Settings, float], list[list[int]]] = {}
    for i, (one, sigma) in enumerate(zip(settings, sigmas, strict=True)):
        waiting = alone.get((replace(one, average=not one.average), sigma))
        if waiting:
            waiting.pop().append(i)
        else:
            runs.append([i])
            alone.setdefault((one, sigma), []).append(runs[-1])
    return runs


def _together(
    learner: Field,
    held: Any,
    records: int,
    chosen: "list[tuple[Settings, float]]",
    steps: int,
    room: int,
    population: int,
    draws: Draws,
) -> tuple[np.ndarray, np.ndarray]:
    """The last iterate and the mean of the second half of each run."""
    runs, nobody = len(chosen), len(held[0]) - 1
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
    length = max(1, min(BLOCK_STEPS, BLOCK_BYTES // (runs * (8 * learner.size + 4 * room))))
    w = mean = np.zeros((runs, learner.size))
    averaged = steps - steps // 2  # the second half
    noise = np.zeros((length, runs, learner.size))
    for start in range(0, steps, length):
        count = min(length, steps - start)
        at = start + np.arange(length)
        batches = _padded([draws.batches(s.rate, records, count) for s, _ in chosen], length, room, nobody)
        noise[:count] = draws.normals((count, runs, learner.size))
        weights = np.where(at >= steps - averaged, 1.0 / averaged, 0.0)
        # A copy: the device may still read the last block's noise, in place, when the next is drawn.
        w, mean = learner.block(w, mean, *held, (batches, noise.copy(), weights), count, numbers)
    return np.asarray(w), np.asarray(mean)


def _room(mean: float, records: int) -> int:
    """Room for a batch of this mean size: enough nearly always, and of few different sizes, each a compilation."""
    wanted = min(mean + 6 * sqrt(mean) + 8, records)
    return _rounded(max(int(wanted), 1))


def _rounded(number: int) -> int:
    """The next of few numbers, an eighth to a quarter apart."""
    step = 2 ** max(3, number.bit_length() - 3)
    return -(-number // step) * step


def _padded(pairs: list[tuple[np.ndarray, np.ndarray]], steps: int, room: int, nobody: int) -> np.ndarray:
    """Batches as an array (step, run, chunk, record), filled up with the number of nobody's row."""
    counts = [np.bincount(step, minlength=steps) for step, _ in pairs]
    largest = max(int(count.max()) for count in counts)
    while room < largest:
        room *= 2
    chunks = -(-room // CHUNK)
    width = -(-room // chunks)
    out = np.full((steps, len(pairs), chunks * width), nobody, dtype=np.int32)
    for k, ((step, record), count) in enumerate(zip(pairs, counts, strict=True)):
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        out[step, k, np.arange(len(step)) - first[step]] = record
    return out.reshape(steps, len(pairs), chunks, width)
