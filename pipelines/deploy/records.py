"""The objects of the server, with the fields that Sangam uses."""

import datetime
from dataclasses import dataclass
from typing import Any, Literal

from sangam.components.record.run import Step
from sangam.pipelines.deploy.looks import look_s
from sangam.pipelines.deploy.steps import moment_of, state_of_text, steps_of, waits_since

FINISHED = ("succeeded", "skipped", "failed", "canceled")
DATE_PARAMETER, ROOT_PARAMETER = "date", "pipeline_root"

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
    """A recurring run.

    Attributes:
        service_account: service account of its runs' pods, as stored by the server.
    """

    id: str
    name: str
    pipeline_id: str
    version_id: str
    experiment_id: str
    cron: str
    is_enabled: bool
    parameters: dict[str, Any]
    service_account: str
    created_at: datetime.datetime | None


@dataclass(frozen=True)
class KubeflowRun:
    """A run on the server.

    Attributes:
        state: the server's state in lower case, such as `succeeded`; `pending` without one.
        schedule_id: recurring run that started it; empty without one.
        date: parameter `date`; None: the day before the run.
        pipeline_root: parameter `pipeline_root`, a path in the pods; empty if not set.
        started_at: due time of a scheduled run, creation time of any other.
        waits_since: start of the wait for a pod that has not started; None without one.
        steps: started steps; empty in listings, only `get_run` fills them.
        look_s: how long Argo leaves an ended pod alone; None: unknown.
    """

    id: str
    name: str
    state: str
    pipeline_id: str
    version_id: str
    schedule_id: str
    date: str | None
    pipeline_root: str
    created_at: datetime.datetime | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    error: str
    waits_since: datetime.datetime | None = None
    steps: tuple[Step, ...] = ()
    look_s: float | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether the run has not finished."""
        return self.state not in FINISHED

    @property
    def failed_step(self) -> Step | None:
        """The first failed step, in the pipeline's order."""
        return next((step for step in self.steps if step.state == "failed"), None)

    def seconds(self, now: datetime.datetime) -> float | None:
        """Returns the duration of the run, so far if it is unfinished."""
        end = now if self.is_unfinished else self.finished_at
        return (end - self.created_at).total_seconds() if end and self.created_at else None


def pipeline_of(got: Any) -> Pipeline:
    """Converts a generated model."""
    return Pipeline(id=got.pipeline_id, description=got.description or "")


def version_of(got: Any) -> Version:
    """Converts a generated model."""
    return Version(got.pipeline_version_id, got.display_name, got.description or "", moment_of(got.created_at))


def schedule_of(got: Any) -> Schedule:
    """Converts a generated model."""
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
        service_account=got.service_account or "",
        created_at=moment_of(got.created_at),
    )


def run_of(got: Any) -> KubeflowRun:
    """Converts a generated model."""
    reference, runtime = got.pipeline_version_reference, got.runtime_config
    parameters = (runtime.parameters or {}) if runtime else {}
    details = (got.run_details.task_details or []) if got.run_details else []
    created, state = moment_of(got.created_at), state_of_text(got.state)
    is_finished = state in FINISHED
    return KubeflowRun(
        id=got.run_id,
        name=got.display_name,
        state=state,
        pipeline_id=(reference.pipeline_id or "") if reference else "",
        version_id=(reference.pipeline_version_id or "") if reference else "",
        schedule_id=got.recurring_run_id or "",
        date=str(parameters.get(DATE_PARAMETER) or "") or None,
        pipeline_root=str(parameters.get(ROOT_PARAMETER) or ""),
        created_at=created,
        started_at=moment_of(got.scheduled_at) or created,
        finished_at=moment_of(got.finished_at),
        error=(got.error.message or "") if got.error else "",
        waits_since=None if is_finished else waits_since(details) or (created if state == "pending" else None),
        steps=steps_of(details, is_finished),
        look_s=look_s(details),
    )
