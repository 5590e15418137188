"""Serves the exported model from a separate process, and decides whether it may be pushed."""

import dataclasses
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import path_utils

from sangam.components.registry import seal
from sangam.components.registry.blessed import baseline_for, read_all
from sangam.components.reports.serving import FILE_NAME, Check, ServingVerdict
from sangam.components.steps.infra_validator.bounds import notes_on_bounds, size_check
from sangam.components.steps.infra_validator.driver import MODEL
from sangam.components.steps.infra_validator.examination import Examination, Reference
from sangam.components.steps.infra_validator.predict import RequestFailed
from sangam.components.steps.infra_validator.price import Live, Price, measure_price, price_check
from sangam.components.steps.infra_validator.rows import Unfit, read_description
from sangam.components.steps.infra_validator.scores import Scores, difference
from sangam.components.steps.infra_validator.server_process import serve
from sangam.components.steps.infra_validator.skew import Declared, with_skew
from sangam.schemas.contracts.export import CHECK_EXAMPLES_FILE, CHECK_SCORES_FILE, SERVED_SCORES_FILE
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.spec.release import Evaluation
from sangam.schemas.spec.serving import Serving

_LOG = logging.getLogger(__name__)
LOG_DIR_VARIABLE = "SANGAM_LOG_DIR"
MARKS = {True: "INFRA_BLESSED", False: "INFRA_NOT_BLESSED"}
"""Names of tfx.components.infra_validator.executor, which imports the clients of Kubernetes and Docker."""

_REQUEST_BYTES = 8 * 2**20
"""Half of a server's default limit: columns with padded lists can be larger than serialized examples."""

Artifacts = dict[str, list[Any]]


class Executor(base_executor.BaseExecutor):
    """The serving gate."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Writes the verdict and the blessing.

        Raises:
            UserError: if the server failed for a reason other than the model. A refused model is not an error.
        """
        candidate = artifact_utils.get_single_instance(input_dict["model"])
        model_dir = _local(path_utils.serving_model_path(candidate.uri))
        seal.refuse_changed(model_dir, candidate.get_string_custom_property(seal.SHA256))
        verdict = judge_model(
            model_dir=Path(model_dir),
            training_dir=Path(_local(artifact_utils.get_single_uri(input_dict["training"]))),
            serving=Serving.model_validate_json(exec_properties["serving"]),
            evaluation=Evaluation.model_validate_json(exec_properties["evaluation"]),
            log=_log_dir() / "serving_check.log",
            comparison=_comparison(candidate.uri, exec_properties),
        )
        if given := exec_properties.get("skew"):
            verdict = with_skew(
                verdict,
                Declared.model_validate_json(given),
                date=exec_properties["date"],
                data_root=exec_properties["data_root"],
                root=exec_properties["pipeline_root"],
            )
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        blessing.set_string_custom_property(MODEL, candidate.uri)
        blessing.set_int_custom_property("blessed", int(verdict.blessed))
        folder = Path(_local(blessing.uri))
        # Unlike a local run, KFP does not create the folder.
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).write_text(verdict.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / MARKS[verdict.blessed]).touch()
        for note in verdict.notes:
            _LOG.warning("note=%r", note)
        _LOG.info("blessed=%s checks=%d", verdict.blessed, len(verdict.checks))


@dataclass(frozen=True)
class Comparison:
    """How the price of serving is measured.

    Attributes:
        live: version to compare with; None: there is none.
        max_increase: bound on what the model costs more; None: no bound.
    """

    live: Live | None
    max_increase: float | None


def _comparison(model_uri: str, exec_properties: dict[str, Any]) -> Comparison | None:
    if not exec_properties["price"]:
        return None
    models = read_all(Root(exec_properties["pipeline_root"]).blessed(exec_properties["name"]))
    uri = baseline_for(model_uri, models)
    live = None
    if uri is not None:
        name = next(model.pushed for model in models if model.model_uri == uri) or uri
        live = Live(os.path.basename(name), Path(_local(path_utils.serving_model_path(uri))))
    return Comparison(live, json.loads(exec_properties["price"])["max_increase"])


