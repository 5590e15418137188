"""Online training on one rank: wait for a segment, evaluate it, train on it, publish, save."""

import logging
import time
from pathlib import Path
from typing import Any

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.joining_job import read_stalled
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.epoch import train_batches
from sangam.trainer_module.loop.history import EpochReport, History
from sangam.trainer_module.loop.start import load_trainer
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.monitoring.training import Metrics
from sangam.trainer_module.online.checkpointing import Checkpoints
from sangam.trainer_module.online.director import Director, Skipped
from sangam.trainer_module.online.full_version import request_full_version
from sangam.trainer_module.online.judging import Judge
from sangam.trainer_module.online.publishing import Publisher
from sangam.trainer_module.online.reading import SegmentReader
from sangam.trainer_module.online.status import Status
from sangam.trainer_module.online.turns import DENSE, Turn, agreed
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.progress import Progress

_LOG = logging.getLogger("sangam.trainer_module.online")
_SECONDS_A_MINUTE = 60


def learn(
    job: TrainJob,
    *,
    rank: int,
    ranks: int,
    metrics: Metrics | None = None,
    placement: Placement = HOST_ALONE,
) -> None:
    """Trains on segment after segment until the job's stop file exists. All ranks call it together."""
    progress = Progress(job, rank, metrics=metrics)
    with progress.beating():
        trainer, start, _ = load_trainer(job, None, rank=rank, ranks=ranks, placement=placement)
        online = Learner(job, trainer, start.history, progress)
        segment = start.position.epoch
        checkpoints = Checkpoints(
            Path(job.checkpoint_dir),
            start.manifest,
            rank=rank,
            keep=job.ranker.training.checkpoint.keep,
            written_step=trainer.step if segment else None,
        )
        online.begin(segment=segment)
    progress.resume(step=trainer.step, examples=start.history.examples)
    while True:
        with progress.beating():  # Other ranks wait for rank 0, which waits for a segment.
            turn = agreed(online.next_turn())
        if turn.segment:
            online.train(turn.segment)
        with progress.beating():
            if turn.publish and not online.publish(turn):
                turn = turn._replace(save=True, full=True)
            if turn.save:
                online.note()
                progress.metrics.began_checkpoint()
                checkpoints.write(trainer, start.history, segment=online.segment)
            if turn.full:
                request_full_version(job, trainer, start.history, checkpoints, online.publisher.number, online.segment)
            online.done(turn)
            if turn.stop:
                checkpoints.finish()
                collectives.barrier(name="stopped")
                return


class Learner:
    """An online training on one rank.

    Attributes:
        segment: number of the last segment trained on.
        publisher: publishes deltas.
    """

    def __init__(self, job: TrainJob, trainer: Trainer, history: History, progress: Progress):
        """Takes a trainer in the initial state of training."""
        assert job.stream is not None
        self._job, self._trainer, self._history, self._progress = job, trainer, history, progress
        self._reader = SegmentReader(job, rank=trainer.rank, ranks=trainer.ranks)
        self._judge = Judge(job.ranker, job.stream.settings.guards)
        self._status = Status(job.online_file)
        self._folder, self._joining = Path(job.stream.segments), job.stream.joining
        self._newest_event: int | None = history.online.get("newest_event")
        self._judge.restore(history.online_arrays)
        self.publisher = Publisher(job, trainer)
        self.segment = 0

    def begin(self, *, segment: int) -> None:
        """Resumes after a segment; 0: before the first. Publishes again the rows in deltas of later segments."""
        self.segment = segment
        self.publisher.begin(after_segment=segment)
        self._director = Director(
            self._job,
            segment,
            deltas=self.publisher.number,
            full_at=self.publisher.full_at,
            skipped=Skipped(**self._history.online.get("skipped", {})),
        )
        self._director.has_changes = self._director.has_dense_changes = self.publisher.has_changes
        _LOG.info("online segment=%d delta=%d lineage=%s", segment, self.publisher.number, self.publisher.lineage)

    def next_turn(self) -> Turn | None:
        """Returns rank 0's decision; None on other ranks."""
        if self._trainer.rank != 0:
            return None
        self._director.held = self.publisher.hold() or self._judge.crossed()
        return self._director.turn()

    def train(self, number: int) -> None:
        """Evaluates a segment, then trains on it. All ranks together."""
        segment = segments.read(self._folder, number)
        batches = self._reader.batches(number)
        if segment.newest_event is not None:
            self._newest_event = max(self._newest_event or 0, segment.newest_event)
            self._judge.judge(self._trainer, batches, segment.newest_event // _SECONDS_A_MINUTE)
        report = EpochReport()
        for _ in train_batches(self._trainer, batches, self._progress, report):
            pass
        self._history.examples += report.examples + report.left_out
        self.segment = number

    def note(self) -> None:
        """Adds the state of online training to the history, for checkpoints."""
        self._history.online = {"newest_event": self._newest_event, "skipped": dict(vars(self._director.skipped))}
        self._history.online_arrays = self._judge.state()

    def publish(self, turn: Turn) -> bool:
        """Publishes a delta; returns whether it is complete. All ranks together."""
        return self.publisher.publish(
            dense=turn.publish == DENSE,
            segment=self.segment,
            newest_event=self._newest_event,
            examples=self._history.examples,
        )

    def done(self, turn: Turn) -> None:
        """Updates the state after a turn; rank 0 writes the status."""
        if self._trainer.rank != 0:
            return
        self._director.done(turn)
        if document := self._status.write(self._document, now_at_once=turn.stop):
            self._progress.metrics.online(document)

    def _document(self) -> dict[str, Any]:
        newest = self._director.newest()
        behind = segments.read(self._folder, newest).newest_event if newest > self.segment else None
        stalled = read_stalled(Path(self._joining), time.time())
        lag_s = 0 if behind is None or self._newest_event is None else max(0, behind - self._newest_event)
        return {
            "lineage": self.publisher.lineage,
            "segment": self.segment,
            "newest_segment": newest,
            "lag_s": lag_s,
            "newest_event": self._newest_event,
            "step": self._trainer.step,
            "examples": self._history.examples,
            "delta": self.publisher.number,
            "full_at": self._director.full_at,
            "held": self._director.held,
            "stalled_s": stalled.seconds,
            "stalled": stalled.reason,
            "skipped": vars(self._director.skipped),
            "judged": self._judge.values(),
        }
