"""What Sangam ships and what a spec gives rise to, before a real API server: valid to the last field, restricted."""

import copy
import json
from typing import Any

import pytest
import yaml

from sangam.components.steps.trainer.kubernetes.manifests import as_dict, render
from sangam.components.steps.trainer.kubernetes.run import QUEUE_LABEL, TrainingRun, run_name
from sangam.schemas.spec.cluster import Cluster, Launch
from tests.cluster.control_plane import ControlPlane, Manifest
from tests.cluster.team import KUBERNETES, NAMESPACE, Team
from tests.manifest_schemas import embedded

FULL_POD = {
    "cpu": "1500m", "memory": "2GiB", "shared_memory": "512MiB", "gpu": {"count": 1},
    "node_pool": {"cloud.google.com/gke-spot": "true"},
    "tolerations": [
        {"key": "nvidia.com/gpu"}, {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    ],
    "env": {"NCCL_DEBUG": "INFO"}, "secrets": {"TOKEN": {"secret": "store", "key": "token"}},
}  # fmt: skip
IMAGE = "registry.example/sangam@sha256:" + "0" * 64
POD_SIZES = pytest.mark.parametrize(
    ("pod", "cluster"),
    [(FULL_POD, {"ranks": 4, "parameter_servers": 2}), ({}, {"ranks": 2, "data_workers": 0, "retries": 0})],
    ids=["everything", "nothing"],
)


def of_training(kind: str, pod: Manifest, cluster: Manifest) -> list[Manifest]:
    """Returns all objects of a training job."""
    launch = {
        "launcher": {
            "kind": kind,
            "ranks_per_host": 2,
            "host": pod,
            "coordinator": pod,
            "data_worker": pod,
            "parameter_server": pod,
        },
        "image": IMAGE,
        "volumes": {
            "data": {"claim": "data", "path": "/data", "read_only": True},
            "root": {"claim": "root", "path": "/models"},
        },
    }
    launch["queue"] = "team"
    name = run_name("a_ranker_with_a_very_long_name_that_is_cut_somewhere", "0123456789abcdef")
    launched, servers = Launch.model_validate_json(json.dumps(launch)), cluster.get("parameter_servers", 0)
    run = TrainingRun(name, launched, Cluster(**cluster), "/models/job.json", servers=servers)
    made = [as_dict(each) for each in render(run).all]
    # As the step does when all else is there.
    made[0]["metadata"]["labels"][QUEUE_LABEL] = launched.queue
    return made


def shipped(plane: ControlPlane, folder: str) -> list[Manifest]:
    """Returns what kustomize makes of a folder of infra/kubernetes."""
    return [*yaml.safe_load_all(plane.kubectl("kustomize", str(KUBERNETES / folder)))]


def prepare_job() -> Manifest:
    text = (KUBERNETES / "prepare.yaml").read_text().replace("PIPELINE_IMAGE", IMAGE)
    job: Manifest = yaml.safe_load(text)
    return job


def refuse_invalid(plane: ControlPlane, manifests: list[Manifest]) -> None:
    """Sends manifests to the server, which checks them and stores nothing."""
    checked = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", "-"]
    plane.kubectl(*checked, given=manifests)


def pods_of(manifest: Manifest) -> list[Manifest]:
    """Returns the pods that an object makes, each as an object of its own."""
    if manifest["kind"] in ("MPIJob", "JobSet"):
        return [pod for part in embedded(manifest) for pod in pods_of(part)]
    if manifest["kind"] == "Pod":
        return [manifest]
    template = manifest.get("spec", {}).get("template")
    if not template or "spec" not in template:
        return []
    # Templates of Jobs may leave to the controller what a pod must say.
    spec = {"restartPolicy": "Never", **template["spec"]}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NAMESPACE}, "spec": spec}]


def refusal(plane: ControlPlane, pod: Manifest) -> str:
    """Returns why a pod is refused in the namespace of the runs; empty where it is not."""
    pod = {**pod, "metadata": {**pod["metadata"], "name": "pod", "namespace": NAMESPACE}}
    done = plane.try_kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=pod)
    return done.stderr if done.returncode else ""


@POD_SIZES
@pytest.mark.parametrize("kind", ["mpijob", "jobset"])
def test_objects_of_a_training_job_are_valid_and_restricted(
    plane: ControlPlane, team: Team, kind: str, pod: Manifest, cluster: Manifest
) -> None:
    manifests = of_training(kind, pod, cluster)
    for each in manifests:
        each["metadata"]["namespace"] = NAMESPACE
    refuse_invalid(plane, manifests)
    pods = [each for manifest in manifests for each in pods_of(manifest)]
    assert len(pods) == (5 if cluster.get("data_workers") != 0 else 2)
    assert [refusal(plane, each) for each in pods] == [""] * len(pods)


@pytest.mark.parametrize(
    "folder", ["base", "overlays/gke", "overlays/eks", "overlays/serving-log", "serving", "online"]
)
def test_shipped_manifests_are_valid(plane: ControlPlane, team: Team, folder: str) -> None:
    namespace = f"team-{folder.replace('/', '-')}"
    plane.kubectl("create", "namespace", namespace)
    manifests = shipped(plane, folder)
    [below, *_] = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())["resources"]
    source = KUBERNETES / folder / (below if folder.startswith("overlays") else "")
    files = [path for path in source.glob("*.yaml") if path.name != "kustomization.yaml"]
    written = [each["kind"] for path in files for each in yaml.safe_load_all(path.read_text()) if each]
    assert sorted(each["kind"] for each in manifests) == sorted(written)
    assert {each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in manifests} == {"sangam"}
    assert {each["metadata"].get("namespace", NAMESPACE) for each in manifests} == {NAMESPACE}
    # Pods are refused without their account.
    team.apply(*(each for each in manifests if each["kind"] == "ServiceAccount"))
    # In a namespace of its own, where nothing is yet.
    for each in manifests:
        if each["kind"] != "Namespace":
            each["metadata"]["namespace"] = namespace
    refuse_invalid(plane, manifests)
    pods = [pod for manifest in manifests for pod in pods_of(manifest)]
    assert [refusal(plane, pod) for pod in pods] == [""] * len(pods)


def test_only_the_owner_of_the_volumes_is_prepared_as_root(plane: ControlPlane, team: Team) -> None:
    job = prepare_job()
    refuse_invalid(plane, [job])
    [pod] = pods_of(job)
    assert "violates PodSecurity" in refusal(plane, pod)
    others = copy.deepcopy(pod)
    del others["spec"]["initContainers"]
    assert refusal(plane, others) == ""


def test_a_seeded_error_is_found(plane: ControlPlane, team: Team) -> None:
    [job, *_] = of_training("jobset", {}, {"ranks": 2})
    job["metadata"]["namespace"] = NAMESPACE
    seeded: list[tuple[list[str], Any]] = [(["spec", "replicatedJobs"], "none"), (["spec", "suspended"], True)]
    for path, value in seeded:
        wrong = copy.deepcopy(job)
        wrong[path[0]][path[1]] = value
        with pytest.raises(AssertionError, match=path[1]):
            refuse_invalid(plane, [wrong])
