"""What one rank trains with, and an epoch of it: its steps and its validation."""

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from schemas.contracts.training_job import TrainJob
from trainer_module.checkpoint.manifest import Manifest
from trainer_module.input.batch import Batch
from trainer_module.input.train_input import TrainInput
from trainer_module.loop.epoch import train_epoch
from trainer_module.loop.history import History
from trainer_module.loop.trainer import Trainer
from trainer_module.loop.validation import validate
from trainer_module.progress import Progress

_LOG = logging.getLogger("trainer_module.rank")


@dataclass
class Run:
    """A job in training on one rank; `start.load` makes it.

    Attributes:
        job: what to train.
        trainer: weights and tables; replaced when training returns to the best epoch.
        source: batches, and how far they have been trained on.
        history: grows while training continues.
        progress: counts steps and examples, and reports them.
        manifest: what all checkpoints of the job have in common.
        trainer_of: makes a trainer without rows.
        first_epoch: where training starts, or continues.
    """

    job: TrainJob
    trainer: Trainer
    source: TrainInput
    history: History
    progress: Progress
    manifest: Manifest
    trainer_of: Callable[..., Trainer]
    first_epoch: int

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._epoch_started: float | None = None

    @property
    def seconds(self) -> float:
        """Since this process began to train."""
        return time.monotonic() - self._started

    @property
    def epoch_s(self) -> float:
        """Seconds of the epoch under way that its report does not include yet."""
        return 0.0 if self._epoch_started is None else time.monotonic() - self._epoch_started

    @property
    def epochs_left(self) -> range:
        """Epochs on the train split from here on; none once the refit has begun."""
        num_epochs = self.job.ranker.training.epochs
        return range(self.first_epoch, self.first_epoch if self.history.refit_from is not None else num_epochs)

    @property
    def _half_an_epoch(self) -> int:
        """Steps, the same on all ranks; 0 where it is not known."""
        job = self.job
        return job.num_train_examples // (2 * job.ranker.training.batch_size_per_rank * self.trainer.ranks)

    def steps(self, epoch: int) -> Iterator[None]:
        """Trains on what is left of an epoch; yields after every step. All ranks together.

        Batches lost with a data worker are read again before the epoch ends.
        """
        report = self.history.report_of(epoch)
        self.trainer.begin_epoch(epoch)
        batches: Iterable[Batch] | None = self.source.batches(epoch, self.progress.examples)
        self.trainer.trace()  # While the pool makes the first batch.
        while batches is not None:
            self._epoch_started = time.monotonic()
            for _ in train_epoch(self.trainer, batches, self.progress, report):
                self.source.stepped()
                if epoch + 1 in self.epochs_left and 0 < len(report.step_losses) == self._half_an_epoch:
                    self.source.begin(epoch + 1)
                yield
            self._epoch_started = None
            self.share()
            batches = self.source.lost_batches()
        _LOG.info("epoch=%d steps=%d examples=%d", epoch, len(report.step_losses), report.examples)

    def share(self) -> None:
        """Gives every rank the steps and examples of all others so far. All ranks together."""
        if self.history.reports:
            self.trainer.share(self.history.reports[-1])
            # Where the input goes on from: skipped steps have used their examples up.
            self.progress.examples = sum(report.examples + report.left_out for report in self.history.reports)

    def validate(self, epoch: int) -> None:
        """Scores the validation split into the epoch's report, calibrations included. All ranks together."""
        started = time.monotonic()
        for attempt in itertools.count():
            batches = self.source.validation(epoch, attempt)
            validated = validate(self.trainer, batches, self.progress, self.job.validation_days)
            if self.source.came_whole(batches):
                break
            _LOG.warning("a data worker was lost: scoring the validation split again")
        report, self.history.validated = self.history.report_of(epoch), validated.examples
        report.validation, report.calibrations = validated.metrics, validated.calibrations
        self.progress.validated(epoch, validated.metrics)
        self.progress.metrics.stood_still("validation", time.monotonic() - started)

    def calibrate(self, epoch: int) -> None:
        """Has the model of an epoch predict as calibrated after it, from here to the export."""
        calibrations = self.history.report_of(epoch).calibrations
        self.trainer.ranker.calibrations = calibrations
        self.manifest = self.manifest.model_copy(update={"calibrations": calibrations})
        for task, fitted in calibrations.items():
            if fitted.problem:
                self.history.note(f"tasks.{task}.calibration: none, scores are the model's own: {fitted.problem}")
