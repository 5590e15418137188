"""Sends alerts on failed steps and refused models."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.alerts import Event, send
from components.alerts.refusal import refusal, refusing_steps
from components.kfp_entrypoint.ending import Ending
from components.reports import evaluation as evaluation
from components.reports import serving as serving_report
from components.reports.evaluation import Verdict
from components.reports.serving import ServingVerdict
from schemas.spec.alerts import Alerts


@dataclass(frozen=True)
class RunInfo:
    """The run of an alert.

    Attributes:
        pipeline: name of the spec.
        run: id.
        date: YYYY-MM-DD; empty for logs without days.
    """

    pipeline: str
    run: str
    date: str


def is_final(ending: Ending, *, tries: int, retries: int) -> bool:
    """Says whether a failure is final: all tries are used up, or trying again changes nothing."""
    return ending.is_mistake or tries > retries


def send_failure_alert(alerts: Alerts, run: RunInfo, step: str, ending: Ending, environ: Mapping[str, str]) -> None:
    """Sends the alert of a failed step."""
    send(alerts, _event("failed", run, step, ending.reason), environ)


def send_refusal_alert(alerts: Alerts, run: RunInfo, inputs: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Sends the alert of a refused model, if the pusher's inputs say that it was.

    Args:
        alerts: the spec's section.
        run: for the message.
        inputs: folders of the pusher's input artifacts, by name.
        environ: with the URL and the key.
    """
    verdict = Verdict.model_validate_json(_read(inputs["evaluation"], evaluation.FILE_NAME))
    serving = ServingVerdict.model_validate_json(_read(inputs["infra_blessing"], serving_report.FILE_NAME))
    if verdict.blessed and serving.blessed:
        return
    gates = [(task, gate) for task, judged in verdict.tasks.items() for gate in judged.gates]
    reason = refusal(gates, serving.checks)
    send(alerts, _event("refused", run, refusing_steps(gates, serving.checks), reason), environ)


def _event(kind: str, run: RunInfo, step: str, reason: str) -> Event:
    return Event.model_validate(
        {
            "kind": kind,
            "pipeline": run.pipeline,
            "step": step,
            "date": run.date or None,
            "run": run.run,
            "reason": reason,
        }
    )


def _read(folder: str, name: str) -> bytes:
    return Path(os.path.join(folder, name)).read_bytes()
