"""How smooth the log-potentials are along the values of an attribute: part of the default learner's prior.

Effects of age, income or hours change little from one value to the next. In a basis of cosines along the values, wave
k of an attribute of n values (k half waves, k = 1 ... n - 1) then has a variance of

    s_k  =  (1 + a k^-3) / (mean of these over k)

times that of its part of the table: the sum of what knows no order and of a smooth curve. A table has the product over
its attributes. The amount a, one per attribute for interactions and one for effects of fewer attributes, comes from the
tables; a = 0, where they show no smoothness along the order of the values, is a prior that knows none. Attributes
without a table of their own keep it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from quietfield.learning.problem import Shape, Waves, cosines, find_interactions, from_waves, to_waves

_POWER = 3.0  # 2, a random walk, and 4, a spline, were as good
_AMOUNTS = np.concatenate([[0.0], np.geomspace(0.5, 1e4, 35)])  # that are tried
_EXPECTED = 20.0  # parameters without smoothness that every attribute has seen
_FEWEST, _MOST = 3, 300  # values of an attribute that may be smooth: more would need large matrices


class Stack(NamedTuple):
    """Tables of one shape that may be smooth."""

    start: int  # in the parameter vector
    shape: tuple[int, ...]
    tables: slice
    cells: slice
    attributes: np.ndarray  # (tables, axes): positions of the attributes in the domain


@dataclass(frozen=True, eq=False)
class Smoothness:
    """The amounts of all attributes."""

    shape: Shape
    amounts: np.ndarray  # (2, attributes): of interactions, and of effects of fewer attributes

    @classmethod
    def none(cls, shape: Shape) -> "Smoothness":
        return cls(shape, np.zeros((2, len(shape.domain))))

    @cached_property
    def factors(self) -> dict[int, np.ndarray]:
        """s of each wave, for the stacks that hold a smooth attribute, by where they start."""
        return {
            stack.start: _factors(self.amounts, stack)
            for stack in _stacks(self.shape)
            if self.amounts[:, stack.attributes].any()
        }

    def by_table(self) -> Iterator[tuple[slice, int, np.ndarray]]:
        """(cells, position, s of each wave) of the tables in :attr:`factors`."""
        for stack in _stacks(self.shape):
            for i, factors in enumerate(self.factors.get(stack.start, ())):
                first = stack.start + i * factors.size
                yield slice(first, first + factors.size), stack.tables.start + i, factors

    def root(self, name: str) -> np.ndarray | None:
        """The root of the covariance of an attribute's own effect, before any scale; None where it is not smooth."""
        position = self.shape.domain.position(name)
        if not self.amounts[1, position]:
            return None
        return from_waves(from_waves(np.diag(np.sqrt(self.curve(1, position))), 1).T, 1)

    def waves(self, power: float, kind: Any = np.float64) -> dict[int, Waves]:
        """Powers of :attr:`factors`, as :meth:`.Shape.weigh` takes them."""
        if (power, kind) not in self._powers:
            self._powers[power, kind] = {
                stack.start: self._matrices(stack, power, kind)
                if len(stack.shape) <= 2 and max(stack.shape) <= _MOST
                else (self.factors[stack.start] ** power).astype(kind)
                for stack in _stacks(self.shape)
                if stack.start in self.factors
            }
        return self._powers[power, kind]

    @cached_property
    def _powers(self) -> dict[tuple[float, Any], dict[int, Waves]]:
        return {}

    def _matrices(self, stack: Stack, power: float, kind: Any) -> list[tuple[np.ndarray, ...]]:
        """Per axis, what the factors do along it: to interactions, and to effects, which keep their mean on axis 0."""

        def along(part: int, name: int, axis: int) -> np.ndarray:
            s = self.curve(part, name) ** power
            s[0] = float(part == 1 and axis == 0)
            basis = cosines(len(s), kind)
            return (basis.T * s.astype(kind)) @ basis

        names = stack.attributes.T
        return [
            tuple(np.stack([along(part, name, axis) for name in names[axis]]) for part in range(2))
            for axis in range(len(stack.shape))
        ]

    def product(self, kind: int, names: tuple[str, ...]) -> np.ndarray:
        """s of the waves along all of some attributes, the last one running fastest."""
        found = np.ones(1)
        for name in names:
            found = np.outer(found, self.curve(kind, self.shape.domain.position(name))[1:]).ravel()
        return found

    def flatten(self, theta: np.ndarray) -> np.ndarray:
        """The parameters with each wave divided by the root of its s: all waves alike."""
        ones = np.ones(len(self.shape.groups))
        return self.shape.weigh(theta, ones, ones, self.waves(-0.5, theta.dtype.type))

    def curve(self, kind: int, attribute: int) -> np.ndarray:
        """s of the waves of one attribute, the constant first."""
        return _curve(self.amounts[kind, attribute], self.shape.domain.shape[attribute])

    def learn(self, theta: np.ndarray, variances: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> "Smoothness":
        """The amounts of highest evidence at a fit.

        With e_k the sum of squares of the waves k of an attribute, in units of their variance without s_k, and g_k how
        many of them the tables determine, s takes the place of a scale in MacKay's update: it maximises
        -1/2 sum_k (g_k log s_k) - 1/2 (sum_k g_k) log sum_k (e_k / s_k), and some parameters without smoothness are
        added. ``pairs`` are probes and what the tables determine of them, or the unit vectors and theirs.
        """
        shape = self.shape
        largest = max((size for size in shape.domain.shape if size <= _MOST), default=1)
        energy, known = np.zeros((2, 2, len(shape.domain), largest))
        for stack in _stacks(shape):
            axes = len(stack.shape)
            held = [x[..., stack.cells].reshape(*x.shape[:-1], -1, *stack.shape) for x in (theta, *pairs)]
            waves = to_waves(held[0], axes)
            determined = (to_waves(held[1], axes) * to_waves(held[2], axes)).mean(0)
            inside = find_interactions(stack.shape)
            for kind in range(2):
                part = inside if kind == 0 else ~inside
                unit = variances[kind, stack.tables].reshape(-1, *(1,) * axes)
                squares = waves**2 / (unit * _factors(self.amounts, stack)) * part
                for axis, size in enumerate(stack.shape):
                    if not _FEWEST <= size <= _MOST:
                        continue
                    others = tuple(1 + i for i in range(axes) if i != axis)
                    names = stack.attributes[:, axis]
                    own = np.stack([self.curve(kind, name) for name in names])
                    np.add.at(energy[kind, :, :size], names, squares.sum(others) * own)
                    np.add.at(known[kind, :, :size], names, (determined * part).sum(others))
        sizes = np.array(shape.domain.shape)
        amounts = _best_amounts(energy[..., 1:], np.maximum(known[..., 1:], 0), sizes)
        # From pairs alone the scale of effects is too uncertain: tails of attributes of many values would get lost.
        alone = {group[0][0] for group in shape.groups if len(group[0]) == 1}
        return Smoothness(shape, amounts * [name in alone for name in shape.domain])


def _best_amounts(energy: np.ndarray, known: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The amounts for (kinds, attributes, waves) of energies and of numbers of parameters that are known."""
    k = np.arange(1.0, energy.shape[-1] + 1)
    there = k < sizes[:, None]
    expected = _EXPECTED * there / np.maximum(sizes - 1, 1)[:, None]

    def evidence(amount: float) -> np.ndarray:
        s = 1 + amount * k**-_POWER
        level = np.log(np.maximum((energy / s).sum(-1), 1e-300))
        added = (expected * (np.log(s) + 1 / s)).sum(-1)
        return -0.5 * ((known * np.log(s)).sum(-1) + known.sum(-1) * level + added)

    return _AMOUNTS[np.stack([evidence(amount) for amount in _AMOUNTS]).argmax(0)]


@lru_cache(maxsize=4096)
def _curve(amount: float, size: int) -> np.ndarray:
    s = np.ones(size)
    if size > 1:
        s[1:] += amount * np.arange(1.0, size) ** -_POWER
        s[1:] /= s[1:].mean()
    s.flags.writeable = False  # it is remembered
    return s


def _factors(amounts: np.ndarray, stack: Stack) -> np.ndarray:
    """s of each wave of the tables of a stack: (tables, *shape)."""
    many, axes = stack.attributes.shape
    found = np.ones((2, many, *stack.shape))
    for axis, size in enumerate(stack.shape):
        along = [size if i == axis else 1 for i in range(axes)]
        for kind in range(2):
            curves = [_curve(amounts[kind, name], size) for name in stack.attributes[:, axis]]
            found[kind] *= np.reshape(curves, (many, *along))
    return np.where(find_interactions(stack.shape), found[0], found[1])


@lru_cache(maxsize=64)
def _stacks(shape: Shape) -> list[Stack]:
    """The tables that may be smooth."""
    found, table = [], 0
    for start, count, sizes in shape.stacks:
        tables = slice(table, table + count)
        table += count
        if any(_FEWEST <= size <= _MOST for size in sizes):
            names = [[shape.domain.position(name) for name in group[0]] for group in shape.groups[tables]]
            cells = slice(start, start + count * prod(sizes))
            found.append(Stack(start, sizes, tables, cells, np.array(names)))
    return found
