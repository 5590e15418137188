"""A task of the compiled file as a pod: what the file says and no more, and what Pod Security `restricted` allows."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.cluster.dag import Manifest, pod
from tests.golden_files import FOLDER
from tests.manifest_schemas import privileges
from tests.pipelines.kubeflow.fake_backend import (
    STORE,
    Backend,
    Compiled,
    Produced,
    RecordingBackend,
    Task,
    container_command,
    executor_input_of,
    parameter_values,
    read_compiled,
    run_compiled,
    task_of,
    task_order,
)

FILE = FOLDER / "short_video.pipeline.yaml"


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return read_compiled(FILE.read_text())


def pod_of(task: Task, command: list[str] | None = None) -> Manifest:
    return pod(
        task,
        command or ["true"],
        name="r-trainer-0",
        namespace="team",
        run_id="r",
        account="sangam-pipeline",
        launcher=("shared", "/shared/launcher"),
    )


@pytest.fixture
def trainer(compiled: Compiled) -> Task:
    return task_of(compiled, "trainer")


def test_every_task_of_the_file_becomes_a_valid_pod(compiled: Compiled) -> None:
    names = task_order(compiled.ir)
    assert len(names) == 4
    for name in names:
        kubernetes_validate.validate(pod_of(task_of(compiled, name)), "1.31", strict=True)


def test_a_pod_is_what_the_file_says(trainer: Task) -> None:
    made = pod_of(trainer, ["python", "-m", "x"])
    [container] = made["spec"]["containers"]
    assert (container["image"], container["command"]) == (trainer.container["image"], ["python", "-m", "x"])
    assert container["env"] == [{"name": "TF_USE_LEGACY_KERAS", "value": "1"}]
    assert container["resources"] == {"limits": {"cpu": "4", "memory": "8.589934592G"}}
    assert made["spec"]["activeDeadlineSeconds"] == 3 * (25200 + 60) + 60 + 120
    assert made["spec"]["serviceAccountName"] == "sangam-pipeline"
    claims = {
        volume["persistentVolumeClaim"]["claimName"]: volume["name"]
        for volume in made["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {claim: paths[name] for claim, name in claims.items()} == {
        "sangam-root": "/sangam/root",
        "sangam-data": "/sangam/data",
        "shared": "/shared/launcher",
    }
    assert made["metadata"]["labels"] == {"pipelines.kubeflow.org/v2_component": "true", "pipeline/runid": "r"}


def test_a_pod_has_what_the_platform_document_adds(trainer: Task) -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    platform = {
        **trainer.platform,
        "nodeSelector": {"labels": {"pool": "gpu"}},
        "tolerations": [toleration],
        "emptyDirMounts": [
            {"volumeName": "shared-memory", "mountPath": "/dev/shm", "medium": "Memory", "sizeLimit": "1024"}
        ],
        "secretAsEnv": [{"secretName": "hook", "keyToEnv": [{"secretKey": "url", "envVar": "URL"}]}],
    }
    resources = {"cpuLimit": 0.5, "accelerator": {"type": "nvidia.com/gpu", "count": 2}}
    made = pod_of(replace(trainer, platform=platform, container={**trainer.container, "resources": resources}))
    kubernetes_validate.validate(made, "1.31", strict=True)
    spec = made["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "gpu"}, [toleration])
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1024"}} in spec["volumes"]
    [container] = spec["containers"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert container["env"][-1] == {"name": "URL", "valueFrom": {"secretKeyRef": {"name": "hook", "key": "url"}}}
    assert container["resources"] == {"limits": {"cpu": "0.5", "nvidia.com/gpu": "2"}}


def test_the_root_alone_is_more_than_a_training_pod_may(trainer: Task) -> None:
    assert privileges(pod_of(trainer)["spec"]) == ["main: readOnlyRootFilesystem"]


def test_tasks_are_made_in_order_with_their_inputs_resolved(tmp_path: Path) -> None:
    backend = RecordingBackend(tmp_path, run_id="r", created="2024-03-08T00:10:00Z")
    produced = run_compiled(FILE, {"pipeline_root": "/sangam/root"}, backend)
    position = {name: number for number, name in enumerate(backend.commands)}
    assert position["example-gen"] < position["transform"] < position["trainer"] < position["reporter"]
    for name, command in backend.commands.items():
        assert command[:3] == ["python", "-m", "sangam.components.kfp_entrypoint"], name
        assert not [word for word in command if re.search(r"\{\{\$", word)], name
    given = _executor_input(backend.commands["trainer"])
    assert given["inputs"]["parameterValues"]["pipeline_root"] == "/sangam/root"
    [examples] = given["inputs"]["artifacts"]["examples"]["artifacts"]
    assert examples["uri"] == produced["example-gen"]["examples"]["uri"]
    assert examples["uri"].startswith(f"{STORE}/pipeline/r/example-gen/")


def _executor_input(command: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command[command.index("--json_serialized_invocation_args") + 1])
    return found


def test_the_output_file_of_an_attempt_is_in_its_command(compiled: Compiled, tmp_path: Path) -> None:
    task, backend = task_of(compiled, "example-gen"), Backend(tmp_path)
    produced: Produced = {}
    given = executor_input_of(task, parameter_values(compiled.ir, {}), produced, backend)
    given["outputs"]["outputFile"] = "/shared/launcher/x.json"
    assert _executor_input(container_command(task, given))["outputs"]["outputFile"] == "/shared/launcher/x.json"
