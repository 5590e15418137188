"""The layout of a pipeline root. docs/runs.md describes it for users."""

from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.host.lock import LOCK_FILE

_ARTIFACTS, _METADATA, _RUNS, _BLESSED = "artifacts", "metadata.sqlite", "runs", "blessed"
_CHECKPOINTS, _TRAINING, _INGESTION, _EXAMPLES = "checkpoints", "training", "ingestion", "examples"
_BACKFILL, _SCHEDULE, _TUNE, _ONLINE = "backfill", "schedule", "tune", "online"
_METRICS, _TABLES = "metrics", "tables"
_REMOVED = ".removed"
SUMMARY_FILE, SPEC_FILE, PAGE_FILE = "summary.json", "spec.json", "report.html"
LATEST = "latest"
"""Name of the link to the run that started last, in the folder of runs."""
NAMES = frozenset(
    {
        LOCK_FILE,
        PAGE_FILE,
        _REMOVED,
        _ARTIFACTS,
        _METADATA,
        _RUNS,
        _BLESSED,
        _CHECKPOINTS,
        _TRAINING,
        _INGESTION,
        _EXAMPLES,
    }
    | {_BACKFILL, _SCHEDULE, _TUNE, _ONLINE, _METRICS, _TABLES}
)
"""Sangam's own folders in a pipeline root, beside the pushed models."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one run beside the outputs of its steps.

    Attributes:
        path: path of the folder, which is named after the run.
    """

    path: Path

    @property
    def summary(self) -> Path:
        """The summary; written last."""
        return self.path / SUMMARY_FILE

    @property
    def page(self) -> Path:
        """The page of the run."""
        return self.path / PAGE_FILE

    @property
    def spec(self) -> Path:
        """The spec as the run had it, without defaults; written first."""
        return self.path / SPEC_FILE

    @property
    def logs(self) -> Path:
        """Folder of one log per step and of the trainer's processes, with the training job's file."""
        return self.path / "logs"

    @property
    def steps(self) -> Path:
        """Log of the run's steps so far, a line each, to watch a run."""
        return self.logs / "steps.jsonl"

    @property
    def tasks(self) -> Path:
        """Folder of a run on Kubeflow: a journal for each task, in a file of its name."""
        return self.path / "steps"

    @property
    def root(self) -> "Root | None":
        """The root that a folder of this path is a run of; None: of none."""
        root = Root(str(self.path.parent.parent))
        return root if self.path.parent.name == _RUNS and root.metadata.is_file() else None


@dataclass(frozen=True)
class Root:
    """A pipeline root.

    Attributes:
        uri: path of a local folder, or an address in an object store. Attributes of type `Path` exist on a disk alone.
    """

    uri: str

    @property
    def path(self) -> Path:
        """The folder itself."""
        return Path(self.uri)

    @property
    def artifacts(self) -> Path:
        """Folder of the outputs of steps: `<step>/<output>/<execution>`."""
        return self.path / _ARTIFACTS

    @property
    def metadata(self) -> Path:
        """Database of ML Metadata."""
        return self.path / _METADATA

    @property
    def runs(self) -> Path:
        """Folder of the runs' own folders."""
        return self.path / _RUNS

    @property
    def removed(self) -> Path:
        """Folder of files being removed: moved there in one step, so that no partial folder stays in their place."""
        return self.path / _REMOVED

    def run(self, run: str) -> RunFolder:
        """Returns the folder of a run."""
        return RunFolder(self.runs / run)

    def run_folders(self) -> set[RunFolder]:
        """Returns the folders of all runs so far."""
        return {RunFolder(path) for path in self.runs.glob("*") if not path.name.endswith(LATEST)}

    def blessed(self, ranker: str) -> str:
        """Returns the folder, or address, of a ranker's blessings."""
        return f"{self.uri.rstrip('/')}/{_BLESSED}/{ranker}"

    def checkpoints(self, ranker: str) -> Path:
        """Returns the folder of a ranker's unfinished trainings."""
        return self.path / _CHECKPOINTS / ranker

    def training(self, ranker: str, identity: str) -> Path:
        """Returns the folder of the logs of a training in pods."""
        return self.path / _TRAINING / ranker / identity

    def examples(self, ranker: str) -> str:
        """Returns the folder, or address, of a ranker's examples by day."""
        return f"{self.uri.rstrip('/')}/{_EXAMPLES}/{ranker}"

    def tables(self, ranker: str) -> str:
        """Returns the folder, or address, of the rows of a ranker's table of logs by day or split."""
        return f"{self.uri.rstrip('/')}/{_TABLES}/{ranker}"

    @property
    def digests(self) -> Path:
        """The sha256 of every log file that was read, with its size and time."""
        return self.path / _INGESTION / "digests.json"

    def backfill(self, ranker: str) -> Path:
        """Returns the folder of a ranker's backfills."""
        return self.path / _BACKFILL / ranker

    def schedule(self, ranker: str) -> Path:
        """Returns the folder of the logs of runs that a timer started."""
        return self.path / _SCHEDULE / ranker

    def tune(self, ranker: str) -> Path:
        """Returns the folder of a ranker's searches."""
        return self.path / _TUNE / ranker

    @property
    def metrics(self) -> Path:
        """Folder of the files by which Prometheus finds the processes of trainings under way."""
        return self.path / _METRICS

    def online(self, ranker: str) -> Path:
        """Returns the folder of a ranker's online training: joined examples, checkpoints, logs."""
        return self.path / _ONLINE / ranker
