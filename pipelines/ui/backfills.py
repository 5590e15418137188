"""The progress of backfills, read from their records."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sangam.components.record.lock import is_locked
from sangam.pipelines.backfill.record import RECORD_FILE, DateRecord, read_dates, read_record
from sangam.pipelines.ui import figures
from sangam.schemas.contracts.root import Root

_TONES = {"pushed": "good", "blessed": "good", "refused": "warn", "skipped": "mute"}


@dataclass(frozen=True)
class BackfillSoFar:
    """The backfills of a ranker.

    Attributes:
        ranker: name of the ranker.
        dates: records of finished dates, in order.
        asked: all dates of the last command; empty if unknown.
        current: running date; None without one.
    """

    ranker: str
    dates: tuple[DateRecord, ...]
    asked: tuple[str, ...] = ()
    current: str | None = None

    @property
    def num_done(self) -> int:
        """Number of finished dates of the last command."""
        done = {record.date for record in self.dates}
        return sum(date in done for date in self.asked)

    @property
    def metrics(self) -> dict[str, str]:
        """The name of each task's metric."""
        return {task: metric.metric for record in self.dates for task, metric in record.tasks.items()}

    @property
    def charts(self) -> list[Markup]:
        """A chart for each task with a value."""
        tasks = dict.fromkeys(task for record in self.dates for task in record.tasks)
        return [chart for task in tasks if (chart := _chart(task, self.dates)) is not None]

    @staticmethod
    def tone(record: DateRecord) -> str:
        """The meaning of the color of a date's verdict."""
        return _TONES[record.state]


def read_backfills(root: Root) -> list[BackfillSoFar]:
    """Returns the backfills of a root, by ranker.

    Raises:
        UserError: a record is of another version.
    """
    return [_read(root, folder.name) for folder in sorted(root.backfill("").glob("*")) if folder.is_dir()]


def _read(root: Root, ranker: str) -> BackfillSoFar:
    folder = root.backfill(ranker)
    dates = tuple(read_record(folder, ranker).dates.values())
    logs = sorted(folder.glob("*-*-*.log"), key=lambda path: path.stat().st_mtime)
    record = folder / RECORD_FILE
    # The record of a finished date is written after the last line of its log.
    is_noted = not logs or (record.exists() and record.stat().st_mtime >= logs[-1].stat().st_mtime)
    current = None if is_noted or not is_locked(root.path) else logs[-1].stem
    return BackfillSoFar(ranker, dates, tuple(read_dates(folder)), current)


def _chart(task: str, dates: Sequence[DateRecord]) -> Markup | None:
    known = [
        (record.date, metric.value, record.state in ("pushed", "blessed"), metric.metric)
        for record in dates
        if (metric := record.tasks.get(task)) is not None and metric.value is not None
    ]
    points = [(date, value, is_blessed) for date, value, is_blessed, _ in known if value is not None]
    return figures.by_day(task, points, known[0][3]) if points else None
