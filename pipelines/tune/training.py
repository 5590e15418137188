"""One trial: a real training on the search's examples, as processes of their own, without an export."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.processes.group import ProcessGroup
from pipelines.local.training_progress import read_progress
from pipelines.tune.records import Validation
from schemas.contracts.training_job import JOB_FILE, TrainJob, write_job
from schemas.spec import RankerSpec, Spec, digest
from schemas.spec.base import FrozenModel

_LAUNCHER = "trainer_module.launch.launcher"
_CHECKPOINTS, _FINAL = "checkpoints", "final"


class Examples(FrozenModel):
    """What every trial of a search learns from and is compared on.

    Attributes:
        run: that made them, or took them from the cache.
        train_files: transformed examples.
        validation_files: likewise.
        transform_graph: of Transform.
        days: that are trained on; empty for logs without days.
        num_train_examples: in `train_files`; 0: not known.
    """

    run: str
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...]
    transform_graph: str
    days: tuple[str, ...] = ()
    num_train_examples: int = 0


class TrialFailed(Exception):
    """A training that came to no model; the text says why."""


@dataclass(frozen=True)
class Result:
    """What a training came to: the epoch of its model, counted from 1, and the validation split's metrics after it."""

    epoch: int
    validation: Validation


class Training:
    """A training under its launcher; begun again in the same folder, it goes on from its last checkpoint."""

    def __init__(self, folder: Path, spec: Spec, examples: Examples, *, launcher: str = _LAUNCHER):
        """Starts it.

        Args:
            folder: of the trial.
            spec: of the trial.
            examples: of the search.
            launcher: module that runs a job file.
        """
        self._folder, self._job = folder, job_of(folder, spec, examples)
        self._log = folder / "launch.log"
        for needed in (folder, Path(self._job.log_dir), Path(self._job.checkpoint_dir)):
            needed.mkdir(parents=True, exist_ok=True)
        job_file = folder / JOB_FILE
        write_job(job_file, self._job)
        # An interrupted search that is continued has lost no process.
        self._job.losses_file.unlink(missing_ok=True)
        self._group = ProcessGroup([launcher, str(job_file), str(os.getpid())], log=self._log)

    def is_running(self) -> bool:
        """Says whether the training has not ended yet."""
        return self._group.exit_code() is None

    def epochs(self) -> list[Validation]:
        """Returns the metrics of the validation split after each epoch so far."""
        try:
            # What follows the last line's end is still being written.
            lines = self._job.progress_file.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        told = [json.loads(line) for line in lines if '"validation"' in line]
        # An epoch is told twice when the training was interrupted soon after it.
        by_epoch = {line["epoch"]: line["validation"] for line in told}
        return [by_epoch[epoch] for epoch in sorted(by_epoch)]

    def progress(self) -> str:
        """Returns a word on how far it is, for people."""
        return str(read_progress(self._job.progress_file) or "")

    def result(self) -> Result:
        """Returns what the training came to, when it has ended.

        Raises:
            TrialFailed: it came to nothing.
        """
        code = self._group.wait()
        if code:
            failure = self._job.failure_file
            told = failure.read_text().splitlines() if failure.exists() else []
            raise TrialFailed(told[0] if told else f"training: the launcher ended with code {code}; see {self._log}")
        report: Mapping[str, Any] = json.loads(self._job.report_file.read_text())
        best = report.get("best_epoch")
        index = len(report["epochs"]) - 1 if best is None else int(best)
        return Result(index + 1, report["epochs"][index]["validation"])

    def end(self) -> None:
        """Ends all processes of the training, if any are left."""
        self._group.end()

    def tidy(self) -> None:
        """Removes what only a training that goes on would need."""
        remove_checkpoints(self._folder)


def trial_folder(folder: Path, number: int) -> Path:
    """Returns the folder of a search's trial."""
    return folder / "trials" / f"{number:04d}"


def remove_checkpoints(trial: Path) -> None:
    """Removes a trial's checkpoints, those that were damaged or left half written too."""
    for name in (_CHECKPOINTS, _FINAL):
        shutil.rmtree(trial / name, ignore_errors=True)


def job_of(folder: Path, spec: Spec, examples: Examples) -> TrainJob:
    """Returns the job of a trial: always from nothing, on all the days, and never exported."""
    ranker = spec.ranker()
    changes: dict[str, Any] = {"mode": "full", "incremental_epochs": None}
    if ranker.training.early_stopping is not None:
        # Trials are compared by what they have not seen.
        changes["early_stopping"] = ranker.training.early_stopping.model_copy(update={"refit": False})
    training = ranker.training.model_copy(update=changes)
    ranker = RankerSpec.model_validate(ranker.model_copy(update={"training": training}))
    return TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=examples.train_files,
        num_train_examples=examples.num_train_examples,
        validation_files=examples.validation_files,
        transform_graph=examples.transform_graph,
        model_dir="",
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / _FINAL),
        checkpoint_dir=str(folder / _CHECKPOINTS),
        days=examples.days,
        log_dir=str(folder / "logs"),
    )
