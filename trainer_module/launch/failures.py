"""Failures of a training job, as hosts report them to the coordinator, and whether to retry."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel

Cause = Literal["mistake", "memory", "killed", "hung", "lost", "ended", "late", "export"]
"""The first six end an attempt, the most likely root cause first.

mistake: a retry cannot help. memory: a process reached its memory limit, and would again. killed: a signal ended a
process. hung: a rank made no progress. lost: a host is gone. ended: a process failed by itself, as all others do when
one is killed. late: the deadline has passed. export: the model could not be written.
"""
_FIRST_CAUSES: tuple[Cause, ...] = ("mistake", "memory", "killed", "hung", "lost", "ended")
_MAY_RETRY = frozenset({"killed", "hung", "lost", "ended"})
MAX_TEXT = 20_000
MAX_BRIEF = 200


class Failure(FrozenModel):
    """A failure: `text` names the process, the host, the reason, and the end of its log; `brief` fits on a line."""

    cause: Cause
    text: Annotated[str, Field(max_length=MAX_TEXT)]
    brief: Annotated[str, Field(max_length=MAX_BRIEF)] = ""


class JobFailedError(RuntimeError):
    """The attempt failed.

    Attributes:
        cause: determines whether to retry.
        brief: the failure in a few words.
    """

    def __init__(self, cause: Cause, text: str, brief: str = ""):
        super().__init__(text)
        self.cause = cause
        self.brief = (brief or text.splitlines()[0].removeprefix("training: "))[:MAX_BRIEF]

    @property
    def may_retry(self) -> bool:
        """Whether another attempt from the last checkpoint may succeed: a process was lost."""
        return self.cause in _MAY_RETRY

    def failure(self) -> Failure:
        """Returns the failure as a message."""
        text = str(self)
        if len(text) > MAX_TEXT:  # The first line has the failure, the end of the log its cause.
            text = text[: MAX_TEXT // 10] + "\n...\n" + text[-MAX_TEXT // 2 :]
        return Failure(cause=self.cause, text=text, brief=self.brief)


def first_cause(failures: list[Failure]) -> Failure:
    """Returns the failure that caused the others; the first reported among equals."""
    return min(failures, key=lambda failure: _FIRST_CAUSES.index(failure.cause))
