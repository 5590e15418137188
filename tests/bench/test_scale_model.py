import dataclasses
import itertools
import json

import numpy as np
import pytest

from bench.scale_costs import FILE, Costs, Network, Prices, Transport, load, unique_keys
from bench.scale_model import RANKS, fewest, points, table, wider
from bench.scaling import (
    COMPUTATION,
    DENSE,
    INPUT,
    LATENCY,
    MODES,
    ROWS,
    SERVER_CPU,
    SERVER_NETWORK,
    Point,
    expected_most,
    in_step,
    point,
)
from bench.workload import pool

_FREE = Transport(0.0, 0.0, 0.0, 0.0, 0.0)
_HOROVOD = Transport(1.0, 2.0, 0.5, 1.0, 0.1, rows_hops=6.0, gradients_hops=8.0)
_TCP = Transport(0.5, 1.0, 0.5, 1.0, 0.0, rows_hops=1.0, gradients_hops=1.0, negotiates=False)
_COSTS = Costs(
    batch=4096,
    ids=20,
    unique=unique_keys(4096),
    dim=16,
    weights=500_000,
    num_ids=10_000_000,
    dense_ms=80.0,
    rows_ms=10.0,
    unique_ms=2.0,
    route_ms=5.0,
    rest_ms=3.0,
    jitter=0.02,
    beside=1.2,
    transports={"horovod": _HOROVOD, "tcp": _TCP, "shared_memory": _FREE},
    server_row_us=0.5,
    server_ms_per_mb=0.5,
    rank_ms_per_mb=0.5,
    rank_call_ms=1.0,
    server_call_ms=2.0,
    input_us=4.0,
)
_APART = Network(gbit_s=10.0, rtt_us=100.0, ranks_per_host=1, cores_per_host=1)


def _point(mode: str, ranks: int, network: Network = _APART, costs: Costs = _COSTS, **helpers: int) -> Point:
    found = point(mode, ranks, costs, network, Prices(), **helpers)
    assert found is not None
    return found


def test_one_rank_takes_its_computation_alone_whatever_the_network() -> None:
    assert in_step(1, _COSTS, Network(gbit_s=0.001, rtt_us=1e6), "horovod") == {COMPUTATION: pytest.approx(95.0)}


def test_a_free_transport_on_an_endless_network_leaves_computation() -> None:
    costs = dataclasses.replace(_COSTS, transports={"horovod": _FREE}, jitter=0.0, route_ms=0.0)
    parts = in_step(64, costs, Network(gbit_s=0.0, rtt_us=0.0, ranks_per_host=1), "horovod")
    assert {name: ms for name, ms in parts.items() if ms} == {COMPUTATION: parts[COMPUTATION]}
    # No rank has more rows to read than alone, as the ranks' batches have keys in common.
    assert 85.0 < parts[COMPUTATION] < 95.0


@pytest.mark.parametrize("mode", MODES)
def test_more_bandwidth_and_less_delay_are_never_slower(mode: str) -> None:
    for better, worse in itertools.pairwise((0.0, 100.0, 10.0, 1.0, 0.1)):
        networks = [Network(gbit_s=gbit_s, ranks_per_host=4, cores_per_host=4) for gbit_s in (better, worse)]
        fast, slow = (point(mode, 4, _COSTS, network, Prices(), servers=2) for network in networks)
        assert fast is not None
        assert slow is not None
        assert fast.samples_per_s >= slow.samples_per_s
    near, far = (_point("sync horovod", 8, dataclasses.replace(_APART, rtt_us=rtt_us)) for rtt_us in (10.0, 1000.0))
    assert near.samples_per_s > far.samples_per_s


def test_the_ring_sends_the_dense_gradient_twice_at_most_through_an_interface() -> None:
    def network_ms(ranks: int) -> float:
        slow, endless = (dataclasses.replace(_APART, gbit_s=gbit_s) for gbit_s in (1.0, 0.0))
        return in_step(ranks, _COSTS, slow, "horovod")[DENSE] - in_step(ranks, _COSTS, endless, "horovod")[DENSE]

    # 2 MB, and 8 ms a MB at 1 Gbit/s.
    assert network_ms(2) == pytest.approx(16.0)
    assert network_ms(512) == pytest.approx(32.0, rel=0.01)


def test_ranks_of_one_host_send_nothing_through_its_interface() -> None:
    parts = [in_step(8, _COSTS, Network(gbit_s, 1000.0, 8, 8), "horovod") for gbit_s in (0.01, 0.0)]
    assert parts[0] == parts[1]


