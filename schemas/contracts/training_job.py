"""The training job: the file with which the trainer step starts a training, and the names of the files it writes."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Literal

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.contracts.monitoring import Monitored
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.cluster import Cluster
from sangam.schemas.spec.input import Where
from sangam.schemas.spec.online import Online
from sangam.schemas.spec.serving import Export
from sangam.schemas.spec.tasks import BinaryTask

FORMAT: Literal[1] = 1
JOB_FILE = "job.json"
REPORT_FILE = "training.json"
EXPORT_REPORT_FILE = "export.json"
PROGRESS_FILE = "progress.jsonl"
FAILURE_FILE = "failure.txt"
LOSSES_FILE = "losses"
RANK_ADDRESS = "SANGAM_RANK_ADDRESS"
"""Variable of a rank with the address at which other machines' ranks reach it."""
_REMEDY = (
    "another version has written it: run the training again with this one, on Kubernetes with the images of the "
    "pipeline and of the trainer from one build"
)


class Stream(FrozenModel):
    """The input and output of an online training, instead of files and a model.

    Attributes:
        segments: folder of joined examples, see `contracts.segments`.
        first: number of the segment to begin with.
        learned_until: seconds since 1970; the base has learned from rows up to then, which are left out.
        versions: folder of versions; deltas are published below it, see `contracts.deltas`.
        lineage: name of the version that the base was exported as.
        settings: the spec's.
        joining: status file of the joiner, see `contracts.joining_job`.
    """

    segments: str
    joining: str = ""
    first: int
    learned_until: int | None = None
    versions: str
    lineage: str
    settings: Online


