"""Mistakes in how the logs are cut into splits."""

from collections.abc import Iterator

from schemas.data import DayLogs
from schemas.problems import Problem
from schemas.spec import Spec


def data_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the splits of a spec's logs."""
    logs = spec.data
    if isinstance(logs, DayLogs) and logs.validation_days >= logs.train_days:
        yield Problem(
            ("data", "validation_days"),
            f"leave no day to train on (got {logs.validation_days} of {logs.train_days} train_days)",
            "fewer than train_days, whose newest days they are",
        )
