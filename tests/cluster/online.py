"""The shipped Deployment of online training on the node: its base, its brokers, and what is produced to them.

The broker is a process on the node's host, in its network namespace: pods reach it as one outside the cluster, by the
name of a Service without a selector, which leads to the gateway.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.demo import Demo
from tests.cluster.node import GATEWAY
from tests.cluster.serving import CLIENT, SERVER, ask, built, client, remove
from tests.cluster.team import NAMESPACE, Manifest, volume
from tests.e2e.user_run import DATE
from tests.kafka.broker import Broker

LABELS = "app.kubernetes.io/component=online"
TRAINER, TOPIC, GROUP = "short-video-online", "short_video", "sangam-short_video"
PARTITIONS = 2
_CLAIM = "online-root"
_DAY_S = 86_400


class Online:
    """Online training and a server in pods, and the books of what was produced.

    Attributes:
        team: the namespace.
        broker: running, unless a test has killed it.
        root: the pipeline root, on this machine.
        produced: rows so far.
        manifests: of trainer, server and what they need.
    """

    def __init__(self, demo: Demo, image: str, broker: Broker, folder: Path):
        """Starts from the model of the demo.

        Args:
            demo: a run of the daily pipeline.
            image: of all pods.
            broker: that runs.
            folder: folder of the volume, with a copy of the demo's root.
        """
        self.team, self.broker, self.root, self.produced = demo.team, broker, folder, 0
        self._day = pq.read_table(next((demo.logs / DATE).glob("*.parquet"))).to_pylist()
        self._producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
        broker.create_topic(TOPIC, PARTITIONS)
        self.manifests = [
            *_kafka(broker.address),
            _object("ConfigMap", "short-video-spec", data={"spec.yaml": demo.spec}),
            _object("Secret", "sangam-kafka", stringData={"client.properties": "socket.keepalive.enable=true\n"}),
            *_with_claim(built(demo.team, "online", image)),
            *_with_claim(built(demo.team, "serving", image)),
            client(image),
        ]

    def start(self) -> None:
        """Starts trainer and server, and waits until they are ready."""
        self.team.apply(*self.manifests)
        for name in (TRAINER, SERVER):
            self.team.kubectl("rollout", "status", f"deployment/{name}", "--timeout=600s")
        self.team.kubectl("wait", "--for=condition=ready", f"pod/{CLIENT}", "--timeout=60s")

    def produce(self, rows: int) -> None:
        """Gives rows of the day after next to the producer; while the broker is away, it keeps them."""
        for _ in range(rows):
            row = dict(self._day[self.produced % len(self._day)])
            row["event_time"] += 2 * _DAY_S
            self._producer.produce(TOPIC, json.dumps(row).encode(), partition=self.produced % PARTITIONS)
            self.produced += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Waits until the broker has all that was produced."""
        assert self._producer.flush(60) == 0

    def state(self) -> dict[str, Any]:
        """Returns what the training has said last."""
        files = [*(self.root / "online" / "short_video" / "training").glob("*/logs/online.json")]
        state: dict[str, Any] = json.loads(files[0].read_text()) if files else {"examples": 0, "delta": 0}
        return state

    def served(self) -> dict[str, Any]:
        """Returns what the server says of its deltas, to a pod."""
        said: dict[str, Any] = json.loads(ask(self.team, "/deltas"))
        return said

    def until_learned(self) -> None:
        """Waits until as many examples are learned as were produced."""
        self.until(lambda: self.state()["examples"] >= self.produced, f"{self.produced} examples are learned")

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 300.0) -> None:
        """Waits, and fails with the trainer's log when it takes too long."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                log = self.team.kubectl("logs", "--selector", LABELS, "--tail=30")
                raise AssertionError(f"not within {seconds} s: {what}; {self.state()}\n{log}")
            time.sleep(0.3)

    def pod(self) -> Manifest:
        """Returns the trainer's pod."""
        [found] = [pod for pod in self.team.pods(LABELS) if "deletionTimestamp" not in pod["metadata"]]
        return found

    def committed(self) -> tuple[list[int], list[int]]:
        """Returns what the group has committed of each partition, and where they end."""
        reader = Consumer({"bootstrap.servers": self.broker.address, "group.id": GROUP})
        try:
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            ends = [reader.get_watermark_offsets(place, timeout=10)[1] for place in places]
            return [place.offset for place in reader.committed(places, timeout=10)], ends
        finally:
            reader.close()


@contextmanager
def online(demo: Demo, image: str) -> Iterator[Online]:
    """Runs a broker, trainer and server on a copy of the demo's root; removes all of it from the cluster."""
    team, folder = demo.team, demo.kept.rename(demo.kept.with_name(_CLAIM))
    team.apply(volume(_CLAIM, folder), _claim())
    with Broker(team.plane.folder / "broker", host=GATEWAY) as broker:
        made = Online(demo, image, broker, folder)
        try:
            made.start()
            yield made
        finally:
            remove(team, *made.manifests)


def _kafka(address: str) -> list[Manifest]:
    """Returns the Service `kafka`, as the Deployment names it, which leads to a broker outside the cluster."""
    host, _, port = address.rpartition(":")
    slice_: Manifest = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kafka", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "kafka"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": int(port), "protocol": "TCP"}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
    }
    return [_object("Service", "kafka", spec={"ports": [{"port": 9092, "targetPort": int(port)}]}), slice_]


def _claim() -> Manifest:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}}
    return _object("PersistentVolumeClaim", _CLAIM, spec=spec)


def _object(kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **fields}


def _with_claim(manifests: list[Manifest]) -> list[Manifest]:
    """Puts the copy of the root in the place of the one of the demo."""
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            for each in manifest["spec"]["template"]["spec"]["volumes"]:
                if "persistentVolumeClaim" in each:
                    each["persistentVolumeClaim"]["claimName"] = _CLAIM
    return manifests
