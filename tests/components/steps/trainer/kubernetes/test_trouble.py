"""What is said of a pod in trouble."""

from typing import Any

import pytest
from lightkube.resources.core_v1 import Event, Pod

from sangam.components.steps.trainer.kubernetes.trouble import ended, waiting, was_disrupted
from tests.errors import tells


def pod(component: str = "host", **status: Any) -> Pod:
    meta = {"name": "run-host-1", "labels": {"app.kubernetes.io/component": component}}
    return Pod.from_dict({"metadata": meta, "spec": {"nodeName": "n1", "containers": []}, "status": status})


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "host", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}]


def terminated(code: int, reason: str = "Error", message: str = "") -> list[dict[str, Any]]:
    return container(terminated={"exitCode": code, "reason": reason, "message": message})


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pod(phase="Running", containerStatuses=container(running={})), ""),
        (pod(phase="Succeeded", containerStatuses=terminated(0, "Completed")), ""),
        (
            pod(phase="Failed", containerStatuses=terminated(1, message="one\ntwo\n")),
            "code 1; ...:\none\ntwo",
        ),
        (
            pod("data-worker", phase="Failed", containerStatuses=terminated(137, "OOMKilled")),
            "code 137 (OOMKilled) ... cluster.launcher.data_worker.memory",
        ),
        (
            pod("parameter-server", phase="Failed", containerStatuses=terminated(137, "OOMKilled")),
            "code 137 (OOMKilled) ... cluster.launcher.parameter_server.memory",
        ),
        (
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            "Evicted: The node was low on resource: memory.",
        ),
    ],
)  # fmt: skip
def test_an_end_is_told(found: Pod, said: str) -> None:
    assert tells(ended(found), "pod run-host-1 (...) on node n1", said) if said else ended(found) == ""


def test_a_limit_of_memory_is_told_without_a_log_that_does_not_know_of_it() -> None:
    found = pod(phase="Failed", containerStatuses=terminated(1, "OOMKilled", "noise of TensorFlow"))
    assert ended(found).endswith("code 1 (OOMKilled): raise cluster.launcher.host.memory, see `sangam plan`")


def test_a_container_that_was_started_again_is_told_of() -> None:
    before = {"terminated": {"exitCode": 139, "reason": "Error"}}
    statuses = [{**container(running={})[0], "lastState": before}]
    assert ended(pod(phase="Running", containerStatuses=statuses)).endswith(" code 139")


@pytest.mark.parametrize(
    ("found", "is_so"),
    [
        (pod(phase="Running", containerStatuses=container(running={})), True),
        (pod(phase="Failed", reason="Evicted"), True),
        (pod(phase="Failed", containerStatuses=terminated(143)), True),
        (pod(phase="Failed", containerStatuses=terminated(137)), True),
        (pod(phase="Failed", containerStatuses=terminated(137, "OOMKilled")), False),
        (pod(phase="Failed", containerStatuses=terminated(2)), False),
        (
            pod(
                phase="Failed",
                containerStatuses=terminated(2),
                conditions=[{"type": "DisruptionTarget", "status": "True"}],
            ),
            True,
        ),
    ],
)
def test_what_was_taken_away_is_told_from_what_failed(found: Pod, is_so: bool) -> None:
    assert was_disrupted(found) is is_so


def test_a_pod_that_waits_says_for_what() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    unplaced = pod(phase="Pending", conditions=[unschedulable])
    assert waiting(unplaced).endswith(": Unschedulable: 0/3 nodes")
    creating = pod(phase="Pending", containerStatuses=container(waiting={"reason": "ContainerCreating"}))
    event = Event.from_dict(
        {"metadata": {}, "involvedObject": {}, "type": "Warning", "reason": "FailedMount", "message": "no such claim"}
    )
    assert waiting(creating, [event]).endswith("waits: ContainerCreating (FailedMount: no such claim)")
    looping = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}
    assert waiting(pod(phase="Running", containerStatuses=container(waiting=looping))).endswith(
        "waits: CrashLoopBackOff: back-off 5m0s"
    )
    assert waiting(pod(phase="Running", containerStatuses=container(running={}))) == ""
