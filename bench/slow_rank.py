"""One rank of a job, as `python -m sangam.trainer_module` is, disturbed in some epochs; `bench.modes` starts it.

In the third, the fifth, ... epoch these variables disturb it:

    SLEEP        `1:100`: rank 1 sleeps after each step, milliseconds on average, drawn uniformly from 0 to twice that
                 with a fixed seed
    EXCHANGE     `10`: an exchange of dense weights in the background takes ten times as long

The median seconds of a step, without such sleep, go to `steps_file`, by epoch.
"""

import itertools
import json
import logging
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.trainer_module import __main__ as rank_process
from sangam.trainer_module import collectives
from sangam.trainer_module.loop import run
from sangam.trainer_module.parameter_server.averaging import Averaging

SLEEP, EXCHANGE = "SANGAM_BENCH_SLEEP", "SANGAM_BENCH_EXCHANGE"
_SEED = 17


def steps_file(job: TrainJob, rank: int) -> Path:
    """Returns the file of a rank's seconds."""
    return Path(job.log_dir) / f"steps-{rank}.json"


class _Disturbed:
    """A rank whose epochs and exchanges are wrapped."""

    def __init__(self, steps: Path, *, sleep_s: float, times: float):
        self._steps, self._sleep_s, self._times = steps, sleep_s, times
        self._medians: list[float] = []
        self._is_on = False

    def epochs(self, train_epoch: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Returns a function that trains an epoch, and sleeps."""
        generator, numbers = np.random.default_rng(_SEED), itertools.count()

        def disturbed(*arguments: Any) -> Iterator[Any]:
            number = next(numbers)
            self._is_on = number > 0 and number % 2 == 0
            seconds, started = [], time.perf_counter()
            for trained in train_epoch(*arguments):
                seconds.append(time.perf_counter() - started)
                if self._is_on and self._sleep_s:
                    time.sleep(generator.uniform(0.0, 2.0 * self._sleep_s))
                yield trained
                started = time.perf_counter()
            self._medians.append(statistics.median(seconds))
            self._steps.write_text(json.dumps(self._medians))

        return disturbed

    def exchanges(self, exchange: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that exchanges, and takes its time where no step waits for it."""

        def disturbed(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = exchange(*arguments)
            if self._is_on and threading.current_thread() is not threading.main_thread():
                time.sleep((self._times - 1.0) * (time.perf_counter() - started))
            return result

        return disturbed


def main() -> int:
    """Trains as one rank; returns the exit code."""
    job, rank = read_job(Path(sys.argv[1])), collectives.place()[0]
    slow, _, mean_ms = os.environ.get(SLEEP, "-1:0").partition(":")
    sleep_s = float(mean_ms) / 1e3 if rank == int(slow) else 0.0
    disturbed = _Disturbed(steps_file(job, rank), sleep_s=sleep_s, times=float(os.environ.get(EXCHANGE, "1")))
    run.train_epoch = disturbed.epochs(run.train_epoch)  # type: ignore[attr-defined]
    Averaging._exchange = disturbed.exchanges(Averaging._exchange)  # type: ignore[method-assign]
    return rank_process.main(*sys.argv[1:5])


if __name__ == "__main__":
    exit_code = main()
    logging.shutdown()
    os._exit(exit_code)  # As the rank does.
