"""Features, tasks and models that do not fit each other are refused, with the reason."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

Case = tuple[dict[str, Any], str, str]

BUCKETS = {"kind": "buckets", "num_buckets": 4}
HOUR = {"kind": "time", "part": "hour"}
AGE = {"kind": "age", "since": "posted", "at": "seen"}
CROSS = {"kind": "cross", "columns": {"user_id": "string", "friend": "string"}, "table": "pairs"}
PAIRS = {"tables.pairs": {"dim": 4}}
DIN = {"kind": "din", "target": "user"}
CHAIN: dict[str, Any] = {
    "tasks.stars": {"kind": "binary", "label": "rating"},
    "gates.1": REMOVED,
    "model": {"kind": "esmm", "chain": ["like", "stars"]},
}
AITM = CHAIN | {"model": {"kind": "aitm", "chain": ["like", "stars"]}}
EMBEDDED = {"features.age": REMOVED}
ONE_DIM = {"tables.tags.dim": 8}


def _dcn(**members: Any) -> dict[str, Any]:
    return {"model.interaction": {"kind": "dcn_v2"} | members}


def _dlrm(**members: Any) -> dict[str, Any]:
    return {"model.interaction": {"kind": "dlrm"} | members}


FEATURES: list[Case] = [
    (
        {"features.friend.missing_row": True},
        "features.friend.missing_row",
        "(got both, missing 'nobody')",
    ),
    (
        {"features.b": BUCKETS | {"table": "tags2", "missing": 1, "missing_row": True}, "tables.tags2": {"dim": 2}},
        "features.b.missing_row",
        "(got both, missing 1.0)",
    ),
    (
        {"features.b": BUCKETS | {"missing_row": True}},
        "features.b.missing_row",
        "(got true without a table)",
    ),
    (
        {"features.h": HOUR | {"missing_row": True}},
        "features.h.missing_row",
        "(got true without a table)",
    ),
    ({"features.user.at_serving": 3}, "features.user.at_serving", "(got 3)"),
    ({"features.age.at_serving": 101}, "features.age.at_serving", "(got 101)"),
    (
        {
            f"features.{name}": {"kind": "numeric", "normalize": "zscore", "at_serving": 1}
            for name in ("user", "friend", "tags", "recent", "age")
        }
        | {"tables": {}, "evaluation": REMOVED},
        "features",
        "(got age, friend, recent, tags, user)",
    ),
    (
        {"features.b": BUCKETS | {"table": "users"}},
        "features.b.table",
        "(got 4 buckets)",
    ),
    (
        {"features.b": BUCKETS | {"table": "h"}, "features.h": HOUR | {"table": "h"}, "tables.h": {"dim": 2}},
        "features.h.table",
        "(got hours)",
    ),
    (
        {"features.pair": CROSS | {"table": "users"}},
        "features.pair.table",
        "(got pairs of string and string)",
    ),
    (
        {"features.a": AGE | {"since": "seen"}},
        "features.a.since",
        "(got 'seen')",
    ),
    ({"features.a": AGE | {"clip": [3, 3]}}, "features.a.clip", "(got [3.0, 3.0])"),
    ({"features.a": AGE | {"clip": [-3, 3]}}, "features.a.clip", "(got [-3.0, 3.0])"),
    ({"features.a": AGE | {"missing": -1}}, "features.a.missing", "(got -1)"),
    ({"features.a": AGE | {"clip": [0, 3], "missing": 4}}, "features.a.missing", "(got 4)"),
    (
        {"features.m": {"kind": "match", "column": "tags", "among": "tags", "type": "string"}},
        "features.m.among",
        "(got 'tags')",
    ),
    ({"features.age.missing": -1}, "features.age.missing", "(got -1)"),
    ({"features.age.missing": "learnt"}, "features.age.missing", "(got 'learnt')"),
    (
        {"features.age.normalize": "zscore", "features.age.encoding": {"kind": "piecewise_linear"}},
        "features.age.normalize",
        "(got 'zscore')",
    ),
    (
        {"features.a": AGE | {"normalize": "none", "encoding": {"kind": "piecewise_linear"}}},
        "features.a.normalize",
        "(got 'none')",
    ),
    (
        {"features.age.encoding": {"kind": "piecewise_linear", "frequencies": 3}},
        "features.age.encoding.frequencies",
        "(got 3)",
    ),
    ({"features.age.encoding": {"kind": "piecewise_linear", "bins": 1}}, "features.age.encoding.bins", "(got 1)"),
    ({"features.v": {"kind": "vector", "dim": 1, "normalize": "l2"}}, "features.v.normalize", "(got 'l2' with dim 1)"),
    (
        {"features.v": {"kind": "vector", "dim": 2}, "features.w": {"kind": "vector", "column": "v", "dim": 3}},
        "features.w",
        "'v' ... 3 ... 'v' ... 2",
    ),
    (
        {"features.tags.weights": "tags"},
        "features.tags",
        "'tags' ... 'tags'",
    ),
    (
        {"features.recent.max_length": 1, "features.recent.encoder": {"kind": "transformer"}},
        "features.recent.encoder",
        "(got 'transformer' with max_length 1)",
    ),
    (
        {"features.recent.encoder": {"kind": "transformer", "num_heads": 3}},
        "features.recent.encoder.num_heads",
        "(got 3 of 4)",
    ),
    (
        {"features.recent.encoder": {"kind": "hstu", "target": "user", "num_heads": 3}},
        "features.recent.encoder.num_heads",
        "(got 3 of 4)",
    ),
    (
        {"features.recent.encoder": DIN},
        "features.recent.encoder.target",
        "(got 8 for 'user', 4 for the sequence's table 'tags')",
    ),
    (
        {"features.recent.encoder": DIN | {"target": "age"}},
        "features.recent.encoder.target",
        "(got 'age')",
    ),
    (
        {"features.recent.encoder": DIN | {"target": "tags"}},
        "features.recent.encoder.target",
        "(got 'tags')",
    ),
]
TASKS: list[Case] = [
    (
        {"tasks.stars.only_where": "rating"},
        "tasks.stars.only_where",
        "(got 'rating')",
    ),
    (
        {"tasks.stars.example_weight": "rating"},
        "tasks.stars.example_weight",
        "(got 'rating')",
    ),
    (
        {
            "tasks.stars.only_where": "shown",
            "features.shown": {"kind": "numeric", "normalize": "zscore", "type": "int"},
        },
        "features.shown",
        "(got 'shown')",
    ),
    (
        {"tasks.stars.example_weight": "age"},
        "features.age",
        "(got 'age')",
    ),
    (
        {"features.pair": CROSS | {"columns": {"user_id": "string", "like": "int"}}} | PAIRS,
        "features.pair",
        "(got 'like')",
    ),
    (
        {"tasks.like.only_where": "rating"},
        "tasks.stars",
        "'rating' ... 'like'",
    ),
    (
        {"tasks.like.keep_negatives": 0.1, "tasks.b": {"kind": "binary", "keep_negatives": 0.5}},
        "tasks.b.keep_negatives",
        "(got 0.5)",
    ),
    (
        {"tasks.like": {"kind": "binary", "keep_negatives": 0.1, "loss": {"kind": "focal"}}},
        "tasks.like.keep_negatives",
        "(got loss focal)",
    ),
    (
        {
            "tasks.like.keep_negatives": 0.1,
            "tasks.like.loss": {"kind": "cross_entropy", "label_smoothing": 0.1},
        },
        "tasks.like.keep_negatives",
        "(got label_smoothing 0.1)",
    ),
    (
        {"tasks.like.loss": {"kind": "focal", "gamma": 0}},
        "tasks.like.loss.gamma",
        "(got 0 without alpha)",
    ),
]
MODELS: list[Case] = [
    ({"model.top_k": 4}, "model.top_k", "(got 4 of 4 experts)"),
    (_dcn(num_experts=2), "model.interaction.num_experts", "(got 2 without a rank)"),
    (
        _dcn(rank=25),
        "model.interaction.rank",
        "(got 25 for inputs of width 25) ... 25",
    ),
    (
        _dlrm(),
        "model.interaction",
        "(got friend 8, recent 4, tags 4, user 8)",
    ),
    (
        _dlrm(bottom_units=[4]) | ONE_DIM | EMBEDDED,
        "model.interaction.bottom_units",
        "(got [4])",
    ),
    (
        _dlrm()
        | {"features": {"age": {"kind": "numeric", "normalize": "zscore"}}, "tables": {}, "evaluation": REMOVED},
        "model.interaction",
        "(got 0 embedded features and 1 numbers)",
    ),
    (
        _dlrm()
        | {"features": {"user": {"kind": "id", "type": "int", "table": "users"}}, "tables": {"users": {"dim": 2}}}
        | {"evaluation": REMOVED},
        "model.interaction",
        "(got 1 embedded features and 0 numbers)",
    ),
    (
        _dlrm()
        | {"features": {f"f{n}": {"kind": "id", "type": "int", "table": "users"} for n in range(257)}}
        | {"tables": {"users": {"dim": 2}}, "evaluation": REMOVED},
        "model.interaction",
        "(got 257 embedded features and 0 numbers) ... 256",
    ),
    (CHAIN | {"model.chain": ["like", "like"]}, "model.chain", "(got ['like', 'like'])"),
    (CHAIN | {"model.chain": ["like", "buy"]}, "model.chain", "(got ['like', 'buy'])"),
    (
        CHAIN | {"tasks.third": {"kind": "binary"}},
        "model.chain",
        "(got ['like', 'stars'])",
    ),
    (
        {"model": CHAIN["model"]},
        "tasks.stars.kind",
        "(got regression)",
    ),
    (
        AITM | {"tasks.like.loss": {"kind": "focal"}},
        "tasks.like.loss.kind",
        "(got focal)",
    ),
    (
        CHAIN | {"tasks.like.loss": {"kind": "cross_entropy", "label_smoothing": 0.1}},
        "tasks.like.loss.label_smoothing",
        "(got 0.1)",
    ),
    (CHAIN | {"tasks.like.keep_negatives": 0.1}, "tasks.like.keep_negatives", "(got 0.1)"),
    (
        CHAIN | {"tasks.like.calibration": {"kind": "platt"}, "data.validation_days": 1},
        "tasks.like.calibration",
        "(got platt)",
    ),
    (
        CHAIN | {"tasks.stars.only_where": "like"},
        "tasks.stars.only_where",
        "(got 'like')",
    ),
]


@pytest.mark.parametrize(("changes", "place", "value"), FEATURES + TASKS + MODELS, ids=lambda value: str(value)[:60])
def test_what_does_not_fit_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert tells(str(caught.value), place, value), str(caught.value)
    places = [problem.loc for problem in caught.value.problems]
    assert len(places) == len(set(places))


@pytest.mark.parametrize(
    "changes",
    [
        {"features.b": BUCKETS, "features.h": HOUR, "features.a": AGE, "features.user.missing_row": True},
        {"features.b": BUCKETS | {"table": "b"}, "features.c": BUCKETS | {"table": "b"}, "tables.b": {"dim": 2}},
        {"features.pair": CROSS} | PAIRS,
        {"features.tags.weights": "tag_weights"},
        {"features.v": {"kind": "vector", "dim": 3}, "features.w": {"kind": "vector", "column": "v", "dim": 3}},
        {"features.m": {"kind": "match", "column": "friend", "among": "tags", "type": "string"}},
        {
            "features.position": {"kind": "numeric", "normalize": "zscore", "at_serving": 1},
            "features.tags.weights": "w",
        },
        {"features.recent.encoder": {"kind": "transformer", "num_heads": 4}},
        {"features.recent.encoder": DIN} | ONE_DIM,
        {"features.recent.encoder": DIN | {"target": "pair"}, "features.pair": CROSS} | PAIRS,
        {"tasks.stars.only_where": "like", "tasks.stars.missing_label": "mask", "tasks.stars.example_weight": "w"},
        {"tasks.like.keep_negatives": 0.1, "tasks.b": {"kind": "binary", "label": "like"}},
        {"tasks.like.loss": {"kind": "focal", "gamma": 0, "alpha": 0.3}},
        {"tasks.stars": {"kind": "watch_time", "label": "rating"}},
        {"model.top_k": 3, "model.dropout": 0.0},
        {"tasks.stars": REMOVED, "gates.1": REMOVED},
        _dcn(rank=24, num_experts=3, deep_units=[4]),
        _dlrm() | ONE_DIM,
        _dlrm() | ONE_DIM | EMBEDDED,
        {"model": {"kind": "single_task", "interaction": {"kind": "dcn_v2"}}},
        {"model": {"kind": "shared_bottom"}},
        {"model": {"kind": "ple", "num_levels": 1}},
        CHAIN,
        CHAIN | {"tasks.stars.missing_label": "mask"},
        AITM | {"model.calibrator_weight": 0},
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_fits_loads(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes).name == "small"
