"""From log-potentials to marginals: several kinds of inference, exact and approximate, behind one call.

>>> from quietfield import Domain
>>> domain = Domain({"a": 2, "b": 2})
>>> tables, log_z = marginals(domain, {("a", "b"): [[0.0, 0.0], [0.0, 0.0]]})
>>> tables["a", "b"].tolist(), round(log_z, 6)
([[0.25, 0.25], [0.25, 0.25]], 1.386294)
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.inference.layout import IMPOSSIBLE, check_values
from quietfield.inference.traced import is_traced, trace_marginals
from quietfield.inference.tree import Tree
from quietfield.text import join_names, type_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from quietfield.inference.exact import Exact
    from quietfield.inference.loopy import Loopy


class NotConverged(UserWarning):
    """Approximate inference stopped before it settled."""


def _exact(domain: Domain, cliques: Any, **options: Any) -> "Exact":
    from quietfield.inference.exact import Exact

    return Exact.of(domain, cliques, **options)


def _loopy(domain: Domain, cliques: Any, **options: Any) -> "Loopy":
    from quietfield.inference.loopy import Loopy

    return Loopy.of(domain, cliques, **options)


#: Every kind of inference, by the name that users type.
KINDS: "dict[str, Callable[..., Exact | Loopy]]" = {
    "exact": _exact,
    "loopy": _loopy,
    "convex": partial(_loopy, reweighted=True),
}


#: The options of approximate inference, and the limits of each. They are kept in a model's file, so that a small file
#: could ask its readers for work without end; sums of float64 are not finer than the smallest tolerance.
OPTIONS: dict[str, tuple[float, float]] = {
    "damping": (0, 0.9999),
    "tolerance": (1e-15, 0.9999),
    "iterations": (1, 100_000),
}


@dataclass(frozen=True)
class Inference:
    """What inference found: marginals per clique, log Z, and how far to trust them.

    ``residual`` is how much the last iteration still moved a message (0 for exact inference). With a batch, ``log_z``
    and ``residual`` are arrays.
    """

    marginals: Mapping[Clique, np.ndarray]
    log_z: float | np.ndarray
    kind: str
    converged: bool
    residual: float | np.ndarray
    iterations: int
    #: The marginals of single attributes, where inference gives them beside those of the cliques.
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """What to do where it did not converge; empty otherwise."""
        if self.converged:
            return ""
        return (
            f"{self.kind} inference stopped after {self.iterations} iterations with messages still moving by up to "
            f"{_largest(self.residual):.2g}; "
            + ("try 'convex' inference, or " if self.kind == "loopy" else "")
            + "allow more iterations (iterations=...), or more damping (damping=0.9)."
        )


def engine(
    domain: Domain, cliques: Structure | Iterable[str | Iterable[str]], inference: str = "exact", **options: Any
) -> Any:
    """Inference compiled for one structure: what learners call thousands of times. Remembered between calls.

    Args:
        domain: The attributes.
        cliques: The structure, or its cliques.
        inference: The kind of inference, one of :data:`KINDS`.
        options: Of approximate inference, see :data:`OPTIONS`.

    Returns:
        An object whose ``run`` maps log-potentials in one flat vector (see its ``layout``) to marginals and log Z.

    Raises:
        Error: The inference, an option or a clique is not allowed.

    >>> compiled = engine(Domain({"a": 2}), ["a"])
    >>> compiled.run(compiled.layout.pack({("a",): [0.0, 0.0]}))[0].tolist()
    [0.5, 0.5]
    """
    check_options(inference, options)
    return KINDS[inference](domain, cliques, **options)


def check_options(inference: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown kind of inference, options that it does not take, and values of them beyond their limits.

    Args:
        inference: The kind of inference.
        options: Its options by name.

    Raises:
        Error: One of them is not allowed.

    >>> check_options("loopy", {"damping": 0.5})
    """
    if inference not in KINDS:
        raise Error(f"{inference!r} is not a kind of inference; expected one of {join_names(KINDS)}.")
    known = () if inference == "exact" else tuple(OPTIONS)
    strange = [name for name in options if name not in known]
    if strange:
        raise Error(
            f"{join_names(strange)}: {inference!r} inference takes {join_names(known) if known else 'no options'}."
        )
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Error(f"the option {name!r} is a number, not {type_name(value)}.")
        least, most = OPTIONS[name]
        if not least <= value <= most:
            raise Error(f"the option {name!r} lies between {least:g} and {most:g}; choose a value in these limits.")
        if name == "iterations" and value != int(value):
            raise Error(f"the option 'iterations' is a whole number, not {value!r}.")


