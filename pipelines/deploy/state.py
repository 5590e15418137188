"""How a ranker is doing on the server: what is deployed, what runs next, what came of the last run."""

import datetime
import itertools
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.deploy import names
from pipelines.deploy.api import Api
from pipelines.deploy.records import Kind, Pipeline, Run, Schedule, Version
from pipelines.times import Moment, date_of, last_due, next_due, time_of
from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError

Health = Literal["healthy", "failed", "unscheduled", "overdue"]
EXIT_CODES: dict[Health, ExitCode] = {
    "healthy": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "unscheduled": ExitCode.UNSCHEDULED,
    "overdue": ExitCode.OVERDUE,
}
_RECENT_RUNS = 50
_BAD = ("failed", "canceled")
_OVERDUE = datetime.timedelta(hours=1)
"""A schedule whose run has not begun by then has missed it: Kubeflow looks every few seconds."""


@dataclass(frozen=True)
class State:
    """What is known of a ranker at a moment.

    Attributes:
        ranker: its name.
        now: the moment.
        schedules: its recurring runs, also somebody else's.
        version: that the schedule runs, if there is one.
        last: its newest run that the schedule has started, or the newest at all; with steps.
        since: runs that somebody has started since, newest first.
    """

    ranker: str
    now: Moment
    schedules: tuple[Schedule, ...]
    version: Version | None
    last: Run | None
    since: tuple[Run, ...] = ()

    @property
    def mended_by(self) -> Run | None:
        """A later run for the same date that has succeeded where the last one has not."""
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
        """When the next run starts."""
        times = [time_of(schedule.cron) for schedule in self.enabled]
        return min((next_due(time, self.now) for time in times if time), default=None)

    @property
    def health(self) -> Health:
        """The worst that can be said."""
        if len(self.enabled) != 1:
            return "unscheduled"
        if self.last is not None and self.last.state in _BAD and self.mended_by is None:
            return "failed"
        return "overdue" if self._is_overdue else "healthy"

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
        """Returns it for programs."""
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
            "last": run_document(self.last, self.ranker, self.now) if self.last else None,
            "mended_by": self.mended_by.id if self.mended_by else None,
            "since": [run_document(run, self.ranker, self.now) for run in self.since],
        }


def state_of(api: Api, ranker: str, now: Moment) -> State:
    """Returns what the server knows of a ranker.

    Raises:
        UserError: it is not on the server.
    """
    pipeline = deployed(api, ranker)
    schedules = tuple(api.schedules(pipeline.id))
    recent = list(itertools.islice(api.runs(pipeline.id), _RECENT_RUNS))
    at = next((at for at, run in enumerate(recent) if run.schedule_id), 0)
    chosen = next((schedule for schedule in schedules if schedule.is_enabled), None)
    return State(
        ranker=ranker,
        now=now,
        schedules=schedules,
        version=api.get_version(pipeline.id, chosen.version_id) if chosen else None,
        last=api.get_run(recent[at].id) if recent else None,
        since=tuple(recent[:at]),
    )


def deployed(api: Api, ranker: str) -> Pipeline:
    """Returns the pipeline of a ranker.

    Raises:
        UserError: it is not on the server.
    """
    name = names.pipeline_name(names.check_text("NAME", ranker))
    pipeline = api.find_pipeline(name)
    if pipeline is None:
        place = f"namespace {api.namespace} of {api.host}" if api.namespace else api.host
        raise UserError(
            f"NAME: is not deployed (got {ranker}, no pipeline {name} in {place}); `sangam deploy SPEC` does that"
        )
    return pipeline


def recent_runs(api: Api, ranker: str, limit: int) -> list[Run]:
    """Returns the newest runs of a ranker; those that have failed with their steps."""
    pipeline = deployed(api, ranker)
    runs = itertools.islice(api.runs(pipeline.id), limit)
    return [api.get_run(run.id) if run.state == "failed" else run for run in runs]


def kind_of(run: Run, ranker: str) -> Kind:
    """Returns what has started a run."""
    if run.schedule_id:
        return "scheduled"
    return "backfill" if run.name.startswith(names.backfill_prefix(ranker)) else "other"


def date_text(run: Run) -> str:
    """Returns the date that a run is for: the one it was given, or else the day before it was made."""
    if run.date is None:
        return date_of(run.created_at).isoformat() if run.created_at else ""
    return run.date


def run_document(run: Run, ranker: str, now: Moment) -> dict[str, Any]:
    """Returns a run for programs."""
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
        "error": (failed.error if failed else "") or run.error or None,
        "steps": [{"name": step.name, "state": step.state, "seconds": step.seconds} for step in run.steps],
    }


def _iso(moment: Moment | None) -> str | None:
    return moment.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z") if moment else None
