"""The demo's compiled pipeline on a node: every task a pod of its own."""

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sangam.components.reports.evaluation import FILE_NAME, Verdict
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
ONLINE = {
    "sync": {"rows_every_s": 1, "dense_every_s": 3, "full_every": 3},
    "checkpoint_every_s": 2,
    "joining": {"segment_every_s": 0.5, "idle_s": 1, "lateness_s": 0},
}
_STEP_S = 300
_ENDED = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"
CLUSTER = {
    "ranks": 2,
    "threads_per_rank": 1,
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
    """A run on the node that has ended well.

    Attributes:
        team: where it ran.
        backend: that it ran on.
        produced: output artifacts by task and key.
        logs: folder of the days of the run.
        spec: the text of its spec.
        kept: copy of the pipeline root at its end.
    """

    team: Team
    backend: NodeBackend
    produced: Produced
    logs: Path
    spec: str
    kept: Path

    @property
    def serving(self) -> Path:
        """The folder of pushed versions."""
        return self.team.root / "serving" / "short_video"

    @property
    def pushed(self) -> dict[str, Any]:
        """The pusher's properties."""
        # Its output's name has the step's in front where that shares a process.
        outputs = [each for of_task in self.produced.values() for each in of_task.items()]
        [metadata] = [found["metadata"] for key, found in outputs if key.endswith("pushed_model")]
        return dict(metadata)

    def path(self, task: str, key: str) -> Path:
        """Returns where an output lies on this machine."""
        uri = self.produced[task][key]["uri"]
        return self.team.root / "artifacts" / "minio" / uri.removeprefix("minio://")

    def verdict(self) -> Verdict:
        return Verdict.model_validate_json((self.path("reporter", "evaluator__evaluation") / FILE_NAME).read_text())


def run_demo(team: Team, image: str) -> Demo:
    """Runs the demo's pipeline on the node."""
    world = World(team.data, SPECS / "short_video.yaml")
    world.generate()
    changes: dict[tuple[str | int, ...], Any] = {
        ("event_time",): "event_time", ("online",): ONLINE, ("cluster",): CLUSTER, ("training", "epochs"): 1,
    }  # fmt: skip
    spec = world.spec("short_video", changes)
    file = team.data / "short_video.pipeline.yaml"
    compiled = sangam("compile", str(spec), "--image", image, "--output", str(file), is_cold=True)
    assert compiled.returncode == 0, compiled.stderr
    folder = team.plane.folder / "volumes" / LAUNCHER_CLAIM
    folder.mkdir(mode=0o755)
    team.apply(volume(LAUNCHER_CLAIM, folder), _claim())
    backend = NodeBackend(folder, run_id="demo", team=team)
    produced = run_compiled(file, {"date": DATE, "data_root": "/sangam/data/logs"}, backend)
    kept = team.root.with_name("kept")
    subprocess.run(["cp", "--archive", team.root, kept], check=True)
    return Demo(team, backend, produced, world.logs, spec.read_text(), kept)


def metrics_here(demo: Demo, root: Path) -> dict[str, float]:
    """Trains the same ranker on the same days on this machine; returns the AUC by task."""
    world = World(demo.logs.parent, SPECS / "short_video.yaml")
    cluster = {name: CLUSTER[name] for name in ("ranks", "threads_per_rank", "data_workers")}
    spec = world.spec("here", {("cluster",): cluster, ("training", "epochs"): 1})
    done, summary = world.run(spec, root=root, is_cold=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {task: judged["auc"] for task, judged in summary["tasks"].items()}


def _claim() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": LAUNCHER_CLAIM, "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
    }
