"""Writes the record of a run and draws its page, from the outputs of its steps."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from sangam.components.page.collect import collect
from sangam.components.page.facts import PageContext
from sangam.components.page.render import draw
from sangam.components.record.kubeflow import record_of
from sangam.components.record.run import Pushed
from sangam.components.record.store import write_record
from sangam.components.registry.seal import SHA256
from sangam.components.reports.artifact_files import read_ingestion
from sangam.components.reports.spec_file import write_document
from sangam.schemas.contracts.root import PAGE_FILE, Root
from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger(__name__)
Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """Writes `summary.json` into the run's folder, and `report.html` there and into its output."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Draws the page. The model is pushed already: errors here are only logged."""
        folder = Path(artifact_utils.get_single_uri(output_dict["page"]))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _draw(folder, input_dict, exec_properties)
        except Exception:  # noqa: BLE001 - the run's result stands without its picture
            _LOG.exception("event=page_failed")


def _draw(folder: Path, input_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
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
        mode=document["training"].get("mode", "full"),
        pushed=_pushed(artifact_utils.get_single_instance(input_dict["pushed_model"])),
        spec_digest=exec_properties["spec_digest"],
        git_commit=exec_properties["git_commit"] or None,
    )
    write_record(record)
    model = artifact_utils.get_single_instance(input_dict["model"])
    page = draw(
        record, collect(inputs), PageContext(str(inputs["checkpoint"]), model.get_string_custom_property(SHA256))
    )
    write_whole(folder / PAGE_FILE, page.read_bytes())
    _LOG.info("event=page_drawn page=%s", page)


def _pushed(pushed_model: Any) -> Pushed | None:
    if pushed_model.get_int_custom_property("pushed") != 1:
        return None
    fields = {name: pushed_model.get_string_custom_property(name) for name in Pushed.model_fields}
    return Pushed.model_validate(fields)
