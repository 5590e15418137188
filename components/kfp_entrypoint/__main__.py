"""Runs one step on Kubeflow: `python -m components.kfp_entrypoint --pipeline NAME --step STEP [...] -- COMMAND`."""

import argparse
import datetime
import logging
import os
import sys
from collections.abc import Sequence

from components.kfp_entrypoint.ending import Ending
from components.kfp_entrypoint.invocation import artifact_paths, parse_command
from components.kfp_entrypoint.notify import About, is_due, tell_failure, tell_refusal
from components.kfp_entrypoint.step import Step, execute, prepare
from components.processes.stopping import StopSignals
from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError
from schemas.spec.alerts import Alerts

_LOG = logging.getLogger(__name__)
_PUSHER = "pusher"


def main(argv: Sequence[str]) -> int:
    """Runs a step and tells how it ended. Returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    place = list(argv).index("--") if "--" in argv else len(argv)
    # To the end: a second signal must not cut off what is told of the first.
    with StopSignals() as stop:
        return _run(_options(argv[:place]), argv[place + 1 :], stop)


def _run(options: argparse.Namespace, command: Sequence[str], stop: StopSignals) -> int:
    alerts = Alerts.model_validate_json(options.alerts) if options.alerts else None
    step: Step | None = None
    try:
        step = prepare(options.step, parse_command(command), datetime.datetime.now(datetime.timezone.utc))
        ending = execute(step, stop)
    except UserError as error:
        ending = Ending(ExitCode.MISTAKE, str(error), is_mistake=True)
    if ending.reason:
        print(f"error: {options.step}: {ending.reason.removeprefix(f'{options.step}: ')}", file=sys.stderr, flush=True)
    if alerts:
        try:
            _tell(alerts, ending, step, options)
        except (OSError, ValueError) as error:
            # Whether somebody is told changes nothing of how the step has ended.
            _LOG.error("event=alert_not_sent reason=%r", str(error))
    return ending.code


def _tell(alerts: Alerts, ending: Ending, step: Step | None, options: argparse.Namespace) -> None:
    """Tells of a failure, once for a step of a run and when trying again is over or no use; or of a refused model."""
    about = About(options.pipeline, step.run if step else "", step.date if step else "")
    if not ending.reason:
        if step and step.name == _PUSHER:
            tell_refusal(alerts, about, artifact_paths(step.local, "inputs"), os.environ)
    elif step is None or (
        is_due(ending, tries=step.tries, retries=options.retries)
        and (step.notes is None or step.notes.is_first_telling(step.name))
    ):
        tell_failure(alerts, about, options.step, ending, os.environ)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m components.kfp_entrypoint")
    parser.add_argument("--pipeline", required=True, help="name of the spec")
    parser.add_argument("--step", required=True, help="name of the step, for example example_gen")
    parser.add_argument("--retries", type=int, default=0, help="how often the backend tries the step again")
    parser.add_argument("--alerts", default="", help="the spec's section `alerts`, as JSON")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
