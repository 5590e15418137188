"""Writes the page of a run, however the run has ended."""

import datetime
import io
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from components.reports.page.collect import collect
from components.reports.page.facts import CostFacts, PastRun, Run, StepFacts
from components.reports.page.render import render
from pipelines.local.result.events import write_events
from pipelines.local.result.spec_file import read_settings, settings_by_path
from pipelines.local.result.summary import Summary, read_summaries
from pipelines.local.steps import Step
from schemas.contracts.root import PAGE_FILE, RunFolder
from schemas.files import tail, write_whole

_LOG = logging.getLogger(__name__)
_OUTPUTS = {
    "examples": ("example_gen", "examples"),
    "statistics": ("statistics_gen", "statistics"),
    "anomalies": ("example_validator", "anomalies"),
    "training": ("trainer", "training"),
    "evaluation": ("evaluator", "evaluation"),
    "infra": ("infra_validator", "blessing"),
}
"""Step and key of each output that the page shows."""
_PAST_DAYS = 30
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
        write_whole(path, render(_run(summary, log), facts))
        write_events(summary, facts.training["checkpoint"]["final_step"] if facts.training else 0)
    except Exception:  # noqa: BLE001 - the run's result stands without its picture
        _LOG.exception("event=page_failed")
        return None
    return path


def _run(summary: Summary, log: Path) -> Run:
    before = _before(summary)
    return Run(
        ranker=summary.name,
        name=summary.run,
        date=summary.date,
        status=summary.status,
        blessed=summary.blessed,
        pushed=summary.pushed.version if summary.pushed else None,
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
        past=_past(summary, before),
        spec=_spec(summary),
        spec_digest=summary.spec_digest,
        spec_changes=_spec_changes(summary, before),
        git_commit=summary.git_commit,
        base=summary.base,
    )


def _spec(summary: Summary) -> str:
    """Returns the spec without defaults, as YAML."""
    text = io.StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width = None, 120
    yaml.sort_base_mapping_type_on_output = False
    yaml.dump(json.loads(RunFolder(Path(summary.path)).spec.read_bytes()), text)
    return text.getvalue()


def _before(summary: Summary) -> list[tuple[RunFolder, Summary]]:
    """Returns the ranker's earlier runs in this root, oldest first."""
    root = RunFolder(Path(summary.path)).root
    runs = [] if root is None else [each for each in read_summaries(root) if each[1].name == summary.name]
    return sorted((each for each in runs if each[1].run < summary.run), key=lambda each: each[1].run)


def _spec_changes(summary: Summary, before: Sequence[tuple[RunFolder, Summary]]) -> list[tuple[str, str, str]] | None:
    """Returns what differs from the spec of the run before; None where that is not known."""
    own = read_settings(RunFolder(Path(summary.path)))
    earlier = read_settings(before[-1][0]) if before else None
    if own is None or earlier is None:
        return None
    old, new = settings_by_path(earlier), settings_by_path(own)
    return [
        (path, _shown(old, path), _shown(new, path))
        for path in dict.fromkeys((*old, *new))
        if old.get(path) != new.get(path)
    ]


def _shown(settings: Mapping[str, Any], path: str) -> str:
    return json.dumps(settings[path]) if path in settings else "–"


def _advice(summary: Summary) -> list[str]:
    if summary.status == "succeeded":
        return []
    return [
        "Run the same command again once the cause is mended: finished steps come from the cache, and training goes on "
        "from its last checkpoint.",
        f"`sangam why {summary.path}` says the same in the terminal; the whole logs are in {summary.path}/logs.",
    ]


def _past(summary: Summary, before: Sequence[tuple[RunFolder, Summary]]) -> list[PastRun]:
    """Returns the last run of each of the days before, oldest first."""
    if summary.date is None:
        return []
    first = str(datetime.date.fromisoformat(summary.date) - datetime.timedelta(days=_PAST_DAYS))
    # Of the same date, the last run replaces the others.
    by_date = {
        other.date: PastRun(
            other.run, other.date, {name: task.auc for name, task in other.tasks.items()}, bool(other.blessed)
        )
        for _, other in before
        if other.date and first <= other.date < summary.date and other.tasks
    }
    return [by_date[date] for date in sorted(by_date)]
