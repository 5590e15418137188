"""Where rows and dense weights are in each mode of training, in bytes."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.plan import Plan, plan, refuse_unfit
from sangam.schemas.derived.sizes import PROCESS_BYTES, dense_parameters, high_share, index_bytes
from sangam.schemas.errors import UserError
from tests.errors import tells
from tests.schemas.sample_specs import loaded

ROWS = {"users": 4_000_000, "tags": 1_000_000}
COUNTED = {"tables.users.admission": {"kind": "count", "at_least": 2, "counters": 1024}}
# Per example two ids of 8 floats, and 4 + 3 ids of 4 floats, each with a key, an embedding and its gradient.
BYTES_PER_EXAMPLE = 2 * (8 + 2 * 4 * 8) + 7 * (8 + 2 * 4 * 4)
BATCH = 16 * BYTES_PER_EXAMPLE


def planned(tmp_path: Path, **sync: Any) -> tuple[Plan, int]:
    """Returns the plan of 3 ranks and 2 servers, and the bytes of the dense weights; the optimizer is Adam."""
    spec = loaded(tmp_path, COUNTED | {"training.sync": sync})
    return plan(spec, rows=ROWS, ranks=3, servers=2), 4 * dense_parameters(spec)


def test_a_server_holds_its_share_of_rows_counters_and_copies_of_them(tmp_path: Path) -> None:
    made, _ = planned(tmp_path, kind="stale", staleness=1)
    assert made.servers is not None
    assert made.servers.number == 2
    stored = 2_000_000 * (8 * 8 + 8) + 500_000 * (4 * 8 + 8)
    mean = made.servers.mean
    assert mean.rows == 2_500_000
    assert mean.tables == stored + index_bytes(2_000_000) + index_bytes(500_000)
    assert mean.counters == 16 * 1024
    assert mean.in_flight == 3 * 2 * BATCH / 2
    assert (mean.dense, mean.process) == (0, PROCESS_BYTES)
    assert mean.checkpoint == stored + 16 * 1024 + 2_000_000 * 18
    assert mean.growth == 2_000_000 * (8 * 8 + 8) + index_bytes(2_000_000) / 2
    assert mean.held == mean.tables + mean.counters + mean.in_flight + mean.dense + mean.process
    assert made.servers.high.rows > mean.rows
    assert made.tables["users"].index_bytes == 2 * index_bytes(high_share(4_000_000, 2)) / 4_000_000


def test_a_rank_beside_servers_holds_no_table_but_batches_in_flight(tmp_path: Path) -> None:
    made, dense = planned(tmp_path, kind="stale", staleness=3)
    rank = made.ranks.mean
    assert made.ranks.high == rank
    assert (rank.rows, rank.tables, rank.counters, rank.growth) == (0, 0, 0, 0)
    assert rank.in_flight == 4 * BATCH
    assert rank.dense == 5 * dense  # Weights, two moments, an average, a gradient.
    assert rank.checkpoint == 4 * dense


def test_without_staleness_one_batch_is_in_flight(tmp_path: Path) -> None:
    made, _ = planned(tmp_path, kind="async", staleness=0)
    assert made.ranks.mean.in_flight == BATCH


def test_async_servers_hold_weights_moments_and_a_gradient_and_ranks_save_them(tmp_path: Path) -> None:
    made, dense = planned(tmp_path, kind="async")
    stale, _ = planned(tmp_path, kind="stale")
    assert made.servers is not None
    assert stale.servers is not None
    assert (made.ranks.mean.dense, made.ranks.mean.checkpoint) == (4 * dense, 3 * dense)
    assert made.servers.mean.dense == 4 * dense / 2
    assert made.servers.mean.checkpoint == stale.servers.mean.checkpoint


@pytest.mark.parametrize(("algorithm", "copies"), [("easgd", 1), ("ma", 1 + 3), ("bmuf", 2 + 3)])
def test_shadow_servers_hold_what_is_averaged(tmp_path: Path, algorithm: str, copies: int) -> None:
    made, dense = planned(tmp_path, kind="shadow", algorithm=algorithm)
    stale, _ = planned(tmp_path, kind="stale")
    assert made.servers is not None
    assert stale.servers is not None
    assert made.servers.mean.dense == copies * dense / 2
    # The first rank saves the average.
    assert made.servers.mean.checkpoint == stale.servers.mean.checkpoint
    # Weights, two moments, a gradient, and the weights that it moves towards.
    assert (made.ranks.mean.dense, made.ranks.mean.checkpoint) == (5 * dense, 3 * dense)


def test_the_spec_says_how_many_servers_there_are(tmp_path: Path) -> None:
    stale = {"training.sync": {"kind": "stale"}}
    one = plan(loaded(tmp_path, stale), rows=ROWS, ranks=2).servers
    three = plan(loaded(tmp_path, stale | {"cluster": {"parameter_servers": 3}}), rows=ROWS, ranks=2).servers
    assert one is not None
    assert three is not None
    assert (one.number, three.number) == (1, 3)
    assert plan(loaded(tmp_path), rows=ROWS, ranks=2).servers is None


def test_servers_in_a_mode_without_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        plan(loaded(tmp_path), rows=ROWS, ranks=2, servers=3)
    assert tells(str(caught.value), "--parameter-servers", "(got 3)")


def test_a_spec_of_numbers_alone_has_nothing_in_flight(tmp_path: Path) -> None:
    floats = {
        "features": {"age": {"kind": "numeric", "normalize": "zscore"}},
        "tables": {},
        "evaluation": {"slices": []},
    }
    made = plan(loaded(tmp_path, floats | {"training.sync": {"kind": "async"}}), rows={}, ranks=2)
    assert made.servers is not None
    assert (made.ranks.mean.in_flight, made.servers.mean.in_flight, made.servers.mean.tables) == (0, 0, 0)


def test_a_job_whose_servers_do_not_fit_beside_its_ranks_is_refused(tmp_path: Path) -> None:
    changes = {
        "tables.users.capacity": {"rows": 10**9, "evict": "least_frequent"},
        "cluster": {"ranks": 2, "data_workers": 1, "parameter_servers": 3},
        "training.sync": {"kind": "stale"},
    }
    spec = loaded(tmp_path, changes)
    made = plan(spec, rows={"tags": 0}, ranks=2)
    assert made.servers is not None
    needed = 2 * made.ranks.high.peak + 3 * made.servers.high.peak + PROCESS_BYTES
    refuse_unfit(spec, int(needed) + 1)
    with pytest.raises(UserError) as caught:
        refuse_unfit(spec, int(needed) - 1)
    assert tells(str(caught.value), "tables", "(got users: ... for 2 ranks and 3 parameter servers")
    # A machine of several has ranks alone, which hold no tables, or a server alone.
    refuse_unfit(spec, 1, ranks_here=1)
    refuse_unfit(spec, int(made.servers.high.peak) + 1, ranks_here=0, servers_here=1)
    with pytest.raises(UserError) as caught:
        refuse_unfit(spec, int(made.servers.high.peak) - 1, ranks_here=0, servers_here=1)
    assert tells(str(caught.value), "tables", "(got users: ... for 1 parameter servers")
