"""Records a run on Kubeflow: each step writes a file at its end, and the last one writes the record of the run."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sangam.components.record.run import RunRecord, Step, read_reports, status_of
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.host.files import write_whole

_STEP = TypeAdapter(Step)


def write_step(run: RunFolder, step: Step) -> None:
    """Writes a step; its end, or a retry, replaces it."""
    run.ended_steps.mkdir(parents=True, exist_ok=True)
    write_whole(run.ended_steps / step.name, json.dumps(dataclasses.asdict(step)) + "\n")


def read_steps(run: RunFolder) -> dict[str, Step]:
    """Returns the steps that have begun, in the order of their starts, without unreadable ones.

    A step that runs is among them if it shares a process with others.
    """
    found = []
    for file in run.ended_steps.glob("[!.]*"):
        with contextlib.suppress(OSError, ValueError):
            found.append(_STEP.validate_json(file.read_bytes()))
    return {step.name: step for step in sorted(found, key=lambda step: step.started_at or 0.0)}


def record_of(
    run: RunFolder, ranker: str, date: str | None, inputs: Mapping[str, Path], *, now: float, **more: Any
) -> RunRecord:
    """Returns the record of a run that ends now.

    Args:
        run: folder of the run.
        ranker: name of the ranker.
        date: YYYY-MM-DD; None: logs without days.
        inputs: folders of steps' outputs, by the reporter's input names.
        now: seconds since 1970.
        more: other fields of the record; without `status` the run has ended well.
    """
    steps = {name: step for name, step in read_steps(run).items() if step.state != "running"}
    fields = {**read_reports(inputs).fields(), **more}
    started = min((step.started_at for step in steps.values() if step.started_at is not None), default=now)
    return RunRecord(
        run=run.path.name,
        path=str(run.path),
        name=ranker,
        date=date,
        steps=steps,
        started_at=started,
        total_seconds=round(max(0.0, now - started), 3),
        runner="kubeflow",
        **{"status": status_of(fields["blessed"], fields.get("pushed")), **fields},
    )
