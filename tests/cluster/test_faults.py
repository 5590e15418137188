"""Pods, servers and nodes that are lost under a training: it resumes by itself, and its end leaves nothing."""

import functools
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.image import USER
from tests.cluster.node import NAME, Node
from tests.cluster.team import NAMESPACE, Team
from tests.cluster.training import Step
from tests.errors import tells

pytestmark = pytest.mark.node

ENDLESS = {"epochs": 100_000, "batch_size_per_rank": 8, "checkpoint": {"every_steps": 10, "keep": 2}}
MODULES = {
    "host": "host", "parameter-server": "host", "coordinator": "coordinator", "dispatcher": "data_service",
    "data-worker": "data_service",
}  # fmt: skip
SYNC = {"mpijob": {"kind": "sync"}, "jobset": {"kind": "stale"}}
PATIENT = {"retries": 10, "deadline_s": 1200}


class Training:
    """A step, and what can be done to its pods."""

    def __init__(self, step: Step):
        self.step, self.team = step, step.team

    def pod(self, component: str) -> str:
        """Returns the name of the newest running pod of a kind."""
        return str(self._newest(component)["name"])

    def _newest(self, component: str) -> dict[str, Any]:
        found = [each["metadata"] for each in self.team.pods(f"app.kubernetes.io/component={component}")]
        return max(
            (each for each in found if "deletionTimestamp" not in each), key=lambda each: each["creationTimestamp"]
        )

    def kill(self, component: str) -> None:
        """Kills the first process of a pod, as the kernel would: the container is started again in its pod."""
        uid = self._newest(component)["uid"]
        [first] = [pid for pid in _processes(f"trainer_module.launch.{MODULES[component]}") if _is_of(pid, uid)]
        os.kill(first, signal.SIGKILL)

    def delete(self, component: str) -> None:
        self.team.kubectl("delete", "pod", self.pod(component), "--wait=false")

    def evict(self, component: str) -> None:
        self._evict(self.pod(component))

    def _evict(self, pod: str) -> None:
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}
        }  # fmt: skip
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        self.team.kubectl("create", "--raw", path, "-f", "-", given=eviction)

    def drain(self) -> None:
        """Takes all pods from the node, and lets new ones come."""
        self.team.plane.kubectl("cordon", NAME)
        for pod in self.team.pods("app.kubernetes.io/name=sangam"):
            self._evict(pod["metadata"]["name"])
        time.sleep(1)
        self.team.plane.kubectl("uncordon", NAME)

    def losses(self) -> int:
        """Returns how many processes the training says that it has lost."""
        return max([int(line["retry"]) for line in self.step.lines() if "retry" in line], default=0)

    def trains(self) -> None:
        """Waits until enough steps are done for another checkpoint."""
        before = self.step.checkpoint()
        self.step.until(lambda: self.step.checkpoint() > before, f"a checkpoint after that of step {before}")

    def survives(self, fault: Callable[[], None], *, is_loss: bool = True) -> float:
        """Lets something happen; returns the seconds until training goes on."""
        losses, began = self.losses(), time.monotonic()
        fault()
        if is_loss:
            self.step.until(lambda: self.losses() > losses, "the loss was noticed")
            said = next(line["says"] for line in reversed(self.step.lines()) if "retry" in line)
            assert "restarting from step " in said, said
        noticed_s = time.monotonic() - began
        self.trains()
        print(f"{self.step.name}: noticed after {noticed_s:.1f} s, trains after {time.monotonic() - began:.1f} s")
        return noticed_s


