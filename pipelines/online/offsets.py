"""Commits to the consumer group the offsets that a checkpoint has learned: the group's lag is that of training."""

import contextlib
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from components.stream.kafka_client import properties_of
from schemas.contracts import segments
from schemas.contracts.joining_job import Kafka
from schemas.contracts.training_job import TrainJob
from schemas.errors import UserError
from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.folder import published
from trainer_module.checkpoint.manifest import read_manifest

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 5.0

Positions = Mapping[str, Mapping[str, int]]


class Offsets:
    """Commits offsets, one request at a time; it waits for none but the last.

    Nothing is resumed from them as long as the root is there, so one that fails is only told and made again.
    """

    def __init__(self, kafka: Kafka):
        """Takes the group and its topics."""
        self._kafka = kafka
        self._admin = AdminClient(properties_of(kafka))
        self._committed: Positions = {}
        self._asked: tuple[Positions, Future[Any]] | None = None
        self._has_failed = False

    def check(self, job: TrainJob) -> None:
        """Commits what the newest checkpoint of a training has learned, unless it is committed."""
        if self._asked is not None and not self._asked[1].done():
            return
        self._note()
        wanted = learned_positions(job)
        if wanted and wanted != self._committed:
            places = [
                TopicPartition(topic, int(partition), offset)
                for topic, of_topic in wanted.items()
                for partition, offset in of_topic.items()
            ]
            request = [ConsumerGroupTopicPartitions(self._kafka.group, places)]
            futures = self._admin.alter_consumer_group_offsets(request, request_timeout=_TIMEOUT_S)
            self._asked = wanted, futures[self._kafka.group]

    def finish(self, job: TrainJob) -> None:
        """Commits what the last checkpoint has learned, and waits for it a little."""
        for _ in range(2):  # One may be under way.
            self.check(job)
            if self._asked is not None:
                with contextlib.suppress(KafkaException, NotInTime):
                    self._asked[1].result(_TIMEOUT_S)
        self._note()

    def _note(self) -> None:
        if self._asked is None or not self._asked[1].done():
            return
        (wanted, future), self._asked = self._asked, None
        try:
            for place in future.result().topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)
        except KafkaException as error:
            if not self._has_failed:
                _LOG.warning("group=%s offsets could not be committed: %s", self._kafka.group, error.args[0].str())
            self._has_failed = True
        else:
            self._committed, self._has_failed = wanted, False


def learned_positions(job: TrainJob) -> Positions:
    """Returns the offsets below which the newest checkpoint has learned everything; empty without one."""
    assert job.stream is not None
    folder = Path(job.stream.segments)
    checkpoints = published(Path(job.checkpoint_dir))
    try:
        number = read_manifest(checkpoints[-1]).position.epoch if checkpoints else 0
        if not number:
            return {}
        segment = segments.read(folder, number)
        # After segments without examples there is no checkpoint.
        while segments.exists(folder, number + 1) and (after := segments.read(folder, number + 1)).rows == 0:
            segment, number = after, number + 1
    except (CheckpointError, UserError):
        return {}  # Whoever resumes from it says what is wrong.
    return segment.positions
