"""Mistakes in gates, evaluation, export, serving and drift are found before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
from schemas.spec import digest
from schemas.spec.metrics import direction, new_id_slice, slice_name
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

KEY = {"session": {"column": "session_id", "type": "int"}}
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"gates.0.metric": "f1"}, "gates[0].metric", "not allowed (got 'f1'); one of: auc, calibration, "),
    (
        {"gates.0.metric": "normalised_entropy"},
        "gates[0].metric",
        "not allowed (got 'normalised_entropy'); it has been renamed to normalized_entropy",
    ),
    ({"gates.0.metric": "weighted_gauc"}, "gates[0].metric", "not allowed (got 'weighted_gauc'); one of: auc"),
    (
        {"gates.0.metric": "weighted_auc"},
        "gates[0].metric",
        "task 'like' has no example_weight (got 'weighted_auc'); declare tasks.like.example_weight, or judge auc",
    ),
    (
        {"gates.0.metric": "weighted_rmse", "tasks.like.example_weight": "worth"},
        "gates[0].metric",
        "task 'like' is binary (got 'weighted_rmse'); one of: auc, pr_auc",
    ),
    ({"gates.0.metric": REMOVED}, "gates[0].metric", "is missing; it must be declared"),
    ({"gates.0.metric": "ndcg_at_0"}, "gates[0].metric", "not allowed (got 'ndcg_at_0'); one of"),
    ({"gates.0.at_least": 60}, "gates[0].at_least", "can never hold for auc (got 60); at most 1"),
    ({"gates.0.at_most": 1}, "gates[0].at_most", "does not fit auc (got 1); higher is better: at_least, max_drop"),
    ({"gates.1.max_drop": 1}, "gates[1].max_drop", "does not fit rmse (got 1); lower is better: at_most, max_rise"),
    ({"gates.1.at_most": -1}, "gates[1].at_most", "can never hold for rmse (got -1); at least 0"),
    ({"gates.0.at_least": REMOVED}, "gates[0]", "has no effect: it has no bound (got none); give one of: at_least"),
    ({"gates.0.metric": "calibration", "gates.0.min_gain": 0.1}, "gates[0].min_gain", "does not fit calibration"),
    (
        {"gates.0": {"task": "like", "metric": "calibration", "at_least": 1.1, "at_most": 0.9}},
        "gates[0].at_most",
        "leaves nothing (got 0.9 under at_least 1.1); raise it",
    ),
    ({"gates.0.task": "likes"}, "gates[0].task", "no such task (got 'likes'); declared tasks: like, stars"),
    ({"gates.0.task": "stars"}, "gates[0].metric", "task 'stars' is regression (got 'auc'); one of: rmse, mae"),
    ({"gates.1.task": "like"}, "gates[1].metric", "task 'like' is binary (got 'rmse'); one of: auc, pr_auc"),
    (
        {"gates.2": {"task": "like", "metric": "auc", "at_least": 0.7}},
        "gates[2]",
        "binds auc of task 'like' as gates[0] does (got a second one); put all bounds into one gate",
    ),
    ({"gates.0.slice": {"age": 1}}, "gates[0].slice.age", "is a feature of kind numeric (got 'age'); examples go to"),
    (
        {"gates.0.slice": {"ages": 1}},
        "gates[0].slice.ages",
        "no such feature of kind id, and no key (got 'ages'); one ",
    ),
    (
        {
            "features.pair": {"kind": "cross", "columns": {"user_id": "string", "city": "string"}, "table": "users"},
            "evaluation.slices": [["pair"]],
        },
        "evaluation.slices[0][0]",
        "is a feature of kind cross (got 'pair'); examples go together by features of kind id and by keys: friend",
    ),
    (
        {"keys": {"years": {"column": "age", "type": "int"}}},
        "keys.years",
        "reads the column of feature 'age' (got 'age'); a key is a column of ids",
    ),
    ({"gates.0.slice": {"user": 1}}, "gates[0].slice.user", "is no string (got 1); as in the logs"),
    ({"gates.0.slice": {"user": "a"}, "gates.0.each": ["user"]}, "gates[0].each", "is a second slice (got slice and"),
    ({"gates.0.each": ["user", "user"]}, "gates[0].each", "names a feature twice"),
    ({"gates.0.new_id": "tags"}, "gates[0].new_id", "is not measured (got 'tags'); features of new_ids: friend, user"),
    (
        {"gates.0.judge": "bound", "evaluation.confidence": {"replicates": 0}},
        "gates[0].judge",
        "needs confidence intervals",
    ),
    ({"gates.0.metric": "gauc"}, "gates[0].metric", "needs groups (got 'gauc'); declare evaluation.group"),
    ({"gates.0.metric": "ndcg_at_5"}, "gates[0].metric", "is not measured (got 'ndcg_at_5'); declare evaluation.list"),
    ({"evaluation.list": {"by": "user", "k": [5, 5]}}, "evaluation.list.k", "names a k twice (got [5, 5])"),
    ({"evaluation.group": {"by": "age"}}, "evaluation.group.by", "is a feature of kind numeric (got 'age')"),
    ({"evaluation.new_ids": ["tags"]}, "evaluation.new_ids[0]", "no such feature of kind id (got 'tags')"),
    (
        {"features.friend.at_serving": "nobody", "evaluation.new_ids": ["friend"]},
        "evaluation.new_ids[0]",
        "predictions take it from at_serving (got 'friend'); leave it out",
    ),
    (
        {"features.friend.at_serving": "nobody", "gates.0.new_id": "friend"},
        "gates[0].new_id",
        "is not measured (got 'f",
    ),
    ({"evaluation.confidence": {"level": 1}}, "evaluation.confidence.level", "not allowed (got 1)"),
    ({"keys": KEY}, "keys.session", "has no effect: nothing groups by it (got 'session'); remove it"),
    ({"keys": {"user": {"type": "int"}}}, "keys.user", "is also the name of a feature or task (got 'user')"),
    ({"keys": {"u": {"column": "user_id", "type": "int"}}}, "keys.u", "reads the column of feature 'user' (got 'user"),
    ({"keys": {"u": {"column": "rating", "type": "int"}}}, "keys.u", "reads the label of task 'stars' (got 'rating')"),
    (
        {"features.tags_length": {"kind": "numeric"}},
        "features",
        "columns 'tags' and 'tags_length' would both be input 'tags_length' of the served model (got both); rename one",
    ),
    ({"export": {"max_auc_loss": 0.1}}, "export.max_auc_loss", "has no effect with rows float32 (got 0.1); remove it"),
    ({"export": {"rows": "int4"}}, "export.rows", "not allowed (got 'int4'); one of: 'float32', 'float16', 'int8'"),
    ({"serving": {"max_model_size": "2"}}, "serving.max_model_size", "not allowed (got '2'); write a number and its u"),
    ({"drift": {"action": "warn"}}, "drift", "has no effect: it has no bound (got none); declare every or features"),
    ({"drift": {"action": "warn", "every": {}}}, "drift.every", "has no effect: it has no bound (got none)"),
    (
        {"drift": {"action": "stop", "features": {"age": {"l_infinity": 0.1}}}},
        "drift.features.age.l_infinity",
        "is of ids (got a feature of kind numeric); use jensen_shannon or missing_share",
    ),
    (
        {"drift": {"action": "stop", "features": {"tags": {"jensen_shannon": 0.1}}}},
        "drift.features.tags.jensen_shannon",
        "is of numbers (got a feature of kind ids); use l_infinity or missing_share",
    ),
    (
        {
            "features.hour": {"kind": "time", "column": "at", "part": "hour"},
            "drift": {"action": "stop", "features": {"hour": {"jensen_shannon": 0.1}}},
        },
        "drift.features.hour.jensen_shannon",
        "is of numbers (got a feature of kind time); use missing_share",
    ),
    (
        {"drift": {"action": "stop", "features": {"ages": {"missing_share": 0.1}}}},
        "drift.features.ages",
        "no such feature (got 'ages'); features: age, friend, recent, tags, user",
    ),
]


@pytest.mark.parametrize(("changes", "place", "text"), MISTAKES, ids=lambda value: str(value)[:60])
def test_mistake_is_told_with_its_place_and_the_way_out(
    tmp_path: Path, changes: dict[str, Any], place: str, text: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    lines = str(caught.value).splitlines()
    assert any(f": {place}: {text}" in line for line in lines), str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"keys": KEY, "evaluation.list": {"by": "session", "k": [3]}, "gates.0.metric": "recall_at_3"},
        {"keys": KEY, "gates.0.slice": {"session": 7}},
        {
            "features.pair": {"kind": "cross", "columns": {"user_id": "string", "city": "string"}, "table": "pairs"},
            "tables.pairs": {"dim": 2},
            "keys": {"town": {"column": "city", "type": "string"}},
            "evaluation.slices": [["town"]],
        },
        {"evaluation.group": {"by": "user", "weigh": "positives"}, "gates.0.metric": "gauc", "gates.0.judge": "bound"},
        {"tasks.like.example_weight": "worth", "gates.0.metric": "weighted_auc"},
        {"gates.0.new_id": "friend"},
        {"gates.2": {"task": "like", "metric": "auc", "each": ["user", "friend"], "min_gain": 0}},
        {"gates.2": {"task": "like", "metric": "calibration", "at_least": 0.9, "at_most": 1.1}},
        {"export": {"form": "tfra", "rows": "float16", "max_auc_loss": 0}},
        {"serving": {"max_model_size": "2GB", "max_p99_ms": 20, "load": {"candidates": 10}}},
        {"drift": {"action": "warn", "every": {"l_infinity": 0.3, "jensen_shannon": 0.1, "missing_share": 0.1}}},
    ],
)
def test_what_is_allowed_loads(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes).name == "small"


def test_bounds_of_every_feature_bind_where_they_mean_something(tmp_path: Path) -> None:
    every = {"l_infinity": 0.3, "jensen_shannon": 0.1, "missing_share": 0.2}
    drift = loaded(
        tmp_path, {"drift": {"action": "warn", "every": every, "features": {"user": {"l_infinity": 0.5}}}}
    ).drift
    assert drift is not None
    assert drift.bounds_of("age", ("jensen_shannon", "missing_share")).model_dump() == {**every, "l_infinity": None}
    assert drift.bounds_of("tags", ("l_infinity", "missing_share")).model_dump() == {**every, "jensen_shannon": None}
    own = {"l_infinity": 0.5, "jensen_shannon": None, "missing_share": None}
    assert drift.bounds_of("user", ("l_infinity", "missing_share")).model_dump() == own


def test_export_is_part_of_what_is_trained_and_serving_bounds_are_not(tmp_path: Path) -> None:
    plain = loaded(tmp_path)
    bound = loaded(tmp_path, {"serving": {"max_p99_ms": 5}, "intended_use": "x", "evaluation.min_slice_examples": 9})
    assert digest(bound.ranker()) == digest(plain.ranker())
    assert digest(loaded(tmp_path, {"export": {"rows": "int8"}}).ranker()) != digest(plain.ranker())


def test_size_is_read_with_its_unit(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"serving": {"max_model_size": "1.5GB"}}).serving.max_model_bytes == 1_500_000_000


def test_names_of_slices_and_directions_of_metrics() -> None:
    assert slice_name({"tab": "home", "hour": 3}) == "tab=home,hour=3"
    assert slice_name([]) == ""
    assert new_id_slice("user") == "new user"
    assert [direction(metric) for metric in ("auc", "ndcg_at_5", "log_loss", "calibration")] == [
        "higher",
        "higher",
        "lower",
        "target",
    ]
