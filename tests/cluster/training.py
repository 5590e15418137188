"""Trainer steps against the cluster: a small job of two hosts, a dispatcher and a data worker, really trained."""

import argparse
import json
import logging
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.contracts.training_job import PROGRESS_FILE
from tests.cluster.servers import Servers
from tests.cluster.team import NAMESPACE, ROOT_CLAIM, SECURE_CONTAINER, SECURE_POD, Team
from tests.components.steps.trainer.kubernetes.sample_inputs import make_inputs, ranker

INPUTS = "inputs"


def execute(
    inputs: Path, root: Path, launch: dict[str, Any], training: dict[str, Any], cluster: dict[str, Any]
) -> None:
    """Runs the trainer step's executor on `inputs`, with a pipeline root of its own."""
    from tfx.types import artifact_utils, standard_artifacts

    from components.registry import seal
    from components.registry.checkpoint import RankerCheckpoint
    from components.steps.trainer.executor import Executor

    given = {
        "examples": standard_artifacts.Examples(),
        "transformed_examples": standard_artifacts.Examples(),
        "transform_graph": standard_artifacts.TransformGraph(),
    }
    made = {
        "model": standard_artifacts.Model(),
        "training": standard_artifacts.ModelRun(),
        "checkpoint": RankerCheckpoint(),
    }
    for artifacts, folder in ((given, inputs), (made, root / "artifacts")):
        for name, artifact in artifacts.items():
            artifact.uri = str(folder / name)
    for name in ("examples", "transformed_examples"):
        given[name].split_names = artifact_utils.encode_split_names(["train", "eval"])
    graph = given["transform_graph"]
    graph.set_string_custom_property(seal.SHA256, seal.sha256_of(Path(graph.uri, seal.MANIFEST_FILE)))
    declared = json.loads(ranker(**training).model_dump_json())
    declared["cluster"] |= cluster
    properties = {
        "ranker": json.dumps(declared),
        "pipeline_root": str(root),
        "code": "c",
        "launch": json.dumps(launch),
    }
    Executor().Do({key: [each] for key, each in given.items()}, {key: [each] for key, each in made.items()}, properties)


def prepare_inputs(team: Team) -> Path:
    """Writes what all steps are given; returns its folder."""
    from components.registry import seal

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
    """A trainer step in a thread of this process, with the shipped account's rights.

    Attributes:
        team: where it runs.
        image: of the pods.
        name: of its pipeline root.
        kind: of the launcher.
        launcher, training, cluster: fields of the spec that differ from the sample's.
    """

    team: Team
    image: str
    name: str
    kind: str
    launcher: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @property
    def root(self) -> Path:
        return self.team.root / self.name

    @property
    def servers(self) -> Servers:
        return self.team.plane.servers

    def launch(self) -> dict[str, Any]:
        """Returns the pods' part of the spec."""
        return {
            "launcher": {"kind": self.kind, **self.launcher},
            "image": self.image,
            "volumes": {"root": {"claim": ROOT_CLAIM, "path": str(self.team.root)}},
        }

    def _run(self) -> None:
        try:
            execute(prepare_inputs(self.team), self.root, self.launch(), self.training, self.cluster)
        except Exception as error:  # noqa: BLE001, the test reads it
            self.error = str(error) or traceback.format_exc()

    def start(self) -> "Step":
        self._thread.start()
        return self

    def ended(self, seconds: float) -> str:
        """Waits for the end; returns the error, which is empty after a training that succeeded."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self.name}: not ended within {seconds:.0f} s\n{self.told()}"
        return self.error

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def lines(self) -> list[dict[str, Any]]:
        """Returns the lines of the job's progress file."""
        files = self.root.glob(f"training/*/*/{PROGRESS_FILE}")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def told(self) -> str:
        """Returns what the job told its users, for the message of a failed test."""
        return "\n".join(json.dumps(line) for line in self.lines()[-15:])

    def until(self, condition: Any, what: str, seconds: float = 120.0) -> None:
        """Waits for something to come true while the step runs."""
        self.servers.until(lambda: condition() or not self.is_running, f"{self.name}: {what}\n{self.told()}", seconds)
        assert self.is_running, f"{self.name}: ended before {what}: {self.error}"


@contextmanager
def rights_of(team: Team) -> Iterator[None]:
    """Lets steps of this process act as the shipped account."""
    old = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(team.account)
    mask = os.umask(0)  # pods, of another user, write into folders of this process
    try:
        yield
    finally:
        os.umask(mask)
        if old is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = old


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
    logging.basicConfig(level="INFO", format="%(asctime)s %(name)s %(message)s")
    for noisy in ("absl", "httpcore", "httpx"):
        logging.getLogger(noisy).setLevel("WARNING")
    execute(given.inputs, given.root, **given.fields)


if __name__ == "__main__":
    main()
