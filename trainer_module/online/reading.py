"""Reads the batches of segments: every rank reads its rows of each global batch, one segment ahead."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import tensorflow as tf

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import EVENT_TIME
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.example_reader import later_than, reader_of
from sangam.trainer_module.input.local_reader import batches_of_file


class SegmentReader:
    """Reads whole segments, because they are evaluated before training; reads the next one during training."""

    def __init__(self, job: TrainJob, *, rank: int, ranks: int):
        """Takes the job of an online training, and this rank's number."""
        assert job.stream is not None
        self._folder, self._rank, self._ranks = Path(job.stream.segments), rank, ranks
        self._batch_size = job.ranker.training.batch_size_per_rank * ranks
        reader, learned = reader_of(job), job.stream.learned_until
        if learned is not None and job.ranker.event_time is not None:
            column = job.ranker.event_time if job.transform == "in_pool" else EVENT_TIME
            reader = later_than(reader, column, learned)
        self._reader = reader
        self._pool = ThreadPoolExecutor(1, "segments")
        self._ahead: dict[int, Future[Sequence[Batch]]] = {}

    def batches(self, number: int) -> Sequence[Batch]:
        """Returns this rank's batches of a segment; all ranks have equally many.

        Raises:
            UserError: its files differ from the sealed ones.
        """
        ahead = self._ahead.pop(number, None)
        read = self._read(number) if ahead is None else ahead.result()
        self._ahead.clear()
        if segments.exists(self._folder, number + 1):
            self._ahead[number + 1] = self._pool.submit(self._read, number + 1)
        return read

    def _read(self, number: int) -> Sequence[Batch]:
        segment = segments.read(self._folder, number)
        segments.refuse_damaged(self._folder, segment)
        if segment.rows == 0:
            return []
        file = str(segments.examples_file(self._folder, number))
        batches = batches_of_file(self._reader, file, self._batch_size, rank=self._rank, ranks=self._ranks)
        return [_none_later_than(batch, int(segment.created.timestamp())) for batch in batches]


def _none_later_than(batch: Batch, seconds: int) -> Batch:
    """Returns a batch with event times capped at the creation time of its segment.

    Otherwise one wrong clock would make all rows look so old that they expire.
    """
    if "event_time" not in batch:
        return batch
    return {**batch, "event_time": tf.minimum(batch["event_time"], tf.constant(seconds, tf.int64))}
