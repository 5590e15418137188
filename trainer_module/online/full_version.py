"""Requests the export of a full version: a checkpoint, the ranks' scores of a few examples, and a job file."""

from pathlib import Path

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.training_job import TrainJob, write_job
from sangam.trainer_module.check_scores import write_check
from sangam.trainer_module.loop.history import History
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.online.checkpointing import Checkpoints


def request_full_version(
    job: TrainJob, trainer: Trainer, history: History, checkpoints: Checkpoints, number: int, segment: int
) -> None:
    """Writes a job for `sangam.trainer_module.export`, the job file last. All ranks together.

    Args:
        job: the online training job.
        trainer: a trainer in the state of the deltas up to `number`.
        history: the training's history.
        checkpoints: the training's checkpoints.
        number: number of the last delta.
        segment: the last segment trained on; its examples are scored. 0: none.
    """
    assert job.stream is not None
    folder = job.full_version_folder(number)
    folder.mkdir(parents=True, exist_ok=True)
    stream = Path(job.stream.segments)
    has_examples = segments.exists(stream, segment) and segments.read(stream, segment).rows > 0
    checked = (str(segments.examples_file(stream, segment)),) if has_examples else ()
    # Ids of segments that have been removed since are in no version: their rows stay without.
    read = [each for each in segments.numbers(stream) if job.stream.first <= each <= segment]
    exported = job.model_copy(
        update={
            "stream": None,
            "check_files": checked if job.transform == "in_pool" else job.check_files,
            "id_files": tuple(str(segments.examples_file(stream, each)) for each in read if job.ranker.export.ids),
            "model_dir": str(folder / "model"),
            "output_dir": str(folder),
            "final_checkpoint": str(folder / "checkpoint"),
            "log_dir": str(folder),
        }
    )
    checkpoints.write_to(Path(exported.final_checkpoint), trainer, history, segment=segment)
    write_check(exported, trainer.rank, trainer.predict)
    if trainer.rank == 0:
        write_job(folder / "job.json", exported)
