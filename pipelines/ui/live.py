"""The state of a running run: its steps, its training, its memory, and the remaining time."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sangam.components.processes.memory import tree_memory_bytes
from sangam.components.record.lock import holder_here
from sangam.components.record.run import Step
from sangam.components.record.store import StoredRun
from sangam.pipelines.local.training_progress import Event, TrainingProgress, parsed, read_progress
from sangam.pipelines.times import duration
from sangam.schemas.contracts.training_job import PROGRESS_FILE
from sangam.schemas.host.files import json_lines
from sangam.schemas.quantities import shown_bytes, shown_seconds

MAX_POINTS = 300
"""Largest number of points of a training's curves."""
_SILENT_S = 15.0
"""Age at which a rate is outdated; ranks report every 2 s."""
_ENDED = ("ran", "cached", "failed", "stopped")
_UNKNOWN = "–"
_NEWEST_BYTES = 16_384


@dataclass(frozen=True)
class Live:
    """The state of a run at one moment.

    Attributes:
        state: state as in `sangam runs`.
        elapsed_s: seconds since its start.
        steps: steps in order; empty until they are known.
        points: newest numbers of the training, in order; empty before the first.
        silent_s: seconds since the last number.
        is_training: whether the numbers belong to the running step.
        says: message of the training or the step; empty without one.
        memory_bytes: memory of all processes of the run; None if they are not on this machine.
        before: seconds of each step in its last execution in earlier runs of the ranker.
    """

    state: str
    elapsed_s: float | None
    now: float
    steps: Sequence[Step] = ()
    points: Sequence[TrainingProgress] = ()
    silent_s: float = 0.0
    is_training: bool = False
    says: str = ""
    memory_bytes: int | None = None
    before: Mapping[str, float] = field(default_factory=dict)

    @property
    def training(self) -> TrainingProgress | None:
        """The newest numbers of the training."""
        return self.points[-1] if self.points else None

    @property
    def running(self) -> Step | None:
        """The running step."""
        return next((step for step in self.steps if step.state == "running"), None)


def memory_of(run: StoredRun) -> int | None:
    """Returns the memory of all processes of a run in bytes; None if it does not run on this machine."""
    pid = holder_here(run.root.path) if run.state == "running" else None
    return tree_memory_bytes(pid) or None if pid is not None else None


def read_live(
    run: StoredRun,
    before: Mapping[str, float],
    now: float | None = None,
    memory: Callable[[StoredRun], int | None] = memory_of,
) -> Live:
    """Reads the state of a run from its files; `before` as in `Live`, `memory` returns its memory."""
    now = time.time() if now is None else now
    file = run.folder.logs / PROGRESS_FILE
    newest = read_progress(file)
    steps = list(run.steps.values())
    begun = next((step.started_at for step in steps if step.state == "running"), None)
    silent_s, is_training = _written(file, run.folder.steps, begun, now) if begun is not None else (0.0, False)
    return Live(
        state=run.state,
        elapsed_s=now - run.started.timestamp() if run.started else None,
        now=now,
        steps=steps,
        points=read_points(run, newest_bytes=_NEWEST_BYTES),
        silent_s=silent_s,
        is_training=is_training,
        says=str(newest) if isinstance(newest, Event) else "",
        memory_bytes=memory(run),
        before=before,
    )


def _written(numbers: Path, journal: Path, begun: float, now: float) -> tuple[float, bool]:
    """Returns the seconds since a training's numbers were written, and whether that was after its step began.

    The journal was last written when the step began, so that its time shows how far the file system's clock is ahead.

    Args:
        numbers: file of the numbers.
        journal: file of the steps.
        begun: start of the running step, in seconds since 1970.
        now: the same of this moment.
    """
    try:
        written_at, begun_at = numbers.stat().st_mtime, journal.stat().st_mtime
    except OSError:
        return 0.0, False
    return max(0.0, now - begun - (written_at - begun_at)), written_at >= begun_at


def read_points(run: StoredRun, *, newest_bytes: int = sys.maxsize) -> list[TrainingProgress]:
    """Returns the numbers of a training in order: all, or those in the last bytes of the file."""
    lines = json_lines(run.folder.logs / PROGRESS_FILE, newest_bytes)
    return [found for fields in lines if isinstance(found := parsed(fields), TrainingProgress)]


