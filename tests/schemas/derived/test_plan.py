"""The planner's arithmetic, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.plan import Plan, plan, refuse_unfit
from sangam.schemas.derived.sizes import (
    INDEX_BYTES_PER_SLOT,
    INDEX_FIXED_BYTES,
    MOST_ROWS,
    PROCESS_BYTES,
    dense_parameters,
    high_share,
    index_bytes,
)
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from tests.errors import tells
from tests.schemas.sample_specs import loaded

SGD = {"kind": "sgd", "learning_rate": 0.1}
ADAM = {"kind": "adam", "learning_rate": 0.1}
ROWS = {"users": 4_000_000, "tags": 1_000_000}


def of_users_and_posts(dim: int, optimizer: str, **table: Any) -> RankerSpec:
    """Returns a ranker of two tables, of a dimension and a kind of optimizer."""
    declared = {"dim": dim, "optimizer": {"kind": optimizer, "learning_rate": 0.1}} | table
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "published",
                "tables": {"users": declared, "posts": declared},
                "features": {
                    "user": {"kind": "id", "type": "int", "table": "users"},
                    "post": {"kind": "id", "type": "int", "table": "posts"},
                },
                "tasks": {"like": {"kind": "binary"}},
                "model": {"kind": "mmoe"},
                "training": {"batch_size_per_rank": 1024, "dense_optimizer": ADAM, "embedding_optimizer": SGD},
            }
        )
    )


def test_a_row_is_its_embedding_slots_books_key_and_place_in_the_index(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        {"tables.users.optimizer": ADAM, "tables.users.capacity": {"rows": 9, "evict": "least_frequent"}},
    )
    planned = plan(spec, rows=ROWS, ranks=1).tables
    users, tags = planned["users"], planned["tags"]
    assert (users.embedding_bytes, users.slot_bytes, users.book_bytes) == (8 * 4, 2 * 8 * 4, 8)
    assert users.stored_bytes == 32 + 64 + 8 + 8
    assert (tags.embedding_bytes, tags.slot_bytes, tags.book_bytes) == (4 * 4, 4 * 4, 0)
    assert users.index_bytes == (2**23 * INDEX_BYTES_PER_SLOT + INDEX_FIXED_BYTES) / 4_000_000
    assert users.total_bytes == pytest.approx(4_000_000 * (112 + users.index_bytes))


def test_slots_of_an_index_are_a_power_of_two_with_room_for_an_eighth_more() -> None:
    def slots(rows: float) -> float:
        return (index_bytes(rows) - INDEX_FIXED_BYTES) / INDEX_BYTES_PER_SLOT

    assert slots(2**20 * 8 / 9) == 2**20
    assert slots(2**20 * 8 / 9 + 1) == 2**21
    assert slots(0) == 2**14


def test_tables_of_one_dimension_and_optimizer_share_a_group_and_its_books(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        {
            "tables.tags.dim": 8,
            "tables.tags.capacity": {"rows": 9, "evict": "least_frequent"},
            "tables.tags.admission": {"kind": "count", "at_least": 2, "counters": 2048},
            "tables.users.admission": {"kind": "random", "probability": 0.5},
        },
    )
    groups = groups_of(spec)
    assert list(groups) == ["adagrad_8"]
    assert (list(groups["adagrad_8"].tables), groups["adagrad_8"].num_counters) == (["tags", "users"], 2048)
    assert {table.book_bytes for table in plan(spec, rows=ROWS, ranks=2).tables.values()} == {8}
    assert list(groups_of(loaded(tmp_path, {"tables.tags.dim": 8, "tables.tags.optimizer": SGD}))) == [
        "adagrad_8",
        "sgd_8",
    ]


def test_a_rank_holds_its_share_of_rows_and_all_dense_weights(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"tables.users.admission": {"kind": "count", "at_least": 2, "counters": 1024}})
    planned = plan(spec, rows=ROWS, ranks=4)
    stored = 1_000_000 * (8 * 8 + 8) + 250_000 * (4 * 8 + 8)
    index = index_bytes(1_000_000) + index_bytes(250_000)
    dense = 4 * dense_parameters(spec)
    mean = planned.ranks.mean
    assert (mean.rows, mean.tables, mean.counters) == (1_250_000, stored + index, 16 * 1024)
    # Weights, two moments, an average, a gradient.
    assert (mean.dense, mean.process) == (5 * dense, PROCESS_BYTES)
    assert mean.checkpoint == stored + 16 * 1024 + 4 * dense + 1_000_000 * 18
    assert mean.growth == 1_000_000 * (8 * 8 + 8) + index_bytes(1_000_000) / 2
    assert mean.peak == mean.tables + mean.counters + mean.dense + mean.process + mean.checkpoint + mean.growth


def test_parameters_leave_optimizers_out(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    planned = plan(spec, rows=ROWS, ranks=4)
    assert planned.parameters_embedded == 4_000_000 * 8 + 1_000_000 * 4
    assert planned.export_bytes == 4_000_000 * (8 + 32) + 1_000_000 * (8 + 16)
    assert planned.export_peak_bytes == 1.5 * planned.export_bytes
    # 2 ids of 8, 2 lists of 4, 1 number; 4 experts 64-32, 2 tasks with gates of 4 and towers of 16, 3 positions.
    inputs = 2 * 8 + 2 * 4 + 1
    expert = (inputs + 1) * 64 + 65 * 32
    assert planned.parameters_dense == 4 * expert + 2 * ((inputs + 1) * 4 + 33 * 16 + 17) + 3


def test_a_spec_of_numbers_alone_needs_no_rows(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        {"features": {"age": {"kind": "numeric", "normalize": "zscore"}}, "tables": {}, "evaluation": {"slices": []}},
    )
    planned = plan(spec, rows={}, ranks=2)
    assert (planned.tables, planned.ranks.mean.rows, planned.parameters_embedded) == ({}, 0, 0)


def test_a_high_share_lies_over_the_mean_and_is_at_most_everything() -> None:
    assert high_share(1_000_000, 1) == 1_000_000
    assert high_share(1_000_000, 4) == pytest.approx(250_000 + 6 * (250_000 * 3 / 4) ** 0.5)
    assert high_share(3, 4) == 3


def test_capacity_stands_in_for_rows_and_rows_given_win(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"tables.users.capacity": {"rows": 700, "evict": "least_frequent"}})
    assert plan(spec, rows={"tags": 5}, ranks=1).tables["users"].rows == 700
    assert plan(spec, rows={"tags": 5, "users": 6}, ranks=1).tables["users"].rows == 6


def test_unknown_tables_and_missing_rows_are_told(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    with pytest.raises(UserError) as caught:
        plan(spec, rows={"user": 5}, ranks=1)
    assert tells(str(caught.value), "--rows", "(got 'user') ... tags, users")
    with pytest.raises(UserError) as caught:
        plan(spec, rows={"users": 5}, ranks=1)
    assert tells(str(caught.value), "--rows", "(got none for tags) ... --rows tags=1e6")


def test_a_job_whose_capacities_do_not_fit_is_refused(tmp_path: Path) -> None:
    capped = {"tables.users.capacity": {"rows": 10**9, "evict": "least_frequent"}}
    spec = loaded(tmp_path, capped | {"cluster": {"ranks": 2, "data_workers": 1}})
    needed = 2 * plan(spec, rows={"tags": 0}, ranks=2).ranks.high.peak + PROCESS_BYTES
    refuse_unfit(spec, int(needed) + 1)
    with pytest.raises(UserError) as caught:
        refuse_unfit(spec, int(needed) - 1)
    assert tells(str(caught.value), "tables", "(got users: 318 GB for 2 ranks, 318 GB available")
    # The workers of a standing service are not the job's.
    joined = {"ranks": 2, "data_workers": 1, "input_service": {"address": "pool:5050"}}
    refuse_unfit(loaded(tmp_path, capped | {"cluster": joined}), int(needed - PROCESS_BYTES) + 1)


def test_more_rows_of_a_group_than_a_process_can_hold_are_refused() -> None:
    spec = of_users_and_posts(1, "sgd")
    plan(spec, rows={"users": MOST_ROWS - 1, "posts": 1}, ranks=1)
    with pytest.raises(UserError) as caught:
        plan(spec, rows={"users": MOST_ROWS, "posts": 1}, ranks=1)
    assert tells(str(caught.value), "tables", "(got posts, users: 2,147,483,647 on each of 1 ranks")
    ranks = int(str(caught.value).split("at least ")[1].split()[0])
    plan(spec, rows={"users": MOST_ROWS, "posts": 1}, ranks=ranks)


def test_tables_without_a_capacity_are_not_refused(tmp_path: Path) -> None:
    refuse_unfit(loaded(tmp_path), 1)


# posts, users (millions), parameters (billions) and GB as they were published, the floats in a row that explain the
# parameters, and two optimizers of which the one needs less and the other more.
PUBLISHED = [
    (55, 80, 6.63, 60, 49, "rowwise_adagrad", "adam"),
    (28, 50, 3.98, 25, 51, "rowwise_adagrad", "adagrad"),
    (44, 31, 3.70, 55, 49, "adam", None),
]


def _planned(posts: int, users: int, dim: int, optimizer: str) -> Plan:
    rows = {"posts": posts * 10**6, "users": users * 10**6}
    return plan(of_users_and_posts(dim, optimizer), rows=rows, ranks=8)


def _held(planned: Plan) -> float:
    return sum(table.total_bytes for table in planned.tables.values()) / 1e9


@pytest.mark.parametrize(("posts", "users", "billions", "gigabytes", "dim", "less", "more"), PUBLISHED)
def test_published_models_lie_between_two_plans(
    posts: int, users: int, billions: float, gigabytes: float, dim: int, less: str, more: str | None
) -> None:
    low = _planned(posts, users, dim, less)
    assert low.parameters_embedded / 1e9 == pytest.approx(billions, rel=0.01)
    # No row optimizer keeps more than Adam: what exceeds that must hold a copy as well.
    high = _held(_planned(posts, users, dim, more)) if more else 8 * low.ranks.mean.peak / 1e9
    assert _held(low) < gigabytes < high


def test_the_plan_of_adagrad_meets_the_first_published_model() -> None:
    assert _held(_planned(55, 80, 49, "adagrad")) == pytest.approx(60, rel=0.02)


def test_the_page_on_planning_tells_what_the_planner_tells(repository: Path) -> None:
    page = (repository / "docs" / "planning.md").read_text()
    for posts, users, billions, gigabytes, dim, *_ in PUBLISHED:
        optimizers = ("sgd", "rowwise_adagrad", "adagrad", "adam")
        held = [f"{_held(_planned(posts, users, dim, optimizer)):.1f}" for optimizer in optimizers]
        row = " | ".join([f"{posts} + {users}", f"{billions:.2f}", str(gigabytes), str(dim), *held])
        assert f"| {row} |" in page


def test_a_hundred_trillion_parameters_do_not_fit_thirty_hosts_in_float32(repository: Path) -> None:
    room = 30 * 12e12
    rows = {"posts": 390_625_000_000, "users": 390_625_000_000}
    planned = plan(of_users_and_posts(128, "rowwise_adagrad"), rows=rows, ranks=720)
    assert planned.parameters_embedded == 100e12
    assert planned.parameters_embedded * 4 > room
    row = planned.tables["users"]
    halved = row.row_bytes - row.embedding_bytes / 2
    assert 720 * planned.ranks.mean.rows * halved < room
    page = (repository / "docs" / "planning.md").read_text()
    for number in (
        f"{720 * planned.ranks.mean.tables / 1e12:.0f} TB",
        f"{720 * planned.ranks.mean.rows * halved / 1e12:.0f} TB",
    ):
        assert number in page
