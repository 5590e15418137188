"""How long Argo's controller leaves an ended pod alone, from the times of a run's tasks.

Kubeflow's server does not tell the controller's settings. A step begins when the controller has seen the end of its
driver's pod, which it looks for every DEFAULT_REQUEUE_TIME: 10 s unless it is set.
"""

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from sangam.pipelines.deploy.steps import STEPS, moment_of

SLOW_S = 4.0
"""Median from which on the setting counts as not made: with 1 s it is at most 2, with 10 s some 5 to 10."""
_ENOUGH = 3
_DRIVER = re.compile(r"^(?P<step>.+)-driver(\(\d+\))?$")


def look_s(tasks: Sequence[Any]) -> float | None:
    """Returns the median time from the end of a driver's pod to its step; None for fewer than three."""
    waits = list(_waits(tasks))
    return statistics.median(waits) if len(waits) >= _ENOUGH else None


def _waits(tasks: Sequence[Any]) -> Iterator[float]:
    began = {task.display_name: moment_of(task.start_time) for task in tasks if task.display_name in STEPS}
    for step, start in began.items():
        # With Kubeflow Pipelines 2.17 a driver is a pod below a node with its tries, which ends later.
        ends = [moment_of(task.end_time) for task in tasks if _step(task) == step]
        end = min((each for each in ends if each), default=None)
        if start and end and start >= end:
            yield (start - end).total_seconds()


def _step(task: Any) -> str:
    found = _DRIVER.match(task.display_name or "")
    return found["step"] if found else ""
