"""Judges the candidate against its gates and the last blessed model, on Beam, and says why."""

import datetime
import json
import logging
import os
from typing import Any

import tensorflow_model_analysis as tfma
from pydantic import TypeAdapter
from tfx.components.evaluator import executor as tfx_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, standard_artifacts
from tfx.types import standard_component_specs as keys
from tfx.utils import json_utils, proto_utils

from components.evaluator.baseline import usable_baseline
from components.evaluator.baseline_days import evaluation_days
from components.evaluator.eval_config import eval_config
from components.evaluator.extractors import custom_extractors
from components.evaluator.verdict import FILE_NAME, Baseline, Verdict, bound_of_change, judge
from components.registry import checkpoint as checkpoints
from components.registry.blessed import BlessedModel, baseline_for, folder, read_all, record
from schemas.data import EVAL
from schemas.release import Evaluation, Gate
from schemas.spec import Inputs

_LOG = logging.getLogger(__name__)
_GATES: TypeAdapter[tuple[Gate, ...]] = TypeAdapter(tuple[Gate, ...])

Artifacts = dict[str, list[Any]]


class Executor(tfx_executor.Executor):
    """TFX's evaluator with a configuration derived from the spec, a registered baseline and a written verdict."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Runs TFMA, writes `verdict.json` beside its results, and registers the model if it is blessed."""
        inputs = Inputs.model_validate_json(exec_properties["inputs"])
        evaluation = Evaluation.model_validate_json(exec_properties["slicing"])
        gates = _GATES.validate_json(exec_properties["gates"])
        candidate = artifact_utils.get_single_uri(input_dict[keys.MODEL_KEY])
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        blessings = folder(exec_properties["pipeline_root"], exec_properties["name"])
        compared = {gate.task for gate in gates if bound_of_change(gate) is not None}
        baseline = usable_baseline(
            # Kubeflow Pipelines runs no driver.
            exec_properties.get("baseline_uri")
            or baseline_for(candidate, read_all(blessings), evaluation_days(examples)),
            wanted=compared,
            examples=examples,
            split=EVAL,
        )
        config = eval_config(inputs=inputs, evaluation=evaluation, gates=gates, baseline_tasks=baseline.tasks)
        super().Do(
            _with_baseline({key: input_dict[key] for key in (keys.EXAMPLES_KEY, keys.MODEL_KEY)}, baseline),
            output_dict,
            {
                keys.EVAL_CONFIG_KEY: proto_utils.proto_to_json(config),
                keys.EXAMPLE_SPLITS_KEY: json_utils.dumps([EVAL]),
                "custom_extractors": f"{custom_extractors.__module__}.{custom_extractors.__name__}",
            },
        )
        results = artifact_utils.get_single_uri(output_dict[keys.EVALUATION_KEY])
        verdict = judge(
            inputs=inputs,
            evaluation=evaluation,
            gates=gates,
            baseline=baseline,
            metrics=tfma.load_metrics(results),
            validation=tfma.load_validation_result(results),
        )
        _publish(verdict, results, artifact_utils.get_single_instance(output_dict[keys.BLESSING_KEY]))
        if verdict.blessed:
            metrics = {task: judged.metrics for task, judged in verdict.tasks.items()}
            record(
                blessings,
                BlessedModel(
                    model_uri=candidate,
                    ranker_digest=exec_properties["ranker_digest"],
                    blessed_at=datetime.datetime.now(datetime.timezone.utc),
                    metrics=metrics,
                    **_checkpoint_record(artifact_utils.get_single_instance(input_dict["checkpoint"])),
                ),
            )


def _checkpoint_record(checkpoint: Any) -> dict[str, Any]:
    """Returns what the record of a blessed model says of its checkpoint."""
    return {
        "checkpoint_uri": checkpoint.uri,
        "days": json.loads(checkpoint.get_string_custom_property(checkpoints.DAYS)),
        "transform_graph_uri": checkpoint.get_string_custom_property(checkpoints.TRANSFORM_GRAPH),
        "inputs_digest": checkpoint.get_string_custom_property(checkpoints.INPUTS_DIGEST),
    }


def _with_baseline(input_dict: Artifacts, baseline: Baseline) -> Artifacts:
    if baseline.uri is None:
        return input_dict
    model = standard_artifacts.Model()
    model.uri = baseline.uri
    return input_dict | {keys.BASELINE_MODEL_KEY: [model]}


def _publish(verdict: Verdict, results: str, blessing: Any) -> None:
    if bool(blessing.get_int_custom_property("blessed")) != verdict.blessed:
        raise RuntimeError(f"verdict blessed={verdict.blessed} contradicts TFX's blessing in {blessing.uri}")
    with fileio.open(os.path.join(results, FILE_NAME), "w") as file:
        file.write(verdict.model_dump_json(indent=2) + "\n")
    for task, judged in verdict.tasks.items():
        for gate in judged.gates:
            _LOG.info("task=%s gate=%s passed=%s reason=%r", task, gate.kind, gate.passed, gate.reason)
    for note in verdict.notes:
        _LOG.warning("note=%r", note)
