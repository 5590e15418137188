"""The objects of the server, with the fields that Sangam uses."""

import datetime
from dataclasses import dataclass
from typing import Any, Literal, get_args

from schemas.spec.cluster import StepName

STEPS = tuple(name.replace("_", "-") for name in get_args(StepName))
"""The tasks of a pipeline, in order. A run also has Kubeflow's own tasks, such as drivers."""
FINISHED = ("succeeded", "skipped", "failed", "canceled")
DATE_PARAMETER = "date"

Kind = Literal["scheduled", "backfill", "other"]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline, which holds all versions of one ranker."""

    id: str
    description: str


@dataclass(frozen=True)
class Version:
    """An uploaded, compiled pipeline."""

    id: str
    name: str
    description: str
    created_at: datetime.datetime | None


@dataclass(frozen=True)
class Schedule:
    """A recurring run."""

    id: str
    name: str
    pipeline_id: str
    version_id: str
    experiment_id: str
    cron: str
    is_enabled: bool
    parameters: dict[str, Any]
    created_at: datetime.datetime | None


@dataclass(frozen=True)
class StepState:
    """A step of a run."""

    name: str
    state: str
    seconds: float | None
    error: str


@dataclass(frozen=True)
class Run:
    """A run.

    Attributes:
        state: the server's state in lower case, such as `succeeded`; `pending` while the server gives none.
        schedule_id: recurring run that started it; empty if none did.
        date: the parameter; None if the run takes yesterday's.
        started_at: when it was due, or created if it was not scheduled.
        steps: those that have started; empty in listings, only `get_run` fills them.
    """

    id: str
    name: str
    state: str
    pipeline_id: str
    version_id: str
    schedule_id: str
    date: str | None
    created_at: datetime.datetime | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    error: str
    steps: tuple[StepState, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether the run has not finished."""
        return self.state not in FINISHED

    @property
    def failed_step(self) -> StepState | None:
        """The first failed step, in the pipeline's order."""
        return next((step for step in self.steps if step.state == "failed"), None)

    def seconds(self, now: datetime.datetime) -> float | None:
        """Returns how long the run took, or has taken so far."""
        end = now if self.is_unfinished else self.finished_at
        return (end - self.created_at).total_seconds() if end and self.created_at else None


def pipeline_of(got: Any) -> Pipeline:
    """Returns the record of a generated model."""
    return Pipeline(id=got.pipeline_id, description=got.description or "")


def version_of(got: Any) -> Version:
    """Returns the record of a generated model."""
    return Version(got.pipeline_version_id, got.display_name, got.description or "", _time(got.created_at))


def schedule_of(got: Any) -> Schedule:
    """Returns the record of a generated model."""
    reference, trigger, runtime = got.pipeline_version_reference, got.trigger, got.runtime_config
    cron = trigger.cron_schedule if trigger else None
    return Schedule(
        id=got.recurring_run_id,
        name=got.display_name,
        pipeline_id=(reference.pipeline_id or "") if reference else "",
        version_id=(reference.pipeline_version_id or "") if reference else "",
        experiment_id=got.experiment_id or "",
        cron=cron.cron if cron else "",
        is_enabled=got.status == "ENABLED",
        parameters=dict(runtime.parameters or {}) if runtime else {},
        created_at=_time(got.created_at),
    )


def run_of(got: Any) -> Run:
    """Returns the record of a generated model."""
    reference, runtime = got.pipeline_version_reference, got.runtime_config
    parameters = (runtime.parameters or {}) if runtime else {}
    details = (got.run_details.task_details or []) if got.run_details else []
    tasks = {task.display_name: task for task in details if task.display_name in STEPS}
    created = _time(got.created_at)
    return Run(
        id=got.run_id,
        name=got.display_name,
        state=_state(got.state),
        pipeline_id=(reference.pipeline_id or "") if reference else "",
        version_id=(reference.pipeline_version_id or "") if reference else "",
        schedule_id=got.recurring_run_id or "",
        date=str(parameters.get(DATE_PARAMETER) or "") or None,
        created_at=created,
        started_at=_time(got.scheduled_at) or created,
        finished_at=_time(got.finished_at),
        error=(got.error.message or "") if got.error else "",
        steps=tuple(_step(name, tasks[name]) for name in STEPS if name in tasks),
    )


def _step(name: str, task: Any) -> StepState:
    start, end = _time(task.start_time), _time(task.end_time)
    return StepState(
        name=name,
        state=_state(task.state),
        seconds=(end - start).total_seconds() if start and end else None,
        error=(task.error.message or "") if task.error else "",
    )


def _state(text: str | None) -> str:
    return "pending" if not text or text.endswith("UNSPECIFIED") else text.lower()


def _time(value: datetime.datetime | None) -> datetime.datetime | None:
    """Returns a time from the server; None for one that has not come yet, which the server gives as 1970."""
    if value is None or value.year == 1970:
        return None
    return value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
