"""The logs of `sample_sources` as messages: a topic for each log, with several partitions."""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Producer

from sangam.components.request_log.queue import RequestQueue
from sangam.components.request_log.served import Served
from sangam.components.request_log.topic import Topic
from sangam.schemas.contracts.joining_job import JoiningJob, Kafka
from tests.components.stream.sample_stream import files_below, job_of
from tests.kafka.broker import Broker

PARTITIONS = 3
FOLDERS = {"": "shown", "likes": "likes", "items": "items"}


def topics_of(broker: Broker, prefix: str, **settings: str) -> dict[str, str]:
    """Makes a topic for each log; returns them by source."""
    topics = {source: f"{prefix}-{folder}" for source, folder in FOLDERS.items()}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS, {name.replace("_", "."): value for name, value in settings.items()})
    return topics


def kafka_job(directory: Path, broker: Broker, topics: Mapping[str, str], **settings: Any) -> JoiningJob:
    """Returns the job of `job_of` with topics."""
    kafka = Kafka(servers=broker.address, group="sangam-tests", topics=dict(topics))
    landed = directory / "landed"
    return job_of(directory, **settings).model_copy(update={"kafka": kafka, "data_root": str(landed)})


def rows_of(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns source and row of everything in a folder of logs, file after file."""
    sources = {folder: source for source, folder in FOLDERS.items()}
    return [
        (sources[name.split("/")[0]], row)
        for name in files_below(root)
        for row in pq.read_table(root / name).to_pylist()
    ]


class Writer:
    """Writes rows as messages, to partitions by chance."""

    def __init__(self, broker: Broker, topics: Mapping[str, str], seed: int = 0):
        self._topics, self._chance, self._failed = topics, random.Random(seed), list[Any]()
        # Idempotent: what it sends again after an outage is there once.
        settings = {"enable.idempotence": True, "message.max.bytes": 3_000_000, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": broker.address, **settings})

    def write(self, rows: Iterable[tuple[str, Any]], partition: int | None = None) -> None:
        """Sends rows, or bytes as they are."""
        for source, row in rows:
            value = row if isinstance(row, bytes) or row is None else json.dumps(row).encode()
            to = self._chance.randrange(PARTITIONS) if partition is None else partition
            self._producer.produce(self._topics[source], value=value, partition=to, on_delivery=self._note)

    def flush(self) -> None:
        """Waits until the broker has everything."""
        assert (self._producer.flush(60), self._failed) == (0, [])

    def _note(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error)


def serve(broker: Broker, days: Iterable[tuple[list[Served], Any, list[dict[str, Any]]]]) -> Kafka:
    """Sends requests as a server does, and the clicks that followed; returns the topics."""
    days, topics = list(days), {"": "requests", "clicks": "clicked"}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS, {})
    queue = RequestQueue(Topic(f"kafka://{broker.address}/requests", None, b""))
    requests = [served for of_day, _, _ in days for served in of_day]
    for served in requests:
        queue.offer(served)
    queue.stop(60)
    counts = queue.all_counts()
    assert (counts["chosen"], counts["written"], counts["waiting"]) == (len(requests), len(requests), 0)
    writer = Writer(broker, topics)
    writer.write([("clicks", click) for _, _, clicks in days for click in clicks])
    writer.flush()
    return Kafka(servers=broker.address, group="sangam-served", topics=topics)
