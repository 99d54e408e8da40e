"""What every learner is: a frozen record of settings, with a pure step that the one loop drives."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar

from quietfield.learning.problem import Data, FitState, Shape
from quietfield.releases.release import Release

#: Nats that a parameter moves in one step: the quadratic says nothing of what lies further, and far out, inference in
#: linear space leaves the range of floats.
FARTHEST = 4.0


@dataclass(frozen=True)
class Learner:
    """The settings of a method. A round is a sizeable piece of work.

    ``step`` is pure. Where it is ``compiled``, it is in JAX: the loop compiles it once a structure and maps it over
    many releases at once; it does as little as it can where ``state.done``, since a batch waits for its slowest one.
    """

    name: ClassVar[str]
    compiled: ClassVar[bool] = True  # whether ``step`` is in JAX; otherwise it takes one release at a time, in numpy
    learns_interactions: ClassVar[bool] = False  # whether it takes interactions that were measured apart
    rounds: int

    @property
    def reference(self) -> "Learner | None":
        """A fit to make first and to hand to ``init``, for a method that needs one."""
        return None

    def shared(self) -> "Learner":
        """The learner without the settings that travel in the state: equal ones share what is compiled."""
        return self

    def init(self, shape: Shape, data: Data, reference: FitState | None = None) -> FitState:
        """Where a fit of one release starts; on the host.

        Args:
            shape: The structure and its tables, without numbers.
            data: The numbers of one release.
            reference: The fit that :attr:`reference` asked for, if it did.

        Returns:
            The state before the first round.
        """
        raise NotImplementedError

    def step(self, shape: Shape, data: Data, state: FitState) -> FitState:
        """One round.

        Args:
            shape: The structure and its tables, without numbers.
            data: The numbers of one release.
            state: What the round before left.

        Returns:
            The next state; ``done`` says whether the fit has converged.
        """
        raise NotImplementedError

    def uncertainty(self, release: Release, data: Data, state: FitState) -> Any:
        """What error bars need, where the method gives any.

        Args:
            release: What was fitted.
            data: Its numbers.
            state: Where the fit ended.

        Returns:
            An :class:`~quietfield.models.uncertainty.Uncertainty`, or None.
        """
        return None


#: Extensions that wheels link to an OpenBLAS of their own, and how the names of its functions end. Neither is public.
_LINKED = {"numpy.linalg._umath_linalg": "64_", "scipy.linalg._fblas": ""}
_lock = Lock()
_blocks = 0  # that are being run
_before: dict[str, int] = {}  # threads that each OpenBLAS had before


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have numpy, and scipy if it is loaded, multiply matrices in the calling thread alone.

    Ours are small: a second thread saves nothing, but waits for the next product by running in circles, and doubles
    the time that processors spend. numpy has no call for this; where its BLAS is not OpenBLAS, nothing changes.
    """
    global _blocks
    with _lock:
        _blocks += 1
        for name in _LINKED.keys() & sys.modules.keys() - _before.keys():
            if (threads := _openblas(name)) is not None:
                get, put = threads
                _before[name] = get()
                put(1)
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for name, threads in _before.items():
                    _openblas(name)[1](threads)
                _before.clear()


@lru_cache(maxsize=2)
def _openblas(name: str) -> Any:
    """What tells and what sets the number of threads of the OpenBLAS that an extension is linked to, or None."""
    end = _LINKED[name]
    try:
        library = ctypes.CDLL(sys.modules[name].__file__)
        return tuple(getattr(library, f"scipy_openblas_{verb}_num_threads{end}") for verb in ("get", "set"))
    except (AttributeError, KeyError, OSError):
        return None
