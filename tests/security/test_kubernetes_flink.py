"""The Flink cluster that is shipped: what real Flink has asked for, and pods without rights.

The operator's own schema cannot be had here: its pods are checked as pods, and its fields by their names.
"""

import copy
import re
from pathlib import Path

import kubernetes_validate
import pytest

from sangam.components.beam import worker_pool
from sangam.pipelines.beam import engine_args
from sangam.schemas.spec.beam import Flink
from tests.manifest_schemas import privileges
from tests.paths import REPOSITORY
from tests.security import dockerfile
from tests.security.shipped import KUBERNETES, Document

pytestmark = pytest.mark.slow

FOLDER = "flink"
MAIN = "flink-main-container"


@pytest.fixture
def spec(manifests: dict[str, Document]) -> Document:
    return dict(manifests["FlinkDeployment"]["spec"])


def pod(spec: Document, *templates: Document) -> Document:
    """Returns the pod that the operator makes: later templates are merged into earlier ones, containers by name."""
    merged: Document = {}
    containers: dict[str, Document] = {}
    for template in copy.deepcopy(templates):
        for container in template["spec"].pop("containers"):
            containers.setdefault(container["name"], {}).update(container)
        merged |= template["spec"]
    containers[MAIN].setdefault("image", spec["image"])
    merged |= {"containers": list(containers.values()), "serviceAccountName": spec["serviceAccount"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": merged}


def test_the_parts_that_kubernetes_knows_are_valid_to_the_last_field(
    manifests: dict[str, Document], spec: Document
) -> None:
    assert set(manifests) == {"FlinkDeployment", "NetworkPolicy", "ServiceAccount"}
    for kind in ("NetworkPolicy", "ServiceAccount"):
        kubernetes_validate.validate(manifests[kind], KUBERNETES, strict=True)
    for each in ([spec["podTemplate"]], [spec["podTemplate"], spec["taskManager"]["podTemplate"]]):
        kubernetes_validate.validate(pod(spec, *each), KUBERNETES, strict=True)
    fields = {"mode", "image", "flinkVersion", "serviceAccount", "flinkConfiguration", "podTemplate"}
    assert set(spec) == fields | {"jobManager", "taskManager"}
    assert set(spec["taskManager"]) == {"replicas", "resource", "podTemplate"}
    assert all(isinstance(value, str) for value in spec["flinkConfiguration"].values())


def test_the_settings_are_those_that_real_flink_needed(spec: Document) -> None:
    settings = spec["flinkConfiguration"]
    assert settings["taskmanager.memory.network.min"] == settings["taskmanager.memory.network.max"] == "256mb"
    assert settings["taskmanager.network.sort-shuffle.min-buffers"] == "64"
    assert settings["restart-strategy.type"] == "fixed-delay"
    assert int(settings["restart-strategy.fixed-delay.attempts"]) >= 20


def test_every_task_manager_has_a_pool_of_its_own(spec: Document) -> None:
    assert spec["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] == "1"
    assert [each["name"] for each in spec["podTemplate"]["spec"]["containers"]] == [MAIN]
    [main, pool] = spec["taskManager"]["podTemplate"]["spec"]["containers"]
    assert main == {"name": MAIN}
    # By the image's own Python, which is first in its PATH, with its own code on this loopback.
    assert pool["command"][:3] == ["python", "-m", worker_pool.__name__]
    assert dockerfile.environment(dockerfile.read(REPOSITORY / "infra" / "images" / "Dockerfile"))["PATH"].startswith(
        "/opt/sangam/bin:"
    )
    port = pool["command"][pool["command"].index("--port") + 1]
    assert f"--environment_config=localhost:{port}" in engine_args(Flink(runner="flink", master="flink:8081"))
    assert "--host" not in pool["command"]


def test_the_pool_sees_what_the_steps_see_and_may_nothing(spec: Document) -> None:
    whole = pod(spec, spec["podTemplate"], spec["taskManager"]["podTemplate"])["spec"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in whole["containers"][1]["volumeMounts"]}
    assert mounts == {"/sangam/root": False, "/sangam/data": True, "/tmp": False}
    # Flink's own image writes its configuration into its root.
    assert privileges(whole) == [f"{MAIN}: readOnlyRootFilesystem"]
    assert whole["automountServiceAccountToken"] is False


def test_only_steps_reach_flink(manifests: dict[str, Document]) -> None:
    own, steps = manifests["NetworkPolicy"]["spec"]["ingress"]
    assert own["from"] == [{"podSelector": {"matchLabels": {"app": manifests["FlinkDeployment"]["metadata"]["name"]}}}]
    assert steps["from"] == [{"podSelector": {"matchLabels": {"pipelines.kubeflow.org/v2_component": "true"}}}]
    assert steps["ports"] == [{"protocol": "TCP", "port": 8081}]


def test_the_job_server_is_in_the_image_by_its_sha256_where_steps_look_for_it() -> None:
    found = dockerfile.read(REPOSITORY / "infra" / "images" / "Dockerfile.flink")
    jar = Flink(runner="flink", master="flink:8081").jar
    assert [each.name for each in found] == ["ARG", "FROM", "ARG", "COPY", "RUN"]
    assert found[3].text == f"--chmod=0444 {Path(jar).name} {jar}"
    assert found[4].text == f'echo "$JAR_SHA256 {jar}" | sha256sum --check --strict'
    assert not re.search("https?:|curl|wget", " ".join(each.text for each in found))
