"""Online training in a pod: valid to the last field, without rights, reachable by nobody, and stopped in time."""

import copy
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from pipelines.kubeflow.ir import task_name
from pipelines.online.supervisor import GRACE_S
from schemas.contracts.root import LOCK_FILE, Root
from schemas.loading import load_spec
from tests.manifest_schemas import privileges
from tests.paths import REPOSITORY, SPECS
from tests.security.test_infra_readme import sangam_problems

FOLDER = REPOSITORY / "infra" / "kubernetes" / "online"
KUBERNETES = "1.31"
Document = dict[str, Any]


def _load(path: Path) -> list[Document]:
    return [document for document in YAML(typ="safe").load_all(path.read_text()) if document]


@pytest.fixture
def manifests() -> dict[str, Document]:
    """The documents by kind; there is one of each."""
    files = [path for path in sorted(FOLDER.glob("*.yaml")) if path.name != "kustomization.yaml"]
    documents = [document for path in files for document in _load(path)]
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return copy.deepcopy(found)


@pytest.fixture
def pod(manifests: dict[str, Document]) -> Document:
    template: Document = manifests["Deployment"]["spec"]["template"]
    return template


@pytest.fixture
def container(pod: Document) -> Document:
    [only] = pod["spec"]["containers"]
    return dict(only)


def test_manifests_are_valid_to_the_last_field(manifests: dict[str, Document]) -> None:
    assert set(manifests) == {"Deployment", "NetworkPolicy", "ServiceAccount"}
    for document in manifests.values():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Deployment", lambda found: found["spec"]["strategy"].update(kind="Recreate")),
        ("NetworkPolicy", lambda found: found["spec"]["egress"][0].update(port=[])),
        ("ServiceAccount", lambda found: found.update(automountToken=False)),
    ],
)
def test_a_mistake_in_any_kind_is_found(
    manifests: dict[str, Document], kind: str, change: Callable[[Document], None]
) -> None:
    change(manifests[kind])
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifests[kind], KUBERNETES, strict=True)


def test_the_trainer_has_no_token_no_privilege_and_the_images_user(
    manifests: dict[str, Document], pod: Document
) -> None:
    spec = pod["spec"]
    assert privileges(spec) == []
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (10001, 10001)
    account = manifests["ServiceAccount"]
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    assert (spec["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (False, False)


def test_one_pod_at_a_time_trains(manifests: dict[str, Document]) -> None:
    spec = manifests["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_root_has_the_path_of_the_daily_run_and_secrets_are_files(pod: Document, container: Document) -> None:
    root = load_spec(SPECS / "short_video.yaml").cluster.volumes["root"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert mounts["root"] == {"name": "root", "mountPath": root.path}
    assert volumes["root"]["persistentVolumeClaim"] == {"claimName": root.claim}
    assert set(volumes) == set(mounts) == {"root", "spec", "kafka", "tmp"}
    command = container["command"]
    assert command[command.index("--root") + 1] == root.path
    for name, file in (("spec", command[2]), ("kafka", command[command.index("--kafka-config") + 1])):
        assert mounts[name]["readOnly"]
        assert Path(file).parent == Path(mounts[name]["mountPath"])
    assert "secret" in volumes["kafka"]
    assert "env" not in container
    assert "envFrom" not in container


def test_nobody_speaks_to_it_and_it_speaks_to_dns_and_brokers_alone(
    manifests: dict[str, Document], pod: Document, container: Document
) -> None:
    labels = pod["metadata"]["labels"].items()
    base = {
        document["metadata"]["name"]: document["spec"] for document in _load(FOLDER.parent / "base" / "network.yaml")
    }
    closed = base["sangam-training"]
    assert closed["podSelector"]["matchLabels"].items() <= labels
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    own = manifests["NetworkPolicy"]["spec"]
    assert own["podSelector"]["matchLabels"].items() <= labels
    assert (own["policyTypes"], "ingress" in own) == (["Ingress", "Egress"], False)
    command = container["command"]
    broker = int(command[command.index("--source") + 1].rpartition(":")[2])
    ports = [[(port["protocol"], port["port"]) for port in rule["ports"]] for rule in own["egress"]]
    assert ports == [[("UDP", 53), ("TCP", 53)], [("TCP", broker)]]


def test_the_command_is_one_of_sangam_and_everything_selects_the_pod(
    manifests: dict[str, Document], pod: Document, container: Document
) -> None:
    assert sangam_problems(" ".join(container["command"])) == []
    deployment = manifests["Deployment"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert deployment["metadata"]["name"] == f"{task_name('short_video')}-online"
    [kustomization] = _load(FOLDER / "kustomization.yaml")
    names = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
    assert sorted(kustomization["resources"]) == names


def test_the_page_makes_what_the_pod_mounts(manifests: dict[str, Document], pod: Document, container: Document) -> None:
    page = (REPOSITORY / "docs" / "online.md").read_text()
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    command = container["command"]
    properties = Path(command[command.index("--kafka-config") + 1]).name
    into = "--namespace kubeflow --from-file="
    spec, secret = volumes["spec"]["configMap"]["name"], volumes["kafka"]["secret"]["secretName"]
    assert f"kubectl create configmap {spec} {into}{Path(command[2]).name}=" in page
    assert f"kubectl create secret generic {secret} {into}{properties}\n" in page
    assert f"deployment/{manifests['Deployment']['metadata']['name']}\n" in page


def test_a_pod_is_not_killed_before_its_last_checkpoint(pod: Document) -> None:
    assert pod["spec"]["terminationGracePeriodSeconds"] >= GRACE_S + 10


def _holds(probe: Document, root: Path) -> bool:
    """Runs a probe's command on a root of this machine."""
    command = [word.replace("/sangam/root", str(root)) for word in probe["exec"]["command"]]
    return subprocess.run(command, check=False, timeout=10, stderr=subprocess.DEVNULL).returncode == 0


def _dated(file: Path, minutes_ago: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    then = time.time() - 60 * minutes_ago
    os.utime(file, (then, then))


def test_a_hanging_command_and_a_hanging_joiner_are_not_alive(container: Document, tmp_path: Path) -> None:
    probe, online = container["livenessProbe"], Root(str(tmp_path)).online("short_video")
    alive, joiner = online / LOCK_FILE, online / "joining" / "status.json"
    assert not _holds(probe, tmp_path)
    for minutes, other, expected in ((0, 0, True), (14, 14, True), (16, 0, False), (0, 16, False)):
        _dated(alive, minutes)
        _dated(joiner, other)
        assert _holds(probe, tmp_path) == expected, (minutes, other)


def test_it_is_ready_while_ranks_of_any_lineage_say_how_far_they_are(container: Document, tmp_path: Path) -> None:
    probe, online = container["readinessProbe"], Root(str(tmp_path)).online("short_video")
    assert not _holds(probe, tmp_path)
    _dated(online / "training" / "20240307001" / "logs" / "online.json", 2)
    assert not _holds(probe, tmp_path)
    _dated(online / "training" / "20240308001" / "logs" / "online.json", 0)
    assert _holds(probe, tmp_path)
