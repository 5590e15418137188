"""The state of one rank's training, with the steps and the validation of an epoch."""

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.train_input import TrainInput
from sangam.trainer_module.loop.early_stopping import Point, Validation, is_due
from sangam.trainer_module.loop.epoch import train_epoch
from sangam.trainer_module.loop.history import History
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.loop.validation import validate
from sangam.trainer_module.progress import Progress

_LOG = logging.getLogger("sangam.trainer_module.rank")


@dataclass
class Run:
    """A job in training on one rank; created by `start.load`.

    Attributes:
        job: the training job.
        trainer: weights and tables; replaced when training returns to the best epoch.
        source: batches, and how many of them were trained on.
        history: grows during training.
        progress: counts and reports steps and examples.
        manifest: fields that all checkpoints of the job share.
        trainer_of: creates a trainer without rows.
        first_epoch: the epoch at which training starts or resumes.
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
        self._sample: list[Batch] | None = None

    @property
    def seconds(self) -> float:
        """Seconds since this process began to train."""
        return time.monotonic() - self._started

    @property
    def epoch_s(self) -> float:
        """Seconds of the epoch under way that its report does not yet include."""
        return 0.0 if self._epoch_started is None else time.monotonic() - self._epoch_started

    @property
    def epochs_left(self) -> range:
        """Remaining epochs on the train split; none once the refit has begun."""
        num_epochs = self.job.ranker.training.epochs
        return range(self.first_epoch, self.first_epoch if self.history.refit_from is not None else num_epochs)

    @property
    def _half_an_epoch(self) -> int:
        """Half the steps of an epoch, equal on all ranks; 0 if unknown."""
        job = self.job
        return job.num_train_examples // (2 * job.ranker.training.batch_size_per_rank * self.trainer.ranks)

    def steps(self, epoch: int) -> Iterator[None]:
        """Trains on the rest of an epoch; yields after every step. All ranks together.

        Batches lost with a data worker are read again before the epoch ends.
        """
        report = self.history.report_of(epoch)
        self.trainer.begin_epoch(epoch)
        batches: Iterable[Batch] | None = self.source.batches(epoch, self.progress.examples)
        with self.progress.beating():
            self.trainer.trace()  # While the pool prepares the first batch.
        while batches is not None:
            self._epoch_started = time.monotonic()
            for _ in train_epoch(self.trainer, batches, self.progress, report):
                self.source.stepped()
                if epoch + 1 in self.epochs_left and 0 < len(report.step_losses) == self._half_an_epoch:
                    self.source.begin(epoch + 1)
                yield
            self._epoch_started = None
            self.share()
            batches = None if report.is_cut else self.source.lost_batches()
        _LOG.info("epoch=%d steps=%d examples=%d", epoch, len(report.step_losses), report.examples)

    def share(self) -> None:
        """Gives every rank the steps and examples of all other ranks so far. All ranks together."""
        if self.history.reports:
            self.trainer.share(self.history.reports[-1])
            # The position of the input: examples of skipped steps count as read.
            self.progress.examples = sum(report.examples + report.left_out for report in self.history.reports)

    def validate(self, epoch: int, moment: str = "end") -> None:
        """Scores the validation split into the epoch's report, calibrations included. All ranks together.

        Args:
            epoch: the epoch that the model is of.
            moment: name of the moment in the epoch.
        """
        started = time.monotonic()
        for attempt in itertools.count():
            batches = self.source.validation(f"epoch-{epoch}-{moment}", attempt)
            validated = validate(self.trainer, batches, self.progress, self.job.validation_days)
            if self.source.came_whole(batches):
                break
            _LOG.warning("a data worker was lost: scoring the validation split again")
        report, self.history.validated = self.history.report_of(epoch), validated.examples
        report.validation, report.calibrations = validated.metrics, validated.calibrations
        self.progress.validated(epoch, validated.metrics)
        self.progress.metrics.stood_still("validation", time.monotonic() - started)

    def is_due(self, epoch: int) -> bool:
        """Says whether the model is to be scored after this step of an epoch."""
        stopping, reports = self.job.ranker.training.early_stopping, self.history.reports
        return stopping is not None and is_due(
            stopping.per_epoch,
            epoch=epoch,
            steps=len(reports[epoch].step_losses),
            scored=reports[epoch].points[-1].steps if reports[epoch].points else 0,
            of_epoch=len(reports[0].step_losses),
        )

    def score(self, epoch: int, *, is_end: bool) -> None:
        """Adds the decisive scores of the model as it is to the epoch's report, see `judge`. All ranks together.

        Args:
            epoch: the epoch under way.
            is_end: whether it has ended, and the validation split was scored.
        """
        report, stopping = self.history.report_of(epoch), self.job.ranker.training.early_stopping
        assert stopping is not None
        # The scores of a whole split and of a sample cannot be compared.
        validation = report.validation if stopping.per_epoch == 1 else self._score_sample(stopping.sample)
        report.points.append(Point(epoch, len(report.step_losses), report.examples, is_end, validation))

    def _score_sample(self, size: int) -> Validation:
        started = time.monotonic()
        with self.progress.beating():
            if self._sample is None:
                self._sample = self.source.validation_sample(size)
            metrics = validate(self.trainer, self._sample, self.progress).metrics
        self.progress.metrics.stood_still("validation", time.monotonic() - started)
        return metrics

    def drop_sample(self) -> None:
        """Frees the memory of the sample, once nothing more is to be decided."""
        self._sample = None

    def calibrate(self, calibrations: Mapping[str, Calibration]) -> None:
        """Makes the model predict with calibrations, from here to the export."""
        self.trainer.ranker.calibrations = calibrations
        self.manifest = self.manifest.model_copy(update={"calibrations": dict(calibrations)})
        for task, fitted in calibrations.items():
            if fitted.problem:
                self.history.note(f"tasks.{task}.calibration: none, scores are the model's own: {fitted.problem}")
