"""Detects a job that exceeds its time limit, and a rank that is silent for too long, by this process's clock."""

import math
import time
from collections.abc import Callable
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.launch.failures import JobFailedError


class Deadline:
    """The time limit of a job, counted from its creation; online training has none."""

    def __init__(self, job: TrainJob):
        self._limit_s = math.inf if job.stream is not None else job.ranker.cluster.deadline_s
        self._started = time.monotonic()

    def check(self, waiting_for: str = "") -> None:
        """Raises an error if the time limit has passed.

        Args:
            waiting_for: the event that the job waits for, if known.
        """
        if time.monotonic() - self._started > self._limit_s:
            waited = f", and is waiting for {waiting_for}" if waiting_for else ""
            raise JobFailedError(
                "late",
                f"training: not done after {self._limit_s} s{waited}; raise cluster.deadline_s, or train on less",
            )


class HeartbeatFile:
    """The file that a rank touches while it makes progress.

    The file's time is compared only with its earlier time, never with this clock: the disk may be another machine's.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic):
        self._file, self._clock = file, clock
        self._touched, self._noticed = self._time(), clock()

    def silent_s(self) -> float:
        """Returns the seconds since a change of the file was last seen."""
        touched = self._time()
        if touched != self._touched:
            self._touched, self._noticed = touched, self._clock()
        return self._clock() - self._noticed

    def _time(self) -> int:
        try:
            return self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
