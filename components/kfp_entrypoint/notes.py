"""What the tries of a run's steps tell each other, in small files beside the run's artifacts.

A step that is tried again is a new pod with the same command. Without a note it would take the clock's yesterday once
more, which after midnight is another day; and every try would tell of its failure.
"""

from dataclasses import dataclass
from pathlib import Path

from schemas.files import write_whole

_DATE, _TRIES, _TOLD = "date", "tries", "told"


@dataclass(frozen=True)
class Notes:
    """Of one run.

    Attributes:
        folder: of the notes.
    """

    folder: Path

    def date(self) -> str:
        """Returns the date of the run; empty until one is noted."""
        try:
            return (self.folder / _DATE).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def note_date(self, date: str) -> None:
        """Notes the date that the run's first try has taken."""
        _write(self.folder / _DATE, date)

    def count_try(self, step: str) -> int:
        """Returns the number of this try of a step, from 1, and notes it."""
        path = self.folder / _TRIES / step
        try:
            before = int(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            before = 0
        _write(path, str(before + 1))
        return before + 1

    def is_first_telling(self, step: str) -> bool:
        """Says whether nobody was told of this step's failure yet, and notes that it is done now."""
        path = self.folder / _TOLD / step
        if path.exists():
            return False
        _write(path, "")
        return True


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
