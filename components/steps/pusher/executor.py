"""Pushes a model that all gates have blessed."""

import datetime
import functools
import logging
import os
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

from pydantic import TypeAdapter
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils

from sangam.components.drift.reference import reference_of
from sangam.components.registry import blessed as registry
from sangam.components.registry import checkpoint as checkpoints
from sangam.components.registry import seal
from sangam.components.reports import evaluation as evaluation
from sangam.components.reports import serving as serving_report
from sangam.components.reports.artifact_files import read_curves, read_ingestion
from sangam.components.reports.evaluation import Verdict
from sangam.components.reports.ingestion import IngestionReport
from sangam.components.reports.serving import ServingVerdict
from sangam.components.steps.pusher import directory, manifest, object_store
from sangam.components.steps.pusher.directory import Pushed
from sangam.components.steps.pusher.manifest import Provenance
from sangam.components.steps.pusher.model_card import CardFacts, Rows, model_card
from sangam.schemas.contracts.drift_reference import DriftReference
from sangam.schemas.contracts.export import DESCRIPTION_FILE, Description, read_description
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.cost import Cost
from sangam.schemas.spec.data import TRAIN, VALIDATION
from sangam.schemas.spec.drift import Drift
from sangam.schemas.spec.release import DirectoryPush, Evaluation, NoPush, Push
from sangam.schemas.spec.serving import InShadow, RequestLog

_LOG = logging.getLogger(__name__)
# Any: mypy takes an annotated union for a value with a warm cache, and for a type with a cold one.
_PUSH_TYPE: Any = Push
_PUSH: TypeAdapter[Any] = TypeAdapter(_PUSH_TYPE)

Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """Pushes a blessed model as a new version with a manifest and a model card.

    It also records the blessing: only recorded models become the baseline or the base of later runs.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Pushes, or marks the output as not pushed."""
        pushed_model = artifact_utils.get_single_instance(output_dict["pushed_model"])
        pushed_model.set_int_custom_property("pushed", 0)
        push: Push = _PUSH.validate_json(exec_properties["push"])
        verdict = Verdict.model_validate_json(_read(input_dict["evaluation"], evaluation.FILE_NAME))
        serving = ServingVerdict.model_validate_json(_read(input_dict["infra_blessing"], serving_report.FILE_NAME))
        blessing = artifact_utils.get_single_instance(input_dict["blessing"])
        _require_agreement(blessing, model_utils.is_model_blessed(blessing), verdict.blessed)
        infra_blessing = artifact_utils.get_single_instance(input_dict["infra_blessing"])
        _require_agreement(infra_blessing, model_utils.is_infra_validated(infra_blessing), serving.blessed)
        if not (verdict.blessed and serving.blessed):
            by = [name for name, ok in (("evaluator", verdict.blessed), ("infra_validator", serving.blessed)) if not ok]
            _LOG.warning("pushed=false reason='not blessed by %s'", " and ".join(by))
            return
        model = artifact_utils.get_single_instance(input_dict["model"])
        seal.refuse_changed(path_utils.serving_model_path(model.uri), model.get_string_custom_property(seal.SHA256))
        pushed_path = ""
        match push:
            case NoPush():
                _LOG.info("pushed=false reason='push.kind is none'")
            case DirectoryPush():
                pushed = _push(push, input_dict, verdict, serving, exec_properties)
                # A copy for readers of the artifact; the version has the original.
                # Unlike a local run, KFP does not create the folder.
                fileio.makedirs(pushed_model.uri)
                with fileio.open(os.path.join(pushed_model.uri, manifest.FILE_NAME), "w") as file:
                    file.write(pushed.manifest.text())
                pushed_model.set_int_custom_property("pushed", 1)
                pushed_model.set_string_custom_property("version", pushed.version)
                pushed_model.set_string_custom_property("path", pushed.path)
                if pushed.shadow_of:
                    pushed_model.set_string_custom_property("shadow_of", pushed.shadow_of)
                pushed_path = posixpath.join(push.folder, pushed.version)
            case _:
                assert_never(push)
        _register(input_dict, verdict, exec_properties, pushed_path)


def _register(input_dict: Artifacts, verdict: Verdict, exec_properties: dict[str, Any], pushed: str) -> None:
    when = datetime.datetime.fromisoformat(verdict.when) if verdict.when else None  # Set only for manual blessings.
    model = artifact_utils.get_single_instance(input_dict["model"])
    registry.record(
        Root(exec_properties["pipeline_root"]).blessed(exec_properties["name"]),
        registry.BlessedModel(
            model_uri=model.uri,
            model_sha256=model.get_string_custom_property(seal.SHA256),
            ranker_digest=exec_properties["ranker_digest"],
            blessed_at=when or datetime.datetime.now(datetime.UTC),
            metrics={task: judged.metrics for task, judged in verdict.tasks.items()},
            because=verdict.because,
            by=verdict.by,
            pushed=pushed,
            pushes=exec_properties.get("pushes") or 0,  # Missing on Kubeflow Pipelines, which runs no driver.
            **checkpoints.recorded(artifact_utils.get_single_instance(input_dict["checkpoint"])),
        ),
    )


