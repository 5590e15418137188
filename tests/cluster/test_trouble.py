"""Trainings that cannot go well: the step says why, and leaves nothing."""

import functools
from contextlib import ExitStack
from typing import Any

import pytest

from tests.cluster.node import Node
from tests.cluster.team import Team
from tests.cluster.training import Step
from tests.errors import tells

pytestmark = pytest.mark.node

WAITS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # Name: launcher.host, volumes, what is said.
    "secret": ({"secrets": {"A": {"secret": "absent", "key": "k"}}}, {}, 'secret "absent" not found'),
    "claim": ({}, {"more": {"claim": "absent", "path": "/more"}}, 'persistentvolumeclaim "absent" not found'),
    "gpu": ({"gpu": {"count": 1}}, {}, "Insufficient nvidia.com/gpu"),
    "quota": ({"gpu": {"count": 1, "type": "amd.com/gpu"}}, {}, "exceeded quota: no-gpus"),
}
FEW = {"data_workers": 0}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-gpus"},
    "spec": {"hard": {"requests.amd.com/gpu": "0"}},
}


def test_a_job_whose_pods_cannot_start_or_lack_memory_says_why(team: Team, cluster_node: Node) -> None:
    team.apply(QUOTA)
    with ExitStack() as stack:
        steps = {
            why: stack.enter_context(
                Step(
                    team,
                    cluster_node.image,
                    f"waits-{why}",
                    "jobset",
                    launcher={"host": host},
                    volumes=volumes,
                    cluster=FEW,
                )
            )
            for why, (host, volumes, _) in WAITS.items()
        }
        small = {"host": {"memory": "300MiB"}}
        killed = stack.enter_context(
            Step(team, cluster_node.image, "memory-host", "mpijob", launcher=small, cluster=FEW)
        )
        assert killed.exit_code(300) == 1, killed.told()
        error = killed.told().partition("error: ")[2]
        assert tells(error, "training", "cluster.launcher.host.memory ... sangam plan"), killed.told()
        assert killed.left() == []
        for why, step in steps.items():
            step.until(functools.partial(_says, step, WAITS[why][2]), f"{why} is given as the reason", 240)
        for step in steps.values():
            step.end()
            assert "gone=True" in step.told(), step.told()
            assert step.left() == []
    team.kubectl("delete", "resourcequota", "no-gpus")


def _says(step: Step, reason: str) -> bool:
    return reason in step.told()
