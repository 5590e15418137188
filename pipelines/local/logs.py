"""A first check of a run's logs, before anything heavy is imported."""

import datetime

from components.logs.files.listing import OneListing
from components.logs.files.local_files import LocalStorage
from components.logs.files.resolve import require_evaluation_days, resolve
from pipelines.local.request import RunRequest
from schemas.derived.days import yesterday
from schemas.spec.data import DayLogs


def check_logs(request: RunRequest, today: datetime.date) -> None:
    """Checks that the files of a run's days or splits exist, without reading them.

    Args:
        request: the run.
        today: UTC; logs that `data.arrival` waits for are not checked.

    Raises:
        UserError: a day or split has no files, or a path is not a regular file.
    """
    logs, storage = request.spec.data, OneListing(LocalStorage())
    date = request.date.isoformat() if request.date else ""
    if isinstance(logs, DayLogs) and request.date:
        if logs.arrival and request.date >= yesterday(today):
            return
        if request.spec.training.mode == "incremental":
            # The base decides which train days are needed; the others may have been deleted.
            require_evaluation_days(logs, date, str(request.data_root), storage)
            return
    resolve(logs, date, str(request.data_root), storage)
