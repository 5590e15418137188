"""State shared by the steps of a run and their pods, in small files beside the run's artifacts.

A step whose pod is lost gets a new one with the same command. Without the notes, a pod after midnight would get another
date from the clock, each would have all tries again, and each would send an alert.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sangam.schemas.host.files import write_first, write_whole

_DATE, _PODS, _TRIES, _ALERTED, _FAILED = "date", "pods", "tries", "alerted", "failed"
_PROGRESS = "progress"


class FinalFailure(BaseModel):
    """The failure after which a step has no tries left.

    Attributes:
        code: exit code.
        reason: why it failed.
        at: end of the last pod that has told it, seconds since 1970.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: int
    reason: str
    at: float


@dataclass(frozen=True)
class Notes:
    """The notes of one run, in a folder."""

    folder: Path

    def date(self) -> str:
        """Returns the date of the run; empty until one is recorded."""
        try:
            return (self.folder / _DATE).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def fix_date(self, date: str) -> str:
        """Records the date of the run unless a step has recorded one; returns the recorded date."""
        path = self.folder / _DATE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_first(path, date)
        return self.date()

    def count_pod(self, step: str) -> int:
        """Counts a pod of a step and returns its number, from 1."""
        return _count(self.folder / _PODS / step)

    def count_try(self, step: str) -> int:
        """Counts a try of a step, in whichever of its pods, and returns its number, from 1."""
        return _count(self.folder / _TRIES / step)

    def final_failure(self, step: str) -> FinalFailure | None:
        """Returns the failure after which a step had no tries left; None if there is none."""
        try:
            return FinalFailure.model_validate_json((self.folder / _FAILED / step).read_text(encoding="utf-8"))
        except (OSError, ValidationError):
            return None

    def fail(self, step: str, failure: FinalFailure) -> None:
        """Records a failure after which a step has no tries left."""
        _write(self.folder / _FAILED / step, failure.model_dump_json())

    def progress(self, step: str) -> Path:
        """Returns the folder for the progress of a task of several steps, which has the name of the last."""
        return self.folder / _PROGRESS / step

    def is_first_alert(self, step: str) -> bool:
        """Returns whether this is the first alert on the step's failure, and records it as sent."""
        path = self.folder / _ALERTED / step
        if path.exists():
            return False
        _write(path, "")
        return True


def _count(path: Path) -> int:
    try:
        before = int(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        before = 0
    _write(path, str(before + 1))
    return before + 1


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
