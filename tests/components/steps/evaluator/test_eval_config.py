"""The configuration of TFMA that follows from a spec."""

from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.spec.release import Confidence, Evaluation, Gate, Grouping, Listing
from tests.paths import SPECS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spec() -> Any:
    return load_spec(SPECS / "short_video.yaml")


def slicing(config: Any) -> list[dict[str, str | None]]:
    """Returns each slice's features with the value that is measured, None for every value."""
    return [dict.fromkeys(slice_.feature_keys) | dict(slice_.feature_values) for slice_ in config.slicing_specs]


@pytest.mark.parametrize("name", ["short_video", "online_retail"])
def test_equals_the_golden_file(name: str) -> None:
    from google.protobuf import json_format

    from components.steps.evaluator.eval_config import eval_config
    from tests.golden_files import check_golden

    spec = load_spec(SPECS / f"{name}.yaml")
    config = eval_config(
        inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.gates, baseline_tasks=list(spec.tasks)
    )
    text = json_format.MessageToJson(config, preserving_proto_field_name=True, sort_keys=True, indent=2)
    check_golden(f"{name}.eval_config.json", text + "\n")


def test_without_a_baseline_there_is_one_model(spec: Any) -> None:
    from components.steps.evaluator.eval_config import eval_config

    config = eval_config(inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.gates)
    assert [model.name for model in config.model_specs] == [""]


def test_tfma_is_given_no_thresholds_as_the_verdict_is_the_judges(spec: Any) -> None:
    import tensorflow_model_analysis as tfma

    from components.steps.evaluator.eval_config import eval_config

    config = eval_config(inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.gates)
    assert not tfma.metrics.metric_thresholds_from_metrics_specs(config.metrics_specs, eval_config=config)


def test_slices_are_those_declared_those_that_gates_name_and_new_ids(spec: Any) -> None:
    from components.steps.evaluator.eval_config import eval_config

    evaluation = Evaluation(slices=(("tab", "author"), ("author",)), new_ids=("user",))
    gates = (
        Gate(task="like", metric="auc", at_least=0.5, slice={"author": "7"}),  # Already among the declared.
        Gate(task="like", metric="auc", at_least=0.5, slice={"tab": "home"}),
        Gate(task="like", metric="auc", at_least=0.5, slice={"tab": "home"}, judge="bound"),
        Gate(task="like", metric="log_loss", at_most=0.5, each=("author", "tab")),
        Gate(task="like", metric="log_loss", at_most=0.5),
    )
    config = eval_config(inputs=spec.inputs(), evaluation=evaluation, gates=gates)
    assert slicing(config) == [
        {},
        {"author": None, "tab": None},
        {"author": None},
        {"tab": "home"},
        {"new user": None},
    ]


def test_new_ids_of_every_feature_of_kind_id_are_slices_unless_the_spec_names_some(spec: Any) -> None:
    from components.steps.evaluator.eval_config import eval_config

    def new_ids(evaluation: Evaluation) -> list[str]:
        config = eval_config(inputs=spec.inputs(), evaluation=evaluation, gates=())
        return [name for slice_ in slicing(config) for name in slice_]

    ids = [name for name, feature in spec.features.items() if feature.kind == "id"]
    assert new_ids(Evaluation()) == [f"new {name}" for name in ids]
    assert new_ids(Evaluation(new_ids=())) == []


def test_the_configuration_carries_the_columns_of_all_that_slices_groups_and_is_drawn(spec: Any) -> None:
    from components.steps.evaluator.eval_config import eval_config
    from components.steps.evaluator.metrics.tfma_metrics import binary_tasks, settings_in

    evaluation = Evaluation(
        slices=(("tab",),),
        group=Grouping(by="user"),
        list=Listing(by="author", k=(5,)),
        confidence=Confidence(replicates=7, by="user"),
    )
    config = eval_config(inputs=spec.inputs(), evaluation=evaluation, gates=())
    settings = settings_in(config)
    assert settings.columns == {name: spec.column_of(name) for name in ("author", "tab", "user")}
    assert (settings.confidence.replicates, settings.group, settings.list) == (7, evaluation.group, evaluation.list)
    assert binary_tasks(config) == {name for name, task in spec.tasks.items() if task.kind == "binary"}


def test_the_settings_name_the_tasks_in_which_not_every_example_takes_part(spec: Any) -> None:
    from components.steps.evaluator.eval_config import eval_config
    from components.steps.evaluator.metrics.tfma_metrics import binary_tasks, settings_in
    from schemas.spec import Inputs

    def config(**tasks: Any) -> Any:
        document = {"features": {"x": {"kind": "numeric"}}, "tasks": {"like": {"kind": "binary"}} | tasks}
        return eval_config(inputs=Inputs.model_validate(document), evaluation=Evaluation(), gates=())

    masked = config(
        buy={"kind": "binary", "only_where": "clicked"}, dwell={"kind": "watch_time", "missing_label": "mask"}
    )
    assert settings_in(masked).masked == {"buy": "clicked", "dwell": None}
    assert binary_tasks(masked) == {"like", "buy"}
    assert settings_in(config()).masked == {}
    assert "masked" not in config().metrics_specs[0].metrics[0].config
