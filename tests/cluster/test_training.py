"""Trainings of two hosts on a real node, with the trainer step itself as a pod under its own account's token."""

import json

import pytest

from tests.cluster.node import Node
from tests.cluster.team import NAMESPACE, Team
from tests.cluster.training import Step, prepare_inputs, report, step_pod

pytestmark = pytest.mark.node


@pytest.mark.parametrize("kind", ["mpijob", "jobset"])
def test_two_hosts_train_for_a_step_in_a_pod(team: Team, cluster_node: Node, kind: str) -> None:
    step = Step(team, cluster_node.image, f"in-pod-{kind}", kind, training={"epochs": 1})
    arguments = ["--inputs", str(prepare_inputs(team)), "--root", str(step.root), "--fields", json.dumps(step.fields())]
    team.apply(step_pod(team, step.name, cluster_node.image, arguments))
    try:
        ended = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"
        team.kubectl("wait", ended, f"pod/{step.name}", "--timeout=180s")
        log = team.kubectl("logs", step.name)
        assert "gone=True" in log, log
    finally:
        team.kubectl("delete", "pod", step.name)
    trained = report(step.root)
    assert trained["examples"] > 0, log
    assert trained["resumed_from_step"] == []
    assert [*step.root.glob("artifacts/model/**/saved_model.pb")]
    left = team.plane.get("mpijobs,jobsets,jobs,services,statefulsets", "--namespace", NAMESPACE)["items"]
    assert left == []
