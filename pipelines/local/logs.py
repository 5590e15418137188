"""The first look at a run's logs, before anything heavy is loaded."""

import datetime

from components.steps.example_gen.files.listing import OneListing
from components.steps.example_gen.files.local_files import LocalStorage
from components.steps.example_gen.files.resolve import require_evaluation_days, resolve
from pipelines.local.request import RunRequest
from schemas.derived.days import yesterday
from schemas.spec.data import DayLogs


def check_logs(request: RunRequest, today: datetime.date) -> None:
    """Looks for the files of a run's days or splits, and reads none.

    Args:
        request: of the run.
        today: UTC; logs that are waited for, as `data.arrival` says, may come.

    Raises:
        UserError: for days or splits without files, and what is no regular file.
    """
    logs, storage = request.spec.data, OneListing(LocalStorage())
    date = request.date.isoformat() if request.date else ""
    if isinstance(logs, DayLogs) and request.date:
        if logs.arrival and request.date >= yesterday(today):
            return
        if request.spec.training.mode == "incremental":
            # Which of the train days are needed is known only with the base; they may be gone.
            require_evaluation_days(logs, date, str(request.data_root), storage)
            return
    resolve(logs, date, str(request.data_root), storage)
