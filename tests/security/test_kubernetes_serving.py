"""The servers of pushed models: valid to the last field, without rights, and as the server that they start is."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from components.server.options import GRPC_PORT, REST_PORT
from pipelines.kubeflow.ir import task_name
from schemas.loading import load_spec
from tests.manifest_schemas import privileges
from tests.paths import REPOSITORY, SPECS
from tests.security.test_infra_readme import sangam_problems

FOLDER = REPOSITORY / "infra" / "kubernetes" / "serving"
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
    assert set(manifests) == {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
    for document in manifests.values():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Deployment", lambda found: found["spec"]["template"]["spec"]["containers"][0].update(readyProbe={})),
        ("NetworkPolicy", lambda found: found["spec"]["ingress"][0].update(port=[])),
        ("PodDisruptionBudget", lambda found: found["spec"].update(minUnavailable=1)),
        ("Service", lambda found: found["spec"]["ports"][0].update(target="grpc")),
        ("ServiceAccount", lambda found: found.update(automountToken=False)),
    ],
)
def test_a_mistake_in_any_kind_is_found(
    manifests: dict[str, Document], kind: str, change: Callable[[Document], None]
) -> None:
    change(manifests[kind])
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifests[kind], KUBERNETES, strict=True)


def test_a_server_has_no_token_no_privilege_and_the_images_user(manifests: dict[str, Document], pod: Document) -> None:
    spec = pod["spec"]
    assert privileges(spec) == []
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (10001, 10001)
    account = manifests["ServiceAccount"]
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    assert (spec["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (False, False)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda spec: spec.update(hostNetwork=True), ["hostNetwork"]),
        (lambda spec: spec["securityContext"].update(runAsNonRoot=False), ["runAsNonRoot"]),
        (lambda spec: spec["securityContext"].pop("seccompProfile"), ["seccompProfile"]),
        (lambda spec: spec["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), ["hostPath"]),
        (lambda spec: spec["containers"][0].pop("securityContext"),
         ["server: allowPrivilegeEscalation", "server: readOnlyRootFilesystem", "server: capabilities"]),
    ],
)  # fmt: skip
def test_a_privilege_is_found(pod: Document, change: Callable[[Document], None], found: list[str]) -> None:
    change(pod["spec"])
    assert privileges(pod["spec"]) == found


def test_a_server_sees_what_is_pushed_and_cannot_write(pod: Document, container: Document) -> None:
    spec = load_spec(SPECS / "short_video.yaml")
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "root"]
    assert (mount["readOnly"], mount["subPath"]) == (True, spec.push.path)
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "root"]
    claim = spec.cluster.volumes["root"].claim
    assert volume["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    assert mount["mountPath"] in container["command"]


def test_the_command_is_one_of_sangam_and_its_ports_are_those_that_are_opened(
    manifests: dict[str, Document], container: Document
) -> None:
    assert sangam_problems(" ".join(container["command"])) == []
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": GRPC_PORT, "rest": REST_PORT}
    served = {port["targetPort"]: port["port"] for port in manifests["Service"]["spec"]["ports"]}
    assert served == ports
    [opened] = manifests["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for port in opened["ports"]} == set(ports)


def test_running_requests_end_before_the_pod_is_killed(pod: Document, container: Document) -> None:
    command = container["command"]
    grace_s = float(command[command.index("--grace-s") + 1])
    _, wait_s = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= float(wait_s) + grace_s + 5


def test_a_server_without_a_model_is_up_but_not_ready(container: Document) -> None:
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_everything_selects_the_server(manifests: dict[str, Document], pod: Document) -> None:
    labels = pod["metadata"]["labels"].items()
    for kind, selector in {
        "Deployment": manifests["Deployment"]["spec"]["selector"]["matchLabels"],
        "Service": manifests["Service"]["spec"]["selector"],
        "PodDisruptionBudget": manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        "TopologySpread": pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    }.items():
        assert selector.items() <= labels, kind
    name = task_name("short_video")
    assert {manifests[kind]["metadata"]["name"] for kind in ("Deployment", "Service")} == {name}


def test_only_clients_come_in_and_nothing_goes_out(manifests: dict[str, Document], pod: Document) -> None:
    base = {
        document["metadata"]["name"]: document["spec"] for document in _load(FOLDER.parent / "base" / "network.yaml")
    }
    closed = base["sangam-training"]
    assert closed["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    opened = manifests["NetworkPolicy"]["spec"]
    assert opened["policyTypes"] == ["Ingress"]
    [rule] = opened["ingress"]
    client = {"matchLabels": {"sangam.dev/client": "true"}}
    assert rule["from"] == [{"podSelector": client}, {"namespaceSelector": client, "podSelector": client}]


def test_the_kustomization_names_every_file() -> None:
    [kustomization] = _load(FOLDER / "kustomization.yaml")
    names = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
    assert sorted(kustomization["resources"]) == names
