"""One trial: a training job on the search's examples, in its own processes, without an export."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sangam.components.processes.group import ProcessGroup
from sangam.pipelines.local.training_progress import read_progress
from sangam.pipelines.tune.records import Validation
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, write_job
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.spec import RankerSpec, Spec, digest

_LAUNCHER = "sangam.trainer_module.launch.launcher"
_CHECKPOINTS, _FINAL = "checkpoints", "final"


class Examples(FrozenModel):
    """The training and validation data of all trials of a search.

    Attributes:
        run: run that wrote them, or took them from the cache.
        train_files: transformed train examples.
        validation_files: transformed validation examples.
        transform_graph: folder of the Transform graph.
        days: train days; empty for logs without days.
        num_train_examples: number of examples in `train_files`; 0 if unknown.
    """

    run: str
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...]
    transform_graph: str
    days: tuple[str, ...] = ()
    num_train_examples: int = 0


class TrialFailed(Exception):
    """A training without a model; the text is the reason."""


@dataclass(frozen=True)
class Result:
    """The result of a training: the epoch of its model, counted from 1, and the validation split's metrics after it."""

    epoch: int
    validation: Validation


class Training:
    """A training under its launcher; a restart in the same folder resumes from the last checkpoint."""

    def __init__(self, folder: Path, spec: Spec, examples: Examples, *, launcher: str = _LAUNCHER):
        """Starts the training.

        Args:
            folder: folder of the trial.
            spec: spec of the trial.
            examples: examples of the search.
            launcher: module that runs a job file.
        """
        self._folder, self._job = folder, job_of(folder, spec, examples)
        self._log = folder / "launch.log"
        for needed in (folder, Path(self._job.log_dir), Path(self._job.checkpoint_dir)):
            needed.mkdir(parents=True, exist_ok=True)
        job_file = folder / JOB_FILE
        write_job(job_file, self._job)
        # Clear the losses of processes: an interruption of the search is not a failure.
        self._job.losses_file.unlink(missing_ok=True)
        self._group = ProcessGroup([launcher, str(job_file), str(os.getpid())], log=self._log)

    def is_running(self) -> bool:
        """Returns whether the training has not ended."""
        return self._group.exit_code() is None

    def epochs(self) -> list[Validation]:
        """Returns the metrics of the validation split after each epoch so far."""
        try:
            # Text after the last line end is still being written.
            lines = self._job.progress_file.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        told = [json.loads(line) for line in lines if '"validation"' in line]
        # An epoch is recorded twice if the training was interrupted soon after it.
        by_epoch = {line["epoch"]: line["validation"] for line in told}
        return [by_epoch[epoch] for epoch in sorted(by_epoch)]

    def progress(self) -> str:
        """Returns the progress as text."""
        return str(read_progress(self._job.progress_file) or "")

    def result(self) -> Result:
        """Waits for the end of the training, and returns its result.

        Raises:
            TrialFailed: the training failed.
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
        """Removes the files that only a resumed training would need."""
        remove_checkpoints(self._folder)


def trial_folder(folder: Path, number: int) -> Path:
    """Returns the folder of a search's trial."""
    return folder / "trials" / f"{number:04d}"


def remove_checkpoints(trial: Path) -> None:
    """Removes a trial's checkpoints, including damaged and partial ones."""
    for name in (_CHECKPOINTS, _FINAL):
        shutil.rmtree(trial / name, ignore_errors=True)


def job_of(folder: Path, spec: Spec, examples: Examples) -> TrainJob:
    """Returns the job of a trial: from scratch, on all days, without an export."""
    ranker = spec.ranker()
    changes: dict[str, Any] = {"mode": "full", "incremental_epochs": None}
    if ranker.training.order == "auto":
        changes["order"] = None  # Not each trial by itself: their results would not be of one spec.
    if ranker.training.early_stopping is not None:
        # Trials are compared on the validation split, so they must not train on it; and by whole epochs, on all of it.
        by_epochs = {"refit": False, "per_epoch": 1}
        changes["early_stopping"] = ranker.training.early_stopping.model_copy(update=by_epochs)
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
