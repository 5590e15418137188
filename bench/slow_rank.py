"""One rank of a job, as `python -m trainer_module` is, that may sleep after its steps; `bench.modes` starts it.

The variable `VARIABLE` says which rank sleeps and for how long: `1:100`, rank 1, milliseconds on average, drawn
uniformly from 0 to twice that with a fixed seed. It sleeps in every second epoch: the third, the fifth, ...
"""

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainer_module import __main__ as rank_process
from trainer_module import collectives
from trainer_module.loop import run

VARIABLE = "SANGAM_BENCH_SLOW_RANK"
_SEED = 17


def _slowed(train_epoch: Callable[..., Iterator[Any]], mean_s: float) -> Callable[..., Iterator[Any]]:
    generator, epochs = np.random.default_rng(_SEED), itertools.count()

    def slowed(*arguments: Any) -> Iterator[Any]:
        epoch = next(epochs)
        for trained in train_epoch(*arguments):
            if epoch and epoch % 2 == 0:
                time.sleep(generator.uniform(0.0, 2.0 * mean_s))
            yield trained

    return slowed


def main() -> int:
    """Trains as one rank; returns the exit code."""
    if declared := os.environ.get(VARIABLE):
        slow, mean_ms = declared.split(":")
        if collectives.place()[0] == int(slow):
            run.train_epoch = _slowed(run.train_epoch, float(mean_ms) / 1e3)  # type: ignore[attr-defined]
    return rank_process.main(*sys.argv[1:5])


if __name__ == "__main__":
    exit_code = main()
    logging.shutdown()
    os._exit(exit_code)  # As the rank does.
