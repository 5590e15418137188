"""State shared by the steps of a run and their tries, in small files beside the run's artifacts.

Each try of a step is a new pod with the same command. Without the notes, a try after midnight would get
another date from the clock, and every try would send an alert.
"""

from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.host.files import write_first, write_whole

_DATE, _TRIES, _ALERTED = "date", "tries", "alerted"


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

    def count_try(self, step: str) -> int:
        """Counts a try of a step and returns its number, from 1."""
        path = self.folder / _TRIES / step
        try:
            before = int(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            before = 0
        _write(path, str(before + 1))
        return before + 1

    def is_first_alert(self, step: str) -> bool:
        """Returns whether this is the first alert on the step's failure, and records it as sent."""
        path = self.folder / _ALERTED / step
        if path.exists():
            return False
        _write(path, "")
        return True


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
