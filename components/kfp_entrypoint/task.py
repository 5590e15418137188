"""Prepares and runs one step: translates URIs to folders and back, and fills in the date of the run."""

import datetime
import json
import logging
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sangam.components.kfp_entrypoint import date as dates
from sangam.components.kfp_entrypoint.ending import Ending
from sangam.components.kfp_entrypoint.invocation import (
    CREATED,
    INPUTS_SPEC,
    JOURNAL,
    ROOT,
    RUN,
    SHOWN,
    Command,
    Json,
    artifact_paths,
    globalized,
    localized,
    parameters,
)
from sangam.components.kfp_entrypoint.members import MEMBERS, Member, parse_members
from sangam.components.kfp_entrypoint.notes import Notes
from sangam.components.kfp_entrypoint.process import run
from sangam.components.kfp_entrypoint.progress import PROGRESS, Progress, is_complete
from sangam.components.kfp_entrypoint.uris import UriMapping, artifact_base, run_folder
from sangam.components.processes.stopping import StopSignals
from sangam.components.record.kubeflow import last_step
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
LAUNCHER = ""
"""Folder that Kubeflow's launcher mounts its stores below: the container's own root."""
_NOTES = ".sangam"
"""Folder of the notes, beside the folders of a run's tasks."""


@dataclass(frozen=True)
class Task:
    """A step, or several that share a process, ready to be run in this pod.

    Attributes:
        name: name of the step, for example example_gen.
        command: TFX's command, with paths and the date filled in.
        local: ExecutorInput of the command.
        uri_mapping: mapping from URIs to paths.
        run: id of the run; empty if the URIs do not contain it.
        date: date of the run; empty for logs without days.
        pods: number of pods of this step, including this one.
        notes: notes of the run; None if its folder is unknown.
        members: steps that share the task's process, in order; empty for one step.
        progress: progress of those; None for one step.
        journal: journal of the task; None: the run's folder is unknown.
    """

    name: str
    command: Command
    local: dict[str, Any]
    uri_mapping: UriMapping
    run: str
    date: str
    pods: int
    notes: Notes | None
    members: tuple[Member, ...] = ()
    progress: Progress | None = None
    journal: Path | None = None

    @property
    def first_step(self) -> str:
        """The step that a try begins with: the first that is not complete."""
        made = self.made()
        return next((member.step for member in self.members if not is_complete(member.step, made)), self.name)

    def step(self) -> str:
        """Returns the step that runs, or that ran last."""
        last = last_step(self.journal) if self.journal else None
        return last.name if last else self.first_step

    def made(self) -> dict[str, Json]:
        """Returns the artifacts of steps of this task that are complete, by the names of the task's outputs."""
        return self.progress.made(self.members, self.local) if self.progress else {}

    def with_journal(self, file: Path) -> "Task":
        """Returns the task whose process adds to a journal."""
        return replace(self, command=self.command.with_argument(JOURNAL, str(file)), journal=file)


def prepare(name: str, command: Command, now: datetime.datetime) -> Task:
    """Returns the step, ready to run.

    Raises:
        UserError: for an invalid pipeline root, date or artifact URI.
    """
    executor_input = command.executor_input()
    values = parameters(executor_input)
    uri_mapping = UriMapping(artifact_base(str(values.get(ROOT, ""))))
    run_folder_and_id = _run_folder(executor_input, name, uri_mapping)
    notes = Notes(Path(run_folder_and_id[0]) / _NOTES) if run_folder_and_id else None
    try:
        date = _date(values, notes, now)
        pods = notes.count_pod(name) if notes else 1
    except OSError as error:
        raise UserError(
            f"pipeline_root: is not writable (got {values[ROOT]}: {error.strerror}); it must be on a volume of "
            "cluster.volumes to which user 10001 may write"
        ) from None
    inputs_spec = json.loads(command.argument(INPUTS_SPEC) or "{}")
    run = run_folder_and_id[1] if run_folder_and_id else ""
    overrides = {"date": date} if CREATED in values else {}
    # In a task of several steps, a parameter's name begins with its step's.
    overrides |= {key: run for key in values if key.rpartition("__")[2] == RUN}
    local = localized(executor_input, inputs_spec, uri_mapping, overrides)
    members = tuple(parse_members(command.argument(MEMBERS) or "[]"))
    own = command.with_executor_input(local)
    # Without a folder of the run, the progress is the pod's.
    beside = Path(local["outputs"]["outputFile"]).parent / ".progress"
    progress = Progress(notes.progress(name) if notes else beside) if members else None
    return Task(
        name=name,
        command=own.with_argument(PROGRESS, str(progress.folder)) if progress else own,
        local=local,
        uri_mapping=uri_mapping,
        run=run,
        date=date,
        pods=pods,
        notes=notes,
        members=members,
        progress=progress,
    )


