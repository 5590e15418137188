"""Online training in a pod: reachable by nobody, and stopped in time; test_kubernetes_deployments.py has the rest."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from sangam.pipelines.kubeflow.ir import task_name
from sangam.pipelines.online.supervisor import GRACE_S
from sangam.schemas.contracts.root import Root
from sangam.schemas.host.lock import LOCK_FILE
from sangam.schemas.loading import load_spec
from tests.paths import REPOSITORY, SPECS
from tests.security.shipped import Document
from tests.security.test_infra_readme import sangam_problems

pytestmark = pytest.mark.slow

FOLDER = "online"


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
    own = manifests["NetworkPolicy"]["spec"]
    assert own["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
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
    return subprocess.run(command, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode == 0


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
