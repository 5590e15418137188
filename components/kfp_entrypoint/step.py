"""One step: folders for addresses before, addresses for folders after, and the date that the run is for."""

import datetime
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.kfp_entrypoint import date as dates
from components.kfp_entrypoint.ending import Ending
from components.kfp_entrypoint.invocation import (
    CREATED,
    INPUTS_SPEC,
    ROOT,
    Command,
    artifact_paths,
    globalized,
    localized,
    parameters,
)
from components.kfp_entrypoint.notes import Notes
from components.kfp_entrypoint.process import run
from components.kfp_entrypoint.uris import Places, base_of, run_folder
from components.processes.stopping import StopSignals
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_NOTES = ".sangam"
"""Folder beside the folders of a run's tasks."""


@dataclass(frozen=True)
class Step:
    """A step of a run, ready to be run.

    Attributes:
        name: of the step, for example example_gen.
        command: TFX's, with paths and the date filled in.
        local: the ExecutorInput in it.
        places: of artifacts.
        run: the run's id; empty where the backend does not let it be seen.
        date: that the run is for; empty for logs without days.
        tries: how many tries of this step there were, with this one.
        notes: of the run; None where its folder is not known.
    """

    name: str
    command: Command
    local: dict[str, Any]
    places: Places
    run: str
    date: str
    tries: int
    notes: Notes | None


def prepare(name: str, command: Command, now: datetime.datetime) -> Step:
    """Returns the step.

    Raises:
        UserError: for a root that is no folder here, a date that is none, or an address that is none.
    """
    given = command.executor_input()
    values = parameters(given)
    places = Places(base_of(str(values.get(ROOT, ""))))
    found = _run_folder(given, name, places)
    notes = Notes(Path(found[0]) / _NOTES) if found else None
    try:
        date = _date(values, notes, now)
        tries = notes.count_try(name) if notes else 1
    except OSError as error:
        raise UserError(
            f"pipeline_root: cannot be written to (got {values[ROOT]}: {error.strerror}); it must lie on a volume of "
            "cluster.volumes that user 10001 may write to"
        ) from None
    declared = json.loads(command.argument(INPUTS_SPEC) or "{}")
    local = localized(given, declared, places, {"date": date} if CREATED in values else {})
    return Step(
        name=name,
        command=command.with_executor_input(local),
        local=local,
        places=places,
        run=found[1] if found else "",
        date=date,
        tries=tries,
        notes=notes,
    )


def execute(step: Step, stop: StopSignals) -> Ending:
    """Runs the step in a process of its own and puts the backend's addresses into what it has written."""
    _fresh_outputs(step)
    ending = run(step.command, step.name, stop)
    if not ending.reason:
        output_file = Path(step.local["outputs"]["outputFile"])
        written = json.loads(output_file.read_text(encoding="utf-8"))
        output_file.write_text(json.dumps(globalized(written, step.places)), encoding="utf-8")
    return ending


def _run_folder(given: dict[str, Any], name: str, places: Places) -> tuple[str, str] | None:
    """Returns the folder of the run and its id, as far as an output's address tells them."""
    addresses = artifact_paths(given, "outputs").values()
    return next((run_folder(places.path(uri), name.replace("_", "-")) for uri in addresses), None)


def _date(values: dict[str, Any], notes: Notes | None, now: datetime.datetime) -> str:
    """Returns the run's date, and notes it where this step is the one that decides."""
    noted = notes.date() if notes else ""
    if CREATED not in values:
        return noted
    date = dates.resolve(given=str(values.get("date", "")), noted=noted, created=str(values[CREATED]), now=now)
    _LOG.info("date=%s given=%r noted=%r created=%r", date, values.get("date", ""), noted, values[CREATED])
    if notes and date != noted:
        notes.note_date(date)
    return date


def _fresh_outputs(step: Step) -> None:
    """Makes empty folders for the outputs, as a local run does.

    What is there is of an earlier try: the backend gives every try the same addresses. But a training job of several
    pods goes on without the step that started it, and must not lose what it has written.
    """
    is_adopted = bool(parameters(step.local).get("launch"))
    for path in artifact_paths(step.local, "outputs").values():
        if not is_adopted:
            shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path, exist_ok=True)
