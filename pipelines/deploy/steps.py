"""The steps of a run, from the server's list of tasks: one for each node of Argo's workflow.

A step is a node with children, RUNNING as soon as it has any, and its pod is one of them: `executor`, or `executor(N)`
for try N. The server names the children of a task by their pods, but gives no task its pod (`toApiPipelineTaskDetail`,
backend/src/apiserver/server/api_converter.go of kubeflow/pipelines): pods are matched to steps by time.

Kubeflow Pipelines 2.17 gives every template of Argo a retry strategy, so that each node has tries: `transform-driver`
is RUNNING over `transform-driver(0)`, which has the pod.
"""

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

from sangam.components.record.run import Step
from sangam.schemas.spec.cluster import StepName

STEPS = tuple(name.replace("_", "-") for name in get_args(StepName))
"""The steps of a pipeline, in order. A run also has Kubeflow's own tasks, such as drivers."""
NOT_RUN = "not run"
LONG_WAIT = datetime.timedelta(minutes=15)
"""Longest normal wait for a pod, including the start of its node and the pull of its images."""
SHORT_WAIT = datetime.timedelta(seconds=30)
"""Longest wait that is not told: Argo looks at a pod every 10 s, and a pod that starts was PENDING for a moment."""
_POD = re.compile(r"^executor(\(\d+\))?$")
_DRIVER = re.compile(r"^(?P<step>.+)-driver(\(\d+\))?$")
_CACHED_S = 1.0
"""A step with a pod takes longer. One that is cached has none, and ends as it begins."""
_EPOCH_YEAR = 1970


def moment_of(value: datetime.datetime | None) -> datetime.datetime | None:
    """Returns a time from the server; None for 1970 or the year 1, which it gives for a missing time."""
    if value is None or value.year <= _EPOCH_YEAR:
        return None
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)


def state_of_text(text: str | None) -> str:
    """Returns a state in lower case; `pending` without one."""
    return "pending" if not text or text.endswith("UNSPECIFIED") else text.lower()


def steps_of(tasks: Sequence[Any], is_finished: bool) -> tuple[Step, ...]:
    """Returns the steps among the tasks of a run, in the pipeline's order."""
    by_name = {task.display_name: task for task in tasks}
    steps = [_step(name, by_name[name], is_finished) for name in STEPS if name in by_name]
    if is_finished:
        return tuple(steps)
    drivers = {step: task for task in tasks if (step := _driven(task)) and _is_waiting(task)}
    waiting = [
        Step(name, "pending", waits_since=_time(task.start_time))
        for name, task in drivers.items()
        if name in STEPS and name not in by_name
    ]
    return tuple(sorted(_waiting(steps, tasks) + waiting, key=lambda step: STEPS.index(step.name)))


def waits_since(tasks: Sequence[Any]) -> datetime.datetime | None:
    """Returns the start of the longest wait of a pod that has not started; None if none waits."""
    times = [moment_of(task.start_time) for task in tasks if _is_waiting(task)]
    return min((time for time in times if time), default=None)


def _step(name: str, task: Any, is_finished: bool) -> Step:
    state = state_of_text(task.state)
    error = (task.error.message or "") if task.error else ""
    if is_finished and state == "pending":
        # Argo omits the steps after a failed one, and the server has no state for them.
        return Step(name, NOT_RUN, error=error)
    started, ended = _time(task.start_time), _time(task.end_time)
    seconds = max(0.0, ended - started) if started is not None and ended is not None else None
    if state == "succeeded" and seconds is not None and seconds < _CACHED_S:
        state = "cached"
    return Step(name, state, seconds, started_at=started, error=error)


def _time(given: Any) -> float | None:
    moment = moment_of(given)
    return moment.timestamp() if moment else None


def _waiting(steps: list[Step], tasks: Sequence[Any]) -> list[Step]:
    """Returns the steps; a step whose pod has not started gets the start of its wait.

    The first pod of a step starts with the step, later ones after it: each pod belongs to the step that began last
    before it and has no other pod.
    """
    found = {step.name: step for step in steps}
    free = [(step.started_at, step) for step in steps if step.state == "running" and step.started_at is not None]
    for start, is_waiting in sorted(_pods(tasks)):
        began = max((pair for pair in free if pair[0] <= start), key=lambda pair: pair[0], default=None)
        if began is None:
            continue
        free.remove(began)
        if is_waiting:
            found[began[1].name] = replace(began[1], state="pending", waits_since=start)
    return list(found.values())


def _pods(tasks: Sequence[Any]) -> Iterator[tuple[float, bool]]:
    """Yields for each unfinished pod of a step its creation time, and whether it has not started."""
    for task in tasks:
        start = _time(task.start_time)
        if _is_pod(task) and start is not None and state_of_text(task.state) in ("pending", "running"):
            yield start, _is_waiting(task)


def _is_pod(task: Any) -> bool:
    # The parent of several tries is named `executor` too.
    return bool(_POD.match(task.display_name or "")) and not task.child_tasks


def _driven(task: Any) -> str:
    """Returns the step of a driver's pod; empty for any other task."""
    found = _DRIVER.match(task.display_name or "")
    return found["step"] if found and not task.child_tasks else ""


def _is_waiting(task: Any) -> bool:
    # Only PENDING: a step that Argo omits has no state or an unspecified one.
    return task.state == "PENDING" and bool(_is_pod(task) or _driven(task))
