"""The trainer's execution: writes the job file, runs the job's processes as one group, reports how it went."""

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.trainer.process_group import run_group
from schemas.data import EVAL, TRAIN, VALIDATION
from schemas.errors import UserError
from schemas.spec import Ranker, digest

_LOG = logging.getLogger(__name__)
LOG_DIR_VARIABLE = "SANGAM_LOG_DIR"
_LAUNCHER = "trainer_module.launch"
_FAILURE_FILE = "failure.txt"


class TrainingFailed(UserError):
    """The training job failed; the text holds the end of the failing process's log."""


class Executor(base_executor.BaseExecutor):
    """Runs one training job to its end."""

    def Do(self, input_dict: dict[str, Any], output_dict: dict[str, Any], exec_properties: dict[str, Any]) -> None:
        """Trains and exports.

        Raises:
            TrainingFailed: when a process of the job failed, hung, or took too long.
        """
        ranker = Ranker.model_validate_json(exec_properties["ranker"])
        model = artifact_utils.get_single_instance(output_dict["model"])
        training = artifact_utils.get_single_instance(output_dict["training"])
        transformed = input_dict["transformed_examples"]
        log_dir = _log_dir()
        job = {
            "ranker": json.loads(exec_properties["ranker"]),
            "spec_digest": digest(ranker),
            "train_files": _files(transformed, TRAIN),
            "validation_files": _files(transformed, VALIDATION),
            "check_files": _files(input_dict["examples"], EVAL),
            "transform_graph": _local(artifact_utils.get_single_uri(input_dict["transform_graph"])),
            "model_dir": _local(path_utils.serving_model_dir(model.uri)),
            "output_dir": _local(training.uri),
            "log_dir": str(log_dir),
        }
        job_file = log_dir / "job.json"
        job_file.write_text(json.dumps(job, indent=2))
        code = run_group([_LAUNCHER, str(job_file), str(os.getpid())], log=log_dir / "launch.log")
        if code != 0:
            failure = log_dir / _FAILURE_FILE
            reason = failure.read_text() if failure.exists() else f"training: the launcher ended with code {code}"
            raise TrainingFailed(f"{reason}\nAll logs: {log_dir}")
        report = json.loads(Path(job["output_dir"], "training.json").read_text())
        _LOG.info("trained examples=%d seconds=%.1f", report["examples"], report["seconds"])
        for artifact in (model, training):
            artifact.set_string_custom_property("spec_digest", job["spec_digest"])


def _log_dir() -> Path:
    """Returns a folder outside the outputs, which TFX deletes when a step fails."""
    given = os.environ.get(LOG_DIR_VARIABLE)
    directory = Path(given) if given else Path(tempfile.mkdtemp(prefix="sangam-training-"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _files(examples: list[Any], split: str) -> list[str]:
    artifact = artifact_utils.get_single_instance(examples)
    if split not in artifact_utils.decode_split_names(artifact.split_names):
        return []
    directory = Path(_local(artifact_utils.get_split_uri(examples, split)))
    return sorted(str(file) for file in directory.iterdir() if file.is_file())


def _local(uri: str) -> str:
    if "://" in uri:
        raise UserError(f"trainer: works on mounted paths (got {uri}); mount the store, or use a path as pipeline root")
    return os.path.abspath(uri)
