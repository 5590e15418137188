"""`python -m components.entrypoint --pipeline NAME --step STEP [...] -- python -m MODULE ...`: runs TFX's command."""

import argparse
import datetime
import logging
import os
import sys
from collections.abc import Sequence

from components.entrypoint.ending import MISTAKE, Ending
from components.entrypoint.invocation import artifact_paths, parse_command
from components.entrypoint.step import Step, execute, prepare
from components.entrypoint.telling import About, is_due, tell_failure, tell_refusal
from schemas.alerts import Alerts
from schemas.errors import UserError

_PUSHER = "pusher"


def main(argv: Sequence[str]) -> int:
    """Runs a step and tells how it ended. Returns the exit code: 0, 2 for a mistake of the user's, or another."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    place = list(argv).index("--") if "--" in argv else len(argv)
    options = _options(argv[:place])
    alerts = Alerts.model_validate_json(options.alerts) if options.alerts else None
    step: Step | None = None
    try:
        step = prepare(options.step, parse_command(argv[place + 1 :]), datetime.datetime.now(datetime.timezone.utc))
        ending = execute(step)
    except UserError as error:
        ending = Ending(MISTAKE, str(error), is_mistake=True)
    about = About(options.pipeline, step.run if step else "", step.date if step else "")
    if ending.reason:
        print(f"error: {options.step}: {_without(options.step, ending.reason)}", file=sys.stderr, flush=True)
        if alerts and _is_news(ending, step, options):
            tell_failure(alerts, about, options.step, ending, os.environ)
    elif alerts and step and options.step == _PUSHER:
        try:
            tell_refusal(alerts, about, artifact_paths(step.local, "inputs"), os.environ)
        except (OSError, ValueError) as error:
            # The step has done its work; that nobody is told changes nothing of it.
            logging.getLogger(__name__).error("event=alert_not_sent reason=%r", str(error))
    return ending.code


def _is_news(ending: Ending, step: Step | None, options: argparse.Namespace) -> bool:
    """Says whether to tell of a failure now: once for a step of a run, when trying again is over or no use."""
    if step is None:
        return True
    due = is_due(ending, tries=step.tries, retries=options.retries)
    return due and (step.notes is None or step.notes.is_first_telling(step.name))


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m components.entrypoint")
    parser.add_argument("--pipeline", required=True, help="name of the spec")
    parser.add_argument("--step", required=True, help="name of the step, for example example_gen")
    parser.add_argument("--retries", type=int, default=0, help="how often the backend tries the step again")
    parser.add_argument("--alerts", default="", help="the spec's section `alerts`, as JSON")
    return parser.parse_args(argv)


def _without(step: str, reason: str) -> str:
    return reason.removeprefix(f"{step}: ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
