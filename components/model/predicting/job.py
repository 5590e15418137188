"""A job that scores files: what it does is decided first, then Beam scores what is not there yet."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import apache_beam as beam

from sangam.components.beam.execution import pipeline_of
from sangam.components.logs.files.listing import first_problems
from sangam.components.model.model import Model, load
from sangam.components.model.predicting.output import ERRORS, Output
from sangam.components.model.predicting.part import Scoring, Seal, read_seal, write_part
from sangam.components.model.predicting.request import Job
from sangam.components.model.predicting.sources import Source
from sangam.components.object_stores import is_stored
from sangam.schemas.errors import UserError
from sangam.schemas.host import lock

REPORT_FILE = "predictions.json"
"""Report of a finished job, beside the parts; written last."""
_LOOK_S = 10.0

Tell = Callable[[str], None]


def run(job: Job, engine_args: Sequence[str], tell: Tell, *, overwrite: bool = False) -> dict[str, Any]:
    """Scores the files that have no part yet, and returns the report.

    Args:
        job: the job.
        engine_args: Beam's arguments.
        tell: is told the progress.
        overwrite: write parts of another model, of other options or of changed files anew.

    Raises:
        UserError: a file cannot be scored, or the folder has other predictions.
    """
    started = time.time()
    output = job.output
    with _alone(output):
        output.begin()
        left = _left(job, overwrite=overwrite)
        tell(f"{len(job.sources)} files, {len(job.sources) - len(left)} of them scored before")
        if left:
            output.remove(REPORT_FILE)
            with _told(job, len(left), tell), pipeline_of(engine_args) as pipeline:
                _ = (
                    pipeline
                    | "Files" >> beam.Create(left, reshuffle=False)
                    | "Spread" >> beam.Reshuffle()
                    | "Score" >> beam.ParDo(_Score(job.scoring, output.uri))
                )
            if errors := output.take_errors():
                raise UserError("\n".join(first_problems(errors)))
        report = _report(job, [_sealed(output, source) for source in job.sources], time.time() - started)
        output.put(REPORT_FILE, lambda file: _write_json(file, report))
    return report


class _Score(beam.DoFn):
    """Writes the part of a file. A mistake in the file becomes a text, as Beam would wrap and repeat an error."""

    def __init__(self, scoring: Scoring, output: str) -> None:
        self._scoring, self._output = scoring, output
        self._model: Model | None = None

    def process(self, source: Source) -> None:
        output = Output(self._output)
        try:
            self._model = self._model or load(self._scoring.model)
            write_part(self._model, self._scoring, source, output)
        except UserError as error:
            text = str(error)
        except OSError as error:
            text = f"{source.path}: cannot be read (got: {error}); see that nothing removes it"
        else:
            return
        output.put(f"{ERRORS}/{source.part}.txt", lambda file: _write_text(file, text))


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _write_json(file: Path, document: Any) -> None:
    _write_text(file, json.dumps(document, indent=2) + "\n")


def _left(job: Job, *, overwrite: bool) -> list[Source]:
    """Returns the files without a part.

    Raises:
        UserError: the folder has a part of a changed file, of another model or of other options.
    """
    there = {name for name in job.output.names() if name.endswith(".parquet")}
    if others := there - {source.part for source in job.sources}:
        raise UserError(f"--output: has files that are no part of this job (got {min(others)}); give an empty folder")
    left = [source for source in job.sources if source.part not in there]
    for source in job.sources:
        if source.part not in there:
            continue
        sealed = read_seal(job.output, source.part)
        if sealed and sealed.source == source and sealed.scoring.is_like(job.scoring):
            continue
        if not overwrite:
            raise UserError(
                f"--output: has predictions of another model, other options or a file that has changed since (got "
                f"{source.part}); give an empty folder, or --overwrite"
            )
        job.output.remove(source.part)
        left.append(source)
    return left


def _sealed(output: Output, source: Source) -> Seal:
    if (sealed := read_seal(output, source.part)) is None:
        raise UserError(f"{output.uri}/{source.part}: is gone (got no whole part); run the same command again")
    return sealed


def _report(job: Job, parts: Sequence[Seal], seconds: float) -> dict[str, Any]:
    noticed: Counter[str] = Counter()
    for part in parts:
        noticed.update(part.noticed)
    return {
        "format": 1,
        "model": job.scoring.model,
        "model_sha256": job.scoring.model_sha256,
        "keep": list(job.scoring.keep),
        "files": len(parts),
        "empty_files": [source.path for source in job.empty],
        "rows": sum(part.rows for part in parts),
        "noticed": dict(sorted(noticed.items())),
        "seconds": round(seconds, 3),
    }


@contextmanager
def _told(job: Job, num_left: int, tell: Tell) -> Iterator[None]:
    """Tells how many files are scored, while a job runs."""
    ended = threading.Event()

    def watch() -> None:
        known = len(job.sources) - num_left
        while not ended.wait(_LOOK_S):
            number = len({source.part for source in job.sources} & job.output.names())
            if number != known:
                tell(f"scored {number} of {len(job.sources)} files")
            known = number

    thread = threading.Thread(target=watch, name="predictions-told", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _alone(output: Output) -> Any:
    """Returns a lock of the folder; a store has none."""
    if is_stored(output.uri):
        return nullcontext()
    Path(output.uri).mkdir(parents=True, exist_ok=True)
    return lock.locked(Path(output.uri, lock.LOCK_FILE), output.uri, "another process writes predictions there")
