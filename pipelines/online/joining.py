"""The joiner of online training, and its job."""

import datetime
from pathlib import Path

from sangam.pipelines.online.job import JOINING, segments_folder
from sangam.pipelines.online.processes import Kept
from sangam.pipelines.online.request import OnlineRequest
from sangam.schemas.contracts.joining_job import JOB_FILE, STATUS_FILE, JoiningJob, Kafka, write_joining_job
from sangam.schemas.spec.data import DayLogs


def joiner_of(request: OnlineRequest) -> Kept:
    """Writes the joiner's job file, and returns the joiner, not started."""
    folder = request.root.online(request.spec.name) / JOINING
    folder.mkdir(parents=True, exist_ok=True)
    write_joining_job(folder / JOB_FILE, _job(request, folder))
    return Kept("the joiner", ["sangam.components.stream", str(folder / JOB_FILE)], folder / "joiner.log")


def _job(request: OnlineRequest, folder: Path) -> JoiningJob:
    spec = request.spec
    assert isinstance(spec.logs, DayLogs)
    kafka = request.source if isinstance(request.source, Kafka) else None
    learned = request.base.learned_until
    first = datetime.datetime.fromtimestamp(learned + 1 if learned is not None else 0, datetime.UTC).date()
    return JoiningJob(
        logs=spec.logs,
        inputs=spec.inputs(),
        settings=request.settings.joining,
        data_root=str(folder / "landed") if kafka else str(request.source),
        first_day=first.isoformat(),
        segments=str(segments_folder(request)),
        dead_letters=str(folder / "dead_letters"),
        status_file=str(folder / STATUS_FILE),
        kafka=kafka,
    )