def infer(
    domain: Domain,
    potentials: "Mapping[Clique, ArrayLike]",
    inference: str = "exact",
    *,
    batch: bool = False,
    dtype: Any = "float64",
    **options: Any,
) -> Inference:
    """Marginals of all cliques and log Z of the model with these log-potentials, and how far to trust them.

    Args:
        domain: The attributes.
        potentials: A table of log-potentials for each clique.
        inference: The kind of inference, one of :data:`KINDS`.
        batch: Whether every table has one more leading axis: many parameter sets in one call.
        dtype: ``"float64"`` or ``"float32"``.
        options: Of approximate inference, see :data:`OPTIONS`.

    Returns:
        The marginals and log Z, with the residual of approximate inference.

    Raises:
        Error: An argument is not allowed, or no record is possible.
        TooLarge: Exact inference would not fit in memory.

    >>> infer(Domain({"a": 2}), {("a",): [0.0, 0.0]}).marginals["a",].tolist()
    [0.5, 0.5]
    """
    if str(dtype) not in ("float64", "float32"):
        raise Error(f"inference runs in float64 or float32, not in {dtype!r}.")
    if inference == "exact" and not batch and str(dtype) == "float64":  # nothing need be compiled for one call
        check_options(inference, options)
        found: Any = Tree.of(domain, tuple(potentials))
        found.plan.check_memory(log_space=True)
    else:
        found = engine(domain, tuple(potentials), inference, **options)
    theta = found.layout.pack(potentials, str(dtype), batch)
    check_values(theta, potentials)
    mu, log_z, *trace = found.run(theta)
    if not (log_z > IMPOSSIBLE / 10).all():
        raise Error(_NOTHING_POSSIBLE)
    if not trace:
        return Inference(found.layout.unpack(mu), log_z if batch else float(log_z), inference, True, 0.0, 0)
    residual, iterations, nodes = trace
    singles = _by_attribute(domain, nodes)
    tables = found.layout.unpack(mu)
    if domain.impossible and not batch:
        _check_agreement(tables, singles)
    return Inference(
        tables,
        log_z if batch else float(log_z),
        inference,
        bool((residual <= found.tolerance_of(theta.dtype)).all()),
        residual if batch else float(residual),
        int(iterations.max()),
        singles,
    )


def marginals(
    domain: Domain, potentials: "Mapping[Clique, ArrayLike]", inference: str = "exact", **options: Any
) -> tuple[dict[Clique, np.ndarray], float | np.ndarray]:
    """Marginals of all cliques and log Z of the model with these log-potentials.

    One exact call runs in numpy; batches and approximate inference are compiled once per structure. Warns where
    approximate inference did not converge; :func:`infer` takes the same arguments and returns the details.

    Args:
        domain: The attributes.
        potentials: A table of log-potentials for each clique.
        inference: The kind of inference, one of :data:`KINDS`.
        options: ``batch`` and ``dtype`` of :func:`infer`, and the options of approximate inference.

    Returns:
        The marginal table of each clique, and log Z.

    Raises:
        Error: An argument is not allowed, or no record is possible.
        TooLarge: Exact inference would not fit in memory.

    JAX differentiates, batches and compiles through exact inference (``jax.grad``, ``jax.vmap``, ``jax.jit``), in the
    precision of the arrays:

    >>> import jax
    >>> slope = jax.grad(lambda theta: marginals(Domain({"a": 2}), {("a",): theta})[0]["a",][1])
    >>> slope(jax.numpy.zeros(2)).tolist()
    [-0.25, 0.25]
    """
    if is_traced(potentials):
        if inference != "exact" or options:
            raise Error(
                "JAX traces these log-potentials, which exact inference alone allows, without options; leave out "
                "inference and options, and use jax.vmap for many parameter sets."
            )
        return trace_marginals(engine(domain, tuple(potentials)), potentials)
    found = infer(domain, potentials, inference, **options)
    if not found.converged:
        warnings.warn(found.advice, NotConverged, stacklevel=2)
    return dict(found.marginals), found.log_z


def _largest(values: float | np.ndarray) -> float:
    return float(values) if isinstance(values, float) else float(values.max())


def _by_attribute(domain: Domain, nodes: np.ndarray) -> dict[str, np.ndarray]:
    ends = list(accumulate(domain.shape))
    return {name: nodes[..., end - size : end] for name, size, end in zip(domain, domain.shape, ends, strict=True)}


def _check_agreement(tables: Mapping[Clique, np.ndarray], singles: Mapping[str, np.ndarray]) -> None:
    """Messages that meet an impossibility can settle on tables that contradict each other: nothing is possible then."""
    for clique, table in tables.items():
        for axis, name in enumerate(clique):
            inside = table.sum(axis=tuple(i for i in range(len(clique)) if i != axis))
            if abs(inside - singles[name]).max() > 0.4:
                raise Error(_NOTHING_POSSIBLE)


_NOTHING_POSSIBLE = (
    "the impossible combinations leave no possible record; allow at least one combination of all values."
)
