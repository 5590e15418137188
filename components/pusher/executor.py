"""Pushes a blessed model, and nothing else."""

import datetime
import logging
import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils
from typing_extensions import assert_never

from components.evaluator import verdict as verdicts
from components.evaluator.verdict import Verdict
from components.example_gen.report import read_ingestion
from components.pusher import directory, manifest, object_store
from components.pusher.directory import Pushed
from components.pusher.manifest import Provenance
from schemas.release import DirectoryPush, NoPush, Push

_LOG = logging.getLogger(__name__)
# Any: with a warm cache mypy takes an annotated union for a value, with a cold one for a type.
_PUSH_TYPE: Any = Push
_PUSH: TypeAdapter[Any] = TypeAdapter(_PUSH_TYPE)

Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """Copies a blessed model to the declared target as a new version with a manifest."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Pushes, or marks the output as not pushed."""
        pushed_model = artifact_utils.get_single_instance(output_dict["pushed_model"])
        pushed_model.set_int_custom_property("pushed", 0)
        push: Push = _PUSH.validate_json(exec_properties["push"])
        verdict = _read_verdict(artifact_utils.get_single_uri(input_dict["evaluation"]))
        blessing = artifact_utils.get_single_instance(input_dict["blessing"])
        blessed = model_utils.is_model_blessed(blessing)
        if blessed != verdict.blessed:
            raise RuntimeError(f"{blessing.uri}: blessed={blessed} contradicts the verdict blessed={verdict.blessed}")
        if not blessed:
            _LOG.warning("pushed=false reason='the model is not blessed'")
            return
        match push:
            case NoPush():
                _LOG.info("pushed=false reason='push.kind is none'")
            case DirectoryPush():
                pushed = _push(push, input_dict, verdict, exec_properties)
                # A copy for whoever follows the artifact; the version's own one is what counts.
                # KFP, unlike a local run, does not make the folder.
                fileio.makedirs(pushed_model.uri)
                with fileio.open(os.path.join(pushed_model.uri, manifest.FILE_NAME), "w") as file:
                    file.write(pushed.manifest.text())
                pushed_model.set_int_custom_property("pushed", 1)
                pushed_model.set_string_custom_property("version", pushed.version)
                pushed_model.set_string_custom_property("path", pushed.path)
            case _:
                assert_never(push)


def _push(push: DirectoryPush, input_dict: Artifacts, verdict: Verdict, exec_properties: dict[str, Any]) -> Pushed:
    ingestion = read_ingestion(artifact_utils.get_single_uri(input_dict["examples"]))
    provenance = Provenance(
        name=exec_properties["name"],
        spec_digest=exec_properties["spec_digest"],
        git_commit=exec_properties["git_commit"],
        days={split: [str(day) for day in days] for split, days in ingestion.days.items()},
        missing_days=[str(day) for day in ingestion.missing_days],
        base_days=list(ingestion.base.days) if ingestion.base else [],
        metrics={task: judged.metrics for task, judged in verdict.tasks.items()},
        baseline=verdict.baseline,
        notes=verdict.notes,
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    day = manifest.day_of_version(provenance.days, now.date())
    model = path_utils.serving_model_path(artifact_utils.get_single_uri(input_dict["model"]))
    root = exec_properties["pipeline_root"]
    if "://" in root or "://" in model:
        target = object_store.target_uri(root, push.path)
        return object_store.push(model=model, target=target, day=day, provenance=provenance, now=now)
    folder = directory.target_folder(root, push.path)
    return directory.push(model=Path(model), target=folder, day=day, provenance=provenance, now=now)


def _read_verdict(evaluation_uri: str) -> Verdict:
    with fileio.open(os.path.join(evaluation_uri, verdicts.FILE_NAME), "rb") as file:
        return Verdict.model_validate_json(file.read())
