"""The servers of pushed models: as the server that they start is; test_kubernetes_deployments.py has the rest."""

import shutil
import subprocess

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from sangam.components.server.options import GRPC_PORT, LOG_STOP_S, REST_PORT
from sangam.pipelines.kubeflow.ir import task_name
from sangam.schemas.loading import load_spec
from tests.manifest_schemas import privileges
from tests.paths import SPECS
from tests.security.shipped import FOLDER as KUBERNETES_FOLDER
from tests.security.shipped import KUBERNETES, Document
from tests.security.test_infra_readme import sangam_problems

FOLDER = "serving"
WITH_LOG = KUBERNETES_FOLDER / "overlays" / "serving-log"


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


def test_the_autoscaler_alone_says_how_many_servers_there_are(
    manifests: dict[str, Document], container: Document
) -> None:
    deployment, autoscaler = manifests["Deployment"], manifests["HorizontalPodAutoscaler"]["spec"]
    target = {"apiVersion": deployment["apiVersion"], "kind": "Deployment", "name": deployment["metadata"]["name"]}
    assert autoscaler["scaleTargetRef"] == target
    assert "replicas" not in deployment["spec"]
    # A budget of one unavailable pod needs a second one.
    assert autoscaler["minReplicas"] >= 2
    [metric] = autoscaler["metrics"]
    # Utilization is of what is requested.
    assert metric["containerResource"]["container"] == container["name"]
    assert metric["containerResource"]["name"] in container["resources"]["requests"]


def test_only_clients_come_in_and_nothing_goes_out(manifests: dict[str, Document]) -> None:
    opened = manifests["NetworkPolicy"]["spec"]
    assert opened["policyTypes"] == ["Ingress"]
    [rule] = opened["ingress"]
    client = {"matchLabels": {"sangam.dev/client": "true"}}
    assert rule["from"] == [{"podSelector": client}, {"namespaceSelector": client, "podSelector": client}]


def test_servers_with_a_log_share_a_folder_that_they_can_write_and_see_no_other_log() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: patches are not applied")
    built = subprocess.run(["kubectl", "kustomize", str(WITH_LOG)], capture_output=True, timeout=60, check=True)
    documents = {each["kind"]: each for each in YAML(typ="safe").load_all(built.stdout)}
    for document in documents.values():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    assert privileges(spec) == []
    [server], [maker] = spec["containers"], spec["initContainers"]
    command, mounts = server["command"], {each["name"]: each for each in server["volumeMounts"]}
    assert sangam_problems(" ".join(command)) == []
    assert command[command.index("--log") + 1] == mounts["data"]["mountPath"]
    assert command[command.index("--log-key") + 1].startswith(mounts["log-key"]["mountPath"] + "/")
    assert mounts["root"]["readOnly"]
    [of_maker] = maker["volumeMounts"]
    assert maker["command"][-1] == f"{of_maker['mountPath']}/{mounts['data']['subPath']}"
    assert maker["image"] == server["image"]
    grace_s = float(command[command.index("--grace-s") + 1])
    _, wait_s = server["lifecycle"]["preStop"]["exec"]["command"]
    assert spec["terminationGracePeriodSeconds"] >= float(wait_s) + grace_s + LOG_STOP_S + 5
