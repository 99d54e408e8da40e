"""A figure that learns nothing: it says which trials were run, so that the driver can be tested quickly."""

import os
import signal
from collections.abc import Sequence

from quietfield.experiments.trials import Row, Trial


def run(trials: Sequence[Trial]) -> list[Row]:
    if os.environ.get("COUNTED_INTERRUPTS"):
        os.kill(os.getpid(), signal.SIGINT)
    return [Row(trial, "kl", float(trial.population), 0.1) for trial in trials]
