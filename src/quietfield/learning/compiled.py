"""Learners in JAX: their step is compiled once a structure and mapped over releases side by side."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from quietfield.learning.learner import Learner
from quietfield.learning.problem import Data, FitState, Shape
from quietfield.memory import available_memory

_WORKSPACE = 60  # vectors of the size of one inference call that a fit holds at once, measured generously
_MOST_AT_ONCE = 1024
_TINY = 2**14  # bytes of one inference call


class Batch:
    """Releases of one structure, fitted side by side."""

    def __init__(self, learner: Learner, shape: Shape, data: list[Data], states: list[FitState]) -> None:
        import jax

        self.many = len(data) > 1
        self.size = len(data)
        self.state = jax.tree.map(lambda *parts: np.stack(parts) if self.many else np.asarray(parts[0]), *states)
        self.numbers = jax.tree.map(lambda *parts: np.stack(parts), *data) if self.many else data[0]
        self.call = compile_step(learner.shared(), shape, self.many)

    def step(self) -> list[FitState]:
        """One round of all."""
        import jax

        with jax.enable_x64(True):
            self.state = jax.block_until_ready(self.call(self.numbers, self.state))
        host = jax.tree.map(np.asarray, self.state)
        return [jax.tree.map(lambda x, i=i: x[i], host) for i in range(self.size)] if self.many else [host]


@lru_cache(maxsize=64)
def compile_step(learner: Learner, shape: Shape, many: bool) -> Callable[[Data, FitState], FitState]:
    """The learner's step for one structure; compiled at first use and shared by all its releases."""
    import jax
    import jax.numpy as jnp

    def step(data: Data, state: FitState) -> FitState:
        new = learner.step(shape, data, state)
        # Of a batch some are done before others: they stay as they are.
        return jax.tree.map(lambda old, new: jnp.where(state.done, old, new), state, new) if many else new

    return jax.jit(jax.vmap(step)) if many else jax.jit(step)


def at_once(shape: Shape) -> int:
    """How many releases to fit side by side: as many as memory holds, but on a CPU only those of tiny problems.

    A batch takes the steps of its slowest release. A GPU has room for that; a CPU is done sooner one by one.
    """
    import jax

    statistics: Any = jax.devices()[0].memory_stats() or {}
    room = statistics.get("bytes_limit") or available_memory()
    plan = getattr(shape.engine, "plan", None)
    need = plan.memory() if plan is not None else 64 * shape.size
    if jax.devices()[0].platform == "cpu" and need > _TINY:
        return 1
    return int(np.clip(room // (_WORKSPACE * max(need, 1)), 1, _MOST_AT_ONCE))
