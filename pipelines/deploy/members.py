"""The steps of a task that several share: the server knows the task, and their records lie in the run's folder."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sangam.components.record.kubeflow import read_steps
from sangam.components.record.run import Step
from sangam.pipelines.deploy.records import KubeflowRun
from sangam.pipelines.deploy.steps import NOT_RUN, STEPS
from sangam.schemas.contracts.root import Root

_STATES = {"ran": "succeeded"}
_BEGUN = ("running", "succeeded", "failed")
"""States of a task whose steps leave records."""


def with_members(run: KubeflowRun, root: Path | None = None) -> KubeflowRun:
    """Returns a run with the steps of each task in place of the task, where their records can be read.

    Args:
        run: run with its steps.
        root: mount point of the pipeline root on this machine; None: the path in the pods.
    """
    if not run.steps or not (root or run.pipeline_root):
        return run
    recorded = read_steps(Root(str(root or run.pipeline_root)).run(run.id))
    recorded = {name.replace("_", "-"): step for name, step in recorded.items()}
    return replace(run, steps=tuple(_members(run, recorded)))


def _members(run: KubeflowRun, recorded: Mapping[str, Step]) -> Iterator[Step]:
    before = -1
    for task in run.steps:
        position = STEPS.index(task.name)
        names = STEPS[before + 1 : position + 1]
        before = position
        if task.state not in _BEGUN or not any(name in recorded for name in names[:-1]):
            yield task
            continue
        for name in names:
            if name in recorded:
                yield _shown(recorded[name], task)
            elif task.state != "running":
                yield Step(name, NOT_RUN)


def _shown(step: Step, task: Step) -> Step:
    state = _STATES.get(step.state, step.state)
    # A lost pod has left no end.
    state = "failed" if state == "running" and task.state == "failed" else state
    return replace(step, name=step.name.replace("_", "-"), state=state)
