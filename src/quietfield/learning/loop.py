"""The one loop that drives every learner: it owns stopping, progress, callbacks and the report.

A learner is a frozen record of its settings. Its ``functions`` are pure and are compiled once a structure; its ``run``
yields a state after each round. A round is a sizeable piece of work that runs on the device as a whole; between rounds
the loop looks up.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from quietfield.errors import Error
from quietfield.learning.problem import Shape, problem_of
from quietfield.learning.reports import FitReport
from quietfield.model import Model
from quietfield.releases import Release


def drive(
    release: Release, learner: Any, inference: str, progress: bool, callback: Callable[[FitReport], None] | None
) -> Model:
    """Run a learner on a release until it is done, interrupted or out of rounds."""
    started = time.perf_counter()
    shape, data = problem_of(release, inference, {})
    report = FitReport(learner.name, inference, 0, 0, float("nan"), float(data.total), False, 0.0)
    theta: np.ndarray | None = None
    with jax.enable_x64(True), _shown(progress) as show:
        try:
            for state in learner.run(compiled(learner, shape), shape, data):
                theta = np.asarray(state.theta)
                report = replace(
                    report,
                    rounds=report.rounds + 1,
                    steps=state.steps,
                    objective=state.value,
                    converged=state.converged,
                    seconds=time.perf_counter() - started,
                )
                show(report)
                if callback is not None:
                    callback(report)
            advice = "" if report.converged else _advice(report)
        except KeyboardInterrupt:
            if theta is None:
                raise
            advice = "the fit was interrupted; this is the best so far. Run it again to let it end."
    if theta is None or not np.isfinite(theta).all():
        raise Error("the fit broke down: the release's tables cannot be fitted in floating point; check their scale.")
    report = replace(report, converged=not advice, advice=advice)
    return Model(release.domain, shape.tables(theta), method=inference, report=report)


@lru_cache(maxsize=64)
def compiled(learner: Any, shape: Shape) -> dict[str, Any]:
    """The learner's functions for one structure; compiled at first use and shared by all its releases."""
    return {name: jax.jit(call) for name, call in learner.functions(shape).items()}


def _advice(report: FitReport) -> str:
    return (
        f"the fit used all its {report.rounds} rounds before it settled; the model is usable. "
        "Allow more (rounds=...) if its answers change between fits."
    )


class _shown:
    """A progress line on a terminal, or nothing."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __enter__(self) -> Callable[[FitReport], None]:
        if not self.wanted:
            return lambda report: None
        from rich.console import Console

        self.status = Console(stderr=True).status("learning: compiling")
        self.status.start()
        return lambda r: self.status.update(
            f"learning: round {r.rounds}, {r.steps} steps, objective {r.objective:.1f}, {r.seconds:.1f} s"
        )

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            self.status.stop()
