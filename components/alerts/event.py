"""The content of an alert."""

import datetime
import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sangam.components.record.outcome import refusals, refusing_steps
from sangam.components.record.run import RunRecord

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
        kind: `failed`: the run failed; `refused`: a gate refused the model; `test`: sent by hand.
        pipeline: name of the spec.
        step: step that failed or refused; empty if the run failed outside its steps.
        date: YYYY-MM-DD; None for logs without dates.
        run: name or id of the run.
        reason: the error's text, or the gates' reasons; cut after MAX_REASON characters.
        sent_at: time of the first try.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["failed", "refused", "test"]
    pipeline: str
    step: str
    date: str | None
    run: str
    reason: Annotated[str, AfterValidator(_cut)]
    sent_at: datetime.datetime = Field(default_factory=_now)

    @property
    def id(self) -> str:
        """The same for repeated alerts on the same event, for example by several tries of a step."""
        identity = [self.kind, self.pipeline, self.step, self.date, self.run]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def body(self) -> bytes:
        """Returns the JSON that is sent and signed."""
        return json.dumps({"version": VERSION, "id": self.id} | self.model_dump(mode="json")).encode()


def event_of(record: RunRecord) -> Event | None:
    """Returns the alert of a run that has ended; None if it succeeded and was blessed, or was stopped."""
    known: dict[str, Any] = {"pipeline": record.name, "date": record.date, "run": record.run}
    if record.status == "failed":
        return Event(kind="failed", step=record.failed_step or "", reason=record.error or "unknown", **known)
    if record.status == "refused":
        return Event(kind="refused", step=",".join(refusing_steps(record)), reason="\n".join(refusals(record)), **known)
    return None