class TrainJob(FrozenModel):
    """A training: the ranker, its files, and the folders of its results. All paths are absolute and local.

    Attributes:
        ranker: the spec of the model and its training.
        spec_digest: digest of `ranker`; every process logs it first.
        transform: `ahead`: the files of `train_files` hold Transform's examples; `in_pool`: examples of the logs, which
            are transformed when they are read. Both give the same model.
        train_files: blocks of examples, see `contracts.example_files`.
        num_train_examples: number of examples in `train_files`, to show progress; 0: unknown.
        validation_files: blocks of examples scored after every epoch; may be empty.
        check_files: blocks of examples of the logs; the ranks score a few, and the exported model must give the same
            scores.
        id_files: blocks of examples of the logs, whose ids are kept beside the model; empty without `export.ids`.
        base_model: model of `base_checkpoint`, whose ids are kept too; empty: none.
        transform_graph: output folder of TensorFlow Transform.
        model_dir: folder for the SavedModel; empty: no export.
        output_dir: folder for the report of the training.
        final_checkpoint: folder for the checkpoint of the trained state.
        checkpoint_dir: folder for checkpoints during training; kept when the job fails, to resume from.
        base_checkpoint: checkpoint that training starts from; empty: none.
        changed_features: features whose values have changed their meaning since the base, which drops their weights.
        days: days of `train_files`, oldest first, YYYY-MM-DD; empty for logs without days.
        validation_days: days of `validation_files`.
        log_dir: folder for logs, heartbeats and progress; kept when the job fails.
        stream: input and output of an online training, which ends on request; None: a job that ends by itself.
        monitoring: settings of its served metrics; None: no metrics. Changes no result.
    """

    format: Literal[1] = FORMAT
    ranker: RankerSpec
    spec_digest: str
    transform: Where = "ahead"
    train_files: tuple[str, ...]
    num_train_examples: int = 0
    validation_files: tuple[str, ...] = ()
    check_files: tuple[str, ...] = ()
    id_files: tuple[str, ...] = ()
    base_model: str = ""
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
    stream: Stream | None = None
    monitoring: Monitored | None = None

    @cached_property
    def digest(self) -> str:
        """The sha256 of everything that decides the model and the order of its examples, except the ranks.

        A job resumes from checkpoints of jobs with its digest. Files count by name and size, because a step that ran
        again may have written to another folder.
        """
        cluster = Cluster(data_workers=self.ranker.cluster.data_workers)
        decisive = self.train_files
        is_calibrated = any(isinstance(task, BinaryTask) and task.calibration for task in self.ranker.tasks.values())
        is_measured = any(table.unseen == "auto" for table in self.ranker.tables.values())
        if self.ranker.training.early_stopping is not None or is_calibrated or is_measured:
            decisive += self.validation_files
        files = [(path.name, path.stat().st_size) for path in map(Path, decisive)]
        meaning = {
            "ranker": self.ranker.model_copy(update={"cluster": cluster, "export": Export()}).model_dump(mode="json"),
            "files": sorted(files),
            "base": self.base_checkpoint,
            "changed_features": self.changed_features,
            "days": [*self.days, *self.refit_days],
        }
        if self.stream is not None:
            # Not `first`: it changes when old segments are removed, and a checkpoint names the next one.
            begins = {"learned_until", "lineage", "segments"}
            meaning["stream"] = self.stream.model_dump_json(include=begins)
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()

    @property
    def refits(self) -> bool:
        """Whether the best model is trained on the validation split too, and there is one."""
        return self.ranker.training.refits and bool(self.validation_files)

    @property
    def refit_days(self) -> tuple[str, ...]:
        """The validation days that a refit trains on; empty for logs without days."""
        return self.validation_days if self.refits else ()

    @property
    def report_file(self) -> Path:
        """The report of the training, written last: if it exists, so does the final checkpoint."""
        return Path(self.output_dir) / REPORT_FILE

    @property
    def export_file(self) -> Path:
        """The report of the export, written last: if it exists, the model is complete."""
        return Path(self.output_dir) / EXPORT_REPORT_FILE

    @property
    def progress_file(self) -> Path:
        """One JSON object per line, from rank 0."""
        return Path(self.log_dir) / PROGRESS_FILE

    @property
    def failure_file(self) -> Path:
        """The error with which the whole job failed."""
        return Path(self.log_dir) / FAILURE_FILE

    @property
    def losses_file(self) -> Path:
        """File with the number of processes that the job has lost; exists while it runs."""
        return Path(self.log_dir) / LOSSES_FILE

    @property
    def stop_file(self) -> Path:
        """Ends an online training, which then publishes its last changes and writes a checkpoint."""
        return Path(self.log_dir) / "stop"

    @property
    def online_file(self) -> Path:
        """Progress of an online training as JSON, written about once a second."""
        return Path(self.log_dir) / "online.json"

    def full_version_folder(self, number: int) -> Path:
        """Folder with the input for the export of a full version that includes the deltas up to `number`."""
        return Path(self.output_dir) / f"full-{number:08d}"

    def heartbeat_file(self, rank: int) -> Path:
        """File that a rank touches at each progress."""
        return Path(self.log_dir) / f"heartbeat-{rank}"

    @property
    def ranks_folder(self) -> Path:
        """Folder in which an attempt's ranks find each other before they share memory."""
        return Path(self.log_dir) / "ranks"

    def meeting_folder(self, attempt: str) -> Path:
        """Folder in which an attempt's ranks of any hosts find each other before they connect."""
        return self.ranks_folder / attempt

    def server_file(self, server: int, attempt: str) -> Path:
        """The address, host:port, of a parameter server of an attempt; written once it serves."""
        return Path(self.log_dir) / f"parameter-server-{server}.{attempt}"

    def mistake_file(self, rank: int) -> Path:
        """The error of a rank that a retry cannot fix."""
        return Path(self.log_dir) / f"mistake-{rank}.txt"


def write_job(path: Path, job: TrainJob) -> None:
    """Writes a job file atomically."""
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
        UserError: it cannot be read, or has another format.
    """
    try:
        return read_job(path)
    except OSError as error:
        raise UserError(
            f"training: the job file cannot be read (got {path}: {error.strerror}); it and the files it names must be "
            "on a volume that every pod of the job mounts at the same path"
        ) from error
