"""Evaluates the candidate on Beam, and judges it against its gates and the last blessed model."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils

from sangam.components.beam.execution import BeamExecutor
from sangam.components.examples.blocks import plain
from sangam.components.registry import seal
from sangam.components.registry.blessed import BlessedModel, baseline_for, read_all
from sangam.components.reports import importance
from sangam.components.reports.evaluation import FILE_NAME, TEXT_FILE, Verdict
from sangam.components.reports.headline import main_metric
from sangam.components.steps.evaluator.importance import MOST_COLUMNS, importances, most_examples, shuffled_together
from sangam.components.steps.evaluator.judge import blessing
from sangam.components.steps.evaluator.judge.judge import Baseline, judge
from sangam.components.steps.evaluator.judge.leaks import columns_of, leaks_of
from sangam.components.steps.evaluator.judge.reduced_rows import ReducedRows, reduced_rows
from sangam.components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE, read_measured
from sangam.components.steps.evaluator.models import candidate, loaded
from sangam.components.steps.evaluator.models.baseline import usable_baseline
from sangam.components.steps.evaluator.models.baseline_days import evaluation_days
from sangam.components.steps.evaluator.models.examples import first_rows, num_examples, sources, spread_rows
from sangam.components.steps.evaluator.models.scoring import Models, scores_of
from sangam.components.steps.evaluator.plan import Plan, plan_of
from sangam.components.steps.evaluator.slices.measuring import EXAMPLES_PER_PART, measure
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import EXPORT_REPORT_FILE
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import EVAL
from sangam.schemas.spec.release import Evaluation, Gate
from sangam.schemas.spec.serving import Export
from sangam.schemas.spec.tasks import BinaryTask

_LOG = logging.getLogger(__name__)
_GATES: TypeAdapter[tuple[Gate, ...]] = TypeAdapter(tuple[Gate, ...])

_LEAK_EXAMPLES = 20_000
"""Examples in which a column that tells a label is looked for."""

Artifacts = dict[str, list[Any]]
Properties = dict[str, Any]


class Executor(BeamExecutor):
    """Measures the spec's metrics on Beam, also of a registered baseline, and writes verdict and blessing."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Properties) -> None:
        """Measures the candidate and writes the verdict and the blessing."""
        inputs = Inputs.model_validate_json(exec_properties["inputs"])
        model = artifact_utils.get_single_instance(input_dict["model"])
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        seal.refuse_changed(path_utils.serving_model_path(model.uri), model.get_string_custom_property(seal.SHA256))
        try:
            problems = candidate.output_problems(model.uri, tasks=inputs.tasks, examples=examples, split=EVAL)
            if problems:
                verdict = candidate.refusal(problems, inputs.tasks)
            else:
                verdict = self._judge(inputs, input_dict, output_dict, exec_properties)
        finally:
            loaded.release_all()
        _write(verdict, artifact_utils.get_single_uri(output_dict["evaluation"]))
        blessing.mark(
            artifact_utils.get_single_instance(output_dict["blessing"]),
            model=model,
            baseline_uri=verdict.baseline,
            is_blessed=verdict.blessed,
        )

    def _judge(
        self, inputs: Inputs, input_dict: Artifacts, output_dict: Artifacts, exec_properties: Properties
    ) -> Verdict:
        evaluation = Evaluation.model_validate_json(exec_properties["evaluation_config"])
        gates = _GATES.validate_json(exec_properties["gates"])
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        models = read_all(Root(exec_properties["pipeline_root"]).blessed(exec_properties["name"]))
        uri = _baseline_uri(models, input_dict, exec_properties)
        baseline = usable_baseline(
            uri,
            sealed=next((blessed.model_sha256 for blessed in models if blessed.model_uri == uri), ""),
            wanted=set(inputs.tasks),
            examples=examples,
            split=EVAL,
        )
        plan = plan_of(
            inputs=inputs,
            evaluation=evaluation,
            gates=gates,
            baseline_tasks=baseline.tasks,
            calibrations=_calibrations(inputs, _model_path(input_dict)),
        )
        results = artifact_utils.get_single_uri(output_dict["evaluation"])
        self._measure(plan, examples, _model_path(input_dict), baseline, results)
        measured = read_measured(results, inputs, evaluation)
        leaks = None
        if "" in measured:
            rows = first_rows(examples, EVAL, columns_of(inputs), _LEAK_EXAMPLES)
            leaks = leaks_of(inputs, measured[""].candidate, rows)
        verdict = judge(
            inputs=inputs,
            evaluation=evaluation,
            gates=gates,
            baseline=baseline,
            measured=measured,
            rows=_reduced_rows(input_dict, exec_properties),
            known_id_features=candidate.features_with_known_ids(_model_path(input_dict)),
            leaks=leaks,
        )
        _write_importances(inputs, evaluation, verdict, examples, _model_path(input_dict), results)
        return verdict

    def _measure(self, plan: Plan, examples: Any, model_path: str, baseline: Baseline, folder: str) -> None:
        paths = {CANDIDATE: model_path}
        if baseline.uri is not None:
            paths[BASELINE] = path_utils.serving_model_path(baseline.uri)
        is_asked = plan.new_id_features & candidate.features_with_known_ids(model_path)
        with self._make_beam_pipeline() as pipeline:
            measure(
                pipeline,
                sources=sources(examples, EVAL),
                models=Models(paths, CANDIDATE if is_asked else None),
                plan=plan,
                num_parts=1 + num_examples(examples, EVAL) // EXAMPLES_PER_PART,
                folder=folder,
            )


