"""Evaluates the candidate on Beam, and judges it against its gates and the last blessed model."""

import logging
import os
from typing import Any

import tensorflow_model_analysis as tfma
from pydantic import TypeAdapter
from tfx.components.evaluator import executor as tfx_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, standard_artifacts
from tfx.types import standard_component_specs as keys
from tfx.utils import json_utils, path_utils, proto_utils

from components.registry import seal
from components.registry.blessed import BlessedModel, baseline_for, read_all
from components.reports.evaluation import FILE_NAME, TEXT_FILE, Verdict
from components.steps.evaluator.eval_config import eval_config
from components.steps.evaluator.judge import blessing
from components.steps.evaluator.judge.judge import Baseline, judge
from components.steps.evaluator.judge.reduced_rows import ReducedRows, reduced_rows
from components.steps.evaluator.metrics.measured import read_measured
from components.steps.evaluator.models import candidate
from components.steps.evaluator.models.baseline import usable_baseline
from components.steps.evaluator.models.baseline_days import evaluation_days
from components.steps.evaluator.slices.extractors import custom_extractors
from components.steps.evaluator.slices.new_ids import features_with_known_ids
from schemas.contracts.root import Root
from schemas.contracts.training_job import EXPORT_REPORT_FILE
from schemas.spec import Inputs
from schemas.spec.data import EVAL
from schemas.spec.release import Evaluation, Gate
from schemas.spec.serving import Export

_LOG = logging.getLogger(__name__)
_GATES: TypeAdapter[tuple[Gate, ...]] = TypeAdapter(tuple[Gate, ...])

Artifacts = dict[str, list[Any]]
Properties = dict[str, Any]


class Executor(tfx_executor.Executor):
    """TFX's evaluator with a configuration derived from the spec, a registered baseline and its own verdict.

    TFMA gets no thresholds, since it has none for a slice's minimum of examples, an end of an interval, or a band. So
    TFX writes no blessing; this executor does.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Properties) -> None:
        """Measures the candidate and writes the verdict and the blessing."""
        inputs = Inputs.model_validate_json(exec_properties["inputs"])
        model = artifact_utils.get_single_instance(input_dict[keys.MODEL_KEY])
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        seal.refuse_changed(path_utils.serving_model_path(model.uri), model.get_string_custom_property(seal.SHA256))
        problems = candidate.output_problems(model.uri, tasks=inputs.tasks, examples=examples, split=EVAL)
        if problems:
            verdict = candidate.refusal(problems, inputs.tasks)
        else:
            verdict = self._judge(inputs, input_dict, output_dict, exec_properties)
        _write(verdict, artifact_utils.get_single_uri(output_dict[keys.EVALUATION_KEY]))
        blessing.mark(
            artifact_utils.get_single_instance(output_dict[keys.BLESSING_KEY]),
            model=model,
            baseline_uri=verdict.baseline,
            is_blessed=verdict.blessed,
        )

    def _judge(
        self, inputs: Inputs, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Properties
    ) -> Verdict:
        evaluation = Evaluation.model_validate_json(exec_properties["evaluation_config"])
        gates = _GATES.validate_json(exec_properties["gates"])
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        models = read_all(Root(exec_properties["pipeline_root"]).blessed(exec_properties["name"]))
        uri = _baseline_uri(models, input_dict, exec_properties)
        baseline = usable_baseline(
            uri,
            sealed=next((blessed.model_sha256 for blessed in models if blessed.model_uri == uri), ""),
            wanted={gate.task for gate in gates if gate.is_relative},
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
        return judge(
            inputs=inputs,
            evaluation=evaluation,
            gates=gates,
            baseline=baseline,
            measured=read_measured(tfma.load_metrics(results), inputs, evaluation),
            rows=_reduced_rows(input_dict, exec_properties),
            known_id_features=features_with_known_ids(
                path_utils.serving_model_path(artifact_utils.get_single_uri(input_dict[keys.MODEL_KEY]))
            ),
        )


def _baseline_uri(models: list[BlessedModel], input_dict: Artifacts, exec_properties: Properties) -> str | None:
    resolved: str | None = exec_properties.get("baseline_uri")
    if resolved:
        return resolved
    # Kubeflow Pipelines does not run drivers.
    days = evaluation_days(artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY]))
    return baseline_for(artifact_utils.get_single_uri(input_dict[keys.MODEL_KEY]), models, days)


def _reduced_rows(input_dict: Artifacts, exec_properties: Properties) -> ReducedRows | None:
    path = os.path.join(artifact_utils.get_single_uri(input_dict["training"]), EXPORT_REPORT_FILE)
    report = None
    if fileio.exists(path):
        with fileio.open(path, "rb") as file:
            report = file.read()
    return reduced_rows(Export.model_validate_json(exec_properties["export"]), report)


def _with_baseline(input_dict: Artifacts, baseline: Baseline) -> Artifacts:
    if baseline.uri is None:
        return input_dict
    model = standard_artifacts.Model()
    model.uri = baseline.uri
    return input_dict | {keys.BASELINE_MODEL_KEY: [model]}


def _write(verdict: Verdict, results: str) -> None:
    fileio.makedirs(results)
    for name, text in ((FILE_NAME, verdict.model_dump_json(indent=2) + "\n"), (TEXT_FILE, verdict.text())):
        with fileio.open(os.path.join(results, name), "w") as file:
            file.write(text)
    for task, judged in verdict.tasks.items():
        for gate in judged.gates:
            _LOG.info("task=%s gate=%s passed=%s reason=%r", task, gate.kind, gate.passed, gate.reason)
    for note in verdict.notes:
        _LOG.warning("note=%r", note)
