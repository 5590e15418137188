"""The steps of a run as they go, in a file that others read: `<root>/runs/<run>/logs/steps.jsonl`."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.local.steps import Step, StepState
from schemas.contracts.root import RunFolder
from schemas.host.files import add_json_line, json_lines

State = StepState | Literal["waiting", "running"]


@dataclass(frozen=True)
class StepSoFar:
    """A step of a run that may not have ended.

    Attributes:
        name: of the step.
        state: of it.
        started_at: seconds since 1970; None: it waits.
        seconds: that it took; None until it has ended.
        peak_memory_bytes: likewise.
    """

    name: str
    state: State = "waiting"
    started_at: float | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None


class StepLog:
    """An observer that writes each start and end down. The run does not depend on it: a full disk ends nothing."""

    def __init__(self, run_folder: Path, clock: Callable[[], float] = time.time):
        self._file, self._clock = RunFolder(run_folder).steps, clock

    def began(self, date: str) -> None:
        """Notes what the run is for: YYYY-MM-DD, or empty."""
        add_json_line(self._file, {"date": date})

    def planned(self, nodes: Iterable[str]) -> None:
        """Notes the steps that are to come, in their order."""
        add_json_line(self._file, {"planned": list(nodes)})

    def step_started(self, node: str) -> None:
        """Notes the start."""
        add_json_line(self._file, {"started": node, "at": round(self._clock(), 3)})

    def step_ended(self, step: Step) -> None:
        """Notes the end."""
        seconds, memory = round(step.seconds, 3), step.peak_memory_bytes
        add_json_line(
            self._file, {"ended": step.node, "state": step.state, "seconds": seconds, "peak_memory_bytes": memory}
        )


def read_date(run: RunFolder) -> str:
    """Returns what a run is for, YYYY-MM-DD; empty where the file does not say."""
    return next((line["date"] for line in json_lines(run.steps) if isinstance(line.get("date"), str)), "")


def read_steps(run: RunFolder) -> list[StepSoFar]:
    """Returns the steps of a run, in their order; none where the file is not there yet."""
    steps: dict[str, StepSoFar] = {}
    for line in json_lines(run.steps):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            steps |= _taken(line, steps)
    return list(steps.values())


def _taken(line: Mapping[str, Any], steps: Mapping[str, StepSoFar]) -> dict[str, StepSoFar]:
    """Returns the steps that a line changes."""
    match line:
        case {"planned": [*names]}:
            return {str(name): StepSoFar(str(name)) for name in names if name not in steps}
        case {"started": str(name), "at": at}:
            return {name: StepSoFar(name, "running", float(at))}
        case {"ended": str(name), "state": state, "seconds": seconds, "peak_memory_bytes": memory}:
            began = steps[name].started_at if name in steps else None
            return {name: StepSoFar(name, state, began, float(seconds), int(memory))}
    return {}
