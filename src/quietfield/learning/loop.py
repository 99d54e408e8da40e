"""The one loop that drives every learner: it owns batches, stopping, progress, callbacks, interruption and the report.

Releases of one structure are fitted side by side where that pays (see :func:`_at_once`), in one call a round; between
rounds the loop looks up. What is compiled for a structure is shared by all its releases.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quietfield.errors import CannotLearn
from quietfield.learning.learner import Learner
from quietfield.learning.observation import warn_of_noise
from quietfield.learning.problem import Data, FitState, Shape, problem_of
from quietfield.memory import available_memory
from quietfield.models.fit_report import FitReport
from quietfield.models.model import Model
from quietfield.releases.release import Release
from quietfield.status import show_status

_WORKSPACE = 60  # vectors of the size of one inference call that a fit holds at once, measured generously
_MOST_AT_ONCE = 1024
_TINY = 2**14  # bytes of one inference call
_INTERRUPTED = "the fit was interrupted; this is the best so far. Run it again to let it end."

Callback = Callable[[list[FitReport]], None]
Look = Callable[[Sequence[int], list[FitReport]], None]  # which of the releases at hand, and their reports


def drive(
    releases: Sequence[Release], learner: Learner, inference: str, progress: bool, callback: Callback | None
) -> list[Model]:
    """The models of the releases, in their order."""
    problems = [problem_of(release, inference, {}) for release in releases]
    batches: dict[Shape, list[int]] = {}
    for i, (shape, _) in enumerate(problems):
        batches.setdefault(shape, []).append(i)
    models: dict[int, Model] = {}
    with jax.enable_x64(True), show_status("learning: compiling", progress) as show:
        latest: dict[int, FitReport] = {}

        def fit(shape: Shape, chunk: list[int]) -> None:
            def look(places: Sequence[int], reports: list[FitReport]) -> None:
                show(_describe_progress(reports, len(models), len(releases)))
                latest.update((chunk[place], report) for place, report in zip(places, reports, strict=True))
                if callback is not None:
                    callback([latest[i] for i in sorted(latest)])

            found = _fit_side_by_side(learner, shape, [problems[i][1] for i in chunk], inference, look)
            for i, (state, report) in zip(chunk, found, strict=True):
                models[i] = _model(releases[i], learner, shape, problems[i][1], state, report)
            if any(report.advice == _INTERRUPTED for _, report in found) and len(models) < len(releases):
                raise KeyboardInterrupt  # of those that were not begun there is nothing to return

        for shape, members in batches.items():
            most = _at_once(shape)
            for start in range(0, len(members), most):
                fit(shape, members[start : start + most])
    return [models[i] for i in range(len(releases))]


def _fit_side_by_side(
    learner: Learner, shape: Shape, data: list[Data], inference: str, look: Look
) -> list[tuple[FitState, FitReport]]:
    """Rounds until all are done, the last allowed one is over, or someone interrupts."""
    started = time.perf_counter()
    many = len(data) > 1
    if learner.reference is None:
        state: Any = [learner.init(shape, each) for each in data]
    else:
        beside = _fit_side_by_side(learner.reference, shape, data, inference, look)
        state = [learner.init(shape, each, found) for each, (found, _) in zip(data, beside, strict=True)]
    state = jax.tree.map(lambda *parts: np.stack(parts), *state) if many else jax.tree.map(np.asarray, state[0])
    numbers: Any = jax.tree.map(lambda *parts: np.stack(parts), *data) if many else data[0]
    step = compile_step(learner.shared(), shape, many)
    rounds = np.zeros(len(data), int)
    advice = ""

    def reports() -> list[FitReport]:
        value, steps, done = (np.atleast_1d(np.asarray(x)) for x in (state.value, state.steps, state.done))
        seconds = time.perf_counter() - started
        return [
            FitReport(
                learner.name, inference, int(rounds[i]), int(steps[i]), float(value[i]), float(data[i].total),
                bool(done[i]) and not advice, seconds, "" if done[i] and not advice else advice or _advice(rounds[i]),
            )
            for i in range(len(data))
        ]  # fmt: skip

    try:
        for _ in range(learner.rounds):
            rounds += ~np.atleast_1d(np.asarray(state.done))
            state = jax.block_until_ready(step(numbers, state))
            look(range(len(data)), reports())
            if np.all(state.done):
                break
    except KeyboardInterrupt:
        if not rounds.max() > 1 and not np.isfinite(np.asarray(state.value)).all():
            raise  # there is nothing to return yet
        advice = _INTERRUPTED
    told = reports()
    state = jax.tree.map(np.asarray, state)
    found = [(jax.tree.map(lambda x, i=i: x[i], state) if many else state, told[i]) for i in range(len(data))]
    # Parameters so large that fast inference may have erred, or broke down: once more, in log space.
    beyond = [] if advice else [i for i in range(len(data)) if shape.beyond_floats(found[i][0].theta)]
    if beyond:
        again = _fit_side_by_side(
            learner,
            shape.in_log_space,
            [data[i] for i in beyond],
            inference,
            lambda places, reports: look([beyond[place] for place in places], reports),
        )
        for i, better in zip(beyond, again, strict=True):
            found[i] = better
    return found


@lru_cache(maxsize=64)
def compile_step(learner: Learner, shape: Shape, many: bool) -> Callable[[Data, FitState], FitState]:
    """The learner's step for one structure; compiled at first use and shared by all its releases."""

    def step(data: Data, state: FitState) -> FitState:
        new = learner.step(shape, data, state)
        # Of a batch some are done before others: they stay as they are.
        return jax.tree.map(lambda old, new: jnp.where(state.done, old, new), state, new) if many else new

    return jax.jit(jax.vmap(step)) if many else jax.jit(step)


