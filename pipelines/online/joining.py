"""The joiner of online training, and its job."""

import datetime
from pathlib import Path

from pipelines.online.job import segments_folder
from pipelines.online.processes import Kept
from pipelines.online.request import OnlineRequest
from schemas.contracts.joining_job import JOB_FILE, JoiningJob, write_joining_job
from schemas.errors import UserError
from schemas.spec.data import DayLogs


def joiner_of(request: OnlineRequest) -> Kept:
    """Returns the joiner, not started; writes its job file."""
    folder = request.root.online(request.spec.name) / "joining"
    folder.mkdir(parents=True, exist_ok=True)
    write_joining_job(folder / JOB_FILE, _job(request, folder))
    return Kept("the joiner", ["components.stream", str(folder / JOB_FILE)], folder / "joiner.log")


def _job(request: OnlineRequest, folder: Path) -> JoiningJob:
    spec = request.spec
    assert isinstance(spec.data, DayLogs)
    source = Path(request.source).resolve()
    if not source.is_dir():
        raise UserError(
            f"--source: no such folder (got {request.source}); give the folder in which log files appear, the one that "
            "the spec's file patterns are relative to"
        )
    learned = request.base.learned_until
    first = datetime.datetime.fromtimestamp(learned + 1 if learned is not None else 0, datetime.timezone.utc).date()
    return JoiningJob(
        logs=spec.data,
        inputs=spec.inputs(),
        settings=request.settings.joining,
        data_root=str(source),
        first_day=first.isoformat(),
        segments=str(segments_folder(request)),
        dead_letters=str(folder / "dead_letters"),
        status_file=str(folder / "status.json"),
    )
