"""The shipped server Deployment loads what a run pushed, answers by its Service's name, swaps, and ends in time."""

import json
from datetime import UTC, datetime

import pytest

from sangam.components.steps.pusher.directory import push
from sangam.components.steps.pusher.manifest import Provenance
from tests.cluster.demo import Demo
from tests.cluster.node import Node
from tests.cluster.serving import CLIENT, PREDICT, REQUEST, SERVER, ask, built, client, ended, remove, until_ready
from tests.cluster.team import Team

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

LABELS = "app.kubernetes.io/component=server"


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
        now=datetime.now(UTC),
    )
    return pushed.version


def test_a_server_loads_answers_swaps_and_ends(demo: Demo, team: Team, cluster_node: Node) -> None:
    [pushed] = [path.name for path in demo.serving.iterdir() if path.name.isdigit()]
    made = [*built(team, "serving", cluster_node.image), client(cluster_node.image)]
    team.apply(*made)
    try:
        team.kubectl("rollout", "status", f"deployment/{SERVER}", "--timeout=300s")
        team.kubectl("wait", "--for=condition=ready", f"pod/{CLIENT}", "--timeout=60s")
        until_ready(team, pushed, 30)
        scores = json.loads(ask(team, PREDICT, REQUEST))["outputs"]
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
        remove(team, *made)
