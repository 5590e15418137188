"""Why a training job cannot go on, in words that cross from host to coordinator, and what is done about it."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel

Cause = Literal["mistake", "killed", "hung", "lost", "ended", "late", "export"]
"""The first five are what can happen to an attempt, the likeliest to be the first cause of the others coming first.

mistake: trying again cannot help. killed: a process was ended by a signal. hung: a rank made no progress. lost: a host
is gone. ended: a process ended badly by itself, which the others do when one of them is killed. late: the deadline has
passed. export: the model could not be written.
"""
_FIRST_CAUSES: tuple[Cause, ...] = ("mistake", "killed", "hung", "lost", "ended")
_MAY_RETRY = frozenset({"killed", "hung", "lost", "ended"})
MAX_TEXT = 20_000
MAX_BRIEF = 200


class Failure(FrozenModel):
    """What has gone wrong: the text names the process, the host, why, and the end of its log; `brief` is for a line."""

    cause: Cause
    text: Annotated[str, Field(max_length=MAX_TEXT)]
    brief: Annotated[str, Field(max_length=MAX_BRIEF)] = ""


class JobFailedError(RuntimeError):
    """The job cannot go on like this.

    Attributes:
        cause: decides whether it is tried again.
        brief: what has happened, in a few words.
    """

    def __init__(self, cause: Cause, text: str, brief: str = ""):
        super().__init__(text)
        self.cause = cause
        self.brief = (brief or text.splitlines()[0].removeprefix("training: "))[:MAX_BRIEF]

    @property
    def may_retry(self) -> bool:
        """Whether it could go well from the last checkpoint: a process was lost, nobody made a mistake."""
        return self.cause in _MAY_RETRY

    def failure(self) -> Failure:
        """Returns the same as a message."""
        text = str(self)
        if len(text) > MAX_TEXT:  # The first line says what, the end of the log why.
            text = text[: MAX_TEXT // 10] + "\n...\n" + text[-MAX_TEXT // 2 :]
        return Failure(cause=self.cause, text=text, brief=self.brief)


def first_cause(failures: list[Failure]) -> Failure:
    """Returns the failure that led to the others; among equals the one that was noticed first."""
    return min(failures, key=lambda failure: _FIRST_CAUSES.index(failure.cause))
