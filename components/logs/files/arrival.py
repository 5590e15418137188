"""Waits until the marker of a run's date exists: then its logs are complete."""

import datetime
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sangam.components.logs.files.listing import Storage
from sangam.components.logs.files.newest import newest_day
from sangam.components.logs.files.resolve import absent_markers, days_of_window
from sangam.components.logs.request import Request
from sangam.schemas.derived.days import Day, yesterday
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import shown_seconds
from sangam.schemas.spec.data import EVAL, Arrival, DayLogs

_LOG = logging.getLogger(__name__)

WAITING_FILE = "waiting.txt"
"""File in the folder of LOG_DIR_VARIABLE with the reason for the wait, for the progress display."""
LOG_DIR_VARIABLE = "SANGAM_LOG_DIR"
LOG_EVERY_S = 300.0
_FAR = datetime.timedelta(days=366)


def wait_for_logs(
    request: Request,
    storage: Storage,
    today: datetime.date,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns once the marker of the run's date exists, or at once if the spec has no marker.

    It waits only for a date whose logs may still arrive: yesterday (UTC) or later, so that a backfill fails at once.
    It does not wait for other days of the window: without a marker they are missing days.

    Args:
        request: request to ingestion.
        storage: storage of the logs.
        today: UTC.
        clock: monotonic, in seconds.
        sleep: waits for some seconds.

    Raises:
        UserError: if the marker does not exist in time.
    """
    if not isinstance(request.logs, DayLogs) or request.logs.arrival is None:
        return
    [*_, date] = days_of_window(request.logs, request.date)[EVAL]
    arrival = request.logs.arrival
    is_old = date < yesterday(today)
    wait_s = 0 if is_old else arrival.wait_s
    started = clock()
    logged = float("-inf")
    try:
        while absent := absent_markers(request.logs, date, request.data_root, storage):
            waited = clock() - started
            if logged < 0:
                _require_plausible(request.logs, date, request.data_root, storage)
            if waited >= wait_s:
                raise UserError(_text(arrival, date, absent, wait_s, is_old=is_old))
            if waited - logged >= LOG_EVERY_S:
                logged = waited
                _LOG.info("event=waiting_for_logs date=%s waited_s=%d of_s=%d", date, waited, wait_s)
            past, whole = (shown_seconds(seconds, is_rough=True) for seconds in (waited, wait_s))
            show(f"waiting for the logs of {date}: {past} of {whole}")
            sleep(min(arrival.poll_s, wait_s - waited))
    finally:
        show("")
    if logged >= 0:
        _LOG.info("event=logs_arrived date=%s waited_s=%d", date, clock() - started)


def _require_plausible(logs: DayLogs, date: Day, data_root: str, storage: Storage) -> None:
    """Refuses a date that is far from all logs: the machine's clock may be wrong."""
    newest_logs = newest_day(logs, data_root, storage)
    if newest_logs and abs(date - newest_logs) > _FAR:
        raise UserError(
            f"date: is more than a year from the newest logs (got {date}, the newest logs are of {newest_logs}); "
            "check this machine's clock, or the date"
        )


def _text(arrival: Arrival, date: Day, absent: Sequence[str], wait_s: float, *, is_old: bool) -> str:
    waited = "at once, as the date is before yesterday" if is_old else f"after {wait_s} s"
    return (
        f"data.arrival: the logs of {date} have not arrived: no {', '.join(absent)} "
        f"(got none {waited}); run the date again when they are complete, or raise wait_s (got {arrival.wait_s})"
    )


def show(text: str) -> None:
    """Shows a text in the progress display, if there is one; empty: removes it."""
    folder = os.environ.get(LOG_DIR_VARIABLE)
    if not folder or not Path(folder).is_dir():
        return
    file = Path(folder) / WAITING_FILE
    if text:
        file.write_text(text, encoding="utf-8")
    else:
        file.unlink(missing_ok=True)
