"""Runs one step on Kubeflow: `python -m sangam.components.kfp_entrypoint --pipeline NAME --step STEP -- COMMAND`."""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import datetime
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sangam.components.alerts import send_all, target_of
from sangam.components.kfp_entrypoint.ending import Ending
from sangam.components.kfp_entrypoint.failure import leave_failure
from sangam.components.kfp_entrypoint.invocation import Json, artifact_paths, parse_command
from sangam.components.kfp_entrypoint.task import Task, folder_of_run, prepare
from sangam.components.kfp_entrypoint.tries import is_final, note, run_tries, surplus
from sangam.components.processes.stopping import StopSignals
from sangam.components.record.kubeflow import record_of, write_step
from sangam.components.record.run import RunRecord, Step
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import settle
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.schemas.parts.importing import import_parts
from sangam.schemas.spec.alerts import Alerts
from sangam.schemas.spec.cluster import Retries

_LOG = logging.getLogger(__name__)
_FIRST, _PUSHER = "example_gen", "pusher"


def main(argv: Sequence[str]) -> int:
    """Runs a step and sends its alerts. Returns the exit code."""
    settle()
    log_to_stderr()
    separator = list(argv).index("--") if "--" in argv else len(argv)
    # Until the end: a second signal must not interrupt the alert about the first.
    with StopSignals() as stop:
        return _run(_options(argv[:separator]), argv[separator + 1 :], stop)


def _run(options: argparse.Namespace, command: Sequence[str], stop: StopSignals) -> int:
    alerts: Alerts | None = None
    task: Task | None = None
    folder: RunFolder | None = None
    started = time.time()
    try:
        import_parts(options.parts)
        alerts = Alerts.model_validate_json(options.alerts) if options.alerts else None
        parsed = parse_command(command)
        folder = folder_of_run(options.step, parsed)
        if alerts and options.step == _FIRST:
            # The compiler cannot see the Secret: check it before a training whose alert could not be sent.
            target_of(alerts, os.environ)
        task = prepare(options.step, parsed, datetime.datetime.now(datetime.UTC))
        if (late := surplus(task, options.retries, time.time())) is not None:
            _say(task.step(), late.reason)
            return late.code
        ending = run_tries(task, options.retries, options.timeout_s, stop)
    except UserError as error:
        ending = Ending(ExitCode.MISTAKE, str(error), is_mistake=True)
    step, began = _step(task, started) or (options.step, started)
    reason = ending.reason.removeprefix(f"{step}: ")
    if reason:
        _say(step, reason)
    if folder and (reason or not (task and task.members)):
        seconds = time.time() - began
        _leave(Step(step, "failed" if reason else "ran", seconds, started_at=began, error=reason), folder)
    try:
        if reason and (task is None or is_final(task, ending, options.retries)):
            if task:
                note(task, ending, time.time())
            _fail(reason, task, folder, options)
        elif task and alerts and not reason and (inputs := _inputs_of(task, _PUSHER)):
            record = _record(task, folder, options, _folders(inputs))
            send_all(alerts, record, os.environ)
    except (OSError, ValueError) as error:
        # A failed alert does not change the step's exit code.
        _LOG.error("event=alert_not_sent reason=%r", str(error))
    return ending.code


def _step(task: Task | None, started: float) -> tuple[str, float] | None:
    """Returns the step that ran last, and when it began; None if that is unknown."""
    if task is None:
        return None
    return (task.progress and task.progress.current()) or (task.step(), started)


def _say(step: str, reason: str) -> None:
    print(f"error: {step}: {reason.removeprefix(f'{step}: ')}", file=sys.stderr, flush=True)


def _fail(reason: str, task: Task | None, folder: RunFolder | None, options: argparse.Namespace) -> None:
    """Writes record and page of a run that this step ends, and sends an alert: once per step of a run."""
    step = task.step() if task else options.step
    record = _record(task, folder, options, {}, status="failed", error=reason, failed_step=step)
    if folder and task:
        made = {name: artifact["uri"] for name, artifact in task.made().items()}
        leave_failure(record, _folders(artifact_paths(task.local, "inputs") | made))
    if options.alerts and (task is None or task.notes is None or task.notes.is_first_alert(task.name)):
        send_all(Alerts.model_validate_json(options.alerts), record, os.environ)


def _record(
    task: Task | None, folder: RunFolder | None, options: argparse.Namespace, inputs: Mapping[str, Path], **more: Any
) -> RunRecord:
    own, date = folder or RunFolder(Path()), task.date if task else ""
    return record_of(own, options.pipeline, date or None, inputs, now=time.time(), **more)


def _folders(inputs: Mapping[str, str]) -> dict[str, Path]:
    # In a task of several steps, an input's name begins with its step's.
    return {name.rpartition("__")[2]: Path(path) for name, path in inputs.items()}


def _leave(step: Step, folder: RunFolder) -> None:
    """Writes a step for the record of the run and for `sangam status`."""
    try:
        write_step(folder, step)
    except OSError as error:
        _LOG.error("event=step_not_left folder=%s reason=%r", folder.path, str(error))


def _inputs_of(step: Task, name: str) -> dict[str, str] | None:
    """Returns the folders of a step's inputs; None if the task does not run that step."""
    own = next((member for member in step.members if member.step == name), None)
    if own is None:
        return artifact_paths(step.local, "inputs") if step.name == name else None
    made: dict[str, Json] = {name: {} for name in step.local["outputs"]["artifacts"]}
    return artifact_paths(own.executor_input(step.local, made), "inputs")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sangam.components.kfp_entrypoint")
    parser.add_argument("--pipeline", required=True, help="name of the spec")
    parser.add_argument("--step", required=True, help="name of the step, for example example_gen")
    parser.add_argument("--retries", type=_retries, default=Retries(count=0), help="the step's `retries`, as JSON")
    parser.add_argument("--timeout-s", type=float, help="time limit of each try")
    parser.add_argument("--alerts", default="", help="the spec's section `alerts`, as JSON")
    parser.add_argument("--parts", nargs="*", default=(), help="modules with parts that `alerts` may name")
    return parser.parse_args(argv)


def _retries(text: str) -> Retries:
    return Retries.model_validate_json(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
