"""A server, a clock that tests move, and a spec that is compiled without TFX."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from sangam.pipelines.backfill.kubeflow import Backfill, Choices
from sangam.pipelines.deploy.api import Api
from sangam.pipelines.deploy.deployment import deploy
from sangam.pipelines.deploy.release import Release, publish
from sangam.pipelines.deploy.release_options import ReleaseOptions, make_release
from sangam.pipelines.deploy.transport import Credentials, Transport
from sangam.pipelines.times import Clock
from sangam.schemas.derived.days import Day
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec, digest
from tests.fakes.kfp_api import KfpServer
from tests.fakes.kfp_store import Record
from tests.paths import SPECS

IMAGE = f"registry.example/sangam@sha256:{'a' * 64}"
TRAINER_IMAGE = f"registry.example/sangam-trainer@sha256:{'c' * 64}"
OTHER_IMAGE = f"registry.example/sangam@sha256:{'b' * 64}"
NOON = datetime.datetime(2024, 3, 7, 12, 0, tzinfo=datetime.UTC)


class Crash(Exception):
    """Stands for the client's end."""


def compile_quickly(spec: Spec, options: ReleaseOptions) -> str:
    """Returns as much of a compiled pipeline as the server looks at."""
    inputs = {"parameters": {name: {"parameterType": "STRING"} for name in ("data_root", "pipeline_root", "date")}}
    about = {"name": spec.name.replace("_", "-")}
    executors = {"image": options.image, "root": options.pipeline_root, "spec": digest(spec)}
    return yaml.safe_dump({"pipelineInfo": about, "root": {"inputDefinitions": inputs}, "deploymentSpec": executors})


class World:
    """Everything a test of the deployer needs."""

    def __init__(self, server: KfpServer):
        self.server, self.store = server, server.store
        self.said: list[str] = []
        self.slept: list[float] = []
        self.at = NOON
        self.whenever: Callable[[], None] = lambda: None
        """Called when the client sleeps."""
        self.changes, self.crash_before = 0, 0
        """How many requests but GET were made, and the one that the client does not live to make."""
        self.clock = Clock(now=lambda: self.at, sleep=self.sleep)
        self.spec = load_spec(SPECS / "short_video.yaml")
        self.root = "/sangam/root"

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += datetime.timedelta(seconds=seconds)
        self.whenever()

    def say(self, line: str) -> None:
        self.said.append(line)

    def lines(self) -> str:
        """Returns what has been said since it was last asked."""
        text = "\n".join(self.said)
        self.said.clear()
        return text

    @contextmanager
    def api(self, answer_timeout_s: float = 10.0, namespace: str = "") -> Iterator[Api]:
        credentials = Credentials("TOKEN" if self.server.token else None)
        environ = {"TOKEN": self.server.token or ""}
        transport = Transport(
            self.server.host, credentials, environ, sleep=self.sleep, answer_timeout_s=answer_timeout_s
        )
        send = transport.request

        def request(method: str, url: str, **rest: Any) -> Any:
            self.changes += method != "GET"
            if method != "GET" and self.changes == self.crash_before:
                raise Crash
            return send(method, url, **rest)

        transport.request = request  # type: ignore[method-assign]
        try:
            yield Api(transport, namespace, self.sleep)
        finally:
            transport.close()

    def release(self, image: str = IMAGE, service_account: str = "") -> Release:
        options = ReleaseOptions(image, TRAINER_IMAGE, pipeline_root=self.root, service_account=service_account)
        return make_release(self.spec, options, compile_quickly)

    def deploy(
        self, at: str = "02:00", image: str = IMAGE, service_account: str = "", answer_timeout_s: float = 10.0
    ) -> bool:
        with self.api(answer_timeout_s) as api:
            return deploy(api, self.release(image, service_account), at, self.clock, self.say)

    def backfill(self, *dates: str, image: str = IMAGE, choices: Choices | None = None) -> int:
        with self.api() as api:
            release = self.release(image)
            launch = publish(api, release, lambda line: None)
            backfill = Backfill(api, release, launch, self.clock, self.say, choices or Choices())
            return backfill.run(tuple(map(Day.fromisoformat, dates)))

    def change_spec(self) -> None:
        self.spec = self.spec.model_copy(update={"intended_use": "something else"})

    def enabled(self) -> list[Record]:
        return [record for record in self.store.recurring.values() if record["status"] == "ENABLED"]

    def dates_run(self) -> list[str]:
        return [run["runtime_config"]["parameters"].get("date", "") for run in self.store.runs.values()]
