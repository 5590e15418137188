"""The content of an alert."""

import datetime
import hashlib
import json
import shlex
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sangam.components.record.outcome import refusals, refusing_steps
from sangam.components.record.run import RunRecord
from sangam.components.record.store import first_run
from sangam.components.registry.record import read_records
from sangam.components.registry.served import served
from sangam.components.registry.shadow import Decision
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.errors import UserError
from sangam.schemas.spec.alerts import Alerts, OptionalKind

VERSION = 1
MAX_REASON = 4000
"""Maximum characters of a reason; the log contains all of it."""


def _cut(reason: str) -> str:
    if len(reason) <= MAX_REASON:
        return reason
    note = f"\n[cut here: {len(reason)} characters in all]"
    return reason[: MAX_REASON - len(note)] + note


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Event(BaseModel):
    """An event that people are alerted to.

    Attributes:
        kind: `failed`: the run failed; `refused`: a gate refused the model; `warning`: no gate refused it, with
            warnings; `promoted`, `dropped`: a version left the shadow; `not_pushed`: nothing was pushed for the
            declared days; `test`: sent by hand.
        pipeline: name of the spec.
        step: step that failed or refused; empty if the run failed outside its steps.
        date: YYYY-MM-DD; None for logs without dates. For `not_pushed` the day of the last push, None without one.
        run: name or id of the run.
        reason: the error's text, or the reasons of gates or warnings; cut after MAX_REASON characters.
        root: folder of all files that runs write; empty if unknown.
        page: the run's page: its path, or its address in `sangam ui`; None without one.
        command: command to type first; empty if there is none.
        live: version that servers load; None: nothing, or unknown.
        serving: folder of versions; None: unknown, or the spec pushes to no folder.
        host: name of the machine that sends the alert.
        sent_at: time of the first try.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: OptionalKind | Literal["not_pushed", "test"]
    pipeline: str
    step: str
    date: str | None
    run: str
    reason: Annotated[str, AfterValidator(_cut)]
    root: str = ""
    page: str | None = None
    command: str = ""
    live: str | None = None
    serving: str | None = None
    host: str = Field(default_factory=socket.gethostname)
    sent_at: datetime.datetime = Field(default_factory=_now)

    @property
    def id(self) -> str:
        """The same for repeated alerts on one event, for example by several tries of a step, and for no other event."""
        run = "" if self.kind == "not_pushed" else self.run
        identity = [self.kind, self.pipeline, self.root, self.step, self.date, run]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    @property
    def title(self) -> str:
        """The event in a line."""
        what = {
            "failed": f"failed in {self.step}" if self.step else "failed",
            "refused": f"refused by {self.step}" if self.step else "refused",
            "warning": f"{len(self.reason.splitlines())} warnings, no gate refused the model",
            "promoted": "a version left the shadow and is live",
            "dropped": "a version in the shadow was dropped",
            "not_pushed": "nothing was pushed",
            "test": "a test",
        }[self.kind]
        date = f" {self.date}" if self.date and self.kind != "not_pushed" else ""
        return f"{self.pipeline}{date}: {what}"

    @property
    def live_text(self) -> str:
        """The live version in words."""
        if self.serving is None:
            return "not known"
        return f"version {self.live} in {self.serving}" if self.live else f"nothing in {self.serving}"

    def document(self) -> dict[str, Any]:
        """Returns all fields, for programs."""
        return {"version": VERSION, "id": self.id} | self.model_dump(mode="json")


def event_of(record: RunRecord, alerts: Alerts) -> Event | None:
    """Returns the alert of a run that has ended; None if it ended well without warnings, or was stopped."""
    run = RunFolder(Path(record.path))
    page = str(run.page) if run.page.is_file() else None
    known: dict[str, Any] = {
        "pipeline": record.name,
        "date": record.date,
        "run": record.run,
        "root": str(run.path.parent.parent),
        "page": f"{alerts.ui.rstrip('/')}/runs/{record.run}" if alerts.ui else page,
        "command": shlex.join(["sangam", "why" if record.status in ("failed", "refused") else "show", record.path]),
        **live_of(Root(str(run.path.parent.parent)), record.name),
    }
    if record.status == "failed":
        return Event(kind="failed", step=record.failed_step or "", reason=record.error or "unknown", **known)
    if record.status == "refused":
        return Event(kind="refused", step=",".join(refusing_steps(record)), reason="\n".join(refusals(record)), **known)
    if record.status in ("pushed", "blessed") and record.warnings:
        return Event(kind="warning", step="", reason="\n".join(record.warnings), **known)
    return None


def decision_event(root: Root, folder: Path, ranker: str, decision: Decision, run: RunFolder | None, ui: str) -> Event:
    """Returns the alert of a version that left the shadow.

    Args:
        root: root of the runs.
        folder: folder of versions.
        ranker: name of the spec.
        decision: what became of it.
        run: run that pushed it; None: unknown.
        ui: address of `sangam ui`; empty: none.
    """
    name = run.path.name if run else decision.version
    page = str(run.page) if run and run.page.is_file() else None
    return Event(
        kind=decision.verdict,
        pipeline=ranker,
        step="",
        date=None,
        run=name,
        reason="\n".join([f"version {decision.version}: {decision.sentence}", *decision.measured]),
        root=str(root.path),
        page=f"{ui.rstrip('/')}/runs/{name}" if ui and run else page,
        command=shlex.join(["sangam", "show", str(run.path)] if run else ["sangam", "status", str(root.path)]),
        live=decision.version if decision.verdict == "promoted" else decision.live,
        serving=str(folder),
    )


def live_of(root: Root, ranker: str) -> dict[str, Any]:
    """Returns the fields `live` and `serving` of an event, from where the last push went; empty without one."""
    try:
        found = served(root.path, ranker)
    except UserError:
        # An alert tells what it can.
        return {}
    return {"live": found.newest, "serving": found.folder} if found else {}


def silence_of(alerts: Alerts, root: Root, ranker: str, now: datetime.datetime, run: str = "") -> Event | None:
    """Returns the alert that nothing was pushed for the declared days; None if something was.

    Without any push, the days since the ranker's first run count.

    Args:
        alerts: the spec's section.
        root: root of the runs.
        ranker: name of the spec.
        now: present time, UTC.
        run: run that finds it out.

    Raises:
        UserError: the registry of blessed models is damaged.
    """
    if alerts.not_pushed_for_days is None:
        return None
    pushed_at = last_push(root, ranker)
    first = first_run(root, ranker) if pushed_at is None else None
    since = pushed_at or (first.started if first else None)
    if since is None or now - since < datetime.timedelta(days=alerts.not_pushed_for_days):
        return None
    last = f"the last push was at {pushed_at:%Y-%m-%d %H:%M} UTC" if pushed_at else "nothing was ever pushed"
    return Event(
        kind="not_pushed",
        pipeline=ranker,
        step="",
        date=f"{pushed_at:%Y-%m-%d}" if pushed_at else None,
        run=run,
        reason=f"nothing was pushed for {(now - since).days} days: {last}",
        root=str(root.path),
        command=shlex.join(["sangam", "status", str(root.path)]),
        **live_of(root, ranker),
    )


def last_push(root: Root, ranker: str) -> datetime.datetime | None:
    """Returns when a model of a ranker was last pushed; None without one. Models that were withdrawn since count, too.

    Raises:
        UserError: the registry of blessed models is damaged.
    """
    return max((model.blessed_at for model in read_records(root.path, ranker) if model.pushed), default=None)