def _processes(module: str) -> list[int]:
    """Returns the processes of pods that were started with `python -m module`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if folder.stat().st_uid == USER and words[1:3] == [b"-m", module.encode()]:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _is_of(pid: int, uid: str) -> bool:
    """Returns whether a process runs in a pod: its control groups are named after the pod."""
    return f"/pod{uid}/" in Path(f"/proc/{pid}/cgroup").read_text()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["mpijob", "jobset"])
def test_training_goes_on_when_pods_and_servers_are_lost(team: Team, cluster_node: Node, kind: str) -> None:
    fields = {"training": ENDLESS | {"sync": SYNC[kind]}, "cluster": PATIENT}
    with Step(team, cluster_node.image, f"faults-{kind}", kind, **fields) as step:
        training = Training(step)
        training.trains()
        if kind == "mpijob":
            training.survives(lambda: team.plane.servers.interrupt("kube-apiserver", 5), is_loss=False)
            training.survives(lambda: training.kill("host"))
            training.survives(lambda: training.delete("coordinator"))
            training.survives(lambda: training.evict("host"))
            training.survives(lambda: training.kill("data-worker"), is_loss=False)
            training.survives(lambda: training.delete("data-worker"), is_loss=False)
            # Its journal goes with it: a loss within an epoch, none between two, where the ranks wait for the new one.
            training.survives(lambda: training.delete("dispatcher"), is_loss=False)
        else:
            training.survives(lambda: training.evict("host"))
            training.survives(lambda: training.delete("host"))
            training.survives(lambda: training.kill("coordinator"))
            training.survives(lambda: training.evict("coordinator"))
            training.survives(lambda: training.kill("dispatcher"), is_loss=False)
            training.survives(lambda: training.evict("data-worker"), is_loss=False)
            training.survives(lambda: training.kill("parameter-server"))
            training.survives(lambda: training.evict("parameter-server"))
            training.survives(lambda: team.plane.servers.interrupt("kubelet", 3), is_loss=False)
            training.survives(training.drain)
        began = time.monotonic()
        step.end()
        print(f"{step.name}: ended {time.monotonic() - began:.1f} s after SIGTERM")
        assert "gone=True" in step.told(), step.told()
        assert step.left() == []


@pytest.mark.parametrize(
    ("kind", "component", "memory"),
    [
        ("mpijob", "host", "300MiB"), ("mpijob", "parameter_server", "250MiB"), ("jobset", "coordinator", "40MiB"),
        ("jobset", "data_worker", "150MiB"),
    ],
)  # fmt: skip
def test_too_little_memory_is_said_to_be_that(
    team: Team, cluster_node: Node, kind: str, component: str, memory: str
) -> None:
    name = f"memory-{component.replace('_', '-')}"
    launcher, sync = {component: {"memory": memory}}, {"kind": "stale" if component == "parameter_server" else "sync"}
    with Step(team, cluster_node.image, name, kind, launcher=launcher, training={"sync": sync}) as step:
        assert step.exit_code(300) == 1, step.told()
        error = step.told().partition("error: ")[2]
        assert tells(error, "training", f"cluster.launcher.{component}.memory ... sangam plan"), step.told()
        assert step.left() == []


WAITS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # Name: launcher.host, volumes, what is said.
    "secret": ({"secrets": {"A": {"secret": "absent", "key": "k"}}}, {}, 'secret "absent" not found'),
    "claim": ({}, {"more": {"claim": "absent", "path": "/more"}}, 'persistentvolumeclaim "absent" not found'),
    "gpu": ({"gpu": {"count": 1}}, {}, "Insufficient nvidia.com/gpu"),
    "quota": ({"gpu": {"count": 1, "type": "amd.com/gpu"}}, {}, "exceeded quota: no-gpus"),
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-gpus"},
    "spec": {"hard": {"requests.amd.com/gpu": "0"}},
}


def test_a_job_whose_pods_cannot_start_says_why_and_ends_when_asked(team: Team, cluster_node: Node) -> None:
    team.apply(QUOTA)
    with ExitStack() as stack:
        steps = {
            why: stack.enter_context(
                Step(team, cluster_node.image, f"waits-{why}", "jobset", launcher={"host": host}, volumes=volumes)
            )
            for why, (host, volumes, _) in WAITS.items()
        }
        for why, step in steps.items():
            step.until(functools.partial(_says, step, WAITS[why][2]), f"{why} is given as the reason", 240)
        for step in steps.values():
            step.end()
            assert "gone=True" in step.told(), step.told()
            assert step.left() == []
    team.kubectl("delete", "resourcequota", "no-gpus")


def _says(step: Step, reason: str) -> bool:
    return reason in step.told()
