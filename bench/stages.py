"""Where a step's time goes, from TensorFlow's profile of it: self time of the operations by their name scope.

A rank has one thread for operations, so their times add up to the step. What is left is waiting: for messages and the
ranks that send them, and for Python to start the next step.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tensorflow.tsl.profiler.protobuf import xplane_pb2

STAGES = ("unique", "exchange", "lookup", "dense", "update", "dense_update")
"""Name scopes of trainer_module/loop/step.py and in_step.py, and of trainer_module/embedding/sharded_tables.py."""

OTHER, WAITING, BETWEEN = "other operations", "waiting inside a step", "between steps"

_STEP_EVENT = "KernelAndDeviceFunc::Run"
# What the profiler calls an operation, "scope/name:Kind", but for its own C++ events ("Executor::Process").
_OPERATION = re.compile(r"(?P<name>[^:]+):(?!:)[^:]")
_NUMBER_SUFFIX = re.compile(r"_\d+$")


class _Event(NamedTuple):
    start_ps: int
    end_ps: int
    name: str


def milliseconds_by_stage(trace: Path) -> dict[str, float]:
    """Returns the mean of the profiled steps: stages, then what is in none of them. Together they are the step."""
    operations, steps = _read(trace)
    totals = dict.fromkeys((*STAGES, OTHER, WAITING, BETWEEN), 0)
    for event, self_ps in _self_times(operations):
        totals[_stage(event.name)] += self_ps
    busy_until = steps[0].start_ps
    for event in operations:
        if event.start_ps > busy_until:
            inside = any(step.start_ps < busy_until and event.start_ps < step.end_ps for step in steps)
            totals[WAITING if inside else BETWEEN] += event.start_ps - busy_until
        busy_until = max(busy_until, event.end_ps)
    return {stage: total / 1e9 / len(steps) for stage, total in totals.items()}


def _read(trace: Path) -> tuple[list[_Event], list[_Event]]:
    """Returns the operations and the steps, by start."""
    (path,) = trace.glob("plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    (host,) = (plane for plane in space.planes if plane.name == "/host:CPU")
    events = [
        _Event(start, start + event.duration_ps, host.event_metadata[event.metadata_id].name)
        for line in host.lines
        for event in line.events
        for start in [line.timestamp_ns * 1000 + event.offset_ps]
    ]
    events.sort(key=lambda event: (event.start_ps, -event.end_ps))
    operations = [event for event in events if _OPERATION.match(event.name) and " " not in event.name]
    return operations, [event for event in events if event.name == _STEP_EVENT]


def _self_times(operations: Iterable[_Event]) -> Iterator[tuple[_Event, int]]:
    """Yields each operation's time without that of the operations inside it."""
    open_events: list[tuple[_Event, int]] = []
    for event in operations:
        while open_events and open_events[-1][0].end_ps <= event.start_ps:
            yield open_events.pop()
        if open_events:
            outer, rest_ps = open_events[-1]
            open_events[-1] = (outer, rest_ps - (event.end_ps - event.start_ps))
        open_events.append((event, event.end_ps - event.start_ps))
    yield from open_events


def _stage(name: str) -> str:
    found = [_NUMBER_SUFFIX.sub("", part) for part in name.split(":")[0].split("/")]
    inner = [part for part in found if part in STAGES]
    return inner[-1] if inner else OTHER