def test_ranks_of_a_host_share_its_interface_for_rows() -> None:
    alone, shared = (
        in_step(16, _COSTS, Network(1.0, 0.0, each, each), "horovod")[ROWS]
        - in_step(16, _COSTS, Network(0.0, 0.0, each, each), "horovod")[ROWS]
        for each in (1, 8)
    )
    # A rank alone sends 15 of 16 rows away; one of 8 sends 8 of 16, and so do its 7 neighbors.
    assert shared / alone == pytest.approx(8 * 8 / 15, rel=0.01)


def test_two_ranks_on_one_core_take_turns() -> None:
    one, two = (in_step(2, _COSTS, Network(0.0, 0.0, 2, cores), "shared_memory")[COMPUTATION] for cores in (2, 1))
    assert two == pytest.approx(2 * one)


def test_negotiation_in_a_ring_grows_with_the_ranks() -> None:
    two, many = (in_step(ranks, _COSTS, _APART, "horovod")[LATENCY] for ranks in (2, 512))
    assert two == pytest.approx(3.0 + 14 * 0.05)
    assert many == pytest.approx(3.0 + 14 * 0.05 * 511)


def test_shared_memory_needs_one_host() -> None:
    assert point("sync shared_memory", 5, _COSTS, Network(ranks_per_host=4), Prices()) is None


def test_what_bounds_is_named() -> None:
    slow = dataclasses.replace(_APART, gbit_s=0.1)
    assert _point("sync horovod", 8, slow).bottleneck == ROWS
    assert _point("sync horovod", 8, slow, dataclasses.replace(_COSTS, weights=20_000_000)).bottleneck == DENSE
    assert _point("sync horovod", 512, dataclasses.replace(_APART, rtt_us=1000.0)).bottleneck == LATENCY
    assert _point("sync horovod", 1).bottleneck == COMPUTATION
    assert _point("sync horovod", 64, workers=1).bottleneck == INPUT
    assert _point("async", 64, servers=1).bottleneck == SERVER_CPU
    assert _point("async", 64, dataclasses.replace(_APART, gbit_s=1.0), servers=64).bottleneck in (
        SERVER_CPU,
        SERVER_NETWORK,
    )


def test_a_server_serves_only_so_many_ranks_however_many_servers_there_are() -> None:
    speeds = [_point("async", 512, servers=servers).samples_per_s for servers in (64, 128)]
    # 0.9 of a core; each rank's step costs it one and a half pairs of calls of 2 ms.
    assert max(speeds) < 0.9 * 4096 / 3e-3


def test_a_billion_samples_cost_what_the_processes_do() -> None:
    found = point("sync horovod", 2, _COSTS, _APART, Prices(core_hour=1.0, gib_hour=0.0), workers=1)
    assert found is not None
    assert found.per_billion == pytest.approx(3 * 1e9 / found.samples_per_s / 3600.0)


def test_unique_keys_are_those_of_drawn_examples() -> None:
    drawn = np.mean([sum(len(np.unique(of)) for of in pool(4096, seed=seed).keys.T) for seed in range(3)])
    assert unique_keys(4096) == pytest.approx(drawn, rel=0.01)
    assert unique_keys(1e12) == pytest.approx(10_060_000, rel=0.01)


def test_the_mean_of_the_largest_of_normal_numbers() -> None:
    drawn = np.random.default_rng(0).standard_normal((20_000, 16)).max(1).mean()
    assert expected_most(16) == pytest.approx(drawn, rel=0.02)
    assert expected_most(1) == 0.0


def test_wider_rows_cost_in_proportion() -> None:
    wide = wider(_COSTS, 128)
    assert wide.rows_ms == pytest.approx(8 * _COSTS.rows_ms)
    assert wide.weights == 500_000 + 20 * 112 * 1024


def test_every_mode_has_a_line_for_every_number_of_ranks() -> None:
    found = points(_COSTS, Network(ranks_per_host=16), Prices(), servers=4, workers=None)
    assert len(table(found).splitlines()) == 2 + (len(MODES) - 1) * len(RANKS) + 5  # Shared memory: up to 16 ranks.


def test_the_fewest_ranks_reach_what_is_wanted_and_one_less_does_not() -> None:
    found = fewest("sync horovod", 200_000, _COSTS, Network(), Prices())
    assert found is not None
    assert found.samples_per_s >= 200_000
    assert _point("sync horovod", found.ranks - 1, Network()).samples_per_s < 200_000


def test_the_committed_costs_are_read_and_written_alike() -> None:
    assert json.dumps(dataclasses.asdict(load(FILE)), indent=1) + "\n" == FILE.read_text()
