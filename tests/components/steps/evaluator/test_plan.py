"""What is measured, as it follows from a spec."""

from typing import Any

import pytest

from sangam.components.steps.evaluator.plan import plan_of
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Confidence, Evaluation, Gate, Grouping, Listing
from tests.paths import SPECS


@pytest.fixture(scope="module")
def spec() -> Any:
    return load_spec(SPECS / "short_video.yaml")


def test_without_a_baseline_there_is_one_model_and_with_one_its_tasks(spec: Any) -> None:
    alone = plan_of(inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.quality_gates)
    assert alone.targets == [("candidate", task) for task in spec.tasks]
    both = plan_of(inputs=spec.inputs(), evaluation=spec.evaluation, gates=spec.quality_gates, baseline_tasks=("like",))
    assert both.targets == [*alone.targets, ("baseline", "like")]
    assert both.measures().totals.keys() == set(both.targets)
    assert both.labels == {task: spec.inputs().label_of(task) for task in spec.tasks}


def test_slices_are_those_declared_those_that_gates_name_and_new_ids(spec: Any) -> None:
    evaluation = Evaluation(slices=(("tab", "author"), ("author",)), new_ids=("user",))
    gates = (
        Gate(task="like", metric="auc", at_least=0.5, slice={"author": "7"}),  # Already among the declared.
        Gate(task="like", metric="auc", at_least=0.5, slice={"tab": "home"}),
        Gate(task="like", metric="auc", at_least=0.5, slice={"tab": "home"}, judge="bound"),
        Gate(task="like", metric="log_loss", at_most=0.5, each=("author", "tab")),
        Gate(task="like", metric="log_loss", at_most=0.5),
    )
    plan = plan_of(inputs=spec.inputs(), evaluation=evaluation, gates=gates)
    assert list(plan.slices) == [
        {},
        {"author": None, "tab": None},
        {"author": None},
        {"tab": "home"},
        {"new user": None},
    ]


def test_every_feature_of_ids_has_a_slice_of_new_ids_unless_the_spec_says_otherwise(spec: Any) -> None:
    def new_ids(evaluation: Evaluation) -> list[str]:
        plan = plan_of(inputs=spec.inputs(), evaluation=evaluation, gates=())
        assert {f"new {feature}" for feature in plan.new_id_features} == {
            name for slice_ in plan.slices for name in slice_
        }
        return [name for slice_ in plan.slices for name in slice_]

    ids = [name for name, feature in spec.features.items() if feature.kind == "id"]
    assert new_ids(Evaluation()) == [f"new {name}" for name in ids]
    assert new_ids(Evaluation(new_ids=())) == []


def test_the_plan_has_the_columns_of_all_that_slices_groups_and_is_drawn(spec: Any) -> None:
    evaluation = Evaluation(
        slices=(("tab",),),
        group=Grouping(by="user"),
        list=Listing(by="author", k=(5,)),
        confidence=Confidence(replicates=7, by="user"),
    )
    plan = plan_of(inputs=spec.inputs(), evaluation=evaluation, gates=())
    assert plan.settings.columns == {name: spec.column_of(name) for name in ("author", "tab", "user")}
    assert plan.measures().replicates == 7
    assert (plan.settings.group, plan.settings.list) == (evaluation.group, evaluation.list)
    binary = [task for task in spec.tasks if spec.tasks[task].kind == "binary"]
    assert plan.group_targets == [("candidate", task) for task in binary]


def test_the_plan_names_the_tasks_in_which_not_every_example_takes_part() -> None:
    def plan(**tasks: Any) -> Any:
        document = {
            "features": {"x": {"kind": "numeric", "normalize": "zscore"}},
            "tasks": {"like": {"kind": "binary"}} | tasks,
        }
        return plan_of(inputs=Inputs.model_validate(document), evaluation=Evaluation(), gates=())

    masked = plan(
        buy={"kind": "binary", "only_where": "clicked"}, dwell={"kind": "watch_time", "missing_label": "mask"}
    )
    assert masked.settings.masked == {"buy": "clicked", "dwell": None}
    assert masked.kinds == {"like": "binary", "buy": "binary", "dwell": "regression"}
    assert plan().settings.masked == {}
