"""Alerts of runs on this machine."""

import os

from components.alerts import Event, send
from components.alerts.refusal import refusal, refusing_steps
from pipelines.local.result.summary import Summary
from schemas.spec import Spec
from schemas.spec.alerts import Alerts


def event_of(summary: Summary) -> Event | None:
    """Returns the alert of a finished run; None if it succeeded and was blessed, or was stopped."""
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
    """Sends the alert of a run, if the spec has `alerts` and there is one; returns why it could not be sent, if so."""
    event = event_of(summary) if spec.alerts else None
    return send(spec.alerts, event, os.environ) if spec.alerts and event else None


def send_test(alerts: Alerts, ranker: str) -> str | None:
    """Sends an alert of kind `test`; returns why it could not be sent, if so."""
    reason = "`sangam alert-test` was run"
    event = Event(kind="test", pipeline=ranker, step="", date=None, run="alert-test", reason=reason)
    return send(alerts, event, os.environ)
