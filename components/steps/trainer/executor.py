"""Writes the job file, runs the training job as processes or as pods, and describes its artifacts."""

import json
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import path_utils

from sangam.components.examples.listing import Listing, read_listing
from sangam.components.registry import checkpoint as checkpoints
from sangam.components.registry import seal
from sangam.components.reports.artifact_files import read_ingestion, read_statistics
from sangam.components.reports.ingestion import IngestionReport
from sangam.components.steps.trainer.attempts import run_to_the_end
from sangam.components.steps.trainer.kubernetes.launch import refuse_unshared, run_pods, write_shared_job
from sangam.components.steps.trainer.kubernetes.run import TrainingRun, run_name
from sangam.components.steps.trainer.unfinished import begin, checkpoint_dir, forget, longest_s
from sangam.schemas.contracts import monitoring
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, write_job
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec, digest
from sangam.schemas.spec.cluster import Launch
from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION

_LOG = logging.getLogger(__name__)
LOG_DIR_VARIABLE = "SANGAM_LOG_DIR"

Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """Runs one training job."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Trains and exports.

        Raises:
            TrainingFailed: if a process of the job failed, hung, or took too long.
        """
        ranker = RankerSpec.model_validate_json(exec_properties["ranker"])
        report = read_ingestion(artifact_utils.get_single_uri(input_dict["examples"]))
        _refuse_changed(report, input_dict)
        if exec_properties.get("launch"):
            job = _run_pods(ranker, report, input_dict, output_dict, exec_properties)
        else:
            job = _run_processes(ranker, report, input_dict, output_dict, exec_properties)
        training = json.loads(job.report_file.read_text())
        _LOG.info("trained examples=%d seconds=%.1f", training["examples"], training["seconds"])
        for key in ("model", "training"):
            artifact = artifact_utils.get_single_instance(output_dict[key])
            artifact.set_string_custom_property("spec_digest", job.spec_digest)
        model = artifact_utils.get_single_instance(output_dict["model"])
        model.set_string_custom_property(seal.SHA256, seal.seal(job.model_dir))
        checkpoint = artifact_utils.get_single_instance(output_dict["checkpoint"])
        checkpoint.set_int_custom_property(checkpoints.STEP, training["checkpoint"]["final_step"])
        checkpoint.set_string_custom_property(seal.SHA256, checkpoints.sha256_of_manifest(_local(checkpoint.uri)))
        _describe(checkpoint, job, report, training["days"], input_dict)
        # Last: before this, a rerun continues from these checkpoints.
        forget(Path(job.checkpoint_dir), longest_s=longest_s(ranker))


def _refuse_changed(report: IngestionReport, input_dict: Artifacts) -> None:
    """Refuses a graph or a base that has changed since it was written or blessed."""
    graph = artifact_utils.get_single_instance(input_dict["transform_graph"])
    seal.refuse_changed(_local(graph.uri), graph.get_string_custom_property(seal.SHA256))
    if report.base:
        checkpoints.refuse_changed_checkpoint(_local(report.base.checkpoint_uri), report.base.checkpoint_sha256)


def _run_processes(
    ranker: RankerSpec,
    report: IngestionReport,
    input_dict: Artifacts,
    output_dict: Artifacts,
    exec_properties: dict[str, Any],
) -> TrainJob:
    """Trains in processes of this machine, and returns the job."""
    log_dir = _log_dir()
    job = _job(ranker, report, input_dict, output_dict, exec_properties, log_dir)
    job = job.model_copy(update={"monitoring": _monitored(exec_properties["pipeline_root"], log_dir)})
    begin(Path(job.checkpoint_dir), longest_s=longest_s(ranker))
    job_file = log_dir / JOB_FILE
    write_job(job_file, job)
    run_to_the_end(job_file, log_dir)
    return job


def _monitored(root: str, log_dir: Path) -> monitoring.Monitored | None:
    """Returns the metrics settings of this machine's processes; a change of the step's parameters would train again."""
    targets = log_dir if "://" in root else Root(_local(root)).metrics
    return monitoring.on_this_machine(monitoring.from_variables(os.environ), targets, "sangam-trainer")


def _run_pods(
    ranker: RankerSpec,
    report: IngestionReport,
    input_dict: Artifacts,
    output_dict: Artifacts,
    exec_properties: dict[str, Any],
) -> TrainJob:
    """Trains in pods that share this pod's files, and returns the job."""
    launch = Launch.model_validate_json(exec_properties["launch"])
    root = _local(exec_properties["pipeline_root"])
    job = _job(ranker, report, input_dict, output_dict, exec_properties, Path(root))
    # The same training has the same checkpoints, logs and pod names in every try of the step.
    identity = Path(job.checkpoint_dir).name
    log_dir = Root(root).training(ranker.name, identity)
    told = monitoring.in_pods(monitoring.from_variables(os.environ))
    job = job.model_copy(update={"log_dir": str(log_dir), "monitoring": told})
    refuse_unshared(launch, job)
    log_dir.mkdir(parents=True, exist_ok=True)
    begin(Path(job.checkpoint_dir), longest_s=longest_s(ranker))
    run = TrainingRun(
        run_name(ranker.name, identity),
        launch,
        ranker.cluster,
        str(write_shared_job(log_dir, job)),
        servers=ranker.num_parameter_servers,
        ranker=ranker.name,
        metrics_port=None if told is None else told.port,
    )
    run_pods(run, log_dir)
    return job