def _model(release: Release, learner: Learner, shape: Shape, data: Data, state: FitState, report: FitReport) -> Model:
    if not np.isfinite(state.theta).all():
        raise CannotLearn(
            "the fit broke down: the release's tables cannot be fitted in floating point; check their scale."
        )
    tables = shape.tables(state.theta)
    report = replace(report, advice=" ".join(filter(None, (warn_of_noise(release), report.advice))))
    report = replace(report, release=release.id, release_digest=release.digest)
    errors = learner.uncertainty(release, data, state)
    return Model(release.domain, tables, method=report.inference, report=report, uncertainty=errors)


def _at_once(shape: Shape) -> int:
    """How many releases to fit side by side: as many as memory holds, but on a CPU only those of tiny problems.

    A batch takes the steps of its slowest release. A GPU has room for that; a CPU is done sooner one by one.
    """
    statistics = jax.devices()[0].memory_stats() or {}
    room = statistics.get("bytes_limit") or available_memory()
    cells = getattr(shape.engine, "plan", None)
    need = cells.memory() if cells is not None else 64 * shape.size
    if jax.devices()[0].platform == "cpu" and need > _TINY:
        return 1
    return int(np.clip(room // (_WORKSPACE * max(need, 1)), 1, _MOST_AT_ONCE))


def _advice(rounds: int) -> str:
    return (
        f"the fit used all its {rounds} rounds before it settled; the model is usable. "
        "Allow more (rounds=...) if its answers change between fits."
    )


def _describe_progress(reports: list[FitReport], ready: int, total: int) -> str:
    """How far a fit has come, for a terminal."""
    slowest = max(reports, key=lambda r: (not r.converged, r.rounds))
    settled = ready + sum(r.converged for r in reports)
    many = f", {settled} of {total} releases settled" if total > 1 else f", objective {slowest.objective:.1f}"
    return f"learning: round {slowest.rounds}, {slowest.steps} steps{many}, {slowest.seconds:.1f} s"
