"""The configuration of TFMA that follows from a spec."""

from pathlib import Path

import pytest

from schemas.loading import load_spec

pytestmark = pytest.mark.slow

SPECS = Path(__file__).parents[2] / "pipelines" / "specs"


@pytest.mark.parametrize("name", ["short_video", "online_retail"])
def test_equals_the_golden_file(name: str) -> None:
    from google.protobuf import json_format

    from components.evaluator.eval_config import eval_config
    from tests.golden_files import check_golden

    spec = load_spec(SPECS / f"{name}.yaml")
    config = eval_config(
        inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.gates, baseline_tasks=list(spec.tasks)
    )
    text = json_format.MessageToJson(config, preserving_proto_field_name=True, sort_keys=True, indent=2)
    check_golden(f"{name}.eval_config.json", text + "\n")


def test_without_a_baseline_there_is_one_model_and_no_bound_on_change() -> None:
    from components.evaluator.eval_config import eval_config

    spec = load_spec(SPECS / "short_video.yaml")
    config = eval_config(inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.gates)
    assert [model.name for model in config.model_specs] == [""]
    thresholds = [
        bound.threshold
        for task in config.metrics_specs
        for metric in task.metrics
        for bound in metric.per_slice_thresholds
    ]
    assert len(thresholds) == len(spec.gates)
    assert not any(threshold.HasField("change_threshold") for threshold in thresholds)


def test_slices_name_columns_and_gates_bind_all_examples_together() -> None:
    from components.evaluator.eval_config import eval_config, slice_columns
    from schemas.release import Evaluation

    spec = load_spec(SPECS / "short_video.yaml")
    evaluation = Evaluation(slices=(("author", "tab"), ("author",)))
    assert slice_columns(spec, evaluation) == [["author_id", "tab"], ["author_id"]]
    config = eval_config(inputs=spec.inputs(), evaluation=evaluation, gates=spec.gates)
    assert [list(slice_.feature_keys) for slice_ in config.slicing_specs] == [[], ["author_id", "tab"], ["author_id"]]
    bounds = [
        bound for task in config.metrics_specs for metric in task.metrics for bound in metric.per_slice_thresholds
    ]
    assert all([list(slice_.feature_keys) for slice_ in bound.slicing_specs] == [[]] for bound in bounds)
