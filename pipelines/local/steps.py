"""One step of a run, and who observes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

StepState = Literal["ran", "cached", "failed", "stopped"]


@dataclass(frozen=True)
class Artifact:
    """One output of a step: its URI, and the custom properties that its component set."""

    uri: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A finished step.

    Attributes:
        node: id of the pipeline's node.
        state: `ran`: it completed; `cached`: an earlier run's outputs are used; `failed`; `stopped`: by a signal.
        seconds: wall time.
        peak_memory_bytes: of this process and all its descendants, while the step ran.
        outputs: by the output's key; empty unless the step succeeded.
        cpu_seconds: processor time of this process and of the descendants that ended while the step ran.
    """

    node: str
    state: StepState
    seconds: float
    peak_memory_bytes: int
    outputs: Mapping[str, Artifact] = field(default_factory=dict)
    cpu_seconds: float = 0.0


class Observer(Protocol):
    """Is called at the start and the end of every step."""

    def step_started(self, node: str) -> None:
        """Called before the step does anything."""

    def step_ended(self, step: Step) -> None:
        """Called after the step, however it ended."""
