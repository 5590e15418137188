"""Mistakes in gates, evaluation, export, serving and drift are found before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import digest
from sangam.schemas.spec.metrics import direction, new_id_slice, slice_name
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

KEY = {"session": {"column": "session_id", "type": "int"}}
ITEMS = {
    "kind": "table",
    "pattern": "items/{YYYY}-{MM}-{DD}/*.parquet",
    "format": "parquet",
    "keys": {"user_id": {"type": "string"}},
    "time": "updated",
    "max_age_days": 1,
    "columns": {"age": {}},
}
SKEWED = {"gates.2": {"skew": "features", "at_most": 0.001, "log": "requests"}, "event_time": "at"}
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"gates.2": {"skew": "feature", "at_most": 0.1}}, "gates[2].skew", "(got 'feature') ... 'features'"),
    ({"gates.2": {"skew": "scores", "at_most": 0.1}}, "gates[2].log", "is missing"),
    ({"gates.2": {"skew": "features", "at_most": 0.1, "log": "requests"}}, "gates[2].skew", "no source of kind table"),
    (
        SKEWED | {"data.sources": {"items": ITEMS | {"keys": {"friends": {"type": "string"}}}}},
        "gates[2].skew",
        "(got friends) ... user_id",
    ),
    (
        SKEWED | {"data.sources": {"items": ITEMS}, "serving": {"log": {"share": 1, "redact": {"user_id": "hash"}}}},
        "gates[2].skew",
        "(got user_id)",
    ),
    (
        {"gates.2": {"skew": "scores", "at_most": 0.1, "log": "requests"}, "push": {"kind": "none"}},
        "gates[2].skew",
        "(got push 'none')",
    ),
    (
        {
            "gates.2": {"skew": "scores", "at_most": 0.1, "log": "requests"},
            "gates.3": {"skew": "scores", "at_most": 0.2, "log": "requests"},
        },
        "gates[3]",
        "(got a second one)",
    ),
    ({"gates.0.metric": "f1"}, "gates[0].metric", "(got 'f1') ... calibration"),
    ({"gates.0.metric": "weighted_gauc"}, "gates[0].metric", "(got 'weighted_gauc')"),
    (
        {"gates.0.metric": "weighted_auc"},
        "gates[0].metric",
        "(got 'weighted_auc') ... tasks.like.example_weight",
    ),
    (
        {"gates.0.metric": "weighted_rmse", "tasks.like.example_weight": "worth"},
        "gates[0].metric",
        "(got 'weighted_rmse') ... pr_auc",
    ),
    ({"gates.0.metric": REMOVED}, "gates[0].metric", "is missing"),
    ({"gates.0.metric": "ndcg_at_0"}, "gates[0].metric", "(got 'ndcg_at_0')"),
    ({"gates.0.at_least": 60}, "gates[0].at_least", "(got 60)"),
    ({"gates.0.at_most": 1}, "gates[0].at_most", "(got 1) ... at_least, max_drop"),
    ({"gates.1.max_drop": 1}, "gates[1].max_drop", "(got 1) ... at_most, max_rise"),
    ({"gates.1.at_most": -1}, "gates[1].at_most", "(got -1)"),
    ({"gates.0.at_least": REMOVED}, "gates[0]", "(got none) ... at_least"),
    ({"gates.0.metric": "calibration", "gates.0.min_gain": 0.1}, "gates[0].min_gain", "(got 0.1)"),
    (
        {"gates.0": {"task": "like", "metric": "calibration", "at_least": 1.1, "at_most": 0.9}},
        "gates[0].at_most",
        "(got 0.9 under at_least 1.1)",
    ),
    ({"gates.0.task": "likes"}, "gates[0].task", "(got 'likes') ... like, stars"),
    ({"gates.0.task": "stars"}, "gates[0].metric", "(got 'auc') ... rmse, mae"),
    ({"gates.1.task": "like"}, "gates[1].metric", "(got 'rmse') ... pr_auc"),
    (
        {"gates.2": {"task": "like", "metric": "auc", "at_least": 0.7}},
        "gates[2]",
        "(got a second one)",
    ),
    ({"gates.0.slice": {"age": 1}}, "gates[0].slice.age", "(got 'age')"),
    (
        {"gates.0.slice": {"ages": 1}},
        "gates[0].slice.ages",
        "(got 'ages')",
    ),
    (
        {
            "features.pair": {"kind": "cross", "columns": {"user_id": "string", "city": "string"}, "table": "users"},
            "evaluation.slices": [["pair"]],
        },
        "evaluation.slices[0][0]",
        "(got 'pair')",
    ),
    (
        {"keys": {"years": {"column": "age", "type": "int"}}},
        "keys.years",
        "(got 'age')",
    ),
    ({"gates.0.slice": {"user": 1}}, "gates[0].slice.user", "(got 1)"),
    ({"gates.0.slice": {"user": "a"}, "gates.0.each": ["user"]}, "gates[0].each", "(got slice and ...)"),
    ({"gates.0.each": ["user", "user"]}, "gates[0].each", "(got ['user', 'user'])"),
    ({"gates.0.new_id": "tags"}, "gates[0].new_id", "(got 'tags') ... friend, user"),
    (
        {"gates.0.judge": "bound", "evaluation.confidence": {"replicates": 0}},
        "gates[0].judge",
        "(got 'bound' with evaluation.confidence.replicates 0)",
    ),
    ({"gates.0.metric": "gauc"}, "gates[0].metric", "(got 'gauc') ... evaluation.group"),
    ({"gates.0.metric": "ndcg_at_5"}, "gates[0].metric", "(got 'ndcg_at_5') ... evaluation.list"),
    ({"evaluation.list": {"by": "user", "k": [5, 5]}}, "evaluation.list.k", "(got [5, 5])"),
    ({"evaluation.group": {"by": "age"}}, "evaluation.group.by", "(got 'age')"),
    ({"evaluation.new_ids": ["tags"]}, "evaluation.new_ids[0]", "(got 'tags')"),
    (
        {"features.friend.at_serving": "nobody", "evaluation.new_ids": ["friend"]},
        "evaluation.new_ids[0]",
        "(got 'friend')",
    ),
    (
        {"features.friend.at_serving": "nobody", "gates.0.new_id": "friend"},
        "gates[0].new_id",
        "(got 'friend')",
    ),
    ({"evaluation.confidence": {"level": 1}}, "evaluation.confidence.level", "(got 1)"),
    ({"keys": KEY}, "keys.session", "(got 'session')"),
    ({"keys": {"user": {"type": "int"}}}, "keys.user", "(got 'user')"),
    ({"keys": {"u": {"column": "user_id", "type": "int"}}}, "keys.u", "(got 'user_id')"),
    ({"keys": {"u": {"column": "rating", "type": "int"}}}, "keys.u", "(got 'rating')"),
    (
        {"features.tags_length": {"kind": "numeric", "normalize": "zscore"}},
        "features",
        "'tags' ... 'tags_length' ... (got both)",
    ),
    ({"export": {"max_auc_loss": 0.1}}, "export.max_auc_loss", "(got 0.1)"),
    ({"export": {"ids": True}, "features": {"age": {"kind": "numeric"}}}, "export.ids", "(got true)"),
    ({"export": {"rows": "int4"}}, "export.rows", "(got 'int4') ... 'float32', 'float16', 'int8'"),
    ({"serving": {"max_model_size": "2"}}, "serving.max_model_size", "(got '2')"),
    ({"drift": {"action": "warn"}}, "drift", "(got none)"),
    ({"drift": {"action": "warn", "every": {}}}, "drift.every", "(got none)"),
    (
        {"drift": {"action": "stop", "features": {"age": {"l_infinity": 0.1}}}},
        "drift.features.age.l_infinity",
        "(got a feature of kind numeric) ... jensen_shannon",
    ),
    (
        {"drift": {"action": "stop", "features": {"tags": {"jensen_shannon": 0.1}}}},
        "drift.features.tags.jensen_shannon",
        "(got a feature of kind ids) ... l_infinity",
    ),
    (
        {
            "features.hour": {"kind": "time", "column": "at", "part": "hour"},
            "drift": {"action": "stop", "features": {"hour": {"jensen_shannon": 0.1}}},
        },
        "drift.features.hour.jensen_shannon",
        "(got a feature of kind time)",
    ),
    (
        {"drift": {"action": "stop", "features": {"ages": {"missing_share": 0.1}}}},
        "drift.features.ages",
        "(got 'ages')",
    ),
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES, ids=lambda value: str(value)[:60])
def test_mistake_is_told_with_its_place_and_the_way_out(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert tells(str(caught.value), place, value), str(caught.value)


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
        SKEWED | {"data.sources": {"items": ITEMS}},
        {"gates.2": {"skew": "scores", "at_most": 0, "log": "requests"}},
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
    assert [direction(metric, {}) for metric in ("auc", "ndcg_at_5", "log_loss", "calibration")] == [
        "higher",
        "higher",
        "lower",
        "target",
    ]
