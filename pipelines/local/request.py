"""The request for a local run, checked before anything heavy is imported."""

import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from sangam.components.alerts import target_of
from sangam.components.logs.files.light_storage import LightStorage
from sangam.components.logs.files.listing import OneListing
from sangam.components.logs.files.resolve import require_evaluation_days, resolve
from sangam.components.logs.tables.files import files_of
from sangam.components.object_stores import is_stored, names
from sangam.pipelines.beam import unreachable
from sangam.schemas.contracts.root import Root
from sangam.schemas.derived.days import Day, parse_day, window, yesterday
from sangam.schemas.derived.plan import refuse_unfit
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.beam import BeamStepName, Dataflow, engine_of
from sangam.schemas.spec.data import DayLogs, TableLogs
from sangam.trainer_module.launch.machine import refuse_missing_horovod
from sangam.trainer_module.launch.memory import available_bytes


@dataclass(frozen=True)
class RunRequest:
    """One run of one spec.

    Attributes:
        spec: spec of the ranker.
        date: date of the run; None for logs without dates.
        data_root: absolute folder of the logs, or its address on an object store.
        root: absolute folder of all files that the run writes.
    """

    spec: Spec
    date: Day | None
    data_root: str
    root: Path

    @property
    def layout(self) -> Root:
        """The paths below the root."""
        return Root(str(self.root))


def check_request(spec: Spec, date: str | None, data: str | Path, root: Path) -> RunRequest:
    """Checks and returns the request.

    Raises:
        UserError: the date is missing, malformed or has no effect; a folder cannot be used; Horovod is not
            installed; the tables exceed this machine's memory; alerts have no address.
    """
    day = check_date(spec, date)
    if spec.alerts:
        # Fail now, not at the first alert.
        target_of(spec.alerts, os.environ)
    refuse_missing_horovod(spec, ranks_here=spec.cluster.ranks)
    refuse_unfit(spec, available_bytes())
    folder, root = str(data).rstrip("/") if is_stored(str(data)) else str(Path(data).resolve()), root.resolve()
    for name in get_args(BeamStepName):
        if isinstance(engine_of(spec.beam, name), Dataflow):
            place = f"beam.steps.{name}" if name in spec.beam.steps else "beam"
            raise UserError("\n".join(unreachable(place, {"--data": folder, "--root": str(root)})))
    _check_data(folder, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--root: cannot be created (got {root}: {error.strerror}); choose another folder") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise UserError(f"--root: is not writable (got {root}); choose another folder")
    return RunRequest(spec, day, folder, root)


def _check_data(data: str, root: Path) -> None:
    """Refuses a folder of logs that is not there, or that holds the root."""
    if is_stored(data):
        if not names(data):
            raise UserError(f"--data: has no objects (got {data}); give the address that the spec's patterns start at")
        return
    folder = Path(data)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise UserError(f"--data: {what} (got {data}); give the folder that the spec's file patterns are relative to")
    if root == folder or folder in root.parents:
        raise UserError(
            f"--root: is inside the data folder (got {root}, --data {data}); "
            "artifacts could be read as logs: choose a folder outside"
        )


def check_date(spec: Spec, date: str | None) -> Day | None:
    """Returns the date of a run; None for logs without dates.

    Raises:
        UserError: the date is missing, malformed or has no effect.
    """
    if not isinstance(spec.logs, DayLogs):
        if date is not None:
            raise UserError(f"--date: has no effect (got {date}); spec '{spec.name}' has no days: leave it out")
        return None
    if date is None:
        raise UserError(
            f"--date: is missing; spec '{spec.name}' reads logs by day: give the last evaluation day as YYYY-MM-DD"
        )
    try:
        day = parse_day(date)
    except ValueError as error:
        raise UserError(f"--date: {error}") from None
    try:
        window(spec.logs, day)
    except OverflowError:
        raise UserError(
            f"--date: is less than {spec.logs.train_days} days after the first date there is (got {date}); give a "
            "later one"
        ) from None
    return day


def check_logs(request: RunRequest, today: datetime.date) -> None:
    """Checks that the files of a run's days or splits exist, without reading them.

    Args:
        request: the run.
        today: present date, UTC; logs that `data.arrival` waits for are not checked.

    Raises:
        UserError: a day or split has no files, or a path is not a regular file.
    """
    table, logs, storage = request.spec.data, request.spec.logs, OneListing(LightStorage())
    if isinstance(table, TableLogs):
        files_of(table, request.data_root, storage)
        return
    date = request.date.isoformat() if request.date else ""
    if isinstance(logs, DayLogs) and request.date:
        if logs.arrival and request.date >= yesterday(today):
            return
        if request.spec.training.mode == "incremental":
            # The base determines the train days; logs of other days may have been deleted.
            require_evaluation_days(logs, date, request.data_root, storage)
            return
    resolve(logs, date, request.data_root, storage)


def run_id(spec: Spec, now: datetime.datetime) -> str:
    """Returns the id of a run that starts now: UTC to the second, and the first 8 digits of the spec's digest."""
    return f"{now.astimezone(datetime.UTC):%Y%m%dT%H%M%S}-{digest(spec)[:8]}"
