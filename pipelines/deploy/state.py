"""The state of a ranker on the server: the deployed version, the next run, the last run."""

import datetime
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sangam.pipelines.deploy import names
from sangam.pipelines.deploy.api import Api
from sangam.pipelines.deploy.members import with_members
from sangam.pipelines.deploy.reasons import log_command, pods_command, reason_of
from sangam.pipelines.deploy.records import Kind, KubeflowRun, Pipeline, Schedule, Version
from sangam.pipelines.deploy.steps import LONG_WAIT, SHORT_WAIT
from sangam.pipelines.times import Moment, date_of, last_due, next_due, time_of
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError

Health = Literal["healthy", "failed", "unscheduled", "overdue", "waiting"]
EXIT_CODES: dict[Health, ExitCode] = {
    "healthy": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "unscheduled": ExitCode.UNSCHEDULED,
    "overdue": ExitCode.OVERDUE,
    "waiting": ExitCode.WAITING,
}
_RECENT_RUNS = 50
_BAD = ("failed", "canceled")
_OVERDUE = datetime.timedelta(hours=1)
"""Delay after which a due run counts as missed: Kubeflow checks every few seconds."""


@dataclass(frozen=True)
class State:
    """The state of a ranker at a point in time.

    Attributes:
        ranker: name of the ranker.
        now: the point in time.
        schedules: all recurring runs of the ranker, also those that Sangam did not create.
        version: the version that the enabled schedule runs; None if there is none.
        last: the newest scheduled run, or the newest of all if none was scheduled; with steps.
        since: runs started since `last` by other means, newest first.
        reason: why `last` failed; empty if it did not, or if the reason is unknown here.
        namespace: namespace of the profile; empty for a server without users.
    """

    ranker: str
    now: Moment
    schedules: tuple[Schedule, ...]
    version: Version | None
    last: KubeflowRun | None
    since: tuple[KubeflowRun, ...] = ()
    reason: str = ""
    namespace: str = ""

    @property
    def recovered_by(self) -> KubeflowRun | None:
        """The run for the same date that succeeded after the last one had failed."""
        if self.last is None or self.last.state not in _BAD:
            return None
        date = date_text(self.last)
        return next((run for run in self.since if run.state == "succeeded" and date_text(run) == date), None)

    @property
    def enabled(self) -> tuple[Schedule, ...]:
        """The schedules that start runs."""
        return tuple(schedule for schedule in self.schedules if schedule.is_enabled)

    @property
    def next_due(self) -> Moment | None:
        """Start time of the next run."""
        times = [time_of(schedule.cron) for schedule in self.enabled]
        return min((next_due(time, self.now) for time in times if time), default=None)

    @property
    def health(self) -> Health:
        """The most severe problem, or `healthy`."""
        if len(self.enabled) != 1:
            return "unscheduled"
        if self.last is not None and self.last.state in _BAD and self.recovered_by is None:
            return "failed"
        if self._has_waited(LONG_WAIT):
            return "waiting"
        return "overdue" if self._is_overdue else "healthy"

    @property
    def look(self) -> str:
        """The command that shows more about the last run; empty if nothing is missing."""
        if self.last and self._has_waited(SHORT_WAIT):
            return pods_command(self.last.id, self.namespace)
        is_unknown = self.last is not None and self.last.state in _BAD and not self.reason
        return log_command(self.last.id, self.namespace) if self.last and is_unknown else ""

    def _has_waited(self, time: datetime.timedelta) -> bool:
        return bool(self.last and self.last.waits_since and self.now - self.last.waits_since >= time)

    @property
    def _is_overdue(self) -> bool:
        schedule = self.enabled[0]
        time = time_of(schedule.cron)
        if time is None:
            return False
        due = last_due(time, self.now)
        if self.now - due < _OVERDUE or schedule.created_at is None or schedule.created_at > due:
            return False
        return self.last is None or self.last.started_at is None or self.last.started_at < due

    def document(self) -> dict[str, Any]:
        """Returns the state as JSON, for programs."""
        return {
            "ranker": self.ranker,
            "health": self.health,
            "version": {"name": self.version.name, "description": self.version.description} if self.version else None,
            "schedules": [
                {
                    "id": schedule.id,
                    "name": schedule.name,
                    "at": time_of(schedule.cron),
                    "cron": schedule.cron,
                    "enabled": schedule.is_enabled,
                }
                for schedule in self.schedules
            ],
            "next": _iso(self.next_due),
            "last": run_document(self.last, self.ranker, self.now, self.reason) if self.last else None,
            "look": self.look or None,
            "recovered_by": self.recovered_by.id if self.recovered_by else None,
            "since": [run_document(run, self.ranker, self.now, run.error) for run in self.since],
        }