def _write_importances(
    inputs: Inputs, evaluation: Evaluation, verdict: Verdict, examples: Any, model_path: str, folder: str
) -> None:
    """Writes how much each column matters; nothing for a model of very many columns."""
    columns = len(shuffled_together(inputs))
    if columns > MOST_COLUMNS:
        _LOG.info("event=no_importances columns=%d most=%d", columns, MOST_COLUMNS)
        return
    metrics = {task: main_metric(judged) for task, judged in verdict.tasks.items()}
    rows, models = spread_rows(examples, EVAL, most_examples(columns)), Models({CANDIDATE: model_path})

    def score(batch: pa.RecordBatch) -> Mapping[str, NDArray[Any]]:
        return scores_of([plain(batch)], models).by_model[CANDIDATE]

    found = importances(inputs, evaluation, metrics, rows, score)
    with fileio.open(os.path.join(folder, importance.FILE_NAME), "w") as file:
        file.write(importance.IMPORTANCES.dump_json(found, indent=2).decode() + "\n")


def _calibrations(inputs: Inputs, model_path: str) -> dict[str, Calibration]:
    """Returns the candidate's calibrations by task; reads nothing if the spec has none."""
    if not any(isinstance(task, BinaryTask) and task.calibration for task in inputs.tasks.values()):
        return {}
    return loaded.calibrations_of(model_path)


def _baseline_uri(models: list[BlessedModel], input_dict: Artifacts, exec_properties: Properties) -> str | None:
    resolved: str | None = exec_properties.get("baseline_uri")
    if resolved:
        return resolved
    # Kubeflow Pipelines does not run drivers.
    days = evaluation_days(artifact_utils.get_single_instance(input_dict["examples"]))
    return baseline_for(artifact_utils.get_single_uri(input_dict["model"]), models, days)


def _reduced_rows(input_dict: Artifacts, exec_properties: Properties) -> ReducedRows | None:
    path = os.path.join(artifact_utils.get_single_uri(input_dict["training"]), EXPORT_REPORT_FILE)
    report = None
    if fileio.exists(path):
        with fileio.open(path, "rb") as file:
            report = file.read()
    return reduced_rows(Export.model_validate_json(exec_properties["export"]), report)


def _model_path(input_dict: Artifacts) -> str:
    path: str = path_utils.serving_model_path(artifact_utils.get_single_uri(input_dict["model"]))
    return path


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
