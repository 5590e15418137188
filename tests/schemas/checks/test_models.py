"""Features, tasks and models that do not fit each other are refused, with the reason."""

from pathlib import Path
from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
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
        "has no effect: missing says what stands for a missing value (got both, missing 'nobody'); declare one of them",
    ),
    (
        {"features.b": BUCKETS | {"table": "tags2", "missing": 1, "missing_row": True}, "tables.tags2": {"dim": 2}},
        "features.b.missing_row",
        "has no effect: missing says what",
    ),
    (
        {"features.b": BUCKETS | {"missing_row": True}},
        "features.b.missing_row",
        "needs rows (got true without a table); declare a table, or missing: a number",
    ),
    (
        {"features.h": HOUR | {"missing_row": True}},
        "features.h.missing_row",
        "needs rows (got true without a table); declare a table",
    ),
    ({"features.user.at_serving": 3}, "features.user.at_serving", "is no string (got 3); a string"),
    ({"features.age.at_serving": 101}, "features.age.at_serving", "would be clipped (got 101); from 0 to 100"),
    (
        {
            f"features.{name}": {"kind": "numeric", "at_serving": 1}
            for name in ("user", "friend", "tags", "recent", "age")
        }
        | {"tables": {}, "evaluation": REMOVED},
        "features",
        "leave nothing that a prediction depends on: all have at_serving (got age, friend, recent, tags, user)",
    ),
    (
        {"features.b": BUCKETS | {"table": "users"}},
        "features.b.table",
        "table 'users' holds string ids of feature 'user' (got 4 buckets); all features of a table have",
    ),
    (
        {"features.b": BUCKETS | {"table": "h"}, "features.h": HOUR | {"table": "h"}, "tables.h": {"dim": 2}},
        "features.h.table",
        "table 'h' holds 4 buckets of feature 'b' (got hours)",
    ),
    (
        {"features.pair": CROSS | {"table": "users"}},
        "features.pair.table",
        "table 'users' holds string ids of feature 'user' (got pairs of string and string)",
    ),
    (
        {"features.a": AGE | {"since": "seen"}},
        "features.a.since",
        "is the time of the event: the age is 0 (got 'seen')",
    ),
    ({"features.a": AGE | {"clip": [3, 3]}}, "features.a.clip", "leaves nothing (got [3.0, 3.0])"),
    ({"features.a": AGE | {"clip": [-3, 3]}}, "features.a.clip", "starts under 0, where no age is (got [-3.0, 3.0])"),
    ({"features.a": AGE | {"missing": -1}}, "features.a.missing", "is no age (got -1); at least 0"),
    ({"features.a": AGE | {"clip": [0, 3], "missing": 4}}, "features.a.missing", "would be clipped (got 4)"),
    (
        {"features.m": {"kind": "match", "column": "tags", "among": "tags", "type": "string"}},
        "features.m.among",
        "is the id's own column (got 'tags'); a column of lists",
    ),
    ({"features.v": {"kind": "vector", "dim": 1, "normalize": "l2"}}, "features.v.normalize", "leaves the sign alone"),
    (
        {"features.v": {"kind": "vector", "dim": 2}, "features.w": {"kind": "vector", "column": "v", "dim": 3}},
        "features.w",
        "reads column 'v' as list of 3 floats, feature 'v' as list of 2 floats; a column has one type",
    ),
    (
        {"features.tags.weights": "tags"},
        "features.tags",
        "reads column 'tags' as list of float, feature 'tags' as list of string; a column has one type",
    ),
    (
        {"features.recent.max_length": 1, "features.recent.encoder": {"kind": "transformer"}},
        "features.recent.encoder",
        "has no effect: one position has nothing to attend to (got 'transformer' with max_length 1)",
    ),
    (
        {"features.recent.encoder": {"kind": "transformer", "num_heads": 3}},
        "features.recent.encoder.num_heads",
        "does not divide the width of table 'tags' (got 3 of 4); a divisor of 4",
    ),
    (
        {"features.recent.encoder": DIN},
        "features.recent.encoder.target",
        "has another width than the sequence (got 8 for 'user', 4 for the sequence's table 'tags'); give both tables",
    ),
    (
        {"features.recent.encoder": DIN | {"target": "age"}},
        "features.recent.encoder.target",
        "no such feature of one id (got 'age'); features of one id: friend, user",
    ),
    (
        {"features.recent.encoder": DIN | {"target": "tags"}},
        "features.recent.encoder.target",
        "no such feature of one id (got 'tags')",
    ),
]
TASKS: list[Case] = [
    (
        {"tasks.stars.only_where": "rating"},
        "tasks.stars.only_where",
        "is the task's own label: all of its examples would have label 1 (got 'rating'); name the column of an earlier",
    ),
    (
        {"tasks.stars.example_weight": "rating"},
        "tasks.stars.example_weight",
        "is the task's own label: examples with label 0 would count nothing (got 'rating')",
    ),
    (
        {"tasks.stars.only_where": "shown", "features.shown": {"kind": "numeric", "type": "int"}},
        "features.shown",
        "reads only_where of task 'stars' (got 'shown'); it is known only after the event and must not be a feature",
    ),
    (
        {"tasks.stars.example_weight": "age"},
        "features.age",
        "reads the example weights of task 'stars' (got 'age'); it is known only after",
    ),
    (
        {"features.pair": CROSS | {"columns": {"user_id": "string", "like": "int"}}} | PAIRS,
        "features.pair",
        "reads the label of task 'like' (got 'like')",
    ),
    (
        {"tasks.like.only_where": "rating"},
        "tasks.stars",
        "reads column 'rating' as float, task 'like' as int; a column has one type",
    ),
    (
        {"tasks.like.keep_negatives": 0.1, "tasks.b": {"kind": "binary", "keep_negatives": 0.5}},
        "tasks.b.keep_negatives",
        "task 'like' has it too: a row is kept for one task (got 0.5); declare it for one task",
    ),
    (
        {"tasks.like": {"kind": "binary", "keep_negatives": 0.1, "loss": {"kind": "focal"}}},
        "tasks.like.keep_negatives",
        "the logit's correction is exact for plain cross-entropy alone (got loss focal)",
    ),
    (
        {
            "tasks.like.keep_negatives": 0.1,
            "tasks.like.loss": {"kind": "cross_entropy", "label_smoothing": 0.1},
        },
        "tasks.like.keep_negatives",
        "the logit's correction is exact for plain cross-entropy alone (got label_smoothing 0.1)",
    ),
    (
        {"tasks.like.loss": {"kind": "focal", "gamma": 0}},
        "tasks.like.loss.gamma",
        "has no effect: the loss is cross-entropy (got 0 without alpha); use cross_entropy",
    ),
]
MODELS: list[Case] = [
    ({"model.top_k": 4}, "model.top_k", "leaves no expert out (got 4 of 4 experts); less than num_experts"),
    (_dcn(num_experts=2), "model.interaction.num_experts", "needs matrices of low rank (got 2 without a rank)"),
    (
        _dcn(rank=25),
        "model.interaction.rank",
        "is no lower than that of the full matrix (got 25 for inputs of width 25); less than 25; or leave it out",
    ),
    (
        _dlrm(),
        "model.interaction",
        "dot products need vectors of one width (got friend 8, recent 4, tags 4, user 8); give all their tables one",
    ),
    (
        _dlrm(bottom_units=[4]) | ONE_DIM | EMBEDDED,
        "model.interaction.bottom_units",
        "has no effect: no feature is a number (got [4]); remove it",
    ),
    (
        _dlrm() | {"features": {"age": {"kind": "numeric"}}, "tables": {}, "evaluation": REMOVED},
        "model.interaction",
        "has no pair to multiply (got 0 embedded features and 1 numbers)",
    ),
    (
        _dlrm()
        | {"features": {"user": {"kind": "id", "type": "int", "table": "users"}}, "tables": {"users": {"dim": 2}}}
        | {"evaluation": REMOVED},
        "model.interaction",
        "has no pair to multiply (got 1 embedded features and 0 numbers)",
    ),
    (CHAIN | {"model.chain": ["like", "like"]}, "model.chain", "must name every task once (got ['like', 'like']); all"),
    (CHAIN | {"model.chain": ["like", "buy"]}, "model.chain", "must name every task once (got ['like', 'buy'])"),
    (
        CHAIN | {"tasks.third": {"kind": "binary"}},
        "model.chain",
        "must name every task once (got ['like', 'stars']); all of like, stars, third, in the order in which they",
    ),
    (
        {"model": CHAIN["model"]},
        "tasks.stars.kind",
        "esmm multiplies the tasks' probabilities (got regression); use binary, or another model",
    ),
    (
        AITM | {"tasks.like.loss": {"kind": "focal"}},
        "tasks.like.loss.kind",
        "aitm compares the tasks' probabilities, and this loss bends them (got focal); use cross_entropy",
    ),
    (
        CHAIN | {"tasks.like.loss": {"kind": "cross_entropy", "label_smoothing": 0.1}},
        "tasks.like.loss.label_smoothing",
        "esmm multiplies the tasks' probabilities, and this bends them (got 0.1); leave it out",
    ),
    (CHAIN | {"tasks.like.keep_negatives": 0.1}, "tasks.like.keep_negatives", "esmm multiplies the tasks' probabil"),
    (
        CHAIN | {"tasks.stars.only_where": "like"},
        "tasks.stars.only_where",
        "esmm trains every step of the chain on all examples (got 'like'); leave it out",
    ),
]


@pytest.mark.parametrize(("changes", "place", "text"), FEATURES + TASKS + MODELS, ids=lambda value: str(value)[:60])
def test_what_does_not_fit_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, text: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert any(f": {place}: {text}" in line for line in str(caught.value).splitlines()), str(caught.value)
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
        {"features.position": {"kind": "numeric", "at_serving": 1}, "features.tags.weights": "w"},
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
