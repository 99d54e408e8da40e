"""Drawing records from a model exactly, by the chain rule; ``gibbs.py`` is for models that are too large for it.

Records are drawn in chunks whose random streams depend on the seed alone, so that the same seed gives the same records
whatever the number of threads.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import index
from typing import Any

import numpy as np

from quietfield.domain import Domain
from quietfield.errors import Error, TooLarge
from quietfield.inference.elimination import Factor, conditionals
from quietfield.memory import available_memory, readable_bytes

_GOLDEN = (5**0.5 - 1) / 2  # its multiples fill the unit interval most evenly, however many are taken
CHUNK = 1 << 16  # records drawn at a time: columns of this length stay in a core's cache


def sample_ancestral(
    domain: Domain, factors: Sequence[Factor], count: int, seed: int | None, *, even: bool = False
) -> list[np.ndarray]:
    """Exact records, as one column of codes an attribute: independent, or spread evenly (:func:`_spread_evenly`)."""
    check_memory(domain, count, even=even)
    drawn = [_Draw(domain, *part) for part in conditionals(domain.shape, factors)]
    inside = {draw.attribute for draw in drawn}
    free = [v for v in range(len(domain)) if v not in inside]
    columns: list[np.ndarray] = [np.empty(count, code_type(size)) for size in domain.shape]
    root = np.random.SeedSequence(seed)
    if even:
        random = np.random.Generator(np.random.SFC64(root))
        known: dict[int, np.ndarray] = {}
        for draw in drawn:
            known[draw.attribute] = draw(known, _spread_evenly(draw.rows(known, count), random))
        for v in free:
            codes = (_spread_evenly(np.zeros(count, np.intp), random) * domain.shape[v]).astype(np.intp)
            known[v] = np.minimum(codes, domain.shape[v] - 1)  # a number just below 1 may round to it
        return [known[v].astype(column.dtype) for v, column in enumerate(columns)]

    def fill(start: int, sequence: np.random.SeedSequence) -> None:
        stop = min(start + CHUNK, count)
        random = np.random.Generator(np.random.SFC64(sequence))
        chunk: dict[int, np.ndarray] = {}
        for draw in drawn:
            chunk[draw.attribute] = draw(chunk, random.random(stop - start))
        for v in free:
            chunk[v] = random.integers(domain.shape[v], size=stop - start)
        for v, codes in chunk.items():
            columns[v][start:stop] = codes

    starts = range(0, count, CHUNK)
    with ThreadPoolExecutor(min(len(starts) or 1, os.cpu_count() or 1)) as pool:
        for done in [pool.submit(fill, *job) for job in zip(starts, root.spawn(len(starts)), strict=True)]:
            done.result()
    return columns


def _spread_evenly(groups: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Numbers between 0 and 1 that lie evenly in each group, in a random order: systematic sampling.

    Each is uniform, so that every record has the distribution that an independent one has; but of a group of g records,
    the number that draws a value of probability p is g p rounded up or down. Where groups begin steps by the golden
    ratio from one to the next, so that neighbouring groups, which differ in few attributes, are even together, too:
    many groups have a single record.
    """
    shuffled = random.permutation(len(groups))  # anew for each attribute, else two of them would go together
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    ranks = np.arange(len(groups)) - np.repeat(starts, sizes)
    found = np.empty(len(groups))
    begin = (random.random() + _GOLDEN * np.arange(len(sizes))) % 1
    found[order] = (ranks + np.repeat(begin, sizes)) / np.repeat(sizes, sizes)
    return found


def check_memory(domain: Domain, count: int, *, even: bool = False, values: bool = False) -> None:
    """Refuse so many records that they would not fit into memory.

    Args:
        domain: The attributes.
        count: How many records.
        even: Whether they are spread evenly, which holds all columns, and orders of them, in 64 bits.
        values: Whether codes become values of the source's types afterwards.

    Raises:
        TooLarge: They would not fit.
    """
    each = sum(np.dtype(code_type(size)).itemsize for size in domain.shape)
    need = count * (each + (8 * len(domain) + 80 if even else 0) + (16 * len(domain) if values else 0))
    if need > available_memory():
        raise TooLarge(
            f"{count:,} records of {len(domain)} attributes need about {readable_bytes(need)}, and "
            f"{readable_bytes(available_memory())} is free; say how many to draw (--rows, or n): fewer at a "
            "time, each time with another seed."
        )


class _Draw:
    """Draws one attribute given those it depends on, by binary search in the rows of a cumulative table.

    Rows are padded to a power of two, so that every record takes the same number of branch-free steps.
    """

    def __init__(self, domain: Domain, attribute: int, given: tuple[int, ...], log_table: np.ndarray) -> None:
        self.attribute, self.given = attribute, given
        self.strides = np.cumprod([1, *(domain.shape[v] for v in reversed(given))])[-2::-1].tolist() if given else []
        size = domain.shape[attribute]
        self.width = 1 << max(size - 1, 0).bit_length()
        table = np.exp(log_table).reshape(size, -1).T
        cumulative = np.cumsum(table, axis=1)
        # From the last possible value on, the sum is 1 but for rounding; nothing beyond it may ever be drawn.
        last = size - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
        cumulative[np.arange(size) >= last[:, None]] = 2.0
        padded = np.full((len(table), self.width), 2.0)
        padded[:, :size] = cumulative
        self.table = padded.ravel()

    def rows(self, chunk: dict[int, np.ndarray], count: int) -> np.ndarray:
        """Where the row of the table begins that each record draws from."""
        base = np.zeros(count, np.intp)
        for v, stride in zip(self.given, self.strides, strict=True):
            base += chunk[v] * (stride * self.width)
        return base

    def __call__(self, chunk: dict[int, np.ndarray], uniform: np.ndarray) -> np.ndarray:
        base = self.rows(chunk, len(uniform))
        place = base.copy()
        step = self.width >> 1
        while step:
            place += step * (self.table.take(place + (step - 1)) <= uniform)
            step >>= 1
        place -= base
        return place


def check_whole(what: str, value: Any, least: int) -> int:
    """A whole number of at least so much, or an error that says what it is for."""
    try:
        number = index(value) if not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None or number < least:
        raise Error(f"{what} is a whole number of {least} or more, not {value!r}.")
    return number


def code_type(size: int) -> type:
    """The smallest type that holds the codes of so many values."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.int64
