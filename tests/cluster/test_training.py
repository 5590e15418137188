"""Trainings of two hosts with a trainer step in a pod: what is lost is replaced, all resume, and nothing is left."""

import json
import subprocess

import pytest

from tests.cluster.faults import Faults
from tests.cluster.node import Node
from tests.cluster.team import NAMESPACE, Team
from tests.cluster.training import Step, prepare_inputs, report, step_pod

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

LONG = {"epochs": 15, "batch_size_per_rank": 8, "checkpoint": {"every_steps": 10, "keep": 2}}
"""Some 500 steps: more than go by until the last fault is noticed."""
FORCE = ("--force", "--grace-period=0")
PATIENT = {"retries": 10, "deadline_s": 800}
_ENDED = "--for=jsonpath={.status.containerStatuses[0].state.terminated}"


class PodStep(Step):
    """A trainer step as a pod, under the shipped account's token."""

    def apply(self) -> None:
        arguments = ["--inputs", str(prepare_inputs(self.team)), "--root", str(self.root)]
        arguments += ["--fields", json.dumps(self.fields())]
        self.team.apply(step_pod(self.team, self.name, self.image, arguments))

    def taken_away(self, *more: str) -> str:
        """Deletes the pod, as a drained node or a reclaimed machine does; returns its log."""
        with self.followed() as follower:
            self.team.kubectl("delete", "pod", self.name, *more)
            log, _ = follower.communicate(timeout=60)
        return log

    @property
    def is_running(self) -> bool:
        """Returns True: asking the API server all the time would take a core."""
        return True

    def told(self) -> str:
        return self.team.kubectl("logs", self.name, "--tail=40")

    def followed(self) -> "subprocess.Popen[str]":
        """Returns a process that prints the pod's log until its end."""
        return self.team.plane.start_kubectl("logs", "--follow", "--namespace", NAMESPACE, self.name)

    def begin(self) -> None:
        """Starts the pod, and waits for the first checkpoint after those that are there."""
        before = self.checkpoint()
        self.apply()
        self.team.plane.servers.until(lambda: self.checkpoint() > before, "a checkpoint", 300)

    def succeeded(self) -> str:
        """Waits for the end; returns the log."""
        self.team.kubectl("wait", _ENDED, f"pod/{self.name}", "--timeout=300s")
        log = self.team.kubectl("logs", self.name)
        self.team.kubectl("delete", "pod", self.name)
        assert self.kind == "local" or "gone=True" in log, log
        assert [*self.root.glob("artifacts/model/**/saved_model.pb")], log
        assert self.left() == []
        return log


def test_an_mpijob_outlives_its_api_server_and_resumes_without_a_host(team: Team, cluster_node: Node) -> None:
    step = PodStep(team, cluster_node.image, "in-pod-mpijob", "mpijob", training=LONG, cluster=PATIENT)
    faults = Faults(step)
    step.begin()
    faults.interrupt()
    faults.trains()
    assert faults.losses() == 0
    faults.survives(faults.evict_host)
    step.taken_away(*FORCE)
    step.begin()
    log = step.succeeded()
    trained = report(step.root)
    assert trained["examples"] > 0, log
    assert min(trained["resumed_from_step"]) >= 10, log


def test_a_jobset_resumes_without_a_server_without_its_step_and_without_a_node(team: Team, cluster_node: Node) -> None:
    training = {**LONG, "sync": {"kind": "stale"}}
    step = PodStep(team, cluster_node.image, "in-pod-jobset", "jobset", training=training, cluster=PATIENT)
    faults = Faults(step)
    step.begin()
    faults.survives(faults.kill_server)
    log = step.taken_away()
    assert "gone=True" in log, log
    assert step.left() == []
    step.begin()
    faults.survives(faults.drain)
    log = step.succeeded()
    assert "parameter server 0: incarnation=" in log, log
    assert min(report(step.root)["resumed_from_step"]) >= 10, log


@pytest.mark.parametrize("how", [(), FORCE], ids=["with_grace", "by_force"])
def test_a_training_in_the_steps_own_pod_resumes_in_its_next_pod(
    team: Team, cluster_node: Node, how: tuple[str, ...]
) -> None:
    training = {**LONG, "epochs": 5}
    step = PodStep(team, cluster_node.image, f"in-pod-local-{len(how)}", "local", training=training, cluster=PATIENT)
    step.begin()
    step.taken_away(*how)
    step.begin()
    log = step.succeeded()
    assert min(report(step.root)["resumed_from_step"]) >= 10, log
