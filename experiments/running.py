"""Running trials: only those that are missing, in groups, on several processes, with time left, and stopped cleanly.

A group is what one call learns: trials of one structure and method, which are learned side by side. What a group found
is written as soon as it is there. The first Ctrl-C lets the groups at hand end; the second gives them up.
"""

import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import isfinite
from multiprocessing import get_context
from typing import Any

from experiments.estimators import Request, find, get, load_module
from experiments.faults import EstimatorError, in_method
from experiments.storage import Store
from experiments.trials import Row, Trial, simulation_of
from quietfield.errors import CannotLearn, Error

Groups = list[list[Trial]]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the trials that it finished, those that are left, and how long it took."""

    finished: int
    left: int
    seconds: float
    stopped: str = ""  # why it ended early: "interrupted" or "time limit"
    #: What ended a method, one error each, and how many of the trials left are those of such methods.
    faults: tuple[EstimatorError, ...] = ()
    broken: int = 0


def grouped(trials: Sequence[Trial], batch: int) -> Groups:
    """Trials that one call learns: of one true model, method and setting, at most ``batch`` of them, like noise close.

    A call that needs one cell (size and epsilon) at a time gets all trials of a cell, however many.
    """
    found: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in trials:
        cell = (trial.records, trial.epsilon) if _by_cell(trial) else ()
        key = (trial.figure, trial.structure, trial.states, trial.model, trial.method, trial.setting, *cell)
        found.setdefault(key, []).append(trial)
    groups = []
    for members in found.values():
        if _by_cell(members[0]):
            groups.append(members)
            continue
        members.sort(key=lambda t: (t.records * t.epsilon, t))
        groups += [members[at : at + batch] for at in range(0, len(members), batch)]
    return groups


def _by_cell(trial: Trial) -> bool:
    one = find(trial.method)
    return one is not None and one.by_cell


def learned(trials: Sequence[Trial]) -> Iterator[tuple[Trial, Any, Any, float]]:
    """Trial, its simulation, the learned model (or None) and the trial's share of the time, for one group."""
    requests = [Request(trial, simulation_of(trial)) for trial in trials]
    for request in requests:
        _ = request.simulation.tables  # made here, so that the time is that of learning alone
    started = time.perf_counter()
    models = called(get(trials[0].method).call, requests, f"{trials[0].method}, {trials[0].structure}")
    share = (time.perf_counter() - started) / len(trials)
    for request, model in zip(requests, models, strict=True):
        yield request.trial, request.simulation, model, share


def called(call: Callable[[Sequence[Any]], Sequence[Any]], requests: Sequence[Any], label: str) -> Sequence[Any]:
    """The models of all requests; where one cannot be learned from, one by one, with the error in its place.

    Any other error is no matter of one release: it is raised, and ends the method. No trial counts as failed for it.
    """
    try:
        return call(requests)
    except CannotLearn as error:
        if len(requests) == 1:
            warnings.warn(f"{label}: {error}", stacklevel=2)
            return [error]
        return [found for request in requests for found in called(call, [request], label)]


def measured(trials: Sequence[Trial], measure: Callable[[Any, Any], dict[str, float]]) -> list[Row]:
    """The rows of one group; ``measure`` maps a simulation and a model to named values."""
    rows = []
    for trial, study, model, seconds in learned(trials):
        rows += missing(trial, model, seconds) or [
            *(Row(trial, name, float(value), seconds) for name, value in measure(study, model).items()),
            *unconverged(trial, model, seconds),
        ]
    return rows


def unconverged(trial: Trial, model: Any, seconds: float) -> list[Row]:
    """A row more where a fit ended before it had converged: the number of its steps."""
    report = getattr(model, "report", None)
    return [] if report is None or report.converged else [Row(trial, "unconverged", float(report.steps), seconds)]


def missing(trial: Trial, model: Any, seconds: float) -> list[Row]:
    """A row that says why there is no result: "absent" without a model, "failed" where a fit broke down; or none.

    A fit that broke down gave an error, or an objective that is no number. It is kept apart and counted, not averaged
    with others.
    """
    report = getattr(model, "report", None)
    if model is None:
        return [Row(trial, "absent", float("nan"), seconds)]
    if isinstance(model, Error) or (report is not None and not isfinite(report.objective)):
        return [Row(trial, "failed", float("nan"), seconds)]
    return []


def divergence(study: Any, model: Any) -> dict[str, float]:
    """KL(true || learned)."""
    return {"kl": study.model.kl(model)}


