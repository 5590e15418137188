"""Every mistake that a spec can hold is found, with its path, the value got and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

Case = tuple[dict[str, Any], str, str]

# (changes of the valid spec, path of the problem, its text or the start of it)
SHAPES: list[Case] = [
    ({"name": REMOVED}, "name", "is missing; it must be declared"),
    ({"name": "Small"}, "name", "not a name (got 'Small'); lower case letters, digits and _"),
    ({"name": "a" * 64}, "name", "not a name"),
    ({"name": 3}, "name", "not allowed (got 3); a text"),
    ({"nam": "x"}, "nam", "unknown key (got 'x'); did you mean 'name'? allowed: alerts, cluster, "),
    ({"data": None}, "data", "not allowed (got null); a mapping"),
    ({"data.kind": REMOVED}, "data.kind", "is missing; one of: 'days', 'splits'"),
    ({"data.kind": "day"}, "data.kind", "unknown kind (got 'day'); one of: 'days', 'splits'"),
    ({"data.format": "orc"}, "data.format", "not allowed (got 'orc'); one of: 'parquet', 'csv', 'tfrecord'"),
    ({"data.train_days": "6"}, "data.train_days", "not allowed (got '6'); a whole number"),
    ({"data.train_days": 0}, "data.train_days", "not allowed (got 0); input should be greater than 0"),
    ({"data.train_days": 1.5}, "data.train_days", "not allowed (got 1.5); a whole number"),
    ({"data.pattern": "/d/{YYYY}{MM}{DD}"}, "data.pattern", "not allowed (got '/d/{YYYY}{MM}{DD}'); must be relative"),
    ({"data.pattern": "a/../{YYYY}{MM}{DD}"}, "data.pattern", "not allowed (got 'a/../{YYYY}{MM}{DD}'); must be rel"),
    ({"data.pattern": "{YYYY}/*"}, "data.pattern", "not allowed (got '{YYYY}/*'); must contain {YYYY}, {MM} and {DD}"),
    ({"data.pattern": "{DD}{DD}{MM}{YYYY}"}, "data.pattern", "not allowed (got '{DD}{DD}{MM}{YYYY}'); must contain"),
    ({"data.missing_days": "ignore"}, "data.missing_days", "not allowed (got 'ignore'); one of: 'error', 'skip'"),
    ({"data.max_dropped_fraction": 1.0}, "data.max_dropped_fraction", "not allowed (got 1.0); input should be less"),
    ({"data.list_separator": "||"}, "data.list_separator", "not allowed (got '||'); string should have at most 1"),
    (
        {"data.splits": {"train": "a"}},
        "data.splits",
        "unknown key (got a mapping of train); allowed: arrival, eval_days, format",
    ),
    ({"tables.users.dimm": 3}, "tables.users.dimm", "unknown key (got 3); did you mean 'dim'? allowed: admission"),
    ({"tables.users.dim": 2_000}, "tables.users.dim", "not allowed (got 2000); input should be less than or equal"),
    ({"tables.Users": {"dim": 3}}, "tables.Users", "not a name (got 'Users'); lower case letters"),
    ({"features": {}}, "features", "has 0 items (got a mapping of none); at least 1 item"),
    ({"features.user.kind": REMOVED}, "features.user.kind", "is missing; one of: 'age', 'buckets', 'cross', 'id', "),
    ({"features.user.kind": "idd"}, "features.user.kind", "unknown kind (got 'idd'); one of: 'numeric', 'buckets', "),
    ({"features.user": 3}, "features.user", "not allowed (got 3); a mapping"),
    ({"features.user.type": "strin"}, "features.user.type", "not allowed (got 'strin'); one of: 'string', 'int'"),
    (
        {"features.age.normalise": "minmax"},
        "features.age.normalise",
        "has been renamed (got 'minmax'); write 'normalize'",
    ),
    ({"features.user.tabel": "u"}, "features.user.tabel", "unknown key (got 'u'); did you mean 'table'? allowed: at"),
    ({"features.user.missing": 1.5}, "features.user.missing", "not allowed (got 1.5); a text; put quotes round it"),
    ({"features.user.column": ""}, "features.user.column", "not allowed (got ''); string should have at least 1"),
    ({"features.age.clip": [3]}, "features.age.clip", "has 1 item (got [3]); exactly 2 items"),
    ({"features.age.clip": [1, 2, 3]}, "features.age.clip", "has 3 items (got [1, 2, 3]); exactly 2 items"),
    ({"features.age.clip": [0, "x"]}, "features.age.clip[1]", "not allowed (got 'x'); a number"),
    ({"features.age.log": 1}, "features.age.log", "not allowed (got 1); true or false"),
    ({"features.id": {"kind": "id"}}, "features.id.type", "is missing"),
    ({"features.tags.combiner": REMOVED}, "features.tags.combiner", "is missing"),
    ({"features.recent.max_length": 0}, "features.recent.max_length", "not allowed (got 0); input should be greater"),
    ({"tasks": {}}, "tasks", "has 0 items"),
    ({"tasks.like.kind": "ranking"}, "tasks.like.kind", "unknown kind (got 'ranking'); one of: 'binary', 'regression'"),
    ({"tasks.like.weight": 0}, "tasks.like.weight", "not allowed (got 0); input should be greater than 0"),
    (
        {"model.kind": "dlrm"},
        "model.kind",
        "unknown kind (got 'dlrm'); one of: 'single_task', 'shared_bottom', 'mmoe', ",
    ),
    ({"model.expert_units": []}, "model.expert_units", "has 0 items (got []); at least 1 item"),
    ({"model.expert_units": 64}, "model.expert_units", "not allowed (got 64); a list"),
    (
        {"training.dense_optimizer.kind": "ftrl"},
        "training.dense_optimizer.kind",
        "unknown kind (got 'ftrl'); one of: 'sgd', 'adagrad', 'adam', 'adamw'",
    ),
    ({"training.dense_optimizer.beta1": 1.0}, "training.dense_optimizer.beta1", "not allowed (got 1.0)"),
    ({"training.seed": -1}, "training.seed", "not allowed (got -1)"),
    ({"training.seed": 2**31}, "training.seed", "not allowed (got 2147483648)"),
    ({"cluster": {"ranks": 0}}, "cluster.ranks", "not allowed (got 0)"),
    ({"cluster": {"rank": 2}}, "cluster.rank", "unknown key (got 2); did you mean 'ranks'?"),
    ({"gates": []}, "gates", "has 0 items (got []); at least 1 item"),
    ({"gates.1.max_rise": -0.1}, "gates[1].max_rise", "not allowed (got -0.1)"),
    ({"push": "none"}, "push", "not allowed (got 'none'); a mapping"),
    ({"push.path": "/srv"}, "push.path", "not allowed (got '/srv'); must be relative"),
    ({"data.train_days": 99_999_999_999}, "data.train_days", "not allowed (got 99999999999); "),
    ({"data.eval_days": 3661}, "data.eval_days", "not allowed (got 3661); "),
    ({"push": {"kind": "none", "path": "x"}}, "push.path", "unknown key (got 'x'); allowed: kind"),
]

SPLITS = {"kind": "splits", "format": "csv", "list_separator": "|", "splits": {"train": "a/*", "eval": "b/*"}}
WHOLE: list[Case] = [
    ({"tasks.age": {"kind": "binary", "label": "old"}}, "tasks.age", "is also the name of a feature (got 'age'); give"),
    ({"features.age.column": "like"}, "features.age.column", "reads the label of task 'like' (got 'like'); it is kn"),
    ({"features.rating": {"kind": "numeric"}}, "features.rating", "reads the label of task 'stars' (got 'rating'); "),
    (
        {"features.age.column": "user_id"},
        "features.age",
        "reads column 'user_id' as float, feature 'user' as string; a column has one type",
    ),
    (
        {"features.friend.column": "tags"},
        "features.tags",
        "reads column 'tags' as list of string, feature 'friend' as string; a column has one type",
    ),
    (
        {"tasks.stars.label": "like", "features.age.column": "years"},
        "tasks.stars",
        "reads column 'like' as float, task 'like' as int; a column has one type",
    ),
    (
        {"features.user.table": "user"},
        "features.user.table",
        "no such table (got 'user'); declared tables: tags, users",
    ),
    (
        {"training.incremental_epochs": 1},
        "training.incremental_epochs",
        "has no effect with mode full (got 1); remove it, or declare mode: incremental",
    ),
    ({"tables.spare": {"dim": 2}}, "tables.spare", "has no effect: no feature uses it (got 'spare'); remove it, or"),
    (
        {"features.age.clip": [5, 5]},
        "features.age.clip",
        "leaves nothing (got [5.0, 5.0]); write [low, high], low < high",
    ),
    (
        {"features.age.clip": [-1, 5]},
        "features.age.log",
        "log(1 + x) needs x >= 0 (got clip [-1.0, 5.0]); declare clip",
    ),
    ({"features.age.clip": REMOVED}, "features.age.log", "log(1 + x) needs x >= 0 (got clip None); declare clip"),
    ({"features.age.missing": -1}, "features.age.missing", "would be clipped (got -1); from 0 to 100, as clip says"),
    (
        {"features.friend.type": "int", "features.friend.missing": 0},
        "features.friend.type",
        "table 'users' holds string ids of feature 'user' (got int); all features of a table have ids of one type",
    ),
    ({"features.friend.missing": 0}, "features.friend.missing", "is no string (got 0); a string"),
    ({"features.recent.max_length": 1}, "features.recent.encoder", "has no effect: one position has nothing to weigh"),
    (
        {"features.tags.max_values": 1},
        "features.tags.combiner",
        "has no effect on one value (got 'mean' with max_values",
    ),
    ({"data.format": "csv"}, "data", "CSV needs a list_separator for recent, tags (got none); for example list_separa"),
    ({"data.list_separator": "|"}, "data.list_separator", "has no effect (got '|'); remove it: only CSV with multi-"),
    (
        {"data": SPLITS | {"splits": {"train": "a/*", "eval": "a/*"}}},
        "data.splits.eval",
        "is the same files as train (got 'a/*'); a split must not be trained on and judged on",
    ),
    ({"evaluation.slices": [[]]}, "evaluation.slices[0]", "is empty or given twice (got []); one or more features"),
    (
        {"evaluation.slices": [["user", "user"]]},
        "evaluation.slices[0]",
        "is empty or given twice (got ['user', 'user'])",
    ),
    ({"evaluation.slices": [["user"], ["user"]]}, "evaluation.slices[1]", "is empty or given twice (got ['user'])"),
    (
        {"evaluation.slices": [["age"]]},
        "evaluation.slices[0][0]",
        "is a feature of kind numeric (got 'age'); examples go together by features of kind id and by keys: friend",
    ),
    (
        {"cluster": {"deadline_s": 60, "heartbeat_timeout_s": 60}},
        "cluster.heartbeat_timeout_s",
        "has no effect: the deadline comes first (got 60); less than deadline_s (60)",
    ),
    (
        {"push.path": "artifacts"},
        "push.path",
        "lies in what Sangam keeps in the pipeline root (got 'artifacts'); a folder",
    ),
    (
        {"push.path": "./runs/models"},
        "push.path",
        "lies in what Sangam keeps in the pipeline root (got './runs/models')",
    ),
    (
        {"push.path": "."},
        "push.path",
        "is the pipeline root itself (got '.'); a folder of its own, such as serving/small",
    ),
    ({"data.times": {"tolerance_days": 3}}, "data.times", "has no effect: no column holds times (got "),
    (
        {"data.max_list_length": 3},
        "data.max_list_length",
        "is less than the values that features read of column 'tags' (got 3, they read 4); raise it, or lower what",
    ),
    (
        {"data.validation_days": 2},
        "data.validation_days",
        "leave no day to train on (got 2 of 2 train_days); fewer than train_days, whose newest days they are",
    ),
]


def test_the_unchanged_spec_is_valid(tmp_path: Path) -> None:
    assert loaded(tmp_path).name == "small"


@pytest.mark.parametrize(("changes", "place", "text"), SHAPES + WHOLE, ids=lambda value: str(value)[:60])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, text: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    lines = str(caught.value).splitlines()
    assert any(f": {place}: {text}" in line for line in lines), str(caught.value)
    assert all(line.startswith(f"{path}: ") and "; " in line for line in lines)
    # The same place is told once.
    places = [problem.loc for problem in caught.value.problems]
    assert len(places) == len(set(places))


def test_a_number_where_an_id_may_be_a_text_or_a_number_names_both(tmp_path: Path) -> None:
    path = write(tmp_path / "spec.yaml", changed({"features.friend.missing": [1]}))
    with pytest.raises(
        SpecError, match=r"features\.friend\.missing: not allowed \(got \[1\]\); a text.*, or a whole number"
    ):
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
