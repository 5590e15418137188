"""Timeouts of steps on Kubernetes, and of their pods."""

from sangam.schemas.derived.sharing import group_of
from sangam.schemas.host.backoff import Backoff
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import StepName
from sangam.schemas.spec.data import DayLogs

DEFAULT_S = 6 * 3600
"""Timeout of a step that declares none: steps of a daily run end within it."""
_END_S = 60
"""Seconds beyond its time limit that a try takes at most to end."""
_TRAINER_MORE_S = 3600
"""Seconds beyond `cluster.deadline_s`, by which the trainer ends its training itself, with the reason."""


def timeout_s(spec: Spec, name: StepName) -> int:
    """Returns how long a try of a step may take: as the spec declares, or long enough for all that it may wait for.

    Steps that share a process have their limits together, under the name of the last.
    """
    return sum(_own_timeout_s(spec, member) for member in group_of(spec, name))


def _own_timeout_s(spec: Spec, name: StepName) -> int:
    declared = spec.cluster.step(name).timeout_s
    if declared is not None:
        return declared
    if name == "trainer":
        return spec.cluster.deadline_s + _TRAINER_MORE_S
    if name == "example_gen" and isinstance(spec.logs, DayLogs) and spec.logs.arrival:
        return DEFAULT_S + spec.logs.arrival.wait_s
    return DEFAULT_S


def pod_timeout_s(spec: Spec, name: StepName) -> int:
    """Returns how long a pod of a step may run: all its tries, and the waits between them."""
    retries = spec.cluster.step(name).retries
    waits_s = Backoff(retries.backoff_s, retries.factor, retries.max_backoff_s).waits_s(retries.count)
    return (retries.count + 1) * (timeout_s(spec, name) + _END_S) + int(sum(waits_s))
