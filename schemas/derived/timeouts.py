"""How long a pod of a step may run on Kubernetes."""

from schemas.spec import Spec
from schemas.spec.cluster import StepName
from schemas.spec.data import DayLogs

DEFAULT_S = 6 * 3600
"""Of a step that declares no timeout: a run of each day has steps that end on it."""
_TRAINER_MORE_S = 3600
"""Beyond `cluster.deadline_s`: the trainer ends its training itself by then, and says why."""


def timeout_s(spec: Spec, name: StepName) -> int:
    """Returns how long a pod of a step may run: as the spec declares, or long enough for all that it may wait for."""
    declared = spec.cluster.step(name).timeout_s
    if declared is not None:
        return declared
    if name == "trainer":
        return spec.cluster.deadline_s + _TRAINER_MORE_S
    if name == "example_gen" and isinstance(spec.data, DayLogs) and spec.data.arrival:
        return DEFAULT_S + spec.data.arrival.wait_s
    return DEFAULT_S
