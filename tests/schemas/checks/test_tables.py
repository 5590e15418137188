"""What a spec says of its tables: their tags, their optimizers, admission, expiry and capacity."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

from sangam.schemas.checks import find_problems
from sangam.schemas.checks.features import MAX_TABLES
from sangam.schemas.derived.columns import columns
from sangam.schemas.loading import load_spec
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import Inputs, digest
from sangam.schemas.spec.optimizers import Adagrad, Adam, Ftrl, RowOptimizer, RowwiseAdagrad, Sgd
from sangam.schemas.spec.tables import Capacity, CountAdmission, RandomAdmission, Table
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

# (changes of the valid spec, path of the problem, the value that it tells of)
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"tables.users.admission": {}}, "tables.users.admission.kind", "is missing ... 'count', 'random'"),
    ({"tables.users.admission": {"kind": "counts"}}, "tables.users.admission.kind", "(got 'counts') ... 'count'"),
    ({"tables.users.admission": {"kind": "count"}}, "tables.users.admission.at_least", "is missing"),
    (
        {"tables.users.admission": {"kind": "count", "at_least": 1}},
        "tables.users.admission.at_least",
        "(got 1)",
    ),
    (
        {"tables.users.admission": {"kind": "count", "at_least": 2, "counters": 1023}},
        "tables.users.admission.counters",
        "(got 1023)",
    ),
    (
        {"tables.users.admission": {"kind": "count", "at_least": 2, "counter": 4096}},
        "tables.users.admission.counter",
        "(got 4096) ... 'counters'",
    ),
    (
        {"tables.users.admission": {"kind": "random", "probability": 1}},
        "tables.users.admission.probability",
        "(got 1)",
    ),
    (
        {"tables.users.admission": {"kind": "random", "probability": 0}},
        "tables.users.admission.probability",
        "(got 0)",
    ),
    (
        {"tables.users.optimizer": {"kind": "adamw", "learning_rate": 0.1}},
        "tables.users.optimizer.kind",
        "(got 'adamw') ... 'sgd', 'adagrad', 'rowwise_adagrad', 'adam', 'ftrl'",
    ),
    (
        {"tables.users.optimizer": {"kind": "ftrl", "learning_rate": 0.1, "l1": -1}},
        "tables.users.optimizer.l1",
        "(got -1)",
    ),
    ({"tables.users.dropout": 1}, "tables.users.dropout", "(got 1)"),
    (
        {"tables.users.optimizer": {"kind": "ftrl", "learning_rate": 0.1}, "tables.users.weight_decay": 0.01},
        "tables.users.weight_decay",
        "(got 0.01) ... l2",
    ),
    (
        {"tables.users.capacity": {"rows": 5_000_000_000, "evict": "least_frequent"}},
        "tables.users.capacity.rows",
        "(got users: 2,500, ... on each of 2 ranks, which may hold 2,147,483,646 ... at least 3 ranks",
    ),
    ({"tables.users.capacity": {"rows": 0}}, "tables.users.capacity.rows", "(got 0)"),
    (
        {"tables.users.capacity": {"rows": 9, "evict": "oldest"}},
        "tables.users.capacity.evict",
        "(got 'oldest') ... 'least_recent', 'least_frequent'",
    ),
    ({"tables.users.expire_after_days": 0}, "tables.users.expire_after_days", "(got 0)"),
    (
        {"tables.users.expire_after_days": 30},
        "tables.users",
        "(got no event_time)",
    ),
    ({"tables.tags.capacity": {"rows": 9}}, "tables.tags", "(got no event_time)"),
    (
        {"event_time": "at"},
        "event_time",
        "(got 'at')",
    ),
    (
        {"event_time": "rating", "tables.users.expire_after_days": 30},
        "event_time",
        "(got 'rating')",
    ),
    (
        {"event_time": "age", "tables.users.expire_after_days": 30},
        "event_time",
        "'age' ... 'age'",
    ),
    (
        {
            "event_time": "times",
            "tables.users.expire_after_days": 30,
            "tables.times": {"dim": 2},
            "features.times": {"kind": "ids", "type": "int", "table": "times", "combiner": "sum"},
        },
        "event_time",
        "'times' ... 'times'",
    ),
    (
        {"training.evict_every_steps": 10},
        "training.evict_every_steps",
        "(got 10) ... expire_after_days",
    ),
    (
        {
            "training.mode": "incremental",
            "data": {"kind": "splits", "format": "parquet", "splits": {"train": "a/*", "eval": "b/*"}},
        },
        "training.mode",
        "(got 'incremental' with data of kind splits)",
    ),
    ({"training.mode": "daily"}, "training.mode", "(got 'daily') ... 'full', 'incremental'"),
    ({"training.dense_precision": "float16"}, "training.dense_precision", "(got 'float16')"),
    (
        {"tables.users.place": "device", "training.dense_place": "host"},
        "tables.users.place",
        "(got device, and training.dense_place host) ... auto",
    ),
    (
        {"tables.users.place": "device", "training.sync": {"kind": "stale"}},
        "tables.users.place",
        "parameter servers hold the rows ... of kind stale",
    ),
    ({"tables.users.unseen": 1.0}, "tables.users.unseen", "(got 1.0)"),
    ({"tables.users.unseen": "often"}, "tables.users.unseen", "(got 'often')"),
    (
        {"tables.users.unseen": "auto", "tables.users.default_value": 0.5},
        "tables.users.unseen",
        "(got default_value 0.5)",
    ),
    ({"tables.users.place": "gpu"}, "tables.users.place", "(got 'gpu') ... 'host', 'device'"),
    ({"training.checkpoint": {"keep": 0}}, "training.checkpoint.keep", "(got 0)"),
    ({"training.checkpoint": {"every": 10}}, "training.checkpoint.every", "(got 10)"),
    ({"training.max_skipped_steps": -1}, "training.max_skipped_steps", "(got -1)"),
    ({"cluster": {"retries": -1}}, "cluster.retries", "(got -1)"),
]

ALLOWED: list[dict[str, Any]] = [
    {"tables.users.admission": {"kind": "count", "at_least": 2}},
    {"tables.users.admission": {"kind": "random", "probability": 0.5}, "tables.users.default_value": -0.25},
    {"tables.users.unseen": "auto", "tables.tags.unseen": 0.3},
    {"tables.users.expire_after_days": 30, "event_time": "at"},
    {"tables.users.expire_after_days": 30, "event_time": "at", "training.evict_every_steps": 10},
    {"tables.users.capacity": {"rows": 9}, "event_time": "at"},
    {"tables.users.capacity": {"rows": 9, "evict": "least_frequent"}},
    {
        "tables.users.capacity": {"rows": 9},
        "event_time": "at",
        "features.at": {"kind": "numeric", "normalize": "zscore", "type": "int"},
    },
    {"tables.tags.optimizer": {"kind": "ftrl", "learning_rate": 0.1, "l1": 0.5}},
    {"training.mode": "incremental"},
    {"training.dense_precision": "bfloat16", "training.checkpoint": {"every_steps": 5, "keep": 1}},
    {"training.max_skipped_steps": 0, "cluster": {"retries": 0}},
    {"tables.users.place": "device", "training.dense_precision": "tf32"},
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES, ids=lambda value: str(value)[:70])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert tells(str(caught.value), place, value), str(caught.value)


@pytest.mark.parametrize("changes", ALLOWED, ids=str)
def test_what_is_allowed_loads(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert find_problems(loaded(tmp_path, changes)) == []


def test_more_tables_than_tags_are_refused(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    for number, wrong in ((MAX_TABLES, False), (MAX_TABLES + 1, True)):
        many = {f"t{index}": Table(dim=1) for index in range(number)}
        text = "\n".join(str(problem) for problem in find_problems(spec.model_copy(update={"tables": many})))
        assert tells(text, "tables", f"(got {number}) ... 2047") is wrong


@pytest.mark.parametrize(
    ("optimizer", "floats"),
    [
        (Sgd(kind="sgd", learning_rate=0.1), 0),
        (Adagrad(kind="adagrad", learning_rate=0.1), 12),
        (RowwiseAdagrad(kind="rowwise_adagrad", learning_rate=0.1), 1),
        (Adam(kind="adam", learning_rate=0.1), 24),
        (Ftrl(kind="ftrl", learning_rate=0.1), 24),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_an_optimizer_says_how_many_floats_it_keeps_for_a_row(optimizer: RowOptimizer, floats: int) -> None:
    assert optimizer.slot_floats(12) == floats


def test_a_table_without_an_optimizer_has_that_of_the_training(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"tables.tags.optimizer": {"kind": "ftrl", "learning_rate": 0.2, "l2": 1}})
    assert spec.optimizer_of("users") == Adagrad(kind="adagrad", learning_rate=0.1)
    assert spec.optimizer_of("tags") == Ftrl(kind="ftrl", learning_rate=0.2, l2=1.0)


@pytest.mark.parametrize("kind", ["ftrl", "rowwise_adagrad"])
def test_dense_weights_do_not_learn_by_the_optimizers_of_rows_alone(tmp_path: Path, kind: str) -> None:
    allowed = rf"unknown kind \(got '{kind}'\); .*one of: 'sgd', 'adagrad', 'adam', 'adamw'"
    with pytest.raises(SpecError, match=allowed):
        loaded(tmp_path, {"training.dense_optimizer.kind": kind})


LEAST_RECENT, LEAST_FREQUENT = Capacity(rows=9), Capacity(rows=9, evict="least_frequent")


@pytest.mark.parametrize(
    ("table", "tracks_usage", "needs_event_time"),
    [
        (Table(dim=2), False, False),
        (Table(dim=2, admission=CountAdmission(kind="count", at_least=2)), False, False),
        (Table(dim=2, admission=RandomAdmission(kind="random", probability=0.5)), False, False),
        (Table(dim=2, expire_after_days=1), True, True),
        (Table(dim=2, capacity=LEAST_RECENT), True, True),
        (Table(dim=2, capacity=LEAST_FREQUENT), True, False),
        (Table(dim=2, capacity=LEAST_FREQUENT, expire_after_days=1), True, True),
    ],
)
def test_books_and_times_are_kept_for_tables_that_give_up_rows(
    table: Table, tracks_usage: bool, needs_event_time: bool
) -> None:
    assert (table.tracks_usage, table.needs_event_time) == (tracks_usage, needs_event_time)


def test_tags_are_numbers_from_one_by_name_of_the_tables_that_features_read(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert spec.table_tags() == {"tags": 1, "users": 2}
    assert spec.inputs().table_tags() == spec.table_tags()
    more = {"tables.a": {"dim": 2}, "features.a": {"kind": "id", "type": "int", "table": "a"}}
    assert loaded(tmp_path, more).table_tags() == {"a": 1, "tags": 2, "users": 3}


def test_tags_do_not_change_with_dimensions_or_optimizers(tmp_path: Path) -> None:
    changes = {"tables.users.dim": 64, "tables.users.optimizer": {"kind": "sgd", "learning_rate": 1}}
    assert loaded(tmp_path, changes).table_tags() == loaded(tmp_path).table_tags()


TIMED = {"tables.users.expire_after_days": 30, "event_time": "at"}


def test_the_time_of_the_event_is_a_required_integer_column_and_an_input(tmp_path: Path) -> None:
    timed, plain = loaded(tmp_path, TIMED), loaded(tmp_path)
    assert Column(name="at", type="int", time="event") in columns(timed)
    assert timed.inputs().event_time == "at"
    assert digest(timed.inputs()) != digest(plain.inputs())
    assert columns(Inputs.model_validate_json(timed.inputs().model_dump_json())) == columns(timed)


def test_a_feature_may_read_the_time_of_the_event(tmp_path: Path) -> None:
    when = {"kind": "numeric", "normalize": "zscore", "type": "int", "column": "at", "missing": 0}
    spec = loaded(tmp_path, TIMED | {"features.when": when})
    assert [column for column in columns(spec) if column.name == "at"] == [Column(name="at", type="int", time="event")]


@pytest.mark.parametrize(
    "changes",
    [
        {"tables.users.admission": {"kind": "count", "at_least": 2}},
        {"tables.users.default_value": 0.5},
        {"tables.users.unseen": 0.5},
        {"tables.users.optimizer": {"kind": "adagrad", "learning_rate": 0.2}},
        {"training.mode": "incremental"},
        {"training.dense_precision": "bfloat16"},
    ],
    ids=str,
)
def test_what_tables_declare_belongs_to_the_model_and_not_to_its_inputs(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    plain, other = loaded(tmp_path), loaded(tmp_path, changes)
    assert digest(other.ranker()) != digest(plain.ranker())
    assert digest(other.inputs()) == digest(plain.inputs())


def test_tables_are_frozen(tmp_path: Path) -> None:
    table = loaded(tmp_path, {"tables.users.capacity": {"rows": 9, "evict": "least_frequent"}}).tables["users"]
    for part, field in ((table, "dim"), (table.capacity, "rows")):
        with pytest.raises(pydantic.ValidationError, match="frozen"):
            setattr(part, field, 1)


def test_a_spec_without_tables_has_no_tags(tmp_path: Path) -> None:
    features = {"age": {"kind": "numeric", "normalize": "zscore"}}
    spec = loaded(tmp_path, {"features": features, "tables": REMOVED, "evaluation": {"slices": []}})
    assert spec.table_tags() == {}
