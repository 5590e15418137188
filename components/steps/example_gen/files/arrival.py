"""Waits until the logs of a run's date are complete: until their marker is there."""

import datetime
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from components.steps.example_gen.files.listing import Storage
from components.steps.example_gen.files.newest import newest_day
from components.steps.example_gen.files.resolve import days_of_window, is_complete, marker_path
from components.steps.example_gen.request import Request
from schemas.derived.days import Day, yesterday
from schemas.errors import UserError
from schemas.spec.data import EVAL, Arrival, DayLogs

_LOG = logging.getLogger(__name__)

WAITING_FILE = "waiting.txt"
"""In the folder that this variable names, while a run waits: what for, for whoever shows its progress."""
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
    """Returns once the marker of the run's date is there, or at once where none is declared.

    Only a date that may still be on its way is waited for: yesterday (UTC) or later. A backfill of dates that never
    came tells so at once. Other days of the window are not waited for: without a marker they are missing days.

    Args:
        request: what to read.
        storage: where to look.
        today: UTC.
        clock: seconds that never go backwards.
        sleep: for some seconds.

    Raises:
        UserError: the marker is not there, and it is not waited for any longer.
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
        while not is_complete(request.logs, date, request.data_root, storage):
            waited = clock() - started
            if logged < 0:
                _require_plausible(request.logs, date, request.data_root, storage)
            if waited >= wait_s:
                raise UserError(_text(arrival, date, request.data_root, wait_s, is_old=is_old))
            if waited - logged >= LOG_EVERY_S:
                logged = waited
                _LOG.info("event=waiting_for_logs date=%s waited_s=%d of_s=%d", date, waited, wait_s)
            show(f"waits for the logs of {date}: {waited / 60:.0f} of {wait_s / 60:.0f} minutes")
            sleep(min(arrival.poll_s, wait_s - waited))
    finally:
        show("")
    if logged >= 0:
        _LOG.info("event=logs_arrived date=%s waited_s=%d", date, clock() - started)


def _require_plausible(logs: DayLogs, date: Day, data_root: str, storage: Storage) -> None:
    """Does not wait for a day that this machine's clock has made up."""
    newest = newest_day(logs, data_root, storage)
    if newest and abs(date - newest) > _FAR:
        raise UserError(
            f"date: is more than a year from the newest logs (got {date}, the newest logs are of {newest}); "
            "check this machine's clock, or the date"
        )


def _text(arrival: Arrival, date: Day, data_root: str, wait_s: float, *, is_old: bool) -> str:
    how_long = "which is not waited for, as it is older than yesterday" if is_old else f"after {wait_s} s"
    return (
        f"data.arrival: the logs of {date} have not arrived: no {marker_path(arrival, date, data_root)} "
        f"(got none {how_long}); see to what writes them and run the date again, or raise wait_s (got {arrival.wait_s})"
    )


def show(text: str) -> None:
    """Leaves a word for the progress, where there is a folder for it."""
    folder = os.environ.get(LOG_DIR_VARIABLE)
    if not folder or not Path(folder).is_dir():
        return
    file = Path(folder) / WAITING_FILE
    if text:
        file.write_text(text, encoding="utf-8")
    else:
        file.unlink(missing_ok=True)
