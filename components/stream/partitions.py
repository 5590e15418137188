"""Reads the partitions of topics in one process, from given offsets, across failures of the broker."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Polled

from sangam.components.stream.dead_letters import Letter
from sangam.components.stream.kafka_client import reader_of
from sangam.components.stream.landing import Partition
from sangam.components.stream.messages import Message
from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.errors import UserError

_LOG = logging.getLogger("sangam.components.stream")
_POLL_S = 0.1
_AT_ONCE = 2_000
_ASK_S = 2.0
"""Timeout of a request to the broker."""
_LOOK_EVERY_S, _LOOK_AGAIN_S = 5.0, 1.0
"""Seconds between checks of the topics' partitions, usually and during a failure."""
UNKNOWN_TOPIC_S = 15.0
"""Seconds after the start until a topic that the broker does not know is an error."""
_QUEUE_KB = 32 * 1024
_ALL_DOWN = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL)
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class Partitions:
    """The partitions of a job's topics.

    Attributes:
        offsets: offsets to read next, of every partition; empty before the broker has answered.
        at_end: partitions that have been read to their ends.
        away_since: start of the broker's outage, seconds since 1970; None: the broker is reachable.
    """

    def __init__(self, kafka: Kafka, landed: Mapping[Partition, int], clock: Callable[[], float] = time.monotonic):
        """Takes the topics, and the next offsets of partitions with landed messages."""
        self._kafka, self._landed, self._clock = kafka, landed, clock
        self.offsets: dict[Partition, int] = {}
        self.at_end: set[Partition] = set()
        self.away_since: float | None = None
        self._lost: set[Partition] = set()
        self._look_due, self._refused = 0.0, ""
        self._unknown_since: float | None = None
        self._reader = reader_of(
            kafka, **{"queued.max.messages.kbytes": _QUEUE_KB, "fetch.wait.max.ms": 100, "error_cb": self._on_error}
        )

    def poll(self, most: int) -> Iterator[Message | Letter]:
        """Yields messages that have arrived within `_POLL_S`, and a letter for each range that was deleted unread.

        Raises:
            UserError: the broker does not know a topic.
        """
        try:
            if self._clock() >= self._look_due:
                self._look()
            yield from self._found_again()
            polled = self._reader.consume(min(most, _AT_ONCE), _POLL_S) if self.offsets else []
        except KafkaException as error:
            if not self.offsets:
                self._reader.poll(0)  # Serves librdkafka's callbacks, which `consume` otherwise serves.
            self._away(str(error.args[0].str()))
            return
        for each in polled:
            key = str(each.topic()), int(each.partition() or 0)
            if (problem := each.error()) is not None:
                self._on_partition(key, each, problem)
            elif key in self.offsets and (each.offset() or 0) >= self.offsets[key]:
                self._back()
                self.offsets[key] = (each.offset() or 0) + 1
                self.at_end.discard(key)
                yield _message(each)

    def close(self) -> None:
        """Closes the connection."""
        self._reader.close()

    def _look(self) -> None:
        """Lists the partitions, and begins to read new ones."""
        self._look_due = self._clock() + _LOOK_AGAIN_S
        found: list[Partition] = []
        for topic in self._kafka.topics.values():
            described = self._reader.list_topics(topic, timeout=_ASK_S).topics[topic]
            if described.error is not None:
                self._on_topic(topic, described.error)
                return
            found += [(topic, number) for number in described.partitions]
            if any(each.leader < 0 for each in described.partitions.values()):
                self._away(f"a partition of {topic} has no leader")
                return
        self._unknown_since = None
        if new := [key for key in found if key not in self.offsets]:
            begin = self._begin(new)
            self.offsets.update(begin)
            self._assign()
            _LOG.info("reading partitions=%s", sorted(begin.items()))
        self._look_due = self._clock() + _LOOK_EVERY_S
        self._back()

    def _begin(self, keys: list[Partition]) -> dict[Partition, int]:
        """Returns the first offset to read: after the landed messages, else as committed, else the earliest."""
        found = {key: self._landed[key] for key in keys if key in self._landed}
        if new := [TopicPartition(*key) for key in keys if key not in found]:
            for place in self._reader.committed(new, timeout=_ASK_S):
                if place.error is not None:
                    raise KafkaException(place.error)
                key = place.topic, place.partition
                found[key] = place.offset if place.offset >= 0 else self._ends(key)[0]
        return found

    def _assign(self) -> None:
        self._reader.assign([TopicPartition(*key, offset) for key, offset in self.offsets.items()])
        self.at_end.clear()

    def _ends(self, key: Partition) -> tuple[int, int]:
        ends = self._reader.get_watermark_offsets(TopicPartition(*key), timeout=_ASK_S)
        if ends is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return ends

    def _found_again(self) -> Iterator[Letter]:
        """Continues at the first offset of a partition whose next message was deleted."""
        for key in sorted(self._lost):
            expected, (first, end) = self.offsets[key], self._ends(key)
            if expected < first:
                reason = f"messages {expected} to {first - 1} were deleted before they were read: keep them longer"
                yield Letter(*key, expected, reason, until=first)
            else:
                reason = f"the topic ends at {end}: it was recreated, or lost messages; reading all of it"
                yield Letter(*key, expected, f"message {expected} is not there, as {reason}")
            self.offsets[key] = first
            self._lost.discard(key)
            self._assign()

    def _on_partition(self, key: Partition, polled: Polled, error: KafkaError) -> None:
        if key not in self.offsets:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            self._back()
            # The position also skips transaction markers.
            self.offsets[key] = max(self.offsets[key], polled.offset() or 0)
            self.at_end.add(key)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.at_end.discard(key)
            self._lost.add(key)
        else:
            self._away(f"{key[0]}, partition {key[1]}: {error.str()}")

    def _on_topic(self, topic: str, error: KafkaError) -> None:
        if error.code() not in _UNKNOWN or self.offsets or self._landed:
            self._away(f"{topic}: {error.str()}")
            return
        self._unknown_since = self._clock() if self._unknown_since is None else self._unknown_since
        if self._clock() - self._unknown_since > UNKNOWN_TOPIC_S:
            raise UserError(
                f"--topic: {self._kafka.servers} has no such topic (got {topic}); create it, or give another one"
            )

    def _on_error(self, error: KafkaError) -> None:
        """Checks the brokers when librdkafka reports a lost connection: it reports late, and reconnects by itself."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._refused = error.str()
        if self.away_since is None and error.code() in _ALL_DOWN:
            self._look_due = 0.0

    def _away(self, reason: str) -> None:
        if self.away_since is None:
            self.away_since = time.time()
            _LOG.error("kafka=%s is away, waiting for it: %s", self._kafka.servers, self._refused or reason)

    def _back(self) -> None:
        if self.away_since is not None:
            _LOG.info("kafka=%s is back after_s=%.0f", self._kafka.servers, time.time() - self.away_since)
            self.away_since, self._refused = None, ""


def _message(polled: Polled) -> Message:
    kind, stamp_ms = polled.timestamp()
    logged_at = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else stamp_ms / 1000
    value = polled.value()
    content = value.encode() if isinstance(value, str) else value
    topic, partition, offset = str(polled.topic()), int(polled.partition() or 0), int(polled.offset() or 0)
    return Message(topic, partition, offset, content, int(logged_at))
