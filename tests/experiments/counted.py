"""A figure that learns nothing: it says which trials were run, so that the driver can be tested quickly."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.storage import Store
from experiments.trials import Row, Trial
from quietfield.errors import TooLarge


def write_and_gather(folder: str, process: int, times: int) -> None:
    """Rows of its own and one that all processes have, gathered each time: what several runs in one folder do."""
    for i in range(times):
        store = Store(Path(folder), "counted")
        own = Trial("counted", "chain", 2, 100, 1.0, 0, process, i, "naive")
        store.add([Row(own, "kl", 1.0, 0.5), Row(own._replace(population=99), "kl", 2.0, 0.5)])
        assert own in store.done()
        store.gather()


def run(trials: Sequence[Trial]) -> list[Row]:
    if os.environ.get("COUNTED_INTERRUPTS"):
        os.kill(os.getpid(), signal.SIGINT)
    if wrong := os.environ.get("COUNTED_RAISES"):
        if trials[0].method == "naive":
            raise TooLarge("a table is too large.") if wrong == "TooLarge" else RuntimeError("a mistake")
        time.sleep(0.5)  # so that it ends after the one that raised
    return [Row(trial, "kl", float(trial.population), 0.1) for trial in trials]
