"""Steps that share a process on Kubeflow."""

from collections.abc import Iterator
from typing import get_args

from sangam.schemas.spec import Spec
from sangam.schemas.spec.beam import BeamStepName, engine_of
from sangam.schemas.spec.cluster import StepName

_STEPS: tuple[StepName, ...] = get_args(StepName)
_BEFORE, _AFTER = _STEPS[1 : _STEPS.index("trainer")], _STEPS[_STEPS.index("trainer") + 1 :]
SMALL = (_BEFORE, _AFTER)
"""Small steps that follow each other. example_gen fixes the date and waits for logs; trainer is large, and resumes its
job: each needs a pod of its own."""


def groups(spec: Spec) -> tuple[tuple[StepName, ...], ...]:
    """Returns the groups of steps that share a process: those of the spec, or the largest that can."""
    declared = spec.cluster.share_processes
    if declared != "auto":
        return declared
    return tuple(group for steps in SMALL for group in _split(spec, steps) if len(group) > 1)


def group_of(spec: Spec, name: StepName) -> tuple[StepName, ...]:
    """Returns the steps of the task that has the name of this step, in order: the task is named after its last."""
    return next((group for group in groups(spec) if group[-1] == name), (name,))


def _split(spec: Spec, steps: tuple[StepName, ...]) -> Iterator[tuple[StepName, ...]]:
    """Yields the steps in groups of equal settings, and of one engine."""
    group: tuple[StepName, ...] = ()
    for step in steps:
        if group and not _fits(spec, group, step):
            yield group
            group = ()
        group += (step,)
    yield group


def _fits(spec: Spec, group: tuple[StepName, ...], step: StepName) -> bool:
    if spec.cluster.step(step) != spec.cluster.step(group[-1]):
        return False
    members = [name for name in get_args(BeamStepName) if name in (*group, step)]
    engines = [engine_of(spec.beam, name).model_dump(exclude={"steps"}) for name in members]
    return all(engine == engines[0] for engine in engines)
