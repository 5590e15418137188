"""The training job: the file that the trainer step gives to the processes of a training, and the files they leave."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Literal

from schemas.contracts.formats import refuse_other_format
from schemas.errors import UserError
from schemas.files import write_whole
from schemas.spec import RankerSpec
from schemas.spec.base import FrozenModel
from schemas.spec.cluster import Cluster
from schemas.spec.serving import Export

FORMAT: Literal[1] = 1
JOB_FILE = "job.json"
REPORT_FILE = "training.json"
EXPORT_REPORT_FILE = "export.json"
PROGRESS_FILE = "progress.jsonl"
FAILURE_FILE = "failure.txt"
_REMEDY = (
    "another version has written it: run the training again with this one, on Kubernetes with the images of the "
    "pipeline and of the trainer from one build"
)


class TrainJob(FrozenModel):
    """What to train, on which files, and where the results go. All paths are absolute and local.

    Attributes:
        format: of this file.
        ranker: the declaration of the model and its training.
        spec_digest: of `ranker`; every process logs it first.
        train_files: transformed tf.Examples, TFRecord; gzip where the name ends in .gz.
        validation_files: the same, scored after every epoch; may be empty.
        check_files: raw tf.Examples; a few are scored by the ranks, and the exported model must give the same scores.
        transform_graph: output folder of TensorFlow Transform.
        model_dir: where the SavedModel goes. Empty: nothing is exported.
        output_dir: where the report of the training goes.
        final_checkpoint: where the checkpoint of the trained state is published.
        checkpoint_dir: checkpoints on the way; outlives a failed job, so that it is resumed from there.
        base_checkpoint: what training starts from; empty: from nothing.
        changed_features: whose values mean something else than in the base: what it knows of them is left out.
        days: of `train_files`, oldest first, YYYY-MM-DD; empty for logs without days.
        validation_days: of `validation_files`.
        log_dir: logs, heartbeats, progress; survives a failure.
    """

    format: Literal[1] = FORMAT
    ranker: RankerSpec
    spec_digest: str
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...] = ()
    check_files: tuple[str, ...] = ()
    transform_graph: str
    model_dir: str
    output_dir: str
    final_checkpoint: str
    checkpoint_dir: str
    base_checkpoint: str = ""
    changed_features: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    validation_days: tuple[str, ...] = ()
    log_dir: str

    @cached_property
    def digest(self) -> str:
        """The sha256 of all that decides what is learned and from which examples in which order, but for the ranks.

        A checkpoint of an equal job is one to go on from. Files count by name and size: the folder of a step that was
        run again may be another.
        """
        cluster = Cluster(data_workers=self.ranker.cluster.data_workers)
        decisive = self.train_files
        if self.ranker.training.early_stopping is not None:
            decisive += self.validation_files
        files = [(path.name, path.stat().st_size) for path in map(Path, decisive)]
        meaning = {
            "ranker": self.ranker.model_copy(update={"cluster": cluster, "export": Export()}).model_dump(mode="json"),
            "files": sorted(files),
            "base": self.base_checkpoint,
            "changed_features": self.changed_features,
            "days": [*self.days, *self.refit_days],
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()

    @property
    def refit_days(self) -> tuple[str, ...]:
        """The validation days that are trained on in the end."""
        stopping = self.ranker.training.early_stopping
        return self.validation_days if stopping is not None and stopping.refit else ()

    @property
    def report_file(self) -> Path:
        """The report of the training, written last: whoever finds it finds the final checkpoint too."""
        return Path(self.output_dir) / REPORT_FILE

    @property
    def export_file(self) -> Path:
        """The report of the export, written last: whoever finds it finds a whole model too."""
        return Path(self.output_dir) / EXPORT_REPORT_FILE

    @property
    def progress_file(self) -> Path:
        """One JSON object a line, from rank 0."""
        return Path(self.log_dir) / PROGRESS_FILE

    @property
    def failure_file(self) -> Path:
        """The text of the error that the whole job has failed with."""
        return Path(self.log_dir) / FAILURE_FILE

    def heartbeat_file(self, rank: int) -> Path:
        """Touched by a rank whenever it has made progress."""
        return Path(self.log_dir) / f"heartbeat-{rank}"

    def mistake_file(self, rank: int) -> Path:
        """The text of an error that trying again cannot mend."""
        return Path(self.log_dir) / f"mistake-{rank}.txt"


def write_job(path: Path, job: TrainJob) -> None:
    """Writes a job file, whole or not at all."""
    write_whole(path, job.model_dump_json(indent=2))


def read_job(path: Path) -> TrainJob:
    """Reads a job file.

    Raises:
        UserError: it has another format.
    """
    content = path.read_bytes()
    refuse_other_format(path, json.loads(content), FORMAT, _REMEDY)
    return TrainJob.model_validate_json(content)


def find_job(path: Path) -> TrainJob:
    """Reads a job file that another machine has written.

    Raises:
        UserError: it is not there.
    """
    try:
        return read_job(path)
    except OSError as error:
        raise UserError(
            f"training: the job file cannot be read (got {path}: {error.strerror}); it and all it names lie on a "
            "volume that every pod of the job mounts at the same path"
        ) from error