def _job(
    ranker: RankerSpec,
    report: IngestionReport,
    input_dict: Artifacts,
    output_dict: Artifacts,
    exec_properties: dict[str, Any],
    log_dir: Path,
) -> TrainJob:
    transformed = input_dict.get("transformed_examples")
    files, raw = _listed(transformed or input_dict["examples"]), _listed(input_dict["examples"])
    graph = _local(artifact_utils.get_single_uri(input_dict["transform_graph"]))
    train_files = _files(files, TRAIN)
    base = os.path.join(_local(report.base.checkpoint_uri), checkpoints.FOLDER) if report.base else ""
    checkpoint = artifact_utils.get_single_uri(output_dict["checkpoint"])
    root = exec_properties["pipeline_root"]
    unfinished = checkpoint_dir(
        # Ranks cannot write to an object store: there, checkpoints serve only the retries of this execution.
        str(log_dir) if "://" in root else _local(root),
        ranker=ranker,
        code=exec_properties["code"],
        train_files=train_files,
        transform_graph=graph,
        base=base,
    )
    return TrainJob(
        ranker=_with_epochs(ranker, has_base=bool(report.base)),
        spec_digest=digest(ranker),
        transform="ahead" if transformed else "in_pool",
        train_files=train_files,
        num_train_examples=files.rows(TRAIN),
        validation_files=_files(files, VALIDATION),
        check_files=_files(raw, EVAL),
        id_files=(*_files(raw, TRAIN), *_files(raw, VALIDATION)) if ranker.export.ids else (),
        base_model=_local(path_utils.serving_model_dir(report.base.model_uri)) if report.base else "",
        transform_graph=graph,
        model_dir=_local(path_utils.serving_model_dir(artifact_utils.get_single_uri(output_dict["model"]))),
        output_dir=_local(artifact_utils.get_single_uri(output_dict["training"])),
        final_checkpoint=os.path.join(_local(checkpoint), checkpoints.FOLDER),
        checkpoint_dir=str(unfinished),
        base_checkpoint=base,
        changed_features=_changed_features(input_dict) if base else (),
        days=tuple(report.days.get(TRAIN, ())),
        validation_days=tuple(report.days.get(VALIDATION, ())),
        log_dir=str(log_dir),
    )


def _changed_features(input_dict: Artifacts) -> tuple[str, ...]:
    """Returns the features whose statistics differ from the base's."""
    statistics, gone = read_statistics(artifact_utils.get_single_uri(input_dict["transform_graph"]))
    if statistics is None:
        raise UserError(f"trainer: {gone}; run the step transform again")
    return statistics.changed


def _with_epochs(ranker: RankerSpec, *, has_base: bool) -> RankerSpec:
    """Returns the ranker with the number of epochs of this training."""
    epochs = ranker.training.incremental_epochs if has_base else None
    return ranker.model_copy(
        update={"training": ranker.training.model_copy(update={"epochs": epochs or ranker.training.epochs})}
    )


def _describe(
    checkpoint: Any, job: TrainJob, report: IngestionReport, days: Sequence[str], input_dict: Artifacts
) -> None:
    """Sets the checkpoint's properties for later trainings and the registry."""
    graph = artifact_utils.get_single_instance(input_dict["transform_graph"])
    for name, text in {
        checkpoints.DAYS: json.dumps(list(days)),
        checkpoints.BASE: report.base.checkpoint_uri if report.base else "",
        checkpoints.SPEC_DIGEST: job.spec_digest,
        checkpoints.TRANSFORM_GRAPH: graph.uri,
        checkpoints.TRANSFORM_GRAPH_SHA256: graph.get_string_custom_property(seal.SHA256),
        checkpoints.INPUTS_DIGEST: digest(job.ranker.inputs()),
    }.items():
        checkpoint.set_string_custom_property(name, text)


def _log_dir() -> Path:
    """Returns a folder for logs outside the outputs, which TFX deletes when a step fails."""
    given = os.environ.get(LOG_DIR_VARIABLE)
    directory = Path(given) if given else Path(tempfile.mkdtemp(prefix="sangam-training-"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _listed(examples: list[Any]) -> Listing:
    return read_listing(artifact_utils.get_single_uri(examples))


def _files(listing: Listing, split: str) -> tuple[str, ...]:
    return tuple(map(_local, listing.files(split)))


def _local(uri: str) -> str:
    if "://" in uri:
        raise UserError(f"trainer: works on mounted paths (got {uri}); mount the store, or use a path as pipeline root")
    return os.path.abspath(uri)
