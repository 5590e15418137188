"""The shipped Deployment of online training on the node: its base, its brokers, and what is produced to them.

The broker is a process on the node's host, in its network namespace: pods reach it as one outside the cluster, by the
name of a Service without a selector, which leads to the gateway.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.node import GATEWAY
from tests.cluster.serving import CLIENT, SERVER, ask, built, client, remove
from tests.cluster.team import NAMESPACE, SECURE_CONTAINER, SECURE_POD, Manifest, Team, volume
from tests.e2e.user_run import DATE, World
from tests.kafka.broker import Broker
from tests.paths import SPECS
from trainer_module.launch.loopback import library

LABELS = "app.kubernetes.io/component=online"
TRAINER, TOPIC, GROUP = "short-video-online", "short_video", "sangam-short_video"
PARTITIONS = 2
_CLAIM, _ROOT, _BASE = "online-root", "/sangam/root", "online-base"
_DAY_S = 86_400
_QUICK = {
    "sync": {"rows_every_s": 1, "dense_every_s": 3, "full_every": 3},
    "checkpoint_every_s": 2,
    "joining": {"segment_every_s": 0.5, "idle_s": 1, "lateness_s": 0},
}
_CHANGES: dict[tuple[str | int, ...], Any] = {
    ("event_time",): "event_time",
    ("online",): _QUICK,
    ("training", "epochs"): 1,
    # Two ranks in one pod; what the daily run would do with several has no effect.
    ("cluster",): {
        "ranks": 2,
        "data_workers": 0,
        "launcher": {"kind": "mpijob"},
        "volumes": {"root": {"claim": _CLAIM, "path": _ROOT}},
    },
}


class Online:
    """Online training and a server in pods, and the books of what was produced.

    Attributes:
        team: the namespace.
        broker: running, unless a test has killed it.
        root: the pipeline root, on this machine.
        produced: rows so far.
        manifests: of trainer, server and what they need.
    """

    def __init__(self, team: Team, image: str, broker: Broker, folder: Path):
        """Trains the base in a pod of its own.

        Args:
            team: a prepared namespace.
            image: of all pods.
            broker: that runs.
            folder: of the volume.
        """
        self.team, self.broker, self.root, self.produced = team, broker, folder, 0
        world = World(folder, SPECS / "short_video.yaml")
        world.generate()
        self._spec = world.spec("spec", _CHANGES).read_text()
        self._day = pq.read_table(next((world.logs / DATE).glob("*.parquet"))).to_pylist()
        self._producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
        broker.create_topic(TOPIC, PARTITIONS)
        _run_base(team, image)
        self.manifests = [
            *_kafka(broker.address),
            _object("ConfigMap", "short-video-spec", data={"spec.yaml": self._spec}),
            _object("Secret", "sangam-kafka", stringData={"client.properties": "socket.keepalive.enable=true\n"}),
            *_with_claim(built(team, "online", image)),
            *_with_claim(built(team, "serving", image)),
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
def online(team: Team, image: str) -> Iterator[Online]:
    """Runs a broker, trains a base, and starts trainer and server; removes all of it from the cluster."""
    folder = team.plane.folder / "volumes" / _CLAIM
    folder.mkdir()
    folder.chmod(0o777)
    team.apply(volume(_CLAIM, folder), _claim())
    with Broker(team.plane.folder / "broker", host=GATEWAY) as broker:
        made = Online(team, image, broker, folder)
        try:
            made.start()
            yield made
        finally:
            remove(team, *made.manifests)


def first_process(*words: str) -> int:
    """Returns the process of a pod whose command line has these words, one after the other."""
    wanted = b"\0".join(word.encode() for word in words)
    [found] = [folder for folder in Path("/proc").glob("[0-9]*") if wanted in _command_line(folder)]
    return int(found.name)


def _command_line(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes() if int(folder.name) != os.getpid() else b""
    except OSError:
        return b""


def _run_base(team: Team, image: str) -> None:
    """Runs the daily pipeline in a pod, below the path at which the trainer will see it."""
    library()  # Pods see this Python's folder, and cannot write to it.
    command = ["sangam", "run", f"{_ROOT}/spec.yaml", "--date", DATE, "--data", f"{_ROOT}/logs", "--root", _ROOT]
    container = {
        "name": "main",
        "image": image,
        "command": command,
        "env": [{"name": "HOME", "value": "/tmp"}],
        "securityContext": SECURE_CONTAINER,
        "volumeMounts": [{"name": "root", "mountPath": _ROOT}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": _CLAIM}}, {"name": "tmp", "emptyDir": {}}]
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": SECURE_POD,
        "containers": [container],
        "volumes": volumes,
    }
    team.apply(_object("Pod", _BASE, spec=spec))
    ended = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"
    team.kubectl("wait", ended, f"pod/{_BASE}", "--timeout=600s")
    [status] = team.plane.get("pod", "--namespace", NAMESPACE, _BASE)["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 0, team.kubectl("logs", _BASE)
    remove(team, _object("Pod", _BASE))


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
    """Puts this root in the place of the one of the demo, which was trained with a parameter server."""
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            for each in manifest["spec"]["template"]["spec"]["volumes"]:
                if "persistentVolumeClaim" in each:
                    each["persistentVolumeClaim"]["claimName"] = _CLAIM
    return manifests
