"""The shipped server Deployment loads what a run pushed, answers by its Service's name, swaps, and ends in time."""

import functools
import json
import time
from datetime import datetime, timezone
from typing import Any

import pytest
import yaml

from components.steps.pusher.directory import push
from components.steps.pusher.manifest import Provenance
from tests.cluster.demo import Demo
from tests.cluster.node import Node
from tests.cluster.team import KUBERNETES, NAMESPACE, SECURE_CONTAINER, SECURE_POD, Manifest, Team

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

SERVER, CLIENT = "short-video", "client"
LABELS = "app.kubernetes.io/component=server"
ADDRESS = f"http://{SERVER}.{NAMESPACE}:8501"
REQUEST = {
    "signature_name": "rank",
    "inputs": {
        "user_id": ["u1"], "language": ["hi"], "tab": ["home"], "hour": [20], "network_mbps": [12.5],
        "recent_posts": [[7, 9]], "recent_posts_length": [2],
        "post_id": [11, 12, 13], "author_id": [1, 2, 3], "duration_s": [14, 30, 8], "post_age_h": [1, 5, 20],
        "author_followers": [100, 2000, 50], "hashtags": [["#a"], ["#b"], ["#c"]], "hashtags_length": [1, 1, 1],
    },
}  # fmt: skip
"""One user and three candidates."""
_CODES = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}{'\\n'}"
"""A line for each change of a pod, with the exit code once it has ended."""
_ASK = """
import sys, urllib.error, urllib.request
body = sys.argv[2].encode() if len(sys.argv) > 2 else None
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=body), timeout=10).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""


def manifests(team: Team, image: str) -> list[Manifest]:
    """Returns infra/kubernetes/serving with this image, one server for two, and less than this machine's cores."""
    built = [*yaml.safe_load_all(team.plane.kubectl("kustomize", str(KUBERNETES / "serving")))]
    [deployment] = [each for each in built if each["kind"] == "Deployment"]
    deployment["spec"]["replicas"] = 1
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["resources"]["requests"]["cpu"] = "100m"
    return built


def client(image: str) -> Manifest:
    """Returns a pod that waits to be used."""
    container = {
        "name": "main",
        "image": image,
        "command": ["sleep", "3600"],
        "securityContext": SECURE_CONTAINER,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT, "namespace": NAMESPACE, "labels": {"sangam.dev/client": "true"}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": SECURE_POD,
            "containers": [container],
        },
    }


def ask(team: Team, path: str, body: Any = None) -> str:
    """Returns what the server answers a pod."""
    sent = [json.dumps(body)] if body else []
    return team.kubectl("exec", CLIENT, "--", "python", "-c", _ASK, ADDRESS + path, *sent).strip()


def until_ready(team: Team, version: str, seconds: float) -> None:
    """Waits until the Service answers with a version."""
    deadline = time.monotonic() + seconds
    while (answer := ask(team, "/readyz")) != f"ready short_video {version}":
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)


def push_again(demo: Demo) -> str:
    """Pushes the run's model as that of the next day; returns the version."""
    [first] = [path for path in demo.serving.iterdir() if path.name.isdigit()]
    described = json.loads((first / "manifest.json").read_text())
    provenance = Provenance(**{name: described[name] for name in Provenance.model_fields})
    pushed = push(
        model=demo.path("trainer", "model") / "Format-Serving",
        target=demo.serving,
        day="20260306",
        provenance=provenance,
        card=lambda version: version,
        now=datetime.now(timezone.utc),
    )
    return pushed.version


def test_a_server_loads_answers_swaps_and_ends(demo: Demo, team: Team, cluster_node: Node) -> None:
    [pushed] = [path.name for path in demo.serving.iterdir() if path.name.isdigit()]
    made = [*manifests(team, cluster_node.image), client(cluster_node.image)]
    team.apply(*made)
    try:
        team.kubectl("rollout", "status", f"deployment/{SERVER}", "--timeout=300s")
        team.kubectl("wait", "--for=condition=ready", f"pod/{CLIENT}", "--timeout=60s")
        until_ready(team, pushed, 30)
        scores = json.loads(ask(team, "/v1/models/short_video:predict", REQUEST))["outputs"]
        assert set(scores) == {"like", "share", "download", "long_watch"}
        assert all(len(rows) == 3 and 0 < score < 1 for rows in scores.values() for [score] in rows), scores

        second = push_again(demo)
        assert second > pushed
        until_ready(team, second, 60)
        metrics = ask(team, "/metrics")
        assert "sangam_swaps_total 1.0" in metrics

        [pod] = team.pods(LABELS)
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert "serviceAccountToken" not in json.dumps(pod["spec"]["volumes"])
        code, took_s, log = ended(team, pod["metadata"]["name"])
        assert "stopped=true requests_drained=0 requests_left=0" in log
        assert (code, took_s < pod["spec"]["terminationGracePeriodSeconds"]) == (0, True), (code, took_s)
    finally:
        team.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", given=made)


def ended(team: Team, name: str) -> tuple[int, float, str]:
    """Deletes a pod; returns its exit code, the seconds to its end, and its log."""
    start = functools.partial(team.plane.start_kubectl, "--namespace", NAMESPACE)
    log = start("logs", "--follow", name)
    watch = start("get", "pod", name, "--watch", "--output", _CODES)
    try:
        began = time.monotonic()
        team.kubectl("delete", "--wait", "pod", name)
        took_s = time.monotonic() - began
    finally:
        watch.terminate()
    said, _ = log.communicate(timeout=30)
    seen, _ = watch.communicate(timeout=30)
    return int(seen.split()[-1]), took_s, said
