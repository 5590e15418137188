"""Trainings of two hosts on a real node, with the trainer step itself as a pod under its own account's token."""

import json
import subprocess

import pytest

from tests.cluster.node import Node
from tests.cluster.team import NAMESPACE, Team
from tests.cluster.training import Step, prepare_inputs, report, step_pod

pytestmark = pytest.mark.node

_ENDED = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"


class PodStep(Step):
    """A trainer step as a pod."""

    def apply(self) -> None:
        arguments = ["--inputs", str(prepare_inputs(self.team)), "--root", str(self.root)]
        arguments += ["--fields", json.dumps(self.fields())]
        self.team.apply(step_pod(self.team, self.name, self.image, arguments))

    def followed(self) -> "subprocess.Popen[str]":
        """Returns a process that prints the pod's log until its end."""
        return self.team.plane.start_kubectl("logs", "--follow", "--namespace", NAMESPACE, self.name)

    def succeeded(self) -> str:
        """Waits for the end; returns the log."""
        self.team.kubectl("wait", _ENDED, f"pod/{self.name}", "--timeout=300s")
        log = self.team.kubectl("logs", self.name)
        self.team.kubectl("delete", "pod", self.name)
        assert "gone=True" in log, log
        assert [*self.root.glob("artifacts/model/**/saved_model.pb")], log
        return log


def test_two_hosts_of_an_mpijob_and_a_parameter_server_train_for_a_step_in_a_pod(
    team: Team, cluster_node: Node
) -> None:
    training = {"epochs": 1, "sync": {"kind": "async"}}
    step = PodStep(team, cluster_node.image, "in-pod-mpijob", "mpijob", training=training)
    step.apply()
    log = step.succeeded()
    trained = report(step.root)
    assert trained["examples"] > 0, log
    assert trained["resumed_from_step"] == []
    assert "parameter server 0: incarnation=" in log, log
    assert step.left() == []


def test_a_step_whose_pod_is_deleted_leaves_nothing_and_resumes(team: Team, cluster_node: Node) -> None:
    training = {"epochs": 20, "batch_size_per_rank": 8, "checkpoint": {"every_steps": 10, "keep": 2}}
    step = PodStep(team, cluster_node.image, "in-pod-jobset", "jobset", training=training)
    step.apply()
    team.plane.servers.until(step.checkpoint, "a checkpoint", 300)
    with step.followed() as follower:
        team.kubectl("delete", "pod", step.name)
        log, _ = follower.communicate(timeout=60)
    assert "gone=True" in log, log
    assert step.left() == []
    step.apply()
    log = step.succeeded()
    [resumed] = report(step.root)["resumed_from_step"]
    assert resumed >= 10, log
    assert step.left() == []
