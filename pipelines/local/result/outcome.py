"""Builds the record of a local run from its steps.

Nothing here imports TensorFlow: a run that fails to import it needs a record, too, and without delay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sangam.components.record.cost import cost_of
from sangam.components.record.run import Live, Pushed, RunRecord, Step, read_reports, status_of
from sangam.components.registry import stored_versions, versions
from sangam.pipelines.local.request import RunRequest
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.spec import digest
from sangam.schemas.spec.release import DirectoryPush

_OUTPUTS = {
    "examples": ("example_gen", "examples"),
    "statistics": ("statistics_gen", "statistics"),
    "anomalies": ("example_validator", "anomalies"),
    "training": ("trainer", "training"),
    "evaluation": ("evaluator", "evaluation"),
    "infra_blessing": ("infra_validator", "blessing"),
}
"""Step and key of each output that records and pages are built from."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        status: `failed` or `stopped`; None: every step ended well.
        error: message for the user; None after success.
        seconds: wall time of the run.
    """

    status: Literal["failed", "stopped"] | None
    error: str | None
    seconds: float


def summarize(
    request: RunRequest, run_folder: Path, steps: Mapping[str, Step], ending: RunEnd, git_commit: str | None
) -> RunRecord:
    """Returns the record of a run, read from the outputs of its finished steps."""
    reports = read_reports(folders_of(steps))
    notes = [*_note(steps, "example_validator", "anomalies"), *_note(steps, "transform", "transform_graph")]
    fields, pushed = reports.fields(notes), _pushed(steps)
    return RunRecord(
        run=run_folder.name,
        path=str(run_folder),
        name=request.spec.name,
        status=ending.status or status_of(fields["blessed"], pushed),
        error=ending.error,
        failed_step=next((name for name, step in steps.items() if step.state in ("failed", "stopped")), None),
        date=request.date.isoformat() if request.date else None,
        mode=request.spec.training.mode,
        **fields,
        pushed=pushed,
        live=live(request, pushed),
        steps=dict(steps),
        total_seconds=round(ending.seconds, 3),
        cost=cost_of(request.spec, steps, reports),
        spec_digest=digest(request.spec),
        git_commit=git_commit,
        data=request.data_root,
    )


def folders_of(steps: Mapping[str, Step]) -> dict[str, Path]:
    """Returns the folder of each output that records and pages are built from."""
    found = {name: steps[step].outputs.get(key) for name, (step, key) in _OUTPUTS.items() if step in steps}
    return {name: Path(artifact.uri) for name, artifact in found.items() if artifact}


def exit_code(record: RunRecord, stop_code: int, *, is_mistake: bool = False) -> int:
    """Returns the exit code of a run.

    Args:
        record: record of the run.
        stop_code: exit code of a run that was stopped by a signal.
        is_mistake: whether a failed run failed because of a wrong spec, option or log.
    """
    match record.status:
        case "pushed" | "blessed":
            return ExitCode.DONE
        case "refused" | "ended":
            return ExitCode.REJECTED
        case "failed":
            return ExitCode.MISTAKE if is_mistake else ExitCode.FAILED
        case "stopped":
            return stop_code


def live(request: RunRequest, pushed: Pushed | None) -> Live | None:
    """Returns the version that servers load from the spec's push folder; None if the spec pushes to no folder."""
    push = request.spec.push
    if not isinstance(push, DirectoryPush):
        return None
    if push.is_on_store:
        return _live_on_store(push.folder, pushed)
    folder = request.root / push.path
    there, version = versions.versions(folder), pushed.version if pushed else ""
    withdrawal = None if version in there else versions.withdrawn(folder).get(version)
    return Live(
        version=there[-1] if there else None,
        folder=str(folder),
        withdrawn=None if withdrawal is None else withdrawal.because,
    )


def _live_on_store(folder: str, pushed: Pushed | None) -> Live | None:
    """Returns the newest version of a folder on a store; None while the store does not tell."""
    version = pushed.version if pushed else ""
    try:
        there = stored_versions.versions(folder)
        withdrawal = None if version in there else stored_versions.withdrawn(folder).get(version)
    except UserError:
        return None
    because = None if withdrawal is None else withdrawal.because
    return Live(version=there[-1] if there else None, folder=folder, withdrawn=because)


def _properties(steps: Mapping[str, Step], step: str, key: str) -> Mapping[str, Any]:
    """Returns the properties that a component has set on an output; empty without the output."""
    artifact = steps[step].outputs.get(key) if step in steps else None
    return artifact.properties if artifact else {}


def _note(steps: Mapping[str, Step], step: str, key: str) -> list[str]:
    """Returns a step's notes on an output, one per line."""
    return str(_properties(steps, step, key).get("note") or "").splitlines()


def _pushed(steps: Mapping[str, Step]) -> Pushed | None:
    known = _properties(steps, "pusher", "pushed_model")
    if not known.get("pushed"):
        return None
    shadow_of = str(known.get("shadow_of") or "")
    return Pushed(version=str(known["version"]), path=str(known["path"]), shadow_of=shadow_of)
