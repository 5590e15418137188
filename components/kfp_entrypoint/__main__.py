"""Runs one step on Kubeflow: `python -m sangam.components.kfp_entrypoint --pipeline NAME --step STEP -- COMMAND`."""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import contextlib
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
from sangam.components.kfp_entrypoint.invocation import Command, Json, artifact_paths, parse_command
from sangam.components.kfp_entrypoint.task import Task, folder_of_run, prepare
from sangam.components.kfp_entrypoint.told import Told
from sangam.components.kfp_entrypoint.tries import is_final, note, run_tries, surplus
from sangam.components.processes.stopping import StopSignals
from sangam.components.record.kubeflow import record_of
from sangam.components.record.run import RunRecord
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
    try:
        import_parts(options.parts)
        parsed = parse_command(command)
    except UserError as error:
        return _end(options, Ending(ExitCode.MISTAKE, str(error), is_mistake=True), None, None)
    folder = folder_of_run(options.step, parsed)
    with Told(folder, options.pipeline, options.step) if folder else contextlib.nullcontext() as told:
        return _run_task(options, parsed, told, stop)


def _run_task(options: argparse.Namespace, command: Command, told: Told | None, stop: StopSignals) -> int:
    task: Task | None = None
    try:
        alerts = _alerts(options)
        if alerts and options.step == _FIRST:
            # The compiler cannot see the Secret: check it before a training whose alert could not be sent.
            target_of(alerts, os.environ)
        task = prepare(options.step, command, datetime.datetime.now(datetime.UTC))
        if (late := surplus(task, options.retries, time.time())) is not None:
            _say(task.step(), late.reason)
            return late.code
        if told:
            told.began(task.date)
            task = task.with_journal(told.file)
        ending = run_tries(task, options.retries, options.timeout_s, stop, told)
    except UserError as error:
        ending = Ending(ExitCode.MISTAKE, str(error), is_mistake=True)
    return _end(options, ending, task, told)


def _end(options: argparse.Namespace, ending: Ending, task: Task | None, told: Told | None) -> int:
    """Tells how the task has ended, and returns its exit code."""
    step = task.step() if task else options.step
    reason = ending.reason.removeprefix(f"{step}: ")
    if reason:
        _say(step, reason)
    if told:
        step = told.ended(reason, time.time())
    folder = told.run if told else None
    try:
        alerts = _alerts(options)
        if reason and (task is None or is_final(task, ending, options.retries)):
            if task:
                note(task, ending, time.time())
            _fail(reason, step, task, folder, options)
        elif task and alerts and not reason and (inputs := _inputs_of(task, _PUSHER)):
            record = _record(task, folder, options, _folders(inputs))
            send_all(alerts, record, os.environ)
    except (OSError, ValueError) as error:
        # A failed alert does not change the step's exit code.
        _LOG.error("event=alert_not_sent reason=%r", str(error))
    return ending.code


def _alerts(options: argparse.Namespace) -> Alerts | None:
    return Alerts.model_validate_json(options.alerts) if options.alerts else None


def _say(step: str, reason: str) -> None:
    print(f"error: {step}: {reason.removeprefix(f'{step}: ')}", file=sys.stderr, flush=True)


def _fail(reason: str, step: str, task: Task | None, folder: RunFolder | None, options: argparse.Namespace) -> None:
    """Writes record and page of a run that a step ends, and sends an alert: once per task of a run."""
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
