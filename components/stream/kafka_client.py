"""The properties of Kafka clients: brokers, and the user's properties, such as those for TLS and SASL."""

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException

from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.host.kafka_properties import read_properties, refused_by_librdkafka

_REFUSED = {
    "auto.offset.reset": "deleted messages are counted",
    "bootstrap.servers": "give it as --source kafka://HOST:PORT",
    "enable.auto.commit": "offsets are committed with the checkpoint",
    "enable.auto.offset.store": "offsets are committed with the checkpoint",
    "enable.partition.eof": "the end of a partition says when to wait no longer",
    "group.id": "give it as --group",
    "group.instance.id": "partitions are not shared with other members",
    "group.protocol": "partitions are not shared with other members",
    "isolation.level": "messages of transactions that were aborted are not learned",
    "metadata.broker.list": "give it as --source kafka://HOST:PORT",
}
"""Properties that would break delivery guarantees or duplicate an option, each with its reason."""


def properties_of(kafka: Kafka) -> dict[str, Any]:
    """Returns the properties of a client.

    Raises:
        UserError: the user's file cannot be read, or sets a property that it must not set.
    """
    own = read_properties(Path(kafka.properties), "--kafka-config", _REFUSED) if kafka.properties else {}
    # log_level 0: callers log failed connections, once per outage.
    return {"client.id": "sangam", "log_level": 0, **own, "bootstrap.servers": kafka.servers}


def reader_of(kafka: Kafka, **more: Any) -> Consumer:
    """Returns a client that reads partitions alone.

    Raises:
        UserError: the user's properties are not librdkafka's.
    """
    ours = {
        "group.id": kafka.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
    }
    properties = {**properties_of(kafka), **ours}
    try:
        return Consumer({**properties, **more})
    except (KafkaException, ValueError, TypeError) as error:
        raise refused_by_librdkafka(str(kafka.properties or "--source"), properties, error) from None
