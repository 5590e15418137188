"""Records the progress of a run: in memory for its supervisor, and in files of the run's folder for others.

All contain the same lines: `logs/steps.jsonl` those of a run on one machine, `steps/<task>` those of a task on
Kubeflow, whose pods write no common file. With a full disk, the run continues, and the supervisor still gets all lines.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from sangam.components.record.run import Step
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.host.files import json_line, json_lines
from sangam.schemas.spec.cluster import StepName

_STEP = TypeAdapter(Step)
_MAX_BYTES = 2**24
_PLACES = {name: place for place, name in enumerate(get_args(StepName))}


@dataclass(frozen=True)
class Noted:
    """The recorded progress of a run.

    Attributes:
        folder: folder of the run; None until it exists.
        commit: commit of the code.
        date: YYYY-MM-DD, or empty.
        data: folder of the logs, or empty.
        ranker: name of the ranker, or empty.
        steps: steps in their order.
        heard_at: time of the last line of a run on Kubeflow, seconds since 1970; None for any other.
    """

    folder: Path | None = None
    commit: str | None = None
    date: str = ""
    data: str = ""
    ranker: str = ""
    steps: dict[str, Step] = field(default_factory=dict)
    heard_at: float | None = None

    @property
    def running(self) -> Step | None:
        """The running step."""
        return next((step for step in self.steps.values() if step.state == "running"), None)

    def ended(self, state: str, now: float) -> dict[str, Step]:
        """Returns the started steps of an ended run; the running one gets `state`."""
        begun = {name: step for name, step in self.steps.items() if step.state != "waiting"}
        if step := self.running:
            begun[step.name] = replace(step, state=state, seconds=max(0.0, now - (step.started_at or now)))
        return begun


class Journal:
    """An observer that records the start and end of each step.

    Args:
        file: file of a task on Kubeflow; None: that of the folder that `opened` gets.
    """

    def __init__(self, clock: Callable[[], float] = time.time, file: Path | None = None):
        self._clock = clock
        self._file = file
        # It cannot hit a full disk, and vanishes with the last process that has it open.
        self._memory = open(os.memfd_create("journal"), "r+b")  # noqa: SIM115

    def opened(self, folder: Path, commit: str | None = None, date: str = "", data: str = "", ranker: str = "") -> None:
        """Records the run's folder, the code's commit, the run's date (YYYY-MM-DD, or empty), its logs' folder, and
        the ranker."""
        self._file = self._file or RunFolder(folder).steps
        self._note({"folder": str(folder), "commit": commit, "date": date, "data": data, "ranker": ranker})

    def planned(self, names: Iterable[str]) -> None:
        """Records the planned steps, in their order."""
        for name in names:
            self._note({"step": {"name": name, "state": "waiting"}})

    def step_started(self, name: str) -> None:
        """Records the start of a step."""
        self._note({"step": {"name": name, "state": "running", "started_at": round(self._clock(), 3)}})

    def step_ended(self, step: Step) -> None:
        """Records the end of a step."""
        self._note({"step": dataclasses.asdict(step)})

    def lives(self) -> None:
        """Records that the process of a step lives: of a pod that is lost nothing else tells."""
        self._note({"lives": True})

    def read(self) -> Noted:
        """Returns the progress that this process and its children have recorded."""
        self._memory.seek(0)
        return _read(json.loads(line) for line in self._memory.read().split(b"\n")[:-1])

    def _note(self, fields: Mapping[str, Any]) -> None:
        line = json_line(fields, self._clock()).encode()
        os.write(self._memory.fileno(), line)
        if self._file:
            with contextlib.suppress(OSError), self._file.open("ab") as lines:
                lines.write(line)


def read_journal(run: RunFolder) -> Noted:
    """Returns the progress recorded in a run's folder; empty without a file."""
    tasks = [json_lines(file, _MAX_BYTES) for file in sorted(run.tasks.glob("[!.]*"))]
    if not tasks:
        return _read(json_lines(run.steps, _MAX_BYTES))
    noted = _read(line for lines in tasks for line in lines)
    steps = sorted(noted.steps.values(), key=lambda step: (step.started_at or 0.0, _PLACES.get(step.name, 0)))
    return replace(noted, steps={step.name: step for step in steps}, heard_at=max(map(_heard_at, tasks)))


def read_task(file: Path) -> Noted:
    """Returns the progress recorded in the file of one task; empty without it."""
    return _read(json_lines(file, _MAX_BYTES))


def _heard_at(lines: Sequence[Mapping[str, Any]]) -> float:
    times = [0.0]
    for line in lines:
        with contextlib.suppress(ValueError):
            times.append(datetime.datetime.fromisoformat(str(line.get("at"))).timestamp())
    return max(times)


def _read(lines: Iterable[Mapping[str, Any]]) -> Noted:
    """Returns the progress recorded in lines; ignores lines of other kinds."""
    noted, steps = Noted(), dict[str, Step]()
    for line in lines:
        match line:
            case {"folder": str(found), "commit": commit, "date": str(day), "data": str(data)}:
                ranker = line.get("ranker")
                noted = Noted(
                    folder=Path(found),
                    commit=commit if isinstance(commit, str) else None,
                    date=day or noted.date,
                    data=data,
                    ranker=ranker if isinstance(ranker, str) else "",
                )
            case {"step": fields}:
                with contextlib.suppress(ValueError):
                    step = _STEP.validate_python(fields)
                    known = steps.get(step.name)
                    if step.started_at is None and known:
                        step = replace(step, started_at=known.started_at)
                    steps[step.name] = step
    return replace(noted, steps=steps)
