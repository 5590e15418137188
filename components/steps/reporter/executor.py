"""Draws the page of a run from the outputs of its steps."""

import datetime
import json
import logging
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.registry.seal import SHA256
from components.reports.page.collect import collect
from components.reports.page.facts import Facts, Run
from components.reports.page.kept import Result, keep, kept_before
from components.reports.page.past import past_runs
from components.reports.page.render import render
from components.reports.spec_file import spec_changes, spec_text, write_document
from schemas.contracts.root import PAGE_FILE, Root
from schemas.host.files import write_whole
from schemas.spec.data import EVAL

_LOG = logging.getLogger(__name__)
Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """Writes `report.html` into its output and into the run's folder."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Draws the page. The model is pushed already: errors here are only logged."""
        folder = Path(artifact_utils.get_single_uri(output_dict["page"]))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _draw(folder, input_dict, exec_properties)
        except Exception:  # noqa: BLE001 - the run's result stands without its picture
            _LOG.exception("event=page_failed")


def _draw(folder: Path, input_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
    root = Root(exec_properties["pipeline_root"])
    own = root.run(exec_properties["run"])
    own.path.mkdir(parents=True, exist_ok=True)
    document = json.loads(exec_properties["spec"])
    write_document(own, document)
    facts = collect({name: Path(artifact_utils.get_single_uri(found)) for name, found in input_dict.items()})
    earlier = kept_before(root, own, document["name"])
    date = _last_day(facts)
    run = Run(
        ranker=document["name"],
        name=exec_properties["run"],
        date=date,
        status="succeeded",
        blessed=_is_blessed(facts),
        pushed=_version(artifact_utils.get_single_instance(input_dict["pushed_model"])),
        checkpoint=artifact_utils.get_single_uri(input_dict["checkpoint"]),
        model_sha256=artifact_utils.get_single_instance(input_dict["model"]).get_string_custom_property(SHA256),
        notes=_notes(facts),
        past=past_runs([result.past(other.path.name) for other, result in earlier], date),
        spec=spec_text(own),
        spec_digest=exec_properties["spec_digest"],
        spec_changes=spec_changes(earlier[-1][0], own) if earlier else None,
        git_commit=exec_properties["git_commit"] or None,
        base=facts.ingestion.base.checkpoint_uri if facts.ingestion and facts.ingestion.base else None,
    )
    page = render(run, facts)
    write_whole(folder / PAGE_FILE, page)
    write_whole(own.page, page)
    aucs = {name: task.metrics.get("auc") for name, task in facts.verdict.tasks.items()} if facts.verdict else {}
    keep(own, Result(ranker=run.ranker, date=date, auc=aucs, blessed=bool(run.blessed), ended=_now()))
    _LOG.info("event=page_drawn page=%s", own.page)


def _last_day(facts: Facts) -> str | None:
    days = facts.ingestion.days.get(EVAL, []) if facts.ingestion else []
    return str(days[-1]) if days else None


def _is_blessed(facts: Facts) -> bool | None:
    if facts.verdict is None or facts.serving is None:
        return None
    return facts.verdict.blessed and facts.serving.blessed


def _version(pushed_model: Any) -> str | None:
    is_pushed = pushed_model.get_int_custom_property("pushed") == 1
    return pushed_model.get_string_custom_property("version") if is_pushed else None


def _notes(facts: Facts) -> list[str]:
    notes = list(facts.ingestion.notes) if facts.ingestion else []
    notes += (facts.training or {}).get("notes", [])
    notes += facts.verdict.notes if facts.verdict else []
    return [*notes, *(facts.serving.notes if facts.serving else [])]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
