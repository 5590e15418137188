"""Trainer steps against the cluster: a small job of two hosts, a dispatcher and a data worker, really trained.

In modes other than `sync` a parameter server joins them.
"""

import argparse
import functools
import json
import logging
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

from sangam.components.processes.stopping import StopSignals
from sangam.components.steps.trainer.kubernetes.launch import run_pods
from sangam.components.steps.trainer.kubernetes.run import RUN_LABEL, run_name
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.schemas.contracts.training_job import PROGRESS_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import tail
from tests.cluster.team import NAMESPACE, ROOT_CLAIM, SECURE_CONTAINER, SECURE_POD, Team
from tests.components.steps.trainer.kubernetes.sample_inputs import make_inputs, ranker
from tests.components.steps.trainer.sample_artifacts import step_artifacts

_FORKS = multiprocessing.get_context("forkserver")
INPUTS = "inputs"
KINDS = "mpijobs,jobsets,jobs,services,statefulsets,networkpolicies,pods"
RANKER = "served"
_PENDING_S = 15.0
"""How long a pod waits until the step says why: in place of a minute."""


def execute(
    inputs: Path, root: Path, launch: dict[str, Any], training: dict[str, Any], cluster: dict[str, Any]
) -> None:
    """Runs the trainer step's executor on `inputs`, with a pipeline root of its own."""
    from sangam.components.registry import seal
    from sangam.components.steps.trainer.executor import Executor

    given, made = step_artifacts(inputs, root / "artifacts")
    [graph] = given["transform_graph"]
    graph.set_string_custom_property(seal.SHA256, seal.sha256_of(Path(graph.uri, seal.MANIFEST_FILE)))
    declared = json.loads(ranker(**training).model_dump_json())
    declared["cluster"] |= cluster
    properties = {
        "ranker": json.dumps(declared),
        "pipeline_root": str(root),
        "code": "c",
        "launch": json.dumps(launch) if launch else "",
    }
    Executor().Do(given, made, properties)


def prepare_inputs(team: Team) -> Path:
    """Writes what all steps are given; returns its folder."""
    from sangam.components.registry import seal

    folder = team.root / INPUTS
    if not folder.exists():
        make_inputs(folder)
        seal.seal(str(folder / "transform_graph"))
    return folder


def report(root: Path) -> dict[str, Any]:
    """Returns what a finished training reported."""
    found: dict[str, Any] = json.loads((root / "artifacts" / "training" / "training.json").read_text())
    return found


