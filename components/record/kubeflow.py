"""Records a run on Kubeflow: each task writes a journal of its own, and the last one writes the record of the run."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from sangam.components.record.cost import cost_of
from sangam.components.record.journal import Journal, Noted, read_journal, read_task
from sangam.components.record.run import RunRecord, Step, read_reports, status_of
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import StepName

BEAT_S = 60.0
"""Seconds between two signs of life of a pod."""
_LOST_S = 3.5 * BEAT_S
_BETWEEN_S = 3600.0
"""Longest time from the end of one pod to the start of the next: of a node, and the pull of its image."""
_STEPS: tuple[str, ...] = get_args(StepName)
_CHAIN = _STEPS[: _STEPS.index("trainer") + 1]
"""Steps that the next one waits for."""


def task_file(run: RunFolder, task: str) -> Path:
    """Returns the journal of a task; `Journal` writes nothing where its folder cannot be made."""
    with contextlib.suppress(OSError):
        run.tasks.mkdir(parents=True, exist_ok=True)
    return run.tasks / task


def last_step(file: Path) -> Step | None:
    """Returns the step that began last, of the journal of a task; None before the first."""
    return max(read_task(file).steps.values(), key=lambda step: step.started_at or 0.0, default=None)


def end_task(file: Path, task: str, reason: str, now: float) -> str:
    """Records what a task's own process has not: how its last step ended. Returns the name of that step.

    Args:
        file: journal of the task.
        task: name of the task, that of the last of its steps.
        reason: why it failed; empty if it did not.
        now: seconds since 1970.
    """
    last = last_step(file) or Step(task, "running")
    if last.state == "ran":
        if not reason:
            return last.name
        # Its executor has ended well, and what follows it has not.
        last = Step(task, "running", started_at=last.started_at)
    seconds = max(0.0, now - (last.started_at or now)) if last.seconds is None else last.seconds
    ended = replace(last, state="failed" if reason else "ran", seconds=seconds, error=reason)
    Journal(lambda: now, file).step_ended(ended)
    return ended.name


def read_steps(run: RunFolder) -> dict[str, Step]:
    """Returns the steps that have begun, in the order of their starts."""
    return {name: step for name, step in read_journal(run).steps.items() if step.state != "waiting"}


def all_steps(steps: Mapping[str, Step]) -> dict[str, Step]:
    """Returns all steps of a run in order; those without a pod are `cached` or `waiting`.

    A cached step has no pod. So one that has left nothing although a later one of the chain has is from the cache.
    """
    last = max((_STEPS.index(name) for name in steps if name in _STEPS), default=-1)
    others = {
        name: Step(name, "cached" if place < last and name in _CHAIN else "waiting")
        for place, name in enumerate(_STEPS)
        if name not in steps
    }
    return {name: steps.get(name) or others[name] for name in _STEPS}


def lives(noted: Noted, now: float) -> bool:
    """Returns whether a run without a record goes on, by what its pods have last told."""
    most_s = _LOST_S if noted.running else _BETWEEN_S
    return noted.heard_at is not None and now - noted.heard_at < most_s


def record_of(
    run: RunFolder,
    ranker: str,
    date: str | None,
    inputs: Mapping[str, Path],
    *,
    now: float,
    spec: Spec | None = None,
    **more: Any,
) -> RunRecord:
    """Returns the record of a run that ends now.

    Args:
        run: folder of the run.
        ranker: name of the ranker.
        date: YYYY-MM-DD; None: logs without days.
        inputs: folders of steps' outputs, by the reporter's input names.
        now: seconds since 1970.
        spec: spec of the run, for its prices; None: unknown.
        more: other fields of the record; without `status` the run has ended well.
    """
    begun, reports = read_steps(run), read_reports(inputs)
    # The step that writes this runs itself.
    steps = {name: step for name, step in all_steps(begun).items() if step.state not in ("running", "waiting")}
    fields = {**reports.fields(), **more}
    started = min((step.started_at for step in begun.values() if step.started_at is not None), default=now)
    return RunRecord(
        run=run.path.name,
        path=str(run.path),
        name=ranker,
        date=date,
        steps=steps,
        started_at=started,
        total_seconds=round(max(0.0, now - started), 3),
        cost=cost_of(spec, steps, reports) if spec else None,
        runner="kubeflow",
        **{"status": status_of(fields["blessed"], fields.get("pushed")), **fields},
    )