def judge_model(
    *,
    model_dir: Path,
    training_dir: Path,
    serving: Serving,
    evaluation: Evaluation,
    log: Path,
    comparison: Comparison | None = None,
) -> ServingVerdict:
    """Returns the verdict on an exported model.

    Args:
        model_dir: folder of the SavedModel.
        training_dir: folder of the training report.
        serving: bounds.
        evaluation: settings with the features that one request shares.
        log: file to which the server's output is appended.
        comparison: how the price is measured; None: it is not.

    Raises:
        UserError: if the server failed for a reason other than the model.
    """
    model_bytes = sum(path.stat().st_size for path in model_dir.rglob("*") if path.is_file())
    size = size_check(model_bytes, serving)
    checks, notes = [size] if size else [], notes_on_bounds(serving)
    facts: dict[str, Any] = {}
    try:
        description = read_description(model_dir)
        reference = read_reference(training_dir, description.ranker.export.rows)
        facts["once"] = description.once(evaluation)
        with serve(model_dir, log=log, load=serving.load, timeout_s=serving.timeout_s) as server:
            facts["load_s"] = server.load_s
            checks.append(Check(name="load", passed=True, reason=f"the server was ready after {server.load_s:.1f} s"))
            examination = Examination(
                connect=server.connect,
                description=description,
                reference=reference,
                serving=serving,
                once=facts["once"],
                checks=checks,
                notes=notes,
            )
            examination.run()
            if examination.latency:
                facts |= dataclasses.asdict(examination.latency)
                if comparison:
                    price = measure_price(
                        server, model_dir, comparison.live, reference.examples, serving, evaluation=evaluation, log=log
                    )
                    facts |= _facts(price, comparison)
                    checks += filter(None, [price_check(price, comparison.live, comparison.max_increase)])
                    notes += filter(None, [price.note])
    except (Unfit, RequestFailed) as error:
        checks.append(Check(name="load", passed=False, reason=str(error)))
        notes.append("the model could not be served: only the checks above were run")
    blessed = all(check.passed for check in checks)
    return ServingVerdict(
        blessed=blessed, model_bytes=model_bytes, load=serving.load, checks=checks, notes=notes, **facts
    )


def _facts(price: Price, comparison: Comparison) -> dict[str, Any]:
    return {
        "candidates_per_core_s": price.rate,
        "live_candidates_per_core_s": price.live_rate,
        "live": comparison.live.name if comparison.live else "",
    }


def read_reference(training_dir: Path, rows: str) -> Reference:
    """Returns evaluation examples and the scores that the server must give.

    Args:
        training_dir: folder of the training report.
        rows: type of the model's rows. Scores from float16 or int8 rows differ by more than 1e-5 from the trainer's,
            which are from full rows, and are compared with the export's.
    """
    path = training_dir / CHECK_EXAMPLES_FILE
    if not path.exists():
        raise UserError(f"{path}: no such file; this training wrote no scores to compare with: train again")
    examples = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    if not examples:
        raise UserError(f"{path}: contains no examples (got 0); the eval split must contain rows")
    trained = _read_scores(training_dir / CHECK_SCORES_FILE)
    count = num_in_message(examples)
    if rows == "float32":
        return Reference(examples[:count], _first(trained, count), "the trainer's")
    exported = _read_scores(training_dir / SERVED_SCORES_FILE)
    _, gap = difference(exported, trained)
    whose = f"the export's own (from {rows} rows; they differ from the trainer's, from full rows, by {gap:.2g})"
    return Reference(examples[:count], _first(exported, count), whose)


def num_in_message(examples: Sequence[bytes]) -> int:
    """Returns the number of first examples that fit a request, at least one."""
    ends = np.cumsum([len(example) for example in examples])
    return max(1, int(np.searchsorted(ends, _REQUEST_BYTES, side="right")))


def _first(scores: Scores, count: int) -> Scores:
    return {task: values[:count] for task, values in scores.items()}


def _read_scores(path: Path) -> Scores:
    if not path.exists():
        raise UserError(f"{path}: no such file; this training wrote no scores to compare with: train again")
    with np.load(path) as stored:
        return dict(stored)


def _log_dir() -> Path:
    """Returns a folder for logs outside the outputs, which TFX deletes when a step fails."""
    given = os.environ.get(LOG_DIR_VARIABLE)
    directory = Path(given) if given else Path(tempfile.mkdtemp(prefix="sangam-serving-check-"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _local(uri: str) -> str:
    if "://" in uri:
        raise UserError(
            f"infra_validator: needs a mounted path (got {uri}); mount the store, or use a path as pipeline root"
        )
    return os.path.abspath(uri)
