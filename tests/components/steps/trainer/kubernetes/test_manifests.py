"""What a run is made of: valid strictly, as declared, and unprivileged."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from sangam.components.kfp_entrypoint.process import GRACE_S
from sangam.components.steps.trainer.kubernetes.manifests import as_dict, render
from sangam.components.steps.trainer.kubernetes.run import TrainingRun, run_name
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import Launch
from tests import manifest_schemas
from tests.golden_files import check_golden
from tests.manifest_schemas import errors
from tests.paths import SPECS

IMAGE = "registry.example/sangam-trainer@sha256:" + "0" * 64
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
DECLARED: dict[str, dict[str, Any]] = {
    "short_video": {
        "kind": "mpijob",
        "ranks_per_host": 2,
        "host": {
            "cpu": "16",
            "memory": "128GiB",
            "gpu": {"count": 2},
            "node_pool": {"cloud.google.com/gke-nodepool": "spot-v100"},
            "tolerations": [SPOT, {"key": "nvidia.com/gpu"}],
            "env": {"NCCL_DEBUG": "WARN"},
            "shared_memory": "16GiB",
        },
        "coordinator": {"cpu": "4", "memory": "64GiB"},
        "data_worker": {"cpu": "4", "memory": "8GB", "secrets": {"PROXY_URL": {"secret": "proxy", "key": "url"}}},
    },
    "online_retail": {
        "kind": "jobset",
        "host": {"cpu": "500m", "memory": "4GiB"},
        "parameter_server": {"memory": "24GiB", "node_pool": {"cloud.google.com/gke-nodepool": "stable"}},
        "network_interface": "ens4",
    },
}
SERVERS = {"online_retail": 2}
VOLUMES = {
    "data": {"claim": "sangam", "path": "/sangam"},
    "logs": {"claim": "logs", "path": "/logs", "read_only": True},
}


def run_of(name: str, *, ranks: int = 4, servers: int | None = None, **cluster: Any) -> TrainingRun:
    spec = load_spec(SPECS / f"{name}.yaml")
    declared = json.loads(spec.model_dump_json())
    declared["cluster"] |= {"ranks": ranks, "launcher": DECLARED[name], "volumes": VOLUMES, **cluster}
    spec = Spec.model_validate_json(json.dumps(declared))
    assert spec.cluster.launcher.kind != "local"
    launch = Launch(launcher=spec.cluster.launcher, image=IMAGE, volumes=spec.cluster.volumes)
    job_file = f"/sangam/root/training/{name}/0123456789abcdef/job-0123456789.json"
    number = SERVERS.get(name, 0) if servers is None else servers
    return TrainingRun(run_name(name, "0123456789abcdef"), launch, spec.cluster.job(), job_file, servers=number)


def manifests_of(name: str, **cluster: Any) -> list[dict[str, Any]]:
    return [as_dict(each) for each in render(run_of(name, **cluster)).all]


def pod_templates(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for manifest in manifests:
        spec = manifest["spec"]
        match manifest["kind"]:
            case "StatefulSet":
                yield spec["template"]
            case "MPIJob":
                yield from (role["template"] for role in spec["mpiReplicaSpecs"].values())
            case "JobSet":
                yield from (each["template"]["spec"]["template"] for each in spec["replicatedJobs"])


def pod_specs(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (template["spec"] for template in pod_templates(manifests))


BOTH = pytest.mark.parametrize("name", sorted(DECLARED))


@BOTH
def test_golden_manifests(name: str) -> None:
    check_golden(f"{name}.manifests.yaml", yaml.safe_dump_all(manifests_of(name), sort_keys=True))


@BOTH
def test_manifests_are_valid_strictly(name: str) -> None:
    if not manifest_schemas.MPIJOB_CRD.exists():
        pytest.skip(f"{manifest_schemas.MPIJOB_CRD} is not here: the MPIJob CRD to validate against")
    found = {manifest["kind"]: errors(manifest) for manifest in manifests_of(name)}
    assert found == {kind: [] for kind in found}


def _edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(manifest: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = manifest["spec"]
        for part in parents:
            place = place[int(part)] if part.isdigit() else place[part]
        place[last] = value

    return edit


@pytest.mark.parametrize(
    ("name", "kind", "edit", "told"),
    [
        ("short_video", "MPIJob", _edit("slotsPerWorkers", 2), "slotsPerWorkers"),
        ("short_video", "MPIJob", _edit("runPolicy/backoffLimits", 2), "backoffLimits"),
        ("short_video", "MPIJob", _edit("slotsPerWorker", "two"), "slotsPerWorker: 'two'"),
        ("short_video", "MPIJob", _edit("mpiReplicaSpecs/Worker/template/spec/containers/0/imagee", ""), "imagee"),
        ("online_retail", "JobSet", _edit("network/enableDnsHostnames", True), "enableDnsHostnames"),
        ("online_retail", "JobSet", _edit("failurePolicy/maxRestarts", "2"), "maxRestarts: '2'"),
        ("online_retail", "JobSet", _edit("replicatedJobs/0/template/spec/backOffLimit", 2), "backOffLimit"),
        ("short_video", "StatefulSet", _edit("replicas", "one"), "one"),
        ("short_video", "StatefulSet", _edit("template/spec/containers/0/securityContext/root", True), "root"),
        ("short_video", "Service", _edit("ports/0/prot", 1), "prot"),
        ("short_video", "NetworkPolicy", _edit("ingress/0/form", []), "form"),
    ],
)  # fmt: skip
def test_a_seeded_error_is_found(name: str, kind: str, edit: Callable[[dict[str, Any]], None], told: str) -> None:
    if kind == "MPIJob" and not manifest_schemas.MPIJOB_CRD.exists():
        pytest.skip(f"{manifest_schemas.MPIJOB_CRD} is not here: the MPIJob CRD to validate against")
    manifest = next(copy.deepcopy(each) for each in manifests_of(name) if each["kind"] == kind)
    edit(manifest)
    assert any(told in error for error in errors(manifest))


@BOTH
def test_no_pod_has_rights(name: str) -> None:
    specs = list(pod_specs(manifests_of(name)))
    assert len(specs) == 4 + (name in SERVERS)
    for spec in specs:
        assert spec["automountServiceAccountToken"] is False
        # The step waits for the end of its pods, and is itself killed after the grace of its process.
        assert spec["terminationGracePeriodSeconds"] + 3 <= Timing().removal_s <= GRACE_S - 3
        assert (
            spec["securityContext"]
            | {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            == spec["securityContext"]
        )
        [container] = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable <= {"/tmp", "/dev/shm", "/journal", "/sangam"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()


@BOTH
def test_the_run_is_shut_off_from_all_others(name: str) -> None:
    manifests = manifests_of(name)
    [policy] = [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]
    run = {"app.kubernetes.io/name": "sangam", "sangam.dev/run": f"{name.replace('_', '-')}-0123456789"}
    same_run = [{"podSelector": {"matchLabels": run}}]
    assert policy["podSelector"] == {"matchLabels": run}
    assert policy["ingress"] == [{"from": same_run}]
    dns = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    assert policy["egress"] == [{"to": same_run}, {"ports": dns}]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_hosts_get_the_declared_nodes_and_devices() -> None:
    [job] = [each for each in manifests_of("short_video") if each["kind"] == "MPIJob"]
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 2
    spec = worker["template"]["spec"]
    assert spec["nodeSelector"] == {"cloud.google.com/gke-nodepool": "spot-v100"}
    assert spec["tolerations"] == [SPOT, {"key": "nvidia.com/gpu", "operator": "Exists"}]
    resources = spec["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "2"}
    assert resources["requests"] == {"cpu": "16", "memory": "128Gi"}
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in spec["volumes"]


def test_secrets_are_named_and_never_held() -> None:
    [worker] = [each for each in manifests_of("short_video") if each["metadata"]["name"].endswith("data-worker")
                and each["kind"] == "StatefulSet"]  # fmt: skip
    environment = worker["spec"]["template"]["spec"]["containers"][0]["env"]
    reference = {"secretKeyRef": {"name": "proxy", "key": "url"}}
    assert {"name": "PROXY_URL", "valueFrom": reference} in environment


def test_parameter_servers_are_hosts_behind_those_with_ranks() -> None:
    [servers] = [each for each in manifests_of("short_video", servers=3) if "server" in each["metadata"]["name"]]
    assert (servers["kind"], servers["spec"]["replicas"]) == ("StatefulSet", 3)
    [container] = servers["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--after", "2"]
    [_, worker, *_] = pod_specs(manifests_of("short_video"))
    assert container["command"][:-2] == worker["containers"][0]["command"]
    field = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    assert container["env"][0] == {"name": "HOST_INDEX", "valueFrom": field}


def test_without_data_workers_and_parameter_servers_there_is_no_stateful_set() -> None:
    manifests = manifests_of("online_retail", data_workers=0, servers=0)
    assert [each["kind"] for each in manifests] == ["JobSet", "NetworkPolicy", "Service"]
    coordinator = next(pod_specs(manifests))["containers"][0]["command"]
    assert coordinator[-2:] == ["--service", ""]


def test_of_a_standing_service_there_is_only_its_address_and_the_way_there() -> None:
    manifests = manifests_of("online_retail", servers=0, input_service={"address": "pool.team:5050"})
    assert [each["kind"] for each in manifests] == ["JobSet", "NetworkPolicy", "Service"]
    coordinator = next(pod_specs(manifests))["containers"][0]["command"]
    assert coordinator[-2:] == ["--service", "pool.team:5050"]
    standing = {"podSelector": {"matchLabels": {"sangam.dev/input-service": "true"}}, "namespaceSelector": {}}
    egress = manifests[1]["spec"]["egress"]
    assert [standing in rule.get("to", []) for rule in egress] == [True, False]
    assert not [rule for rule in manifests[1]["spec"]["ingress"] if standing in rule["from"]]


def test_what_is_declared_decides_the_digest() -> None:
    declared = [{"ranks": 4}, {"ranks": 8}, {"ranks": 4, "deadline_s": 60}]
    digests = {render(run_of("short_video", **cluster)).digest for cluster in declared}
    assert len(digests) == 3
    assert render(run_of("short_video")).digest == render(run_of("short_video")).digest


@pytest.mark.parametrize("ranker", ["a", "short_video", "a" * 63, "a_" * 31, "ab_" + "c" * 26 + "__d"])
def test_names_fit_wherever_they_are_written(ranker: str) -> None:
    name = run_name(ranker, "0123456789abcdef")
    assert len(f"{name}-parameter-server-0123456789") <= 63
    assert name.endswith("-0123456789")
    assert "--0123456789" not in name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@BOTH
def test_prometheus_finds_each_process_by_a_port_of_its_own_and_clients_alone_get_in(name: str) -> None:
    run = dataclasses.replace(run_of(name), ranker=name, metrics_port=9464)
    manifests = [as_dict(each) for each in render(run).all]
    ranks = run.launch.launcher.ranks_per_host
    seen: dict[str, list[int]] = {}
    for template in pod_templates(manifests):
        [container] = template["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        metrics = [port for label, port in ports.items() if label.startswith("metrics-")]
        seen[container["name"]] = metrics
        annotations = template["metadata"].get("annotations", {})
        assert annotations.get("prometheus.io/port") == ("9464" if metrics else None)
        assert annotations.get("sangam.dev/ranker") == (name if metrics else None)
        told = "--metrics-port 9464 --metrics-host 0.0.0.0" in " ".join(container["command"])
        assert told == (container["name"] in ("dispatcher", "data-worker"))
    assert seen.pop("coordinator") == []
    assert seen.pop("host") == list(range(9464, 9464 + ranks))
    assert set(map(tuple, seen.values())) == {(9464,)}
    [policy] = [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]
    [own, clients] = policy["ingress"]
    [ports] = clients["ports"]
    assert (ports["port"], ports.get("endPort", 9464)) == (9464, 9464 + ranks - 1)
    assert all(peer["podSelector"]["matchLabels"] == {"sangam.dev/client": "true"} for peer in clients["from"])
    assert "ports" not in own
    for manifest in manifests:
        if manifest["kind"] != "MPIJob" or manifest_schemas.MPIJOB_CRD.exists():
            assert errors(manifest) == []
