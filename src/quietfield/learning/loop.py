"""The one loop that drives every learner: it owns batches, stopping, progress, callbacks, interruption and the report.

Between rounds the loop looks up. Learners in JAX fit releases of one structure side by side where that pays (see
``learning/compiled.py``); the default is in numpy and takes them one by one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from quietfield.errors import CannotLearn, Error
from quietfield.learning import compiled
from quietfield.learning.learner import Learner, one_blas_thread
from quietfield.learning.observation import warn_of_noise
from quietfield.learning.problem import Data, FitState, Shape, problem_of
from quietfield.models.fit_report import INTERRUPTED, FitReport
from quietfield.models.model import Model
from quietfield.releases.release import Release
from quietfield.status import show_status

_ASTRAY = 1.5  # standard deviations of noise and sampling, on average: a model that fits follows both, and has below 1

Callback = Callable[[list[FitReport]], None]
Look = Callable[[Sequence[int], list[FitReport]], None]  # which of the releases at hand, and their reports


def drive(
    releases: Sequence[Release], learner: Learner, inference: str, progress: bool, callback: Callback | None
) -> list[Model]:
    """The models of the releases, in their order."""
    if not learner.learns_interactions and any(release.structure.interactions for release in releases):
        raise Error(
            f"the method {learner.name!r} learns from tables alone, and this release holds interactions; use method "
            "'map', or release with weights='equal' (--weights equal), which measures tables."
        )
    problems = [problem_of(release, inference, {}) for release in releases]
    batches: dict[Shape, list[int]] = {}
    for i, (shape, _) in enumerate(problems):
        batches.setdefault(shape, []).append(i)
    models: dict[int, Model] = {}
    with show_status("learning: compiling" if learner.compiled else "learning", progress) as show:
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
            if any(report.interrupted for _, report in found) and len(models) < len(releases):
                raise KeyboardInterrupt  # of those that were not begun there is nothing to return

        for shape, members in batches.items():
            most = compiled.at_once(shape) if learner.compiled else 1
            for start in range(0, len(members), most):
                fit(shape, members[start : start + most])
    return [models[i] for i in range(len(releases))]


def _fit_side_by_side(
    learner: Learner, shape: Shape, data: list[Data], inference: str, look: Look
) -> list[tuple[FitState, FitReport]]:
    """Rounds until all are done, the last allowed one is over, or someone interrupts."""
    started = time.perf_counter()
    if learner.reference is None:
        states = [learner.init(shape, each) for each in data]
    else:
        beside = _fit_side_by_side(learner.reference, shape, data, inference, look)
        states = [learner.init(shape, each, found) for each, (found, _) in zip(data, beside, strict=True)]
    step = compiled.Batch(learner, shape, data, states).step if learner.compiled else None
    rounds = np.zeros(len(data), int)
    advice = ""

    def reports() -> list[FitReport]:
        seconds = time.perf_counter() - started
        return [
            FitReport(
                learner.name, inference, int(rounds[i]), int(state.steps), float(state.value), float(data[i].total),
                bool(state.done) and not advice, seconds,
                "" if state.done and not advice else advice or _advice(rounds[i]),
            )
            for i, state in enumerate(states)
        ]  # fmt: skip

    try:
        for _ in range(learner.rounds):
            rounds += [not state.done for state in states]
            if step is not None:
                states = step()
            else:
                with one_blas_thread():
                    pairs = zip(data, states, strict=True)
                    states = [state if state.done else learner.step(shape, each, state) for each, state in pairs]
            look(range(len(data)), reports())
            if all(state.done for state in states):
                break
    except KeyboardInterrupt:
        if not rounds.max() > 1 and not all(np.isfinite(state.value) for state in states):
            raise  # there is nothing to return yet
        advice = INTERRUPTED
    found = list(zip(states, reports(), strict=True))
    # Parameters so large that fast inference may have erred, or broke down: once more, in log space.
    again = learner.compiled and not advice
    beyond = [i for i, state in enumerate(states) if again and shape.beyond_floats(state.theta)]
    if beyond:
        better = _fit_side_by_side(
            learner,
            shape.in_log_space,
            [data[i] for i in beyond],
            inference,
            lambda places, reports: look([beyond[place] for place in places], reports),
        )
        for i, one in zip(beyond, better, strict=True):
            found[i] = one
    return found


def _model(release: Release, learner: Learner, shape: Shape, data: Data, state: FitState, report: FitReport) -> Model:
    if not np.isfinite(state.theta).all():
        raise CannotLearn(
            "the fit broke down: the release's tables cannot be fitted in floating point; check their scale."
        )
    tables = shape.tables(state.theta)
    report = replace(report, advice=" ".join(filter(None, (warn_of_noise(release), report.advice))))
    report = replace(report, release=release.id, release_digest=release.digest)
    errors = learner.uncertainty(release, data, state)
    model = Model(
        release.domain,
        tables,
        inference=report.inference,
        report=report,
        uncertainty=errors,
        schema=release.schema,
    )
    if report.inference != "exact" and (doubt := _doubt_inference(model, shape, data, state)):
        model.report = replace(report, converged=False, advice=" ".join(filter(None, (report.advice, doubt))))
    return model


def _doubt_inference(model: Model, shape: Shape, data: Data, state: FitState) -> str:
    """What to tell of a fit that approximate inference led astray: where interactions are many and strong, it does."""
    if not model.inference_result.converged:
        return model.inference_result.advice
    expected = data.total * shape.at(state.theta).shares
    noise = np.where(shape.is_gaussian, 1.0, 2.0) * data.b**2
    variance = noise + shape.sampling_variance(data, expected / data.total)
    off = float(np.average((data.y - expected) ** 2 / variance, weights=shape.counted)) ** 0.5
    if off < _ASTRAY:
        return ""
    other = "'convex' inference, " if shape.inference == "loopy" else ""
    return (
        f"the model's tables are {off:.1f} times as far from the release's as noise and chance explain: "
        f"{shape.inference} inference went astray, as it may where many tables overlap. Do not use this model; try "
        f"{other}exact inference where it fits, or fewer tables."
    )


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
