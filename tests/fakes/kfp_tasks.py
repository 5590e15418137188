"""The tasks of a run as Kubeflow Pipelines 2.16.1 and 2.17 give them: one for each node of Argo's workflow.

A step is a DAG of that workflow, and its pod a child: `executor`, or `executor(N)` for try N where there are retries.
No task has an error, and a node without an end has one in the year 1 (toModelTask and toApiPipelineTaskDetail,
backend/src/apiserver/server/api_converter.go). Children name pods, and no task tells its own: nothing but times links a
pod to its step.

2.17 sets a retry strategy for all templates, so that each node is one of tries: `transform-driver` over
`transform-driver(0)`, which has the pod, and `transform` over `transform(0)`, the DAG.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

STEPS = ("example-gen", "transform", "trainer", "evaluator", "pusher")
UNFINISHED = {"PENDING", "RUNNING", "CANCELING", "PAUSED"}
NO_TIME = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Plot:
    """How far the steps of a run have come.

    Attributes:
        step: that runs, or has failed.
        waits_for: `executor` or `driver`: the pod of `step` that has not started; empty: none.
        attempt: of the pod of `step` that runs or waits, from 0.
        is_terminated: the run was, while `step` ran: its pod stays as it was.
    """

    step: str = "trainer"
    waits_for: str = ""
    attempt: int = 0
    is_terminated: bool = False


def tasks_of(state: str, plot: Plot, started: str, now: str, *, has_tries: bool = False) -> list[dict[str, Any]]:
    """Returns the tasks of a run in a state, in no order that means anything; `has_tries`: as 2.17 does."""
    if state == "PENDING":
        return []
    nodes = list(_nodes(state, plot, started, now))
    if has_tries:
        waits = f"{plot.step}-driver" if plot.waits_for == "driver" else ""
        nodes = [
            task for node in nodes for task in _with_tries(node, plot.attempt if node["display_name"] == waits else 0)
        ]
    return sorted(nodes, key=lambda task: str(task["display_name"]))


def _with_tries(node: dict[str, Any], attempt: int) -> Iterator[dict[str, Any]]:
    """Yields the node of a template as one of tries, and these; the executor's has them with 2.16.1 too."""
    name = node["display_name"]
    if name.startswith("executor") or "state" not in node:
        yield node
        return
    tries = [{"pod_name": f"{name}-{number}"} for number in range(attempt + 1)]
    yield {**node, "state": "RUNNING" if node["state"] == "PENDING" else node["state"], "child_tasks": tries}
    for number in range(attempt):
        yield {**node, "display_name": f"{name}({number})", "state": "FAILED"}
    yield {**node, "display_name": f"{name}({attempt})"}


def _nodes(state: str, plot: Plot, started: str, now: str) -> Iterator[dict[str, Any]]:
    is_finished = state not in UNFINISHED
    yield _task("root", "SUCCEEDED" if state == "SUCCEEDED" else "FAILED" if is_finished else "RUNNING", started, now)
    yield _task("root-driver", "SUCCEEDED", started, now)
    at = len(STEPS) if state == "SUCCEEDED" else STEPS.index(plot.step)
    for step in STEPS[:at]:
        yield from _step(step, "SUCCEEDED", 0, started, now)
    if state == "SUCCEEDED":
        return
    if plot.is_terminated:
        yield from _step(plot.step, "RUNNING", plot.attempt, started, now)
    elif is_finished:
        yield from _step(plot.step, "FAILED", plot.attempt, started, now)
        for step in STEPS[at + 1 :]:
            # Argo omits them, and Kubeflow has no state for that.
            yield from (_task(name, None, now, now) for name in (f"{step}-driver", step))
    elif plot.waits_for == "driver":
        yield _task(f"{plot.step}-driver", "PENDING", started, now)
    else:
        pod = "PENDING" if plot.waits_for == "executor" else "RUNNING"
        yield from _step(plot.step, "RUNNING", plot.attempt, started, now, pod)


def _step(
    name: str, state: str, attempt: int, started: str, now: str, pod: str | None = None
) -> Iterator[dict[str, Any]]:
    yield _task(f"{name}-driver", "SUCCEEDED", started, now)
    yield _task(name, state, started, now, children=[f"{name}-1-executor"])
    tries = [f"{name}-1-executor-{number}" for number in range(attempt + 1)]
    yield _task("executor", state, started, now, children=tries)
    for number in range(attempt):
        yield _task(f"executor({number})", "FAILED", started, now)
    yield _task(f"executor({attempt})", pod or state, started, now)


def _task(name: str, state: str | None, started: str, now: str, children: list[str] | None = None) -> dict[str, Any]:
    task = {"display_name": name, "create_time": started, "start_time": started}
    task["end_time"] = NO_TIME if state in UNFINISHED else now
    more: dict[str, Any] = {"child_tasks": [{"pod_name": pod} for pod in children]} if children else {}
    return {**task, **({"state": state} if state else {}), **more}
