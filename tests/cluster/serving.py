"""The shipped server Deployment on the node, and a pod that asks it."""

import functools
import json
import time
from typing import Any

import yaml

from tests.cluster.team import KUBERNETES, NAMESPACE, SECURE_CONTAINER, SECURE_POD, Manifest, Team

SERVER, CLIENT = "short-video", "client"
ADDRESS = f"http://{SERVER}.{NAMESPACE}:8501"
PREDICT = "/v1/models/short_video:predict"
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


def built(team: Team, folder: str, image: str) -> list[Manifest]:
    """Returns a shipped Deployment and what is around it: with this image, one pod, and less than this machine's cores.

    Args:
        team: whose kubectl builds it.
        folder: of infra/kubernetes.
        image: of the only container.
    """
    found = [*yaml.safe_load_all(team.plane.kubectl("kustomize", str(KUBERNETES / folder)))]
    [deployment] = [each for each in found if each["kind"] == "Deployment"]
    deployment["spec"]["replicas"] = 1
    for each in found:
        if each["kind"] == "HorizontalPodAutoscaler":
            each["spec"]["minReplicas"] = 1
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["resources"]["requests"]["cpu"] = "100m"
    return found


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


def remove(team: Team, *manifests: Manifest) -> None:
    """Deletes objects and their pods, and waits until they are gone."""
    team.kubectl("delete", "--cascade=foreground", "--ignore-not-found", "-f", "-", given=list(manifests))
