"""Commits the offsets that a checkpoint has learned to the consumer group, whose lag then is the lag of training."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sangam.components.stream.kafka_client import reader_of
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.folder import published
from sangam.trainer_module.checkpoint.manifest import read_manifest

_LOG = logging.getLogger(__name__)
_TIMEOUT_S, _POLL_S = 5.0, 0.1

Positions = Mapping[str, Mapping[str, int]]


class Offsets:
    """Commits offsets, one request at a time; waits only for the last request.

    Training resumes from the root, not from committed offsets, so a failed commit is only reported and retried. A
    consumer commits, not an admin client: librdkafka 2.16's admin client aborts the process by an assertion when a
    broker dies and comes back.
    """

    def __init__(self, kafka: Kafka):
        """Connects a consumer of the group."""
        self._group = kafka.group
        self._consumer = reader_of(kafka, on_commit=self._on_commit)
        self._committed: Positions = {}
        self._asked: Positions | None = None
        self._has_failed = False

    def check(self, job: TrainJob) -> None:
        """Commits the offsets of a training's newest checkpoint, unless they are committed."""
        self._consumer.poll(0)
        wanted = learned_positions(job)
        if self._asked is not None or not wanted or wanted == self._committed:
            return
        places = [
            TopicPartition(topic, int(partition), offset)
            for topic, of_topic in wanted.items()
            for partition, offset in of_topic.items()
        ]
        self._asked = wanted
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._on_commit(error.args[0], [])

    def finish(self, job: TrainJob) -> None:
        """Commits the offsets of the last checkpoint, and waits up to _TIMEOUT_S."""
        deadline = time.monotonic() + _TIMEOUT_S
        for _ in range(2):  # One request may be pending.
            self.check(job)
            while self._asked is not None and time.monotonic() < deadline:
                self._consumer.poll(_POLL_S)

    def _on_commit(self, error: KafkaError | None, places: Sequence[TopicPartition]) -> None:
        wanted, self._asked = self._asked, None
        problem = error or next((place.error for place in places if place.error is not None), None)
        if problem is None:
            self._committed, self._has_failed = wanted or {}, False
            return
        if not self._has_failed:
            _LOG.warning("group=%s offsets could not be committed: %s", self._group, problem.str())
        self._has_failed = True


def learned_positions(job: TrainJob) -> Positions:
    """Returns the offsets up to which the newest checkpoint has learned all rows; empty without a checkpoint."""
    assert job.stream is not None
    folder = Path(job.stream.segments)
    checkpoints = published(Path(job.checkpoint_dir))
    try:
        number = read_manifest(checkpoints[-1]).position.epoch if checkpoints else 0
        if not number:
            return {}
        segment = segments.read(folder, number)
        # Segments without examples have no checkpoint.
        while segments.exists(folder, number + 1) and (after := segments.read(folder, number + 1)).rows == 0:
            segment, number = after, number + 1
    except (CheckpointError, UserError):
        return {}  # The resuming trainer reports the error.
    return segment.positions