def left_s(steps: Sequence[Step], before: Mapping[str, float], now: float, training_s: float | None) -> float:
    """Returns the seconds until a run ends; NaN if unknown.

    Args:
        steps: steps of the run.
        before: seconds of each step in its last execution.
        now: present time, seconds since 1970.
        training_s: remaining seconds of the training, if it is the running step.
    """
    total = 0.0
    for step in steps:
        if step.state == "running" and training_s is not None:
            # Excludes the work after the last training step, such as the export.
            total += training_s
        elif step.state == "running":
            # Order matters: max() of NaN and a number returns the first.
            total += max(before.get(step.name, math.nan) - (now - (step.started_at or now)), 0.0)
        elif step.state == "waiting":
            total += before.get(step.name, math.nan)
    return total if steps else math.nan


def document(live: Live) -> dict[str, Any]:
    """Returns the content of a run's page as formatted text, the same for the first page and for events."""
    training, is_training = live.training, live.is_training and live.training is not None
    # A message after the numbers makes them obsolete, for example after a lost rank or during an export.
    is_current = is_training and not live.says
    training_s = training.left_s if training and is_current else None
    run_s = left_s(live.steps, live.before, live.now, training_s)
    left, of = (run_s, "of the run") if math.isfinite(run_s) else (training_s, "of the training")
    is_known = left is not None and live.state == "running"
    is_silent = is_training and live.silent_s > _SILENT_S
    rate = f"{training.examples_per_s:,.0f}" if training and is_current and not is_silent else _UNKNOWN
    says = f"no step for {duration(live.silent_s)}" if is_silent and not live.says else live.says
    return {
        "state": live.state,
        "sentence": _sentence(live),
        "share": training.share if training and is_training else 1.0 if training else None,
        "shown": {
            "elapsed": duration(live.elapsed_s) if live.elapsed_s is not None else _UNKNOWN,
            "left": duration(left) if is_known and left is not None else _UNKNOWN,
            "left_of": of if is_known else "not known yet",
            "rate": rate,
            "memory": shown_bytes(live.memory_bytes) if live.memory_bytes else _UNKNOWN,
            "percent": _percent(training, is_training=is_training),
            "step": f"step {training.step:,}" if training else "has not begun",
            "says": says if live.state == "running" else "",
        },
        "steps": [_step(step, live) for step in live.steps],
        "points": [point(each) for each in live.points],
    }


def _sentence(live: Live) -> str:
    """Returns the text for screen readers; it changes with a step, not with every number."""
    done = sum(step.state in _ENDED for step in live.steps)
    if live.state != "running":
        return f"The run is {live.state}."
    if live.running is None:
        return "The run is starting." if not done else f"{done} of {len(live.steps)} steps are done."
    return f"{live.running.name} is running; {done} of {len(live.steps)} steps are done."


def _percent(training: TrainingProgress | None, *, is_training: bool) -> str:
    if training is None:
        return _UNKNOWN
    if not is_training:
        return "done"
    return f"{math.floor(100 * training.share)} %" if training.share is not None else _UNKNOWN


def _step(step: Step, live: Live) -> dict[str, Any]:
    state = step.state
    if state == "running" and live.state != "running":
        state = "stopped"  # The run was killed before it recorded the step's end.
    seconds = step.took(live.now) if state == "running" else step.seconds
    shown = duration if state == "running" else shown_seconds
    usual = live.before.get(step.name)
    return {
        "name": step.name,
        "state": state,
        "time": shown(seconds) if seconds is not None else "",
        "usual": duration(usual) if usual is not None else "",
        "memory": shown_bytes(step.peak_memory_bytes) if step.peak_memory_bytes else "",
    }


def point(progress: TrainingProgress) -> dict[str, Any]:
    """Returns a point of the curves, without losses that are not finite."""
    losses = {task: loss for task, loss in progress.losses.items() if math.isfinite(loss)}
    return {"step": progress.step, "rate": progress.examples_per_s, "losses": losses}


def thinned(points: Sequence[TrainingProgress], most: int = MAX_POINTS) -> list[TrainingProgress]:
    """Returns at most `most` points, evenly spaced, including the newest."""
    step = max(1, math.ceil(len(points) / most))
    return list(points[::-1][::step][::-1])


def seconds_before(runs: Iterable[StoredRun]) -> dict[str, float]:
    """Returns each step's seconds in the first of these runs, newest first, that did not take it from the cache."""
    found: dict[str, float] = {}
    for run in runs:
        for name, step in run.record.steps.items() if run.record else ():
            if step.state == "ran" and step.seconds is not None:
                found.setdefault(name, step.seconds)
    return found
