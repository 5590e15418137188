"""Writes the record of a run and draws its page, from the outputs of its steps."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from sangam.components.page.collect import collect
from sangam.components.page.facts import PageContext
from sangam.components.page.render import draw
from sangam.components.record.kubeflow import record_of
from sangam.components.record.run import Pushed, RunRecord
from sangam.components.record.store import write_record
from sangam.components.registry.seal import SHA256
from sangam.components.reports.artifact_files import read_ingestion
from sangam.components.reports.curves import Curve
from sangam.components.reports.spec_file import read_spec, write_document
from sangam.components.steps.reporter.metrics import CURVE, metrics_of, roc
from sangam.schemas.contracts.root import Root
from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger(__name__)
Artifacts = dict[str, list[Any]]
DISPLAY_NAME = "display_name"
"""Property with the name that Kubeflow's pages show; by default the name of the output."""


class Executor(base_executor.BaseExecutor):
    """Writes `summary.json` and `report.html` into the run's folder, and the page and its numbers into its outputs."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Draws the page. The model is pushed already: errors here are only logged."""
        try:
            _draw(input_dict, output_dict, exec_properties)
        except Exception:  # noqa: BLE001 - the run's result stands without its picture
            _LOG.exception("event=page_failed")


def _draw(input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
    run = Root(exec_properties["pipeline_root"]).run(exec_properties["run"])
    run.path.mkdir(parents=True, exist_ok=True)
    document = json.loads(exec_properties["spec"])
    write_document(run, document)
    inputs = {name: Path(artifact_utils.get_single_uri(found)) for name, found in input_dict.items()}
    record = record_of(
        run,
        document["name"],
        read_ingestion(str(inputs["examples"])).date,
        inputs,
        now=time.time(),
        spec=read_spec(run),
        mode=document["training"].get("mode", "full"),
        pushed=_pushed(artifact_utils.get_single_instance(input_dict["pushed_model"])),
        spec_digest=exec_properties["spec_digest"],
        git_commit=exec_properties["git_commit"] or None,
    )
    write_record(record)
    facts = collect(inputs)
    _show(record, facts.curves, output_dict)
    model = artifact_utils.get_single_instance(input_dict["model"])
    page = draw(record, facts, PageContext(str(inputs["checkpoint"]), model.get_string_custom_property(SHA256)))
    output = Path(artifact_utils.get_single_uri(output_dict["page"]))
    # Every output is made as an empty folder. Kubeflow's pages show a file.
    output.rmdir()
    write_whole(output, page.read_bytes())
    _LOG.info("event=page_drawn page=%s", page)


def _show(record: RunRecord, curves: Mapping[str, Curve], output_dict: Artifacts) -> None:
    """Writes metrics and curves into the metadata of their outputs."""
    metrics = artifact_utils.get_single_instance(output_dict["metrics"])
    for name, value in metrics_of(record).items():
        metrics.set_float_custom_property(name, value)
    for task, curve in curves.items():
        found = artifact_utils.get_single_instance(output_dict[f"{CURVE}{task}"])
        found.set_string_custom_property(DISPLAY_NAME, task)
        if points := roc(curve):
            found.set_json_value_custom_property("confidenceMetrics", points)


def _pushed(pushed_model: Any) -> Pushed | None:
    if pushed_model.get_int_custom_property("pushed") != 1:
        return None
    fields = {name: pushed_model.get_string_custom_property(name) for name in Pushed.model_fields}
    return Pushed.model_validate(fields)
