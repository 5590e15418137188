"""Makes the summary of a run from its steps.

Nothing here imports TensorFlow: a run that could not even import it must get its summary too, and at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from components.registry import versions
from components.reports import serving as infra_verdicts
from components.reports.evaluation import FILE_NAME, Verdict
from components.reports.ingestion import FILE_NAME as INGESTION_FILE
from components.reports.ingestion import IngestionReport
from components.reports.serving import ServingVerdict
from pipelines.local.request import RunRequest
from pipelines.local.result.summary import (
    CostSummary,
    LiveSummary,
    PushedSummary,
    RowsSummary,
    StepSummary,
    Summary,
    TaskSummary,
    TrainingSummary,
    serving_summary,
)
from pipelines.local.steps import Step
from schemas.contracts.training_job import REPORT_FILE
from schemas.derived.cost import run_cost
from schemas.spec import Spec, digest
from schemas.spec.data import TRAIN
from schemas.spec.release import DirectoryPush


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        error: the text for the user; None after success.
        seconds: wall time of the run.
    """

    status: Literal["succeeded", "failed", "stopped"]
    error: str | None
    seconds: float


def summarize(
    request: RunRequest, run_folder: Path, steps: Sequence[Step], ending: RunEnd, git_commit: str | None
) -> Summary:
    """Returns the summary of a run, read from the outputs of its finished steps."""
    by_node = {step.node: step for step in steps}
    ingested, judged = _ingested(by_node.get("example_gen")), _judged(by_node.get("evaluator"))
    serving = _served(by_node.get("infra_validator"))
    drifted = _note(by_node.get("example_validator"), "anomalies")
    reused = _note(by_node.get("transform"), "transform_graph")
    training = _trained(by_node.get("trainer"))
    learned = training.notes if training else []
    notes = [*ingested.pop("notes"), *drifted, *reused, *learned, *judged.pop("notes")]
    notes += serving.notes if serving else []
    blessed = _both(judged.pop("blessed"), serving.blessed if serving else None)
    pushed = _pushed(by_node.get("pusher"))
    failed = [step.node for step in steps if step.state in ("failed", "stopped")]
    return Summary(
        run=run_folder.name,
        path=str(run_folder),
        name=request.spec.name,
        status=ending.status,
        error=ending.error,
        failed_step=failed[0] if failed else None,
        date=request.date.isoformat() if request.date else None,
        mode=request.spec.training.mode,
        **ingested,
        training=training,
        **judged,
        serving=serving_summary(serving) if serving else None,
        blessed=blessed,
        notes=notes,
        pushed=pushed,
        live=live(request, pushed),
        steps={step.node: _step(step) for step in steps},
        total_seconds=round(ending.seconds, 3),
        cost=_cost(request.spec, steps, ingested["rows"], training),
        spec_digest=digest(request.spec),
        git_commit=git_commit,
        data=str(request.data_root),
    )


def _cost(
    spec: Spec, steps: Sequence[Step], rows: Mapping[str, RowsSummary], training: TrainingSummary | None
) -> CostSummary | None:
    if spec.cost is None:
        return None
    cost = run_cost(
        spec,
        spec.cost,
        {step.node: step.seconds for step in steps},
        examples=rows[TRAIN].written if TRAIN in rows else 0,
        samples_per_s=training.examples_per_s if training else None,
    )
    return CostSummary(currency=spec.cost.currency, **asdict(cost))


def live(request: RunRequest, pushed: PushedSummary | None) -> LiveSummary | None:
    """Returns the version that servers take from the folder that the spec pushes to; None if it pushes to none."""
    push = request.spec.push
    if not isinstance(push, DirectoryPush):
        return None
    folder = request.root / push.path
    there, version = versions.versions(folder), pushed.version if pushed else ""
    withdrawal = None if version in there else versions.withdrawn(folder).get(version)
    return LiveSummary(
        version=there[-1] if there else None,
        folder=str(folder),
        withdrawn=None if withdrawal is None else withdrawal.because,
    )


def _step(step: Step) -> StepSummary:
    return StepSummary(
        state=step.state,
        cached=step.state == "cached",
        seconds=round(step.seconds, 3),
        cpu_seconds=round(step.cpu_seconds, 3),
        peak_memory_bytes=step.peak_memory_bytes,
    )


def _ingested(step: Step | None) -> dict[str, Any]:
    if step is None or "examples" not in step.outputs:
        return {"days": {}, "missing_days": [], "rows": {}, "notes": []}
    path = Path(step.outputs["examples"].uri, INGESTION_FILE)
    report = IngestionReport.model_validate_json(path.read_text(encoding="utf-8"))
    rows = {
        name: RowsSummary(
            read=split.rows_read,
            written=split.rows_written,
            dropped=dict(split.dropped),
            ignored=dict(split.ignored),
            negatives_sampled_out=split.negatives_sampled_out,
            joined={source: dict(counts) for source, counts in split.joined.items()},
        )
        for name, split in report.splits.items()
    }
    days = {name: [str(day) for day in split_days] for name, split_days in report.days.items()}
    return {
        "days": days,
        "missing_days": [str(day) for day in report.missing_days],
        "rows": rows,
        "base": report.base.checkpoint_uri if report.base else None,
        "base_last_day": report.base.last_day if report.base else None,
        "notes": list(report.notes),
    }


def _note(step: Step | None, output: str) -> list[str]:
    """Returns a step's notes on an output, one per line."""
    artifact = step.outputs.get(output) if step else None
    note = artifact.properties.get("note") if artifact else None
    return str(note).splitlines() if note else []


def _trained(step: Step | None) -> TrainingSummary | None:
    artifact = step.outputs.get("training") if step else None
    if artifact is None:
        return None
    return TrainingSummary.model_validate_json((Path(artifact.uri) / REPORT_FILE).read_text(encoding="utf-8"))


def _judged(step: Step | None) -> dict[str, Any]:
    if step is None or "evaluation" not in step.outputs:
        return {"tasks": {}, "notes": [], "blessed": None, "baseline": None}
    text = (Path(step.outputs["evaluation"].uri) / FILE_NAME).read_text(encoding="utf-8")
    verdict = Verdict.model_validate_json(text)
    tasks = {}
    for name, task in verdict.tasks.items():
        metrics = dict(task.metrics)
        tasks[name] = TaskSummary(
            auc=metrics.get("auc"),
            rmse=metrics.get("rmse"),
            metrics=metrics,
            intervals=task.intervals,
            gates=task.gates,
        )
    return {"tasks": tasks, "notes": list(verdict.notes), "blessed": verdict.blessed, "baseline": verdict.baseline}


def _served(step: Step | None) -> ServingVerdict | None:
    artifact = step.outputs.get("blessing") if step else None
    if artifact is None:
        return None
    text = (Path(artifact.uri) / infra_verdicts.FILE_NAME).read_text(encoding="utf-8")
    return ServingVerdict.model_validate_json(text)


def _both(*blessings: bool | None) -> bool | None:
    """Returns False if any verdict is a rejection, None if one is missing, else True."""
    if False in blessings:
        return False
    return None if None in blessings else True


def _pushed(step: Step | None) -> PushedSummary | None:
    artifact = step.outputs.get("pushed_model") if step else None
    if artifact is None or not artifact.properties.get("pushed"):
        return None
    return PushedSummary(version=str(artifact.properties["version"]), path=str(artifact.properties["path"]))
