"""The demo's compiled pipeline on a node: every task a pod of its own; and a run of the same spec on this machine."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.reports.evaluation import FILE_NAME, Verdict
from tests.cluster.dag import CONTAINER, pod
from tests.cluster.team import ACCOUNT, NAMESPACE, Manifest, Team, volume
from tests.e2e.user_run import DATE, World, sangam
from tests.paths import SPECS
from tests.pipelines.kubeflow.fake_backend import (
    Backend,
    Produced,
    Task,
    TaskFailed,
    container_command,
    run_compiled,
)

LAUNCHER_CLAIM = "kfp-launcher"
_STEP_S = 300
_ENDED = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"
CLUSTER = {
    "ranks": 2,
    "threads_per_rank": 1,
    # Ranks then read in a fixed order, so that the metrics are the same everywhere.
    "data_workers": 0,
    "launcher": {"kind": "mpijob"},
    "service_account": ACCOUNT,
    "default": {"cpu": "1", "memory": "3GiB", "timeout_s": 600},
    "steps": {"trainer": {"memory": "2GiB", "timeout_s": 900}},
    "deadline_s": 600,
    "volumes": {
        "root": {"claim": "sangam-root", "path": "/sangam/root"},
        "data": {"claim": "sangam-data", "path": "/sangam/data"},
    },
}


@dataclass(frozen=True, kw_only=True)
class NodeBackend(Backend):
    """Runs tasks as pods.

    Attributes:
        team: the namespace of the run.
        seconds: from a pod's making to its end, by task.
    """

    team: Team
    seconds: dict[str, float] = field(default_factory=dict)

    def attempt(self, task: Task, executor_input: dict[str, Any], folder: Path) -> None:
        folder.chmod(0o777)  # the pod's user writes the file of outputs
        name = f"{self.run_id}-{task.name}-{self.tries[task.name]}"
        command, launcher = container_command(task, executor_input), (LAUNCHER_CLAIM, str(self.folder))
        made = pod(
            task, command, name=name, namespace=NAMESPACE, run_id=self.run_id, account=ACCOUNT, launcher=launcher
        )
        began = time.monotonic()
        self.team.apply(made)
        arguments = ["--namespace", NAMESPACE, "wait", _ENDED, f"pod/{name}", f"--timeout={_STEP_S}s"]
        waited = self.team.plane.try_kubectl(*arguments)
        assert waited.returncode == 0, waited.stderr + self.team.kubectl("describe", "pod", name)
        self.seconds[task.name] = time.monotonic() - began
        log = self.team.kubectl("logs", name, "--container", CONTAINER)
        (folder / "log.txt").write_text(log)
        status = json.loads(self.team.kubectl("get", "pod", name, "--output", "json"))["status"]
        code = status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        if code:
            raise TaskFailed(task.name, code, log)


@dataclass(frozen=True)
class Demo:
    """A run on the node that has ended well, and one of the same spec and logs on this machine.

    Attributes:
        team: where it ran.
        backend: that it ran on.
        produced: output artifacts by task and key.
        local: summary of the other run.
        node_s, local_s: how long each took.
    """

    team: Team
    backend: NodeBackend
    produced: Produced
    local: dict[str, Any]
    node_s: float
    local_s: float

    @property
    def serving(self) -> Path:
        """The folder of pushed versions."""
        return self.team.root / "serving" / "short_video"

    def path(self, task: str, key: str) -> Path:
        """Returns where an output lies on this machine."""
        uri = self.produced[task][key]["uri"]
        return self.team.root / "artifacts" / "minio" / uri.removeprefix("minio://")

    def verdict(self) -> Verdict:
        return Verdict.model_validate_json((self.path("evaluator", "evaluation") / FILE_NAME).read_text())

    def local_verdict(self) -> Verdict:
        [file] = (self.team.data / "root" / "artifacts").glob(f"evaluator/evaluation/*/{FILE_NAME}")
        return Verdict.model_validate_json(file.read_text())


def run_demo(team: Team, image: str) -> Demo:
    """Runs the demo's pipeline on this machine and on the node."""
    world = World(team.data, SPECS / "short_video.yaml")
    world.generate()
    # Without staleness a parameter server changes nothing, so that the metrics are the same everywhere.
    sync = {"kind": "stale", "staleness": 0}
    spec = world.spec("short_video", {("cluster",): CLUSTER, ("training", "epochs"): 1, ("training", "sync"): sync})
    file = team.data / "short_video.pipeline.yaml"
    compiled = sangam("compile", str(spec), "--image", image, "--output", str(file), is_cold=True)
    assert compiled.returncode == 0, compiled.stderr
    folder = team.plane.folder / "volumes" / LAUNCHER_CLAIM
    folder.mkdir(mode=0o755)
    team.apply(volume(LAUNCHER_CLAIM, folder), _claim())
    backend = NodeBackend(folder, run_id="demo", team=team)
    began = time.monotonic()
    produced = run_compiled(file, {"date": DATE, "data_root": "/sangam/data/logs"}, backend)
    node_s = time.monotonic() - began
    began = time.monotonic()
    done, summary = world.run(spec)
    local_s = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    return Demo(team, backend, produced, summary, node_s, local_s)


def _claim() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": LAUNCHER_CLAIM, "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
    }
