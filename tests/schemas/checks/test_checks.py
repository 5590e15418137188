"""Every mistake that a spec can hold is found, with its path, the value got and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import place_and_value, tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

Case = tuple[dict[str, Any], str, str]

# (changes of the valid spec, path of the problem, the value that it tells of)
SHAPES: list[Case] = [
    ({"name": REMOVED}, "name", "is missing"),
    ({"name": "Small"}, "name", "(got 'Small')"),
    ({"name": "a" * 64}, "name", f"(got '{'a' * 64}')"),
    ({"name": 3}, "name", "(got 3)"),
    ({"nam": "x"}, "nam", "(got 'x') ... 'name'"),
    ({"data": None}, "data", "(got null)"),
    ({"data.kind": REMOVED}, "data.kind", "is missing ... 'days', 'served', 'splits'"),
    ({"data.kind": "day"}, "data.kind", "(got 'day') ... 'days', 'served', 'splits'"),
    ({"data.format": "orc"}, "data.format", "(got 'orc') ... 'parquet', 'csv', 'jsonl', 'tfrecord'"),
    ({"data.train_days": "6"}, "data.train_days", "(got '6')"),
    ({"data.train_days": 0}, "data.train_days", "(got 0)"),
    ({"data.train_days": 1.5}, "data.train_days", "(got 1.5)"),
    ({"data.pattern": "/d/{YYYY}{MM}{DD}"}, "data.pattern", "(got '/d/{YYYY}{MM}{DD}')"),
    ({"data.pattern": "a/../{YYYY}{MM}{DD}"}, "data.pattern", "(got 'a/../{YYYY}{MM}{DD}')"),
    ({"data.pattern": "{YYYY}/*"}, "data.pattern", "(got '{YYYY}/*')"),
    ({"data.pattern": "{YYYY}/{MM}/{M}/{D}"}, "data.pattern", "(got '{YYYY}/{MM}/{M}/{D}')"),
    ({"data.pattern": "{DD}{DD}{MM}{YYYY}"}, "data.pattern", "(got '{DD}{DD}{MM}{YYYY}')"),
    ({"data.missing_days": "ignore"}, "data.missing_days", "(got 'ignore') ... 'error', 'skip'"),
    ({"data.max_dropped_fraction": 1.0}, "data.max_dropped_fraction", "(got 1.0)"),
    ({"data.list_separator": "||"}, "data.list_separator", "(got '||')"),
    (
        {"data.splits": {"train": "a"}},
        "data.splits",
        "(got a mapping of train) ... format",
    ),
    ({"tables.users.dimm": 3}, "tables.users.dimm", "(got 3) ... 'dim'"),
    ({"tables.users.dim": 2_000}, "tables.users.dim", "(got 2000)"),
    ({"tables.Users": {"dim": 3}}, "tables.Users", "(got 'Users')"),
    ({"features": {}}, "features", "(got a mapping of none) ... 1"),
    ({"features.user.kind": REMOVED}, "features.user.kind", "is missing ... 'age', 'buckets', 'count', 'cross'"),
    ({"features.user.kind": "idd"}, "features.user.kind", "(got 'idd') ... 'numeric', 'buckets'"),
    ({"features.user": 3}, "features.user", "(got 3)"),
    ({"features.user.type": "strin"}, "features.user.type", "(got 'strin') ... 'string', 'int'"),
    ({"features.user.tabel": "u"}, "features.user.tabel", "(got 'u') ... 'table'"),
    ({"features.user.missing": 1.5}, "features.user.missing", "(got 1.5)"),
    ({"features.user.column": ""}, "features.user.column", "(got '')"),
    ({"features.age.clip": [3]}, "features.age.clip", "(got [3]) ... 2"),
    ({"features.age.clip": [1, 2, 3]}, "features.age.clip", "(got [1, 2, 3]) ... 2"),
    ({"features.age.clip": [0, "x"]}, "features.age.clip[1]", "(got 'x')"),
    ({"features.age.log": 1}, "features.age.log", "(got 1)"),
    ({"features.id": {"kind": "id"}}, "features.id.type", "is missing"),
    ({"features.tags.combiner": REMOVED}, "features.tags.combiner", "is missing"),
    ({"features.recent.max_length": 0}, "features.recent.max_length", "(got 0)"),
    ({"tasks": {}}, "tasks", "(got a mapping of none)"),
    ({"tasks.like.kind": "ranking"}, "tasks.like.kind", "(got 'ranking') ... 'binary', 'regression'"),
    ({"tasks.like.weight": 0}, "tasks.like.weight", "(got 0)"),
    (
        {"model.kind": "dlrm"},
        "model.kind",
        "(got 'dlrm') ... 'single_task', 'shared_bottom', 'mmoe'",
    ),
    ({"model.expert_units": []}, "model.expert_units", "(got []) ... 1"),
    ({"model.expert_units": 64}, "model.expert_units", "(got 64)"),
    (
        {"training.dense_optimizer.kind": "ftrl"},
        "training.dense_optimizer.kind",
        "(got 'ftrl') ... 'sgd', 'adagrad', 'adam', 'adamw'",
    ),
    ({"training.dense_optimizer.beta1": 1.0}, "training.dense_optimizer.beta1", "(got 1.0)"),
    ({"training.seed": -1}, "training.seed", "(got -1)"),
    ({"training.seed": 2**31}, "training.seed", "(got 2147483648)"),
    ({"training.sync": "stale"}, "training.sync", "(got 'stale') ... {kind: stale}"),
    ({"training.sync": "stael"}, "training.sync", "(got 'stael') ... kind ... 'async', 'shadow', 'stale', 'sync'"),
    ({"training.sync": None}, "training.sync", "(got null) ... kind ... 'async', 'shadow', 'stale', 'sync'"),
    ({"training.sync": ["stale"]}, "training.sync", '(got ["stale"]) ... kind'),
    ({"training.sync": {}}, "training.sync.kind", "is missing ... 'async', 'shadow', 'stale', 'sync'"),
    (
        {"training.sync": {"kind": "stael"}},
        "training.sync.kind",
        "(got 'stael') ... 'sync', 'stale', 'shadow', 'async'",
    ),
    ({"training.sync": {"kind": "stale", "staleness": -1}}, "training.sync.staleness", "(got -1) ... 0 ... 64"),
    ({"training.sync": {"kind": "stale", "staleness": 65}}, "training.sync.staleness", "(got 65) ... 0 ... 64"),
    ({"training.sync": {"kind": "sync", "staleness": 1}}, "training.sync.staleness", "(got 1) ... kind"),
    (
        {"training.sync": {"kind": "shadow", "algorithm": "avg"}},
        "training.sync.algorithm",
        "(got 'avg') ... 'easgd', 'ma', 'bmuf'",
    ),
    ({"training.sync": {"kind": "shadow", "elastic_rate": 0}}, "training.sync.elastic_rate", "(got 0) ... 0 ... 1"),
    (
        {"training.sync": {"kind": "shadow", "compare_every_steps": 9}},
        "training.sync.compare_every_steps",
        "(got 9) ... every_steps",
    ),
    (
        {"training.sync": {"kind": "async", "wire": "bfloat16"}},
        "training.sync.wire",
        "(got 'bfloat16') ... 'float32', 'float16'",
    ),
    ({"cluster": {"parameter_servers": 0}}, "cluster.parameter_servers", "(got 0) ... 0"),
    ({"cluster": {"ranks": 0}}, "cluster.ranks", "(got 0)"),
    ({"cluster": {"rank": 2}}, "cluster.rank", "(got 2) ... 'ranks'"),
    ({"gates": []}, "gates", "(got []) ... 1"),
    ({"gates.1.max_rise": -0.1}, "gates[1].max_rise", "(got -0.1)"),
    ({"push": "none"}, "push", "(got 'none')"),
    ({"push.path": "/srv"}, "push.path", "(got '/srv')"),
    ({"data.train_days": 99_999_999_999}, "data.train_days", "(got 99999999999)"),
    ({"data.eval_days": 3661}, "data.eval_days", "(got 3661)"),
    ({"push": {"kind": "none", "path": "x"}}, "push.path", "(got 'x') ... kind"),
]

SPLITS = {"kind": "splits", "format": "csv", "list_separator": "|", "splits": {"train": "a/*", "eval": "b/*"}}
WHOLE: list[Case] = [
    ({"tasks.age": {"kind": "binary", "label": "old"}}, "tasks.age", "(got 'age')"),
    ({"features.age.column": "like"}, "features.age.column", "(got 'like')"),
    ({"features.rating": {"kind": "numeric", "normalize": "zscore"}}, "features.rating", "(got 'rating')"),
    (
        {"features.age.column": "user_id"},
        "features.age",
        "'user_id' ... 'user'",
    ),
    (
        {"features.friend.column": "tags"},
        "features.tags",
        "'tags' ... 'friend'",
    ),
    (
        {"tasks.stars.label": "like", "features.age.column": "years"},
        "tasks.stars",
        "'like' ... 'like'",
    ),
    (
        {"features.user.table": "user"},
        "features.user.table",
        "(got 'user')",
    ),
    (
        {"training.incremental_epochs": 1},
        "training.incremental_epochs",
        "(got 1)",
    ),
    ({"tables.spare": {"dim": 2}}, "tables.spare", "(got 'spare')"),
    (
        {"features.age.clip": [5, 5]},
        "features.age.clip",
        "(got [5.0, 5.0])",
    ),
    (
        {"features.age.clip": [-1, 5]},
        "features.age.log",
        "(got clip [-1.0, 5.0])",
    ),
    ({"features.age.clip": REMOVED}, "features.age.log", "(got clip None)"),
    ({"features.age.missing": -1}, "features.age.missing", "(got -1) ... 0"),
    (
        {"features.friend.type": "int", "features.friend.missing": 0},
        "features.friend.type",
        "(got int)",
    ),
    ({"features.friend.missing": 0}, "features.friend.missing", "(got 0)"),
    ({"features.recent.max_length": 1}, "features.recent.encoder", "max_length 1"),
    (
        {"features.tags.max_values": 1},
        "features.tags.combiner",
        "(got 'mean' with max_values",
    ),
    ({"data.format": "csv"}, "data", "recent, tags (got none)"),
    ({"data.list_separator": "|"}, "data.list_separator", "(got '|')"),
    (
        {"data": SPLITS | {"splits": {"train": "a/*", "eval": "a/*"}}},
        "data.splits.eval",
        "(got 'a/*')",
    ),
    ({"evaluation.slices": [[]]}, "evaluation.slices[0]", "(got [])"),
    (
        {"evaluation.slices": [["user", "user"]]},
        "evaluation.slices[0]",
        "(got ['user', 'user'])",
    ),
    ({"evaluation.slices": [["user"], ["user"]]}, "evaluation.slices[1]", "(got ['user'])"),
    (
        {"evaluation.slices": [["age"]]},
        "evaluation.slices[0][0]",
        "(got 'age')",
    ),
    (
        {"cluster": {"share_processes": [["schema_gen"]]}},
        "cluster.share_processes[0]",
        "(got schema_gen)",
    ),
    (
        {"cluster": {"share_processes": [["statistics_gen", "schema_gen"]]}},
        "cluster.share_processes[0]",
        "(got statistics_gen, schema_gen)",
    ),
    (
        {"cluster": {"share_processes": [["transform", "trainer"]]}},
        "cluster.share_processes[0]",
        "(got transform, trainer)",
    ),
    (
        {"cluster": {"share_processes": [["schema_gen", "statistics_gen"], ["statistics_gen", "example_validator"]]}},
        "cluster.share_processes[1]",
        "(got statistics_gen)",
    ),
    (
        {"cluster": {"share_processes": [["infra_validator", "pusher"]], "steps": {"pusher": {"memory": "1GiB"}}}},
        "cluster.share_processes[0]",
        "(got infra_validator: not those of pusher)",
    ),
    ({"cluster": {"queue": "team"}}, "cluster.queue", "(got team)"),
    (
        {"cluster": {"deadline_s": 60, "heartbeat_timeout_s": 60}},
        "cluster.heartbeat_timeout_s",
        "(got 60) ... deadline_s",
    ),
    (
        {"push.path": "artifacts"},
        "push.path",
        "(got 'artifacts')",
    ),
    (
        {"push.path": "./runs/models"},
        "push.path",
        "(got './runs/models')",
    ),
    (
        {"push.path": "s3://bucket"},
        "push.path",
        "(got 's3://bucket') ... s3://bucket/serving",
    ),
    (
        {"push.path": "https://host/folder"},
        "push.path",
        "(got 'https://host/folder')",
    ),
    (
        {"push.path": "."},
        "push.path",
        "(got '.')",
    ),
    ({"data.times": {"tolerance_days": 3}}, "data.times", "tolerance_days"),
    (
        {"data.max_list_length": 3},
        "data.max_list_length",
        "(got 3, they read 4)",
    ),
    (
        {"data.validation_days": 2},
        "data.validation_days",
        "(got 2 of 2 train_days) ... train_days",
    ),
]


def test_the_unchanged_spec_is_valid(tmp_path: Path) -> None:
    assert loaded(tmp_path).name == "small"


@pytest.mark.parametrize(("changes", "place", "value"), SHAPES + WHOLE, ids=lambda value: str(value)[:60])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    lines = str(caught.value).splitlines()
    assert tells(str(caught.value), place, value), str(caught.value)
    assert all(line.startswith(f"{path}: ") and "; " in line for line in lines)
    # The same place is told once.
    places = [problem.loc for problem in caught.value.problems]
    assert len(places) == len(set(places))


def test_a_number_where_an_id_may_be_a_string_or_a_number_names_both(tmp_path: Path) -> None:
    path = write(tmp_path / "spec.yaml", changed({"features.friend.missing": [1]}))
    with pytest.raises(SpecError, match=place_and_value("features.friend.missing", "(got [1]) ... string ... number")):
        load_spec(path)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: X\ntables:\n  t: {dim: 0}\nnam: 1\n")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert [problem.line for problem in caught.value.problems if problem.line] == [1, 3, 4]
    missing = {problem.loc[0] for problem in caught.value.problems if problem.what == "is missing"}
    assert missing == {"data", "features", "tasks", "model", "training", "gates", "push"}


@pytest.mark.parametrize(
    "changes",
    [
        {"data": SPLITS},
        {"data": SPLITS | {"splits": {"train": "a", "eval": "b", "validation": "c"}}},
        {"data.format": "csv", "data.list_separator": "|"},
        {"push": {"kind": "none"}},
        {"features.age.clip": REMOVED, "features.age.log": False},
        {"features.recent.max_length": 1, "features.recent.encoder": {"kind": "mean"}},
        {"features.twin": {"kind": "id", "column": "user_id", "type": "string", "table": "tags"}},
        {"gates": [{"task": "like", "metric": "auc", "at_least": 0}]},
        {"tasks.like_again": {"kind": "binary", "label": "like"}},
        {"training.dense_optimizer.learning_rate": 1},
    ],
)
def test_what_is_allowed_loads(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes).name == "small"
