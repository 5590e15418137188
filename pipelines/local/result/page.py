"""Writes the page of a run, however the run has ended."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.registry.seal import SHA256
from components.reports.page.collect import collect
from components.reports.page.facts import CostFacts, PastRun, Run, StepFacts
from components.reports.page.past import past_runs
from components.reports.page.render import render
from components.reports.spec_file import spec_changes, spec_text
from pipelines.local.result.events import write_events
from pipelines.local.result.summary import Summary, read_summaries
from pipelines.local.steps import Artifact, Step
from schemas.contracts.root import PAGE_FILE, RunFolder
from schemas.host.files import tail, write_whole

_LOG = logging.getLogger(__name__)
_OUTPUTS = {
    "examples": ("example_gen", "examples"),
    "statistics": ("statistics_gen", "statistics"),
    "anomalies": ("example_validator", "anomalies"),
    "training": ("trainer", "training"),
    "evaluation": ("evaluator", "evaluation"),
    "infra_blessing": ("infra_validator", "blessing"),
}
"""Step and key of each output that the page shows."""
_TAIL_LINES = 40


def write_page(summary: Summary, steps: Sequence[Step], log: Path) -> Path | None:
    """Writes `report.html` into the run's folder, and its results for TensorBoard; what cannot be made fails no run.

    Args:
        summary: of the run.
        steps: that have ended.
        log: that says most about an error.

    Returns:
        The file; None: it could not be made, and the log says why.
    """
    try:
        by_node = {step.node: step.outputs for step in steps}
        outputs = {
            name: Path(by_node[node][key].uri) for name, (node, key) in _OUTPUTS.items() if key in by_node.get(node, {})
        }
        facts, path = collect(outputs), Path(summary.path) / PAGE_FILE
        write_whole(path, render(_run(summary, by_node.get("trainer", {}), log), facts))
        write_events(summary, facts.training["checkpoint"]["final_step"] if facts.training else 0)
    except Exception:  # noqa: BLE001 - the run's result stands without its picture
        _LOG.exception("event=page_failed")
        return None
    return path


def _run(summary: Summary, trained: Mapping[str, Artifact], log: Path) -> Run:
    before, own = _before(summary), RunFolder(Path(summary.path))
    return Run(
        ranker=summary.name,
        name=summary.run,
        date=summary.date,
        status=summary.status,
        blessed=summary.blessed,
        pushed=summary.pushed.version if summary.pushed else None,
        checkpoint=trained["checkpoint"].uri if "checkpoint" in trained else None,
        model_sha256=trained["model"].properties.get(SHA256) if "model" in trained else None,
        error=summary.error,
        failed_step=summary.failed_step,
        log_tail=tail(log, _TAIL_LINES).splitlines() if summary.error else [],
        advice=_advice(summary),
        notes=summary.notes,
        steps=[
            StepFacts(
                name,
                step.state,
                step.seconds,
                step.cpu_seconds,
                step.peak_memory_bytes,
                summary.cost.by_step.get(name) if summary.cost else None,
            )
            for name, step in summary.steps.items()
        ],
        cost=CostFacts(**summary.cost.model_dump(exclude={"by_step"})) if summary.cost else None,
        seconds=summary.total_seconds,
        past=past_runs([_past(other) for _, other in before if other.tasks], summary.date),
        spec=spec_text(own),
        spec_digest=summary.spec_digest,
        spec_changes=spec_changes(before[-1][0], own) if before else None,
        git_commit=summary.git_commit,
        base=summary.base,
    )


def _before(summary: Summary) -> list[tuple[RunFolder, Summary]]:
    """Returns the ranker's earlier runs in this root, oldest first."""
    root = RunFolder(Path(summary.path)).root
    runs = [] if root is None else [each for each in read_summaries(root) if each[1].name == summary.name]
    return sorted((each for each in runs if each[1].run < summary.run), key=lambda each: each[1].run)


def _advice(summary: Summary) -> list[str]:
    if summary.status == "succeeded":
        return []
    return [
        "Run the same command again once the cause is mended: finished steps come from the cache, and training goes on "
        "from its last checkpoint.",
        f"`sangam why {summary.path}` says the same in the terminal; the whole logs are in {summary.path}/logs.",
    ]


def _past(other: Summary) -> PastRun:
    return PastRun(other.run, other.date, {name: task.auc for name, task in other.tasks.items()}, bool(other.blessed))
