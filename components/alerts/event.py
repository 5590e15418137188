"""What an alert says."""

import datetime
import hashlib
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

VERSION = 1
MAX_REASON = 4000
"""Characters; the log has the rest."""


def _cut(reason: str) -> str:
    if len(reason) <= MAX_REASON:
        return reason
    note = f"\n[cut here: {len(reason)} characters in all]"
    return reason[: MAX_REASON - len(note)] + note


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


class Event(BaseModel):
    """Something that a person should know of.

    Attributes:
        kind: `failed`: the run broke off; `refused`: it ended, and a gate refused the model; `test`: by hand.
        pipeline: name of the spec.
        step: that failed or refused; empty: none of them, the run did not come so far.
        date: YYYY-MM-DD; None for logs without dates.
        run: its name or id.
        reason: the error's text, or the sentences of the gates; cut after MAX_REASON characters.
        sent_at: when it was first sent.
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
        """The same for the same thing, however often it is told: a step that is tried again fails again."""
        what = [self.kind, self.pipeline, self.step, self.date, self.run]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]

    def body(self) -> bytes:
        """Returns the JSON that is sent and signed."""
        return json.dumps({"version": VERSION, "id": self.id} | self.model_dump(mode="json")).encode()
