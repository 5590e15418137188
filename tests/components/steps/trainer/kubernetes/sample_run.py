"""A training run, and a cluster of the test's own to launch it on."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sangam.components.steps.trainer.kubernetes.connection import connect
from sangam.components.steps.trainer.kubernetes.launch import run_pods
from sangam.components.steps.trainer.kubernetes.lifecycle import run_job
from sangam.components.steps.trainer.kubernetes.manifests import render
from sangam.components.steps.trainer.kubernetes.objects import Objects
from sangam.components.steps.trainer.kubernetes.run import TrainingRun, run_name
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.schemas.spec.cluster import Cluster, Launch
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.kubernetes_controllers import Controllers, Life, ScriptedKubelet, finish
from tests.fakes.kubernetes_store import Store
from tests.paths import REPOSITORY

ROLE = REPOSITORY / "infra" / "kubernetes" / "base" / "launcher-role.yaml"
NAME = "short-video-0123456789"
DONE = Life(says=("begins", "exports"), code=0)
QUICK = Timing(
    backoff_s=0.05, max_backoff_s=0.2, patience_s=3.0, watch_s=5, silence_s=8.0, tick_s=0.1, pending_s=0.3,
    operator_s=2.0, removal_s=5.0, started_s=20.0,
)  # fmt: skip


def limit_restarts(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Lowers the limits of pods and jobs."""
    for module in ("lifecycle", "mpijob", "jobset"):
        monkeypatch.setattr(f"sangam.components.steps.trainer.kubernetes.{module}.MAX_RETRIES", limit)


def training_run(
    kind: str = "jobset", *, launcher: dict[str, Any] | None = None, queue: str | None = None
) -> TrainingRun:
    declared = {
        "launcher": {"kind": kind, **(launcher or {})},
        "image": "registry.example/trainer@sha256:" + "0" * 64,
        "volumes": {"data": {"claim": "shared", "path": "/data"}},
        "queue": queue,
    }
    launch = Launch.model_validate_json(json.dumps(declared))
    name = run_name("short_video", "0123456789abcdef")
    return TrainingRun(name, launch, Cluster(), "/data/training/job.json")


@dataclass
class World:
    """A cluster, and the folder of logs that its pods and the step share."""

    api: KubernetesApi
    store: Store
    log_dir: Path
    kubelet: ScriptedKubelet
    controllers: Controllers
    timing: Timing = QUICK

    def launch(self, run: TrainingRun) -> None:
        """Does what the trainer step does."""

        async def main() -> None:
            async with connect(self.timing) as api:
                await run_job(api, run, self.log_dir)

        asyncio.run(asyncio.wait_for(main(), 60))

    def start(self, run: TrainingRun) -> None:
        """Does what a trainer step does that is killed as soon as everything is there."""

        async def main() -> None:
            async with connect(self.timing) as api:
                await Objects(api, run, render(run)).start(before=lambda: None)

        asyncio.run(asyncio.wait_for(main(), 60))

    def ends_when(self, condition: Callable[[], object], what: str) -> Life:
        """Returns the life of a coordinator that is done as soon as something has come true."""

        def end(pod: str) -> None:
            wait_until(condition, what)
            finish(self.store, pod, 0)

        return Life(does=lambda pod: threading.Thread(target=end, args=(pod,), daemon=True).start())

    def left(self) -> list[tuple[str, str]]:
        return sorted(self.store.objects)

    def created(self, plural: str) -> list[str]:
        """Returns the names of all objects of a kind that there ever were, in order."""
        history = self.store.history
        return [each["metadata"]["name"] for _, kind, event, each in history if (kind, event) == (plural, "ADDED")]


@contextmanager
def world(folder: Path, monkeypatch: Any, **lives: list[Life]) -> Iterator[World]:
    """Starts a cluster whose pods live as is written down, by component (`data_worker` for data-worker)."""
    with KubernetesApi(ROLE) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.write_kubeconfig(folder / "kubeconfig")))
        monkeypatch.delenv("SANGAM_NAMESPACE", raising=False)
        written = {component.replace("_", "-"): list(each) for component, each in lives.items()}
        kubelet = ScriptedKubelet(api.store, written)
        with Controllers(api.store, kubelet) as controllers:
            yield World(api, api.store, folder, kubelet, controllers)


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Waits for something to come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


if __name__ == "__main__":
    run_pods(training_run(sys.argv[1]), Path(sys.argv[2]), QUICK)
