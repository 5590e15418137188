"""Alerts of runs on this machine, and the command `sangam alert-test`."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.alerts import Event, send, target_of
from components.alerts.refusal import refusal, refusing_steps
from pipelines.local.result.summary import Summary
from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError
from schemas.spec import Spec

EPILOG = (
    "Example: sangam alert-test pipelines/specs/short_video.yaml\n\n"
    "Exit codes: 0 the receiver has taken it; 1 it has not; 2 the command was given something wrong, or a variable is "
    "not set."
)


def event_of(summary: Summary) -> Event | None:
    """Returns what there is to tell of a run that has ended; None where it went well, or somebody stopped it."""
    if summary.status == "failed":
        kind, step, reason = "failed", summary.failed_step or "", summary.error or "unknown"
    elif summary.status == "succeeded" and summary.blessed is False:
        gates = [(name, gate) for name, task in summary.tasks.items() for gate in task.gates]
        checks = summary.serving.checks if summary.serving else []
        kind, step, reason = "refused", refusing_steps(gates, checks), refusal(gates, checks)
    else:
        return None
    return Event.model_validate(
        {
            "kind": kind,
            "pipeline": summary.name,
            "step": step,
            "date": summary.date,
            "run": summary.run,
            "reason": reason,
        }
    )


def alert(spec: Spec, summary: Summary) -> str | None:
    """Sends what there is to tell of a run, where the spec asks for it; returns why it could not be sent, if so."""
    event = event_of(summary) if spec.alerts else None
    return send(spec.alerts, event, os.environ) if spec.alerts and event else None


def alert_test(spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")]) -> None:
    """Sends an alert of kind `test` to the webhook that the spec declares."""
    from schemas.loading import load_spec

    loaded = load_spec(spec)
    if loaded.alerts is None:
        raise UserError(f"{spec}: alerts: is not declared (got none); add `alerts: {{}}` to be told of failed runs")
    target = target_of(loaded.alerts, os.environ)
    reason = "somebody has asked for a test"
    event = Event(kind="test", pipeline=loaded.name, step="", date=None, run="alert-test", reason=reason)
    problem = send(loaded.alerts, event, os.environ)
    Console(stderr=bool(problem)).print(problem or f"sent to {target.shown}", markup=False, highlight=False)
    raise typer.Exit(ExitCode.FAILED if problem else ExitCode.DONE)
