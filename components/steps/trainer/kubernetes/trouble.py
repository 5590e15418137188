"""Which pod is in trouble and why, in words: from what Kubernetes says of it."""

from collections.abc import Iterable, Sequence

from lightkube.models.core_v1 import ContainerState, ContainerStateTerminated
from lightkube.resources.core_v1 import Event, Pod

from components.steps.trainer.kubernetes.run import COMPONENT_LABEL

_OOM = "OOMKilled"
# The kubelet's and the scheduler's words for a pod that had to leave its node; newer clusters also set the condition
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
_ENDED_FROM_OUTSIDE = {128 + 9, 128 + 15}
_TAIL_LINES = 20
_SECTIONS = {"data-worker": "data_worker", "dispatcher": "data_worker"}


def component_of(pod: Pod) -> str:
    """Returns which kind of pod it is."""
    return str(((pod.metadata and pod.metadata.labels) or {}).get(COMPONENT_LABEL, ""))


def exit_of(pod: Pod) -> ContainerStateTerminated | None:
    """Returns how the container ended, None while it has not."""
    return next((state.terminated for state in _states(pod) if state.terminated), None)


def last_exit_of(pod: Pod) -> ContainerStateTerminated | None:
    """Returns how the container ended, now or before it was started again."""
    statuses = (pod.status and pod.status.containerStatuses) or []
    before = (each.lastState.terminated for each in statuses if each.lastState and each.lastState.terminated)
    return exit_of(pod) or next(before, None)


def was_disrupted(pod: Pod) -> bool:
    """Returns whether the pod ended for a reason that is not in it: its node was taken, or something killed it."""
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
        return True  # it is no longer there, and was well when last seen
    return ended.exitCode in _ENDED_FROM_OUTSIDE and ended.reason != _OOM


def ended(pod: Pod) -> str:
    """Returns how a pod ended and the end of its log; empty for one that has not, or has ended well."""
    if pod.status is None:
        return ""
    end = last_exit_of(pod)
    reason = pod.status.reason if pod.status.phase == "Failed" else None
    if not reason and (end is None or end.exitCode == 0):
        return ""
    words = [f"{reason}: {pod.status.message or ''}".rstrip(": ")] if reason else []
    if end is not None and end.exitCode:
        why = f" ({end.reason})" if end.reason and end.reason != "Error" else ""
        words.append(f"its container ended with code {end.exitCode}{why}{_advice(pod, end)}")
    tail = _tail(end.message) if end is not None and end.message else ""
    return f"{_named(pod)}: {', '.join(words)}" + (f"; the end of its log:\n{tail}" if tail else "")


def waiting(pod: Pod, events: Sequence[Event] = ()) -> str:
    """Returns why a pod does not run; empty for one that does."""
    status = pod.status
    if status is None or status.phase in ("Succeeded", "Failed"):
        return ""
    for condition in status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{_named(pod)} waits for a node: {condition.reason}: {condition.message}"
    for state in _states(pod):
        if state.waiting is not None:
            warned = "; ".join(_warnings(events))
            told = f"{state.waiting.reason}: {state.waiting.message or ''}".rstrip(": ")
            return f"{_named(pod)} waits: {told}" + (f" ({warned})" if warned else "")
    return "" if status.phase == "Running" else f"{_named(pod)} waits: {'; '.join(_warnings(events)) or status.phase}"


def _warnings(events: Iterable[Event]) -> list[str]:
    """Returns the reasons that Kubernetes warned of, the last ones."""
    return [f"{each.reason}: {each.message}" for each in events if each.type == "Warning"][-2:]


def _advice(pod: Pod, end: ContainerStateTerminated) -> str:
    if end.reason != _OOM:
        return ""
    component = component_of(pod)
    return f": raise cluster.launcher.{_SECTIONS.get(component, component)}.memory, see `sangam plan`"


def _states(pod: Pod) -> list[ContainerState]:
    statuses = (pod.status and pod.status.containerStatuses) or []
    return [each.state for each in statuses if each.state is not None]


def _named(pod: Pod) -> str:
    name = pod.metadata.name if pod.metadata else "?"
    node = f" on node {pod.spec.nodeName}" if pod.spec and pod.spec.nodeName else ""
    return f"pod {name} ({component_of(pod)}){node}"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])
