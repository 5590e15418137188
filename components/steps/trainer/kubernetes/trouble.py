"""Describes the reasons of ended and waiting pods, from their status and events."""

from collections.abc import Iterable, Sequence

from lightkube.models.core_v1 import ContainerState, ContainerStateTerminated
from lightkube.resources.core_v1 import Event, Pod

from sangam.components.steps.trainer.kubernetes.run import COMPONENT_LABEL

_OOM = "OOMKilled"
# The kubelet's and the scheduler's reasons for a pod that had to leave its node; newer clusters also set the condition
# DisruptionTarget (kubernetes/kubernetes, pkg/kubelet/eviction, pkg/kubelet/nodeshutdown, pkg/controller/podgc).
_LEFT_ITS_NODE = {
    "Evicted",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "Preempting",
    "Shutdown",
    "Terminated",
    "UnexpectedAdmissionError",
}
_KILLED_CODES = {128 + 9, 128 + 15}
_TAIL_LINES = 20
_SECTIONS = {"data-worker": "data_worker", "dispatcher": "data_worker", "parameter-server": "parameter_server"}


def component_of(pod: Pod) -> str:
    """Returns the kind of a pod."""
    return str(((pod.metadata and pod.metadata.labels) or {}).get(COMPONENT_LABEL, ""))


def exit_of(pod: Pod) -> ContainerStateTerminated | None:
    """Returns how the container ended; None while it runs."""
    return next((state.terminated for state in _states(pod) if state.terminated), None)


def last_exit_of(pod: Pod) -> ContainerStateTerminated | None:
    """Returns how the container last ended, even if it was restarted since."""
    statuses = (pod.status and pod.status.containerStatuses) or []
    before = (each.lastState.terminated for each in statuses if each.lastState and each.lastState.terminated)
    return exit_of(pod) or next(before, None)


def met_its_limit(pod: Pod) -> bool:
    """Returns whether the kernel ended a container at its memory limit, which a retry would exceed again."""
    end = last_exit_of(pod)
    containers = pod.spec.containers if pod.spec else []
    has_limit = any(each.resources and "memory" in (each.resources.limits or {}) for each in containers)
    return has_limit and end is not None and end.reason == _OOM and end.exitCode != 0


def was_disrupted(pod: Pod) -> bool:
    """Returns whether the pod ended for an external reason: it lost its node, or was killed."""
    status = pod.status
    if status is None:
        return True
    conditions = status.conditions or []
    if any(each.type == "DisruptionTarget" and each.status == "True" for each in conditions):
        return True
    if status.reason in _LEFT_ITS_NODE:
        return True
    ended = exit_of(pod)
    if ended is None:
        return True  # It is gone, and was running when last seen.
    return ended.exitCode in _KILLED_CODES and ended.reason != _OOM


def ended(pod: Pod) -> str:
    """Returns how a pod failed and the end of its log; empty for one that runs or has succeeded."""
    if pod.status is None:
        return ""
    end = last_exit_of(pod)
    reason = pod.status.reason if pod.status.phase == "Failed" else None
    if not reason and (end is None or end.exitCode == 0):
        return ""
    causes = [f"{reason}: {pod.status.message or ''}".rstrip(": ")] if reason else []
    if end is not None and end.exitCode:
        why = f" ({end.reason})" if end.reason and end.reason != "Error" else ""
        causes.append(f"its container ended with code {end.exitCode}{why}{_advice(pod, end)}")
    # A process killed at its memory limit does not log the reason.
    tail = _tail(end.message) if end is not None and end.message and end.reason != _OOM else ""
    return f"{_pod_text(pod)}: {', '.join(causes)}" + (f"; the end of its log:\n{tail}" if tail else "")


def waiting(pod: Pod, events: Sequence[Event] = ()) -> str:
    """Returns why a pod waits; empty for one that runs or has ended."""
    status = pod.status
    if status is None or status.phase in ("Succeeded", "Failed"):
        return ""
    for condition in status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{_pod_text(pod)} waits for a node: {condition.reason}: {condition.message}"
    for state in _states(pod):
        if state.waiting is not None:
            warnings = "; ".join(_warnings(events))
            detail = f"{state.waiting.reason}: {state.waiting.message or ''}".rstrip(": ")
            return f"{_pod_text(pod)} waits: {detail}" + (f" ({warnings})" if warnings else "")
    return (
        "" if status.phase == "Running" else f"{_pod_text(pod)} waits: {'; '.join(_warnings(events)) or status.phase}"
    )


def _warnings(events: Iterable[Event]) -> list[str]:
    """Returns the last two warnings among events."""
    return [f"{each.reason}: {each.message}" for each in events if each.type == "Warning"][-2:]


def _advice(pod: Pod, end: ContainerStateTerminated) -> str:
    if end.reason != _OOM:
        return ""
    component = component_of(pod)
    return f": raise cluster.launcher.{_SECTIONS.get(component, component)}.memory, see `sangam plan`"


def _states(pod: Pod) -> list[ContainerState]:
    statuses = (pod.status and pod.status.containerStatuses) or []
    return [each.state for each in statuses if each.state is not None]


def _pod_text(pod: Pod) -> str:
    name = pod.metadata.name if pod.metadata else "?"
    node = f" on node {pod.spec.nodeName}" if pod.spec and pod.spec.nodeName else ""
    return f"pod {name} ({component_of(pod)}){node}"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])
