"""The joiner on the logs of `sample_sources`, which arrive file by file."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.online import Joining
from tests.components.examples.sample_files import read_file
from tests.components.logs.sample_sources import DAYS, INPUTS, logs


def job_of(
    directory: Path, data: DayLogs | None = None, inputs: Inputs = INPUTS, first_day: str = DAYS[0], **settings: Any
) -> JoiningJob:
    """Returns a job below a folder; nothing is waited for by default."""
    for name in ("arrived", "examples"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    quick = {"settle_s": 0.0, "segment_every_s": 0.001, "idle_s": 1000.0}
    return JoiningJob(
        logs=data or logs(),
        inputs=inputs,
        settings=Joining.model_validate({**quick, **settings}),
        data_root=str(directory / "arrived"),
        first_day=first_day,
        segments=str(directory / "examples"),
        dead_letters=str(directory / "dead"),
        status_file=str(directory / "status.json"),
    )


def files_below(root: Path) -> list[str]:
    """Returns all files, relative and sorted."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def arrive(root: Path, job: JoiningJob, names: Sequence[str]) -> None:
    """Puts files into the joiner's folder, each at once."""
    for name in names:
        target = Path(job.data_root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"_{target.name}")
        shutil.copyfile(root / name, aside)
        aside.rename(target)


def examples_of(job: JoiningJob) -> list[dict[str, list[Any]]]:
    """Returns the rows of all segments, in their order."""
    folder = Path(job.segments)
    return [
        row for number in segments.numbers(folder) for row in read_file(str(segments.examples_file(folder, number)))
    ]


def as_texts(rows: Sequence[dict[str, list[Any]]]) -> list[str]:
    """Returns rows as texts, sorted."""
    return sorted(repr(sorted(row.items())) for row in rows)
