"""A real Kafka broker in one process (KRaft), from Maven's artifacts: 40 MB fetched once, about 6 s to start.

`python -m tests.kafka.broker FOLDER` starts one and prints its address; Ctrl-C stops it.
"""

import base64
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

_POM = Path(__file__).parent / "pom.xml"
_START_S, _STOP_S = 90, 30


def lacking() -> str:
    """Returns what a broker cannot be started without, in words; empty: nothing."""
    needed = {"java": "Java (17 or later)"} if jars().exists() else {"java": "Java (17 or later)", "mvn": "Maven"}
    return ", ".join(words for program, words in needed.items() if not shutil.which(program))


def require() -> None:
    """Skips a test where no broker can be started; with CI=true it fails."""
    if lacks := lacking():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"tests of Kafka lack {lacks}")


def jars() -> Path:
    """Returns where the broker's jars are, or will be: in the user's cache, outside the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "sangam" / "kafka" / hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]


def fetch() -> Path:
    """Returns the folder of the jars, after Maven has fetched them if they are not there."""
    made = jars()
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}", "-DincludeScope=runtime"]
            subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(_POM), *goal], check=True, timeout=600)
            unfinished.rename(made)
    return made


class Broker:
    """A broker whose data outlive it: killed and started again, it has the same address, topics and messages.

    Attributes:
        address: HOST:PORT.
        log: file of its output.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, *, host: str = "127.0.0.1"):
        """Starts nothing yet.

        Args:
            folder: of its data, its settings and its output.
            settings: more of them, or others.
            host: address of this machine to listen on, which clients are told.
        """
        self._folder, self._process = folder.resolve(), None
        self._folder.mkdir(parents=True, exist_ok=True)
        self.log = self._folder / "broker.log"
        port, controller = _free_ports(host, "127.0.0.1")
        self.address = f"{host}:{port}"
        own = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # Deletes at once what retention or DeleteRecords lets it delete.
            "log.retention.check.interval.ms": "500",
        }
        self._settings = self._folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in (own | dict(settings or {})).items()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the broker and waits until it answers."""
        assert self._process is None, "it runs"
        if not (self._folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings)]
            subprocess.run(_java(*tool), check=True, timeout=_START_S, stdout=subprocess.DEVNULL)
        with self.log.open("ab") as output:
            command = _java("kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kills the broker with SIGKILL, where it runs; its data stay."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Lets the broker keep its connections and answer nothing."""
        assert self._process is not None, "it does not run"
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stops the broker as an operator does, where it runs; its data stay."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
            self.kill()

    def admin(self) -> AdminClient:
        """Returns a client for what the methods here do not do."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Creates a topic."""
        admin, topic = self.admin(), NewTopic(name, partitions, 1, config=dict(settings or {}))
        admin.create_topics([topic])[name].result(timeout=30)

    def _answers(self) -> bool:
        admin = self.admin()
        try:
            return bool(admin.list_topics(timeout=0.5).brokers)
        except KafkaException:
            return False


def _java(*arguments: str) -> list[str]:
    # A small heap, and a compiler that is quick rather than thorough: tests start it often and let it do little.
    options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return ["java", *options, "-cp", f"{fetch()}/*", *arguments]


def _free_ports(*hosts: str) -> list[int]:
    sockets = [socket.socket() for _ in hosts]
    try:
        for each, host in zip(sockets, hosts, strict=True):
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """Yields a started broker for tests; see `require`."""
    require()
    with Broker(folder) as broker:
        yield broker


if __name__ == "__main__":
    with Broker(Path(sys.argv[1])) as started:
        print(started.address, flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