@dataclass
class Step:
    """A trainer step as a process of this machine, with the rights of the shipped account.

    It is forked from a process that has imported TFX already, which takes the longest part of a small step.

    Attributes:
        team: where it runs.
        image: of the pods.
        name: of its pipeline root.
        kind: of the launcher.
        launcher: fields of that section of the spec that differ from the defaults; so are the others.
    """

    team: Team
    image: str
    name: str
    kind: str
    launcher: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    volumes: dict[str, Any] = field(default_factory=dict)
    _process: ForkServerProcess | None = None

    @property
    def root(self) -> Path:
        return self.team.root / self.name

    @property
    def log(self) -> Path:
        return self.team.plane.folder / f"step-{self.name}.log"

    def launch(self) -> dict[str, Any]:
        """Returns the pods' part of the spec; empty where the step's own pod has all processes."""
        if self.kind == "local":
            return {}
        return {
            "launcher": {"kind": self.kind, **self.launcher},
            "image": self.image,
            "volumes": {"root": {"claim": ROOT_CLAIM, "path": str(self.team.root)}, **self.volumes},
        }

    def fields(self) -> dict[str, Any]:
        """Returns what `execute` needs beside folders."""
        # Trainings of one seed would be one training, tried again.
        training = {"seed": zlib.crc32(self.name.encode()) % 10_000, **self.training}
        return {"launch": self.launch(), "training": training, "cluster": self.cluster}

    def __enter__(self) -> Self:
        _FORKS.set_forkserver_preload(["sangam.components.steps.trainer.executor", "tests.cluster.training"])
        arguments = (self.team.account, self.log, prepare_inputs(self.team), self.root, self.fields())
        self._process = _FORKS.Process(target=_run, args=arguments, name=self.name)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.end()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def end(self, seconds: float = 60.0) -> None:
        """Ends the step as Kubernetes does, by SIGTERM."""
        assert self._process
        self._process.terminate()
        self.exit_code(seconds)

    def exit_code(self, seconds: float) -> int:
        """Waits for the end."""
        assert self._process
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"{self.name}: not ended within {seconds:.0f} s\n{self.told()}"
        return self._process.exitcode

    def checkpoint(self) -> int:
        """Returns the step of the newest checkpoint, 0 for none."""
        found = self.root.glob("checkpoints/*/*/step-*/manifest.json")
        return max([int(path.parent.name.removeprefix("step-")) for path in found], default=0)

    def left(self) -> list[str]:
        """Returns the names of all objects of its training job that are still there; launcher `local` makes none."""
        if self.kind == "local":
            return []
        [identity] = {path.name for path in self.root.glob("training/*/*")}
        selector = f"{RUN_LABEL}={run_name(RANKER, identity)}"
        return self.team.kubectl("get", KINDS, "--selector", selector, "--output", "name").split()

    def lines(self) -> list[dict[str, Any]]:
        """Returns the lines of the job's progress, the newest last."""
        files = self.root.glob(f"training/*/*/{PROGRESS_FILE}")
        lines = [line for file in files for line in file.read_text().splitlines(keepends=True)]
        # The last may not be complete yet.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def told(self) -> str:
        """Returns the end of the step's log."""
        return tail(self.log, 40)

    def until(self, condition: Callable[[], object], what: str, seconds: float = 300.0) -> None:
        """Waits for something to come true while the step runs.

        A data worker finds a new dispatcher after up to two minutes, the longest wait of gRPC between two tries.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.is_running, f"{self.name}: ended before: {what}\n{self.told()}"
            assert time.monotonic() < deadline, f"{self.name}: not within {seconds:.0f} s: {what}\n{self.told()}"
            time.sleep(0.1)


def _run(kubeconfig: Path, log: Path, inputs: Path, root: Path, fields: dict[str, Any]) -> None:
    os.environ["KUBECONFIG"] = str(kubeconfig)
    os.umask(0)  # pods, of another user, write into folders of this process
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _log_as_a_step()
    from sangam.components.steps.trainer import executor

    executor.run_pods = functools.partial(run_pods, timing=Timing(pending_s=_PENDING_S))
    try:
        execute(inputs, root, **fields)
    except UserError as error:
        print(f"error: {error}", flush=True)
        sys.exit(1)


def _log_as_a_step() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(name)s %(message)s", force=True)
    for noisy in ("absl", "httpcore", "httpx"):
        logging.getLogger(noisy).setLevel("WARNING")


def step_pod(team: Team, name: str, image: str, arguments: list[str]) -> dict[str, Any]:
    """Returns a trainer step as a pod, with the account and the label that Kubeflow gives it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": {"pipelines.kubeflow.org/v2_component": "true"},
        },
        "spec": {
            "serviceAccountName": "sangam-pipeline",
            "restartPolicy": "Never",
            "securityContext": SECURE_POD,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": ["python", "-W", "ignore", "-m", "tests.cluster.training", *arguments],
                    "env": [
                        {"name": key, "value": value}
                        for key, value in (
                            ("HOME", "/tmp"), ("TF_CPP_MIN_LOG_LEVEL", "2"),
                            ("TF_USE_LEGACY_KERAS", "1"),
                        )
                    ],
                    "securityContext": SECURE_CONTAINER,
                    "volumeMounts": [
                        {"name": "root", "mountPath": str(team.root)}, {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }
            ],
            "volumes": [
                {"name": "root", "persistentVolumeClaim": {"claimName": ROOT_CLAIM}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }  # fmt: skip


def main() -> None:
    """Runs the step in a pod: `--inputs FOLDER --root FOLDER --fields JSON`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--fields", type=json.loads, required=True, help="launch, training, cluster")
    given = parser.parse_args()
    _log_as_a_step()
    # As the process that runs a step does: the first one of a pod ignores SIGTERM otherwise.
    with StopSignals() as stop, stop.raised():
        execute(given.inputs, given.root, **given.fields)


if __name__ == "__main__":
    main()
