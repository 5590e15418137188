"""What can happen to the pods of a training, and whether it trains on."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.control_plane import Manifest
from tests.cluster.image import USER
from tests.cluster.node import NAME
from tests.cluster.team import NAMESPACE, Team
from tests.cluster.training import Step


class Faults:
    """Faults of the training of a step."""

    def __init__(self, step: Step):
        self.step: Step = step
        self.team: Team = step.team

    def kill_server(self) -> None:
        """Kills a parameter server, as the kernel would: its container is started again in its pod."""
        uid = self._newest("parameter-server")["uid"]
        [first] = [pid for pid in _processes("sangam.trainer_module.launch.host") if _is_of(pid, uid)]
        os.kill(first, signal.SIGKILL)

    def evict_host(self) -> None:
        """Evicts the pod of a host, as a drained or preempted node does."""
        self._evict(str(self._newest("host")["name"]))

    def drain(self) -> None:
        """Evicts all pods of the job at once."""
        self.team.plane.kubectl("cordon", NAME)
        for pod in self.team.pods("app.kubernetes.io/name=sangam"):
            self._evict(pod["metadata"]["name"])
        time.sleep(1)
        self.team.plane.kubectl("uncordon", NAME)

    def interrupt(self) -> None:
        """Takes the API server and the kubelet away for some seconds."""
        self.team.plane.servers.interrupt("kubelet", 0)
        self.team.plane.servers.interrupt("kube-apiserver", 3)

    def losses(self) -> int:
        """Returns how often the training has said that it has lost processes."""
        return sum("retry" in line for line in self.step.lines())

    def trains(self) -> None:
        """Waits for another checkpoint."""
        before = self.step.checkpoint()
        self.step.until(lambda: self.step.checkpoint() > before, f"a checkpoint after that of step {before}")

    def survives(self, fault: Callable[[], None]) -> None:
        """Lets a fault happen, and waits until all have resumed from a checkpoint and written another."""
        losses, began = self.losses(), time.monotonic()
        fault()
        self.step.until(lambda: self.losses() > losses, "the loss was noticed")
        said = next(line["says"] for line in reversed(self.step.lines()) if "retry" in line)
        assert "restarting from step " in said, said
        noticed_s = time.monotonic() - began
        self.trains()
        print(f"{self.step.name}: noticed after {noticed_s:.1f} s, trains after {time.monotonic() - began:.1f} s")

    def _newest(self, component: str) -> Manifest:
        found = [each["metadata"] for each in self.team.pods(f"app.kubernetes.io/component={component}")]
        metadata: Manifest = max(
            (each for each in found if "deletionTimestamp" not in each), key=lambda each: each["creationTimestamp"]
        )
        return metadata

    def _evict(self, pod: str) -> None:
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}
        }  # fmt: skip
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        self.team.kubectl("create", "--raw", path, "-f", "-", given=eviction)


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
