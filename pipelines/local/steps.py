"""What is known of one step of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

StepState = Literal["ran", "cached", "failed", "stopped"]


@dataclass(frozen=True)
class Artifact:
    """One output of a step: where it lies, and what its component noted on it."""

    uri: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A step that has ended.

    Attributes:
        node: id of the pipeline's node.
        state: `ran`: to its end; `cached`: an earlier run's outputs stand in; `failed`; `stopped`: by a signal.
        seconds: wall time.
        peak_memory_bytes: of this process and all it started, while the step ran.
        outputs: by the output's key; empty unless the step ended well.
    """

    node: str
    state: StepState
    seconds: float
    peak_memory_bytes: int
    outputs: Mapping[str, Artifact] = field(default_factory=dict)


class Observer(Protocol):
    """Is told of every step as it starts and ends."""

    def step_started(self, node: str) -> None:
        """Called before the step does anything."""

    def step_ended(self, step: Step) -> None:
        """Called after the step, whichever way it ended."""