def _push(
    push: DirectoryPush,
    input_dict: Artifacts,
    verdict: Verdict,
    serving: ServingVerdict,
    exec_properties: dict[str, Any],
) -> Pushed:
    ingestion = read_ingestion(artifact_utils.get_single_uri(input_dict["examples"]))
    trained_days = checkpoints.recorded(artifact_utils.get_single_instance(input_dict["checkpoint"]))["days"]
    provenance = _provenance(ingestion, trained_days, verdict, exec_properties)
    now = datetime.datetime.now(datetime.UTC)
    day = manifest.day_of_version(provenance.days, now.date())
    model = path_utils.serving_model_path(artifact_utils.get_single_uri(input_dict["model"]))
    facts = CardFacts(
        provenance=provenance,
        rows={name: Rows(split.written, split.left_out, split.joined) for name, split in ingestion.splits.items()},
        verdict=verdict,
        serving=serving,
        evaluation=Evaluation.model_validate_json(exec_properties["evaluation_config"]),
        cost=Cost.model_validate_json(exec_properties["cost"]) if exec_properties["cost"] else None,
        intended_use=exec_properties["intended_use"],
        model=_description(model),
        meaning=ingestion.meaning,
    )
    card = functools.partial(model_card, facts=facts)
    reference = _reference(input_dict, exec_properties).text()
    root = exec_properties["pipeline_root"]
    if push.is_on_store or "://" in root or "://" in model:
        if push.after is not None:
            raise UserError(
                f"push.after: needs a pipeline root that is a folder (got {root}); mount it, or leave it out"
            )
        target = push.folder if push.is_on_store else object_store.target_uri(root, push.path)
        return object_store.push(
            model=model, target=target, day=day, provenance=provenance, card=card, now=now, reference=reference
        )
    folder = directory.target_folder(root, push.path)
    return directory.push(
        model=Path(model),
        target=folder,
        day=day,
        provenance=provenance,
        card=card,
        now=now,
        reference=reference,
        after_hours=push.hours if push.after else None,
    )


def _reference(input_dict: Artifacts, exec_properties: dict[str, Any]) -> DriftReference:
    """Returns what servers compare their requests with."""
    statistics = artifact_utils.get_single_instance(input_dict["statistics"])
    drift = exec_properties["drift"]
    return reference_of(
        Inputs.model_validate_json(exec_properties["inputs"]),
        Drift.model_validate_json(drift) if drift else None,
        stats_artifact_utils.load_statistics(statistics, TRAIN).proto(),
        read_curves(artifact_utils.get_single_uri(input_dict["evaluation"])),
    )


def _provenance(
    ingestion: IngestionReport, trained_days: Sequence[str], verdict: Verdict, exec_properties: dict[str, Any]
) -> Provenance:
    return Provenance(
        name=exec_properties["name"],
        spec_digest=exec_properties["spec_digest"],
        git_commit=exec_properties["git_commit"],
        days={split: [str(day) for day in days] for split, days in ingestion.days.items()},
        missing_days=[str(day) for day in ingestion.missing_days],
        refit_days=[day for day in ingestion.days.get(VALIDATION, []) if day in trained_days],
        base_days=list(ingestion.base.days) if ingestion.base else [],
        metrics={task: judged.metrics for task, judged in verdict.tasks.items()},
        baseline=verdict.baseline,
        notes=verdict.notes,
        request_log=RequestLog.model_validate_json(log) if (log := exec_properties["request_log"]) else None,
        shadow=InShadow.model_validate_json(shadow) if (shadow := exec_properties["shadow"]) else None,
    )


def _require_agreement(blessing: Any, blessed: bool, in_verdict: bool) -> None:
    if blessed != in_verdict:
        raise RuntimeError(f"{blessing.uri}: blessed={blessed} contradicts the verdict blessed={in_verdict}")


def _description(model: str) -> Description | None:
    """Returns the model's description; the serving gate has refused a model without one."""
    path = os.path.join(model, DESCRIPTION_FILE)
    if not fileio.exists(path):
        return None
    with fileio.open(path, "rb") as file:
        return read_description(path, file.read())


def _read(artifacts: list[Any], name: str) -> bytes:
    with fileio.open(os.path.join(artifact_utils.get_single_uri(artifacts), name), "rb") as file:
        contents: bytes = file.read()
    return contents
