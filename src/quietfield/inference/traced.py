"""Exact marginals of log-potentials that JAX traces: so that it can differentiate, batch and compile through them."""

import sys
from collections.abc import Mapping
from typing import Any

from quietfield.domain import Clique
from quietfield.errors import Error


def is_traced(potentials: Mapping[Clique, Any]) -> bool:
    """Whether one of the tables stands for values that are not known yet; JAX is not imported for it."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(table, jax.core.Tracer) for table in potentials.values())


def trace_marginals(engine: Any, potentials: Mapping[Clique, Any]) -> tuple[dict[Clique, Any], Any]:
    """({clique: marginal table}, log Z) as traced arrays, in the precision of the potentials.

    In log space: which faster kernel is safe depends on the values.
    """
    import jax.numpy as jnp

    engine.plan.check_memory(log_space=True)
    layout = engine.layout
    for clique, shape, table in zip(layout.cliques, layout.shapes, potentials.values(), strict=True):
        if jnp.shape(table) != shape:
            raise Error(f"the table of {clique} has shape {jnp.shape(table)}; expected {shape}.")
    flat = jnp.concatenate([jnp.ravel(jnp.asarray(table)) for table in potentials.values()])
    mu, log_z = engine.marginals_and_log_partition(layout.arrange(flat), "log")
    return layout.split(layout.restore(mu)), log_z
