"""One flat vector for all tables of a model, so that a call moves one array in and one array out.

Tables keep their caller's axes outside; inside, a layout may order tables and axes as its algorithm likes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.text import join_names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: Stands for log 0 on the device, where minus infinity would give NaN gradients. No sum of potentials comes near it.
IMPOSSIBLE = -1e30
LARGEST = 1e25  # potentials beyond this are refused: they would be mistaken for impossible combinations


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each clique's table lies in the flat vector, and in which order of axes."""

    domain: Domain
    cliques: tuple[Clique, ...]  # as the caller names them
    order: tuple[int, ...]  # positions in cliques, in the order of the vector
    axes: tuple[tuple[int, ...], ...]  # per clique, the permutation of its axes inside the vector

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.domain.table_shape(clique) for clique in self.cliques)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each table, in the order of the vector."""
        return tuple(prod(self.shapes[i]) for i in self.order)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @cached_property
    def _moved(self) -> np.ndarray | None:
        """For each place of the vector, the cell of the caller's tables laid end to end; None if they agree."""
        starts = np.cumsum([0, *(prod(shape) for shape in self.shapes)])
        parts = [
            starts[i] + np.arange(prod(self.shapes[i])).reshape(self.shapes[i]).transpose(self.axes[i]).ravel()
            for i in self.order
        ]
        moved = np.concatenate(parts) if parts else np.zeros(0, int)
        return None if np.array_equal(moved, np.arange(moved.size)) else moved

    @cached_property
    def _back(self) -> np.ndarray | None:
        return None if self._moved is None else np.argsort(self._moved)

    @cached_property
    def _parts(self) -> tuple[tuple[Clique, int, int, tuple[int, ...]], ...]:
        starts = np.cumsum([0, *(prod(shape) for shape in self.shapes)]).tolist()
        return tuple(zip(self.cliques, starts[:-1], starts[1:], self.shapes, strict=True))

    def pack(self, tables: "Mapping[Clique, ArrayLike]", dtype: Any = np.float64, batch: bool = False) -> np.ndarray:
        """The tables as one vector (as rows of vectors with ``batch``); shapes are checked, values are not."""
        lead = 1 if batch else 0
        parts = []
        for (clique, _, _, shape), table in zip(self._parts, tables.values(), strict=True):
            array = np.asarray(table)
            if array.shape[lead:] != shape:
                found = array.shape[lead:]
                raise Error(f"the table of {clique} has shape {found}; expected {shape}, the sizes of its attributes.")
            parts.append(array.reshape(len(array), prod(shape)) if batch else array.ravel())
        try:
            flat = np.concatenate(parts, axis=lead, dtype=dtype, casting="same_kind") if parts else np.zeros(0, dtype)
        except (TypeError, ValueError):
            flat = None
        if flat is None:
            if batch and len({len(part) for part in parts}) > 1:
                raise Error("with batch=True every table needs the same leading length.")
            raise Error("potentials must be arrays of real numbers.")
        if batch and not len(flat):
            raise Error("with batch=True the tables need at least one row.")
        return self.arrange(flat)

    def arrange(self, flat: Any) -> Any:
        """From the caller's tables laid end to end to the vector; NumPy and JAX arrays alike."""
        return flat if self._moved is None else flat[..., self._moved]

    def restore(self, flat: Any) -> Any:
        """The inverse of :meth:`arrange`."""
        return flat if self._back is None else flat[..., self._back]

    def split(self, flat: Any) -> dict[Clique, Any]:
        """The caller's tables, laid end to end, as one table per clique."""
        return {clique: flat[..., a:b].reshape(*flat.shape[:-1], *shape) for clique, a, b, shape in self._parts}

    def unpack(self, flat: np.ndarray) -> dict[Clique, np.ndarray]:
        """The vector (or rows of vectors) as one table per clique, axes as the caller gave them; read-only."""
        flat = flat.copy() if self._back is None and flat.flags.writeable else self.restore(flat)
        flat.flags.writeable = False
        return self.split(flat)


def plain_layout(domain: Domain, cliques: Sequence[Clique]) -> Layout:
    """The layout that keeps everything as the caller has it."""
    return Layout(domain, tuple(cliques), tuple(range(len(cliques))), tuple(tuple(range(len(c))) for c in cliques))


def check_values(theta: np.ndarray, tables: "Mapping[Clique, ArrayLike]") -> None:
    """Refuse NaN, infinite and absurdly large potentials, naming the tables that hold them."""
    if theta.size and not (theta.max() <= LARGEST and theta.min() >= -LARGEST):
        bad = [c for c, t in tables.items() if not (np.abs(np.asarray(t, dtype=float)) <= LARGEST).all()]
        raise Error(
            f"the potentials of {join_names(bad, 4)} hold NaN, infinite or absurdly large values; log-potentials must "
            "be finite. To declare combinations impossible, use Domain(..., impossible=[...])."
        )