def state_of(api: Api, ranker: str, now: Moment, root: Path | None = None) -> State:
    """Returns the state of a ranker.

    Args:
        api: the server.
        ranker: name of the ranker.
        now: the point in time.
        root: mount point of the pipeline root on this machine; None: the path in the pods.

    Raises:
        UserError: the ranker is not on the server.
    """
    pipeline = deployed(api, ranker)
    schedules = tuple(api.schedules(pipeline.id))
    recent = list(itertools.islice(api.runs(pipeline.id), _RECENT_RUNS))
    index = next((index for index, run in enumerate(recent) if run.schedule_id), 0)
    last = with_members(api.get_run(recent[index].id), root) if recent else None
    enabled = next((schedule for schedule in schedules if schedule.is_enabled), None)
    return State(
        ranker=ranker,
        now=now,
        schedules=schedules,
        version=api.get_version(pipeline.id, enabled.version_id) if enabled else None,
        last=last,
        since=tuple(recent[:index]),
        reason=reason_of(last, root) if last else "",
        namespace=api.namespace,
    )


def deployed(api: Api, ranker: str) -> Pipeline:
    """Returns the pipeline of a ranker.

    Raises:
        UserError: the ranker is not on the server.
    """
    name = names.pipeline_name(names.check_text("NAME", ranker))
    pipeline = api.find_pipeline(name)
    if pipeline is None:
        server = f"namespace {api.namespace} of {api.host}" if api.namespace else api.host
        raise UserError(
            f"NAME: is not deployed (got {ranker}, no pipeline {name} in {server}); `sangam deploy SPEC` deploys it"
        )
    return pipeline


def recent_runs(api: Api, ranker: str, limit: int) -> list[KubeflowRun]:
    """Returns the newest runs of a ranker, the failed ones with their steps."""
    pipeline = deployed(api, ranker)
    runs = itertools.islice(api.runs(pipeline.id), limit)
    return [with_members(api.get_run(run.id)) if run.state == "failed" else run for run in runs]


def kind_of(run: KubeflowRun, ranker: str) -> Kind:
    """Returns how a run was started."""
    if run.schedule_id:
        return "scheduled"
    return "backfill" if run.name.startswith(names.backfill_prefix(ranker)) else "other"


def date_text(run: KubeflowRun) -> str:
    """Returns the date of a run: its parameter, or else the day before its creation."""
    if run.date is None:
        return date_of(run.created_at).isoformat() if run.created_at else ""
    return run.date


def run_document(run: KubeflowRun, ranker: str, now: Moment, reason: str) -> dict[str, Any]:
    """Returns a run as JSON, for programs; `reason`: why it failed, if known."""
    failed = run.failed_step
    return {
        "id": run.id,
        "name": run.name,
        "date": date_text(run),
        "kind": kind_of(run, ranker),
        "state": run.state,
        "started": _iso(run.started_at),
        "finished": _iso(run.finished_at),
        "seconds": run.seconds(now),
        "failed_step": failed.name if failed else None,
        "error": reason or None,
        "waits_since": _iso(run.waits_since),
        "argo_look_seconds": run.look_s,
        "steps": [
            {
                "name": step.name,
                "state": step.state,
                "seconds": step.took(now.timestamp()),
                "waits_since": _iso(_moment(step.waits_since)),
            }
            for step in run.steps
        ],
    }


def _moment(time: float | None) -> Moment | None:
    return None if time is None else datetime.datetime.fromtimestamp(time, datetime.UTC)


def _iso(moment: Moment | None) -> str | None:
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z") if moment else None
