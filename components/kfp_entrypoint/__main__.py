"""Runs one step on Kubeflow: `python -m components.kfp_entrypoint --pipeline NAME --step STEP [...] -- COMMAND`."""

from schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import datetime
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from components.alerts import target_of
from components.kfp_entrypoint.ending import Ending
from components.kfp_entrypoint.failure_page import draw_failure
from components.kfp_entrypoint.invocation import Json, artifact_paths, parse_command
from components.kfp_entrypoint.members import MEMBERS, parse_members
from components.kfp_entrypoint.notify import RunInfo, is_final, send_failure_alert, send_refusal_alert
from components.kfp_entrypoint.step import Step, execute, prepare, reason_file
from components.processes.stopping import StopSignals
from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.root import RunFolder
from schemas.errors import UserError
from schemas.host.files import write_whole
from schemas.spec.alerts import Alerts

_LOG = logging.getLogger(__name__)
_FIRST, _PUSHER = "example_gen", "pusher"


def main(argv: Sequence[str]) -> int:
    """Runs a step and sends its alerts. Returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    separator = list(argv).index("--") if "--" in argv else len(argv)
    # Until the end: a second signal must not interrupt the alert about the first.
    with StopSignals() as stop:
        return _run(_options(argv[:separator]), argv[separator + 1 :], stop)


def _run(options: argparse.Namespace, command: Sequence[str], stop: StopSignals) -> int:
    alerts = Alerts.model_validate_json(options.alerts) if options.alerts else None
    step: Step | None = None
    reason_at: Path | None = None
    try:
        parsed = parse_command(command)
        reason_at = reason_file(options.step, parsed)
        if alerts and options.step == _FIRST:
            # Compiling cannot see the Secret. Said here, it costs no training whose end nobody would hear of.
            target_of(alerts, os.environ)
        step = prepare(options.step, parsed, datetime.datetime.now(datetime.timezone.utc))
        ending = execute(step, stop)
    except UserError as error:
        ending = Ending(ExitCode.MISTAKE, str(error), is_mistake=True)
    reason = ending.reason.removeprefix(f"{options.step}: ")
    if reason:
        print(f"error: {options.step}: {reason}", file=sys.stderr, flush=True)
    if reason_at:
        _leave(reason, reason_at)
        if reason and step and _is_last(ending, step, options):
            run = RunInfo(options.pipeline, step.run, step.date)
            draw_failure(
                run, options.step, reason, artifact_paths(step.local, "inputs"), RunFolder(reason_at.parent.parent)
            )
    if alerts:
        try:
            _send_alert(alerts, ending, step, options)
        except (OSError, ValueError) as error:
            # A failed alert does not change the step's exit code.
            _LOG.error("event=alert_not_sent reason=%r", str(error))
    return ending.code


def _leave(reason: str, file: Path) -> None:
    """Leaves the reason of a failure for `sangam status`, and removes that of a try before."""
    try:
        if reason:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, f"{reason}\n")
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        _LOG.error("event=reason_not_left file=%s reason=%r", file, str(error))


def _send_alert(alerts: Alerts, ending: Ending, step: Step | None, options: argparse.Namespace) -> None:
    """Alerts on a refused model, or on a failure: once per step of a run, after its last try."""
    run = RunInfo(options.pipeline, step.run if step else "", step.date if step else "")
    if not ending.reason:
        if step and (inputs := _inputs_of(step, _PUSHER)):
            send_refusal_alert(alerts, run, inputs, os.environ)
    elif step is None or (
        _is_last(ending, step, options) and (step.notes is None or step.notes.is_first_alert(step.name))
    ):
        send_failure_alert(alerts, run, options.step, ending, os.environ)


def _is_last(ending: Ending, step: Step, options: argparse.Namespace) -> bool:
    return is_final(ending, tries=step.tries, retries=options.retries)


def _inputs_of(step: Step, name: str) -> dict[str, str] | None:
    """Returns the folders of a step's inputs; None if the task neither is that step nor runs it."""
    members = parse_members(step.command.argument(MEMBERS) or "[]")
    own = next((member for member in members if member.step == name), None)
    if own is None:
        return artifact_paths(step.local, "inputs") if step.name == name else None
    made: dict[str, Json] = {name: {} for name in step.local["outputs"]["artifacts"]}
    return artifact_paths(own.executor_input(step.local, made), "inputs")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m components.kfp_entrypoint")
    parser.add_argument("--pipeline", required=True, help="name of the spec")
    parser.add_argument("--step", required=True, help="name of the step, for example example_gen")
    parser.add_argument("--retries", type=int, default=0, help="how often the backend tries the step again")
    parser.add_argument("--alerts", default="", help="the spec's section `alerts`, as JSON")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
