"""The command `sangam alert-test`."""

import os
import secrets

import typer

from sangam.components.alerts import Event, send, target_of
from sangam.pipelines.commands.options import JsonOption, SpecArgument
from sangam.pipelines.console import print_json, say, say_error
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError

EPILOG = (
    "Example: sangam alert-test pipelines/specs/short_video.yaml\n\n"
    "Exit codes: 0 the receiver accepted the alert; 1 it did not; 2 an option, the spec or a variable is wrong."
)


def alert_test(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Sends an alert of kind `test` to the webhook of a spec."""
    from sangam.schemas.loading import load_spec

    loaded = load_spec(spec)
    if loaded.alerts is None:
        raise UserError(f"{spec}: alerts: is missing (got none); add `alerts: {{}}` to be alerted of failed runs")
    target = target_of(loaded.alerts, os.environ)
    reason = "`sangam alert-test` was run"
    # A receiver that drops known ids takes every test.
    run = f"alert-test-{secrets.token_hex(4)}"
    event = Event(kind="test", pipeline=loaded.name, step="", date=None, run=run, reason=reason)
    if problem := send(loaded.alerts, event, os.environ):
        say_error(problem, as_json=as_json, code=ExitCode.FAILED)
        raise typer.Exit(ExitCode.FAILED)
    if as_json:
        print_json({"name": loaded.name, "sent_to": target.shown})
    else:
        say(f"sent to {target.shown}")
