"""A topic of Kafka as the log of requests: a message for each, a JSON object with the columns of its row."""

import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer

from sangam.components.request_log.rows import batch_of, look_for_pandas
from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.request_log import AT, FORMAT, KAFKA, MESSAGE_FORMAT
from sangam.schemas.errors import UserError
from sangam.schemas.host.kafka_properties import read_properties, refused_by_librdkafka
from sangam.schemas.host.limited_log import LimitedLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
_PLACE = re.compile(
    r"kafka://((?:[^\s/:,]+|\[[0-9a-fA-F:]+\]):\d{1,5}(?:,(?:[^\s/:,]+|\[[0-9a-fA-F:]+\]):\d{1,5})*)/([a-zA-Z0-9._-]{1,249})"
)
_REFUSED = {
    "bootstrap.servers": "give it as --log kafka://HOST:PORT/TOPIC",
    "metadata.broker.list": "give it as --log kafka://HOST:PORT/TOPIC",
    "enable.idempotence": "a message that is sent again must be there once",
    "transactional.id": "messages are sent one by one",
}
_MAX_BYTES = 2**20
"""Largest message: `sangam online` and brokers by default take no larger one."""
_MEMORY_KB = 64 * 1024
_DEFAULTS = {"client.id": "sangam", "log_level": 0, "compression.type": "zstd", "message.timeout.ms": 60_000}
_CLOSE_S = 5.0


class Topic:
    """Sends requests to a topic; one thread calls it. Messages that the broker does not take in time are dropped.

    Attributes:
        counts: requests written, waiting for the broker and dropped, by name.
    """

    def __init__(self, place: str, properties: Path | None, key: bytes):
        """Starts a client, without waiting for a broker.

        Args:
            place: kafka://HOST:PORT[,HOST:PORT]/TOPIC.
            properties: file with properties of librdkafka.
            key: key of hashed columns.

        Raises:
            UserError: the place is none, or a property is wrong.
        """
        match = _PLACE.fullmatch(place)
        if match is None:
            raise UserError(f"--log: is no topic (got '{place}'); give {KAFKA}HOST:PORT[,HOST:PORT]/TOPIC")
        own = read_properties(properties, "--log-kafka-config", _REFUSED) if properties else {}
        ours = {
            "bootstrap.servers": match[1],
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": _MEMORY_KB,
            "message.max.bytes": 2 * _MAX_BYTES,
        }
        try:
            self._producer = Producer({**_DEFAULTS, **own, **ours})
        except (KafkaException, ValueError, TypeError) as error:
            raise refused_by_librdkafka(f"--log-kafka-config: {properties}", own, error) from None
        look_for_pandas()
        self._topic, self._key = match[2], key
        self.counts: Counter[str] = Counter()

    def write(self, plan: Plan, requests: Sequence[Served]) -> int:
        """Sends requests of one version; returns 0, since the broker has not taken them yet."""
        rows = batch_of(plan, requests, self._key).to_pylist()
        # All of them first: none may have been sent when one cannot be written, and the others are tried again.
        messages = [json.dumps(_message(plan, row)).encode() for row in rows]
        for row, message in zip(rows, messages, strict=True):
            if len(message) > _MAX_BYTES:
                self.counts["dropped size"] += 1
                continue
            try:
                self._producer.produce(self._topic, message, key=row["request_id"], on_delivery=self._sent)
            except BufferError:
                self.counts["dropped broker"] += 1
            else:
                self.counts["bytes"] += len(message)
        self._producer.poll(0)
        return 0

    def look_after(self) -> None:
        """Takes what the broker has answered."""
        self._producer.poll(0)
        self.counts["waiting"] = len(self._producer)

    def close(self) -> None:
        """Waits for the broker, and counts what it has not taken."""
        self.counts["dropped broker"] += self._producer.flush(_CLOSE_S)
        self.counts["waiting"] = 0

    def _sent(self, error: Any, message: Any) -> None:
        del message
        self.counts["dropped broker" if error else "written"] += 1
        if error:
            _LOG.warning("request_log=not_sent", str(error))


def _message(plan: Plan, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row as values of JSON; times are seconds since 1970, missing floats null."""
    row = {name: _value(value) for name, value in row.items() if value is not None}
    row[AT] = int(row[AT].timestamp())
    if plan.event_time:
        row[plan.event_time] = row[AT]
    return {MESSAGE_FORMAT: FORMAT, **row}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, bytes):
        return value.decode()
    return None if value != value else value