def run(
    store: Store,
    trials: Sequence[Trial],
    module: str,
    *,
    jobs: int = 1,
    batch: int = 100,
    time_limit: float | None = None,
    extra: Sequence[str] = (),
    show: bool = True,
) -> Outcome:
    """Run the trials that the store does not hold yet; ``module`` has the function ``run(trials) -> rows``.

    A method that raises one of our errors is given up, and the others go on. Whatever else ends the run, what was
    finished is kept.
    """
    done = store.done()
    missing = [trial for trial in trials if trial not in done]
    groups = grouped(missing, batch)
    started = time.monotonic()
    deadline = None if time_limit is None else started + time_limit
    finished: set[Trial] = set()
    faults: dict[str, EstimatorError] = {}
    try:
        with _Interrupts() as interrupts, _Bar(show, module.rsplit(".", 1)[-1], len(missing)) as bar:

            def going() -> bool:
                return not interrupts.count and (deadline is None or time.monotonic() < deadline)

            def keep(rows: list[Row], group: list[Trial]) -> None:
                store.add(rows)
                finished.update(group)
                bar(len(group))

            waiting = (group for group in groups if group[0].method not in faults)
            if jobs <= 1:
                for group in waiting:
                    if not going():
                        break
                    try:
                        rows = _work(module, group)
                    except EstimatorError as error:
                        faults[group[0].method] = error
                        continue
                    if interrupts.count > 1:  # a fit that is interrupted returns its best so far: not a result
                        break
                    keep(rows, group)
            else:
                _run_pool(module, waiting, jobs, extra, going, keep, faults, interrupts)
    finally:
        store.gather()
    left = [trial for trial in missing if trial not in finished]
    broken = sum(trial.method in faults for trial in left)
    stopped = "interrupted" if interrupts.count else "time limit" if len(left) > broken else ""
    return Outcome(len(finished), len(left), time.monotonic() - started, stopped, tuple(faults.values()), broken)


def _run_pool(
    module: str,
    waiting: Iterator[list[Trial]],
    jobs: int,
    extra: Sequence[str],
    going: Callable[[], bool],
    keep: Callable[[list[Row], list[Trial]], None],
    faults: dict[str, EstimatorError],
    interrupts: "_Interrupts",
) -> None:
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_prepare, initargs=(tuple(extra),))
    running = dict[Any, list[Trial]]()
    end: Exception | None = None  # what ends the run; groups that are at work are waited for all the same, and kept
    try:
        while True:
            while end is None and len(running) < jobs and going() and (group := next(waiting, None)) is not None:
                running[pool.submit(_work, module, group)] = group
            if not running:
                break
            ended, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in ended:
                group = running.pop(future)
                try:
                    keep(future.result(), group)
                except EstimatorError as error:
                    faults.setdefault(group[0].method, error)
                except Exception as error:  # noqa: BLE001  # raised below, once the other groups are kept
                    end = end or error
        if end is not None:
            raise end
    except BrokenProcessPool:
        raise Error(
            "a worker process ended all at once, most often because memory ran out; what was finished is kept. Run the "
            "same command again with fewer --jobs or a smaller --batch."
        ) from None
    finally:
        if interrupts.count > 1:
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=interrupts.count <= 1, cancel_futures=True)


def _prepare(extra: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    for name in extra:
        load_module(name)


def _work(module: str, group: list[Trial]) -> list[Row]:
    return in_method(group[0].method, group[0].structure, partial(import_module(module).run, group))


class _Interrupts:
    """Counts Ctrl-C instead of stopping; from the second on, it also interrupts what is running here."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "_Interrupts":
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._old = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, *_: Any) -> None:
        self.count += 1
        if self.count == 1:
            sys.stderr.write("\nStopping after the group at hand; press Ctrl-C again to give it up.\n")
        else:
            raise KeyboardInterrupt

    def __exit__(self, kind: Any, *_: Any) -> bool:
        if self._main:
            signal.signal(signal.SIGINT, self._old)
        return kind is KeyboardInterrupt


class _Bar:
    """Progress with the time left, on a terminal."""

    def __init__(self, show: bool, name: str, total: int) -> None:
        self.show, self.name, self.total = show and total > 0, name, total

    def __enter__(self) -> Callable[[int], None]:
        if not self.show:
            return lambda _: None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        columns = (TextColumn(self.name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
        self.bar = Progress(*columns, Left(elapsed_when_finished=False), console=Console(stderr=True))
        self.bar.start()
        task = self.bar.add_task(self.name, total=self.total)
        return lambda n: self.bar.advance(task, n)

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.stop()
