"""From log-potentials to marginals: one list of methods, exact and approximate, behind one call.

>>> from quietfield import Domain
>>> domain = Domain({"a": 2, "b": 2})
>>> tables, log_z = marginals(domain, {("a", "b"): [[0.0, 0.0], [0.0, 0.0]]})
>>> tables["a", "b"].tolist(), round(log_z, 6)
([[0.25, 0.25], [0.25, 0.25]], 1.386294)
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from quietfield.domain import Clique, Domain
from quietfield.errors import Error, names
from quietfield.structures import Structure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from quietfield.inference.exact import Exact
    from quietfield.inference.loopy import Loopy


class NotConverged(UserWarning):
    """An approximate method stopped before it settled."""


def _exact(domain: Domain, cliques: Any, **options: Any) -> "Exact":
    from quietfield.inference.exact import Exact

    return Exact.of(domain, cliques, **options)


def _loopy(domain: Domain, cliques: Any, **options: Any) -> "Loopy":
    from quietfield.inference.loopy import Loopy

    return Loopy.of(domain, cliques, **options)


#: Every inference method, by the name that users type.
METHODS: "dict[str, Callable[..., Exact | Loopy]]" = {
    "exact": _exact,
    "loopy": _loopy,
    "convex": partial(_loopy, reweighted=True),
}


@dataclass(frozen=True)
class Inference:
    """What a method found: marginals per clique, log Z, and how far to trust them.

    ``residual`` is how much the last iteration still moved a message (0 for exact inference). With a batch, ``log_z``
    and ``residual`` are arrays.
    """

    marginals: "dict[Clique, np.ndarray]"
    log_z: "float | np.ndarray"
    method: str
    converged: bool
    residual: "float | np.ndarray"
    iterations: int

    @property
    def advice(self) -> str:
        """What to do where a method did not converge; empty otherwise."""
        if self.converged:
            return ""
        return (
            f"{self.method} inference stopped after {self.iterations} iterations with messages still moving by up to "
            f"{float(_worst(self.residual)):.2g}; "
            + ("try method='convex', or " if self.method == "loopy" else "")
            + "allow more iterations (iterations=...), or more damping (damping=0.9)."
        )


def engine(
    domain: Domain, cliques: Structure | Iterable[str | Iterable[str]], method: str = "exact", **options: Any
) -> Any:
    """The compiled method for one structure: what learners call thousands of times. Remembered between calls."""
    if method not in METHODS:
        raise Error(f"{method!r} is not an inference method; expected one of {names(METHODS)}.")
    return METHODS[method](domain, cliques, **options)


def infer(
    domain: Domain,
    potentials: "Mapping[Clique, ArrayLike]",
    method: str = "exact",
    *,
    batch: bool = False,
    dtype: Any = "float64",
    **options: Any,
) -> Inference:
    """Marginals of all cliques and log Z of the model with these log-potentials, and how the method fared.

    With ``batch`` every table has one more leading axis: many parameter sets in one call.
    """
    found = engine(domain, tuple(potentials), method, **options)
    theta = found.layout.pack(potentials, dtype, batch)
    span = float(theta.max() - theta.min()) if theta.size else 0.0
    if not isfinite(span):
        from quietfield.inference.layout import refuse_not_finite

        refuse_not_finite(potentials)
    mu, log_z, *trace = found.run(theta)
    if not (log_z > -1e29).all():
        raise Error(
            "the impossible combinations leave no possible record; allow at least one combination of all values."
        )
    residual = trace[0] if trace else 0.0
    return Inference(
        found.layout.unpack(mu),
        log_z if batch else float(log_z),
        method,
        not trace or bool((residual <= found.tolerance).all()),
        residual if batch else float(residual),
        int(_worst(trace[1])) if trace else 0,
    )


def marginals(
    domain: Domain, potentials: "Mapping[Clique, ArrayLike]", method: str = "exact", **options: Any
) -> "tuple[dict[Clique, np.ndarray], float | np.ndarray]":
    """({clique: marginal table}, log Z) of the model with these log-potentials.

    Compiled once a structure and fast with new numbers each call. Warns where an approximate method did not converge;
    :func:`infer` takes the same arguments and returns the details.
    """
    found = infer(domain, potentials, method, **options)
    if not found.converged:
        warnings.warn(found.advice, NotConverged, stacklevel=2)
    return found.marginals, found.log_z


def _worst(values: Any) -> Any:
    return values.max() if hasattr(values, "max") else values
