"""Tells of a step that failed, and of a model that a gate has refused."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.alerts import Event, send
from components.alerts.refusal import refusal, refusing_steps
from components.kfp_entrypoint.ending import Ending
from components.reports import evaluation as verdicts
from components.reports import serving as infra_verdicts
from components.reports.evaluation import Verdict
from components.reports.serving import ServingVerdict
from schemas.spec.alerts import Alerts


@dataclass(frozen=True)
class About:
    """The run that is told of.

    Attributes:
        pipeline: name of the spec.
        run: the run's id.
        date: that it is for; empty for logs without days.
    """

    pipeline: str
    run: str
    date: str


def is_due(ending: Ending, *, tries: int, retries: int) -> bool:
    """Says whether there is nothing left to hope for: tries are used up, or trying again changes nothing."""
    return ending.is_mistake or tries > retries


def tell_failure(alerts: Alerts, about: About, step: str, ending: Ending, environ: Mapping[str, str]) -> None:
    """Sends the alert of a failed step."""
    send(alerts, _event("failed", about, step, ending.reason), environ)


def tell_refusal(alerts: Alerts, about: About, inputs: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Sends the alert of a refused model, if the pusher's inputs say that it was.

    Args:
        alerts: what is declared.
        about: the run.
        inputs: folders of the pusher's input artifacts, by name.
        environ: has the address and the key.
    """
    verdict = Verdict.model_validate_json(_read(inputs["evaluation"], verdicts.FILE_NAME))
    serving = ServingVerdict.model_validate_json(_read(inputs["infra_blessing"], infra_verdicts.FILE_NAME))
    if verdict.blessed and serving.blessed:
        return
    gates = [(task, gate) for task, judged in verdict.tasks.items() for gate in judged.gates]
    reason = refusal(gates, serving.checks)
    send(alerts, _event("refused", about, refusing_steps(gates, serving.checks), reason), environ)


def _event(kind: str, about: About, step: str, reason: str) -> Event:
    return Event.model_validate(
        {
            "kind": kind,
            "pipeline": about.pipeline,
            "step": step,
            "date": about.date or None,
            "run": about.run,
            "reason": reason,
        }
    )


def _read(folder: str, name: str) -> bytes:
    return Path(os.path.join(folder, name)).read_bytes()