def execute(step: Task, stop: StopSignals, timeout_s: float | None) -> Ending:
    """Runs the step once, in a separate process, and puts the backend's URIs into its ExecutorOutput."""
    _fresh_outputs(step)
    ending = run(step.command, step.step, stop, timeout_s)
    if not ending.reason:
        output_file = Path(step.local["outputs"]["outputFile"])
        executor_output = json.loads(output_file.read_text(encoding="utf-8"))
        output_file.write_text(json.dumps(globalized(executor_output, step.uri_mapping)), encoding="utf-8")
        _hand_to_launcher(step)
    return ending


def _hand_to_launcher(step: Task) -> None:
    """Puts the files that Kubeflow's pages show where its launcher looks for outputs: it copies them into the store.

    The launcher has made the folder (launcher_v2.go, prepareOutputFolders). All other outputs stay on the volume.
    """
    for found in step.local["outputs"]["artifacts"].values():
        [artifact] = found["artifacts"]
        source = Path(artifact["uri"])
        if artifact.get("type", {}).get("schemaTitle") != SHOWN or not source.is_file():
            continue
        target = Path(UriMapping(LAUNCHER).path(step.uri_mapping.uri(str(source))))
        if target == source or not target.parent.is_dir():
            continue
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            # The run's result stands without its preview.
            _LOG.error("event=not_shown file=%s reason=%r", target, str(error))


def folder_of_run(name: str, command: Command) -> RunFolder | None:
    """Returns the run's folder in the pipeline root; None if the run or its root is unknown."""
    try:
        executor_input = command.executor_input()
        root = str(parameters(executor_input).get(ROOT, ""))
        found = _run_folder(executor_input, name, UriMapping(artifact_base(root)))
    except UserError:
        return None
    return Root(root).run(found[1]) if found else None


def _run_folder(executor_input: dict[str, Any], name: str, uri_mapping: UriMapping) -> tuple[str, str] | None:
    """Returns the folder of the run and its id, derived from an output's URI; None if it contains neither."""
    uris = artifact_paths(executor_input, "outputs").values()
    return next((run_folder(uri_mapping.path(uri), name.replace("_", "-")) for uri in uris), None)


def _date(values: dict[str, Any], notes: Notes | None, now: datetime.datetime) -> str:
    """Returns the run's date; the first step that resolves it fixes it for all others."""
    noted = notes.date() if notes else ""
    if CREATED not in values:
        return noted
    given = str(values.get("date", ""))
    date = dates.resolve(given=given, noted=noted, created=str(values[CREATED]), now=now)
    _LOG.info("date=%s given=%r noted=%r created=%r", date, given, noted, values[CREATED])
    fixed = notes.fix_date(date) if notes else date
    return date if given else fixed


def _fresh_outputs(step: Task) -> None:
    """Creates empty folders for the outputs, as a local run does.

    Existing files are from an earlier try, as the backend gives every try the same URIs. They are kept for a training
    job in separate pods, which continues without the step that started it, and those of complete steps of a task.
    """
    is_adopted = bool(parameters(step.local).get("launch"))
    made = step.made()
    for name, path in artifact_paths(step.local, "outputs").items():
        if not is_adopted and name not in made:
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isfile(path):
                os.unlink(path)
        os.makedirs(path, exist_ok=True)
