"""The model behind `bench.scale_model`: milliseconds of a step, samples a second, and the bottleneck.

Pure functions. Times are milliseconds of a step, sizes megabytes (10^6 bytes) of a step. n ranks of one core each are
on hosts of k; a step's messages between ranks of one host do not pass its network interface.
"""

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

from bench.scale_costs import Costs, Network, Prices, unique_keys
from bench.workload import cardinalities, ranker
from sangam.schemas.derived.plan import plan
from sangam.schemas.derived.sizes import PROCESS_BYTES
from sangam.schemas.spec import RankerSpec

MODES = ("sync tcp", "sync horovod", "sync shared_memory", "stale", "shadow", "async")
COMPUTATION, IMBALANCE, LATENCY = "rank's computation", "waiting for the slowest rank", "latency"
DENSE, ROWS = "network of the dense all-reduce", "network of rows"
SERVER_CPU, SERVER_NETWORK, INPUT = "parameter servers' CPU", "parameter servers' network", "input workers"
STALENESS, SHADOW_GAP = 4, 2.4
"""Batches that a rank may be ahead of its rows; steps between two exchanges in the background (docs/performance.md)."""
_BUSY = 0.9
"""Share of a helper's core that can be used: beyond it, queues grow."""
_SERVERS = (*range(1, 9), 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
"""Numbers of parameter servers that are tried."""


@dataclass(frozen=True)
class Point:
    """A number of ranks in a mode.

    Attributes:
        mode: one of `MODES`.
        ranks: number of ranks, of one core each.
        servers: number of parameter servers, of one core each.
        workers: number of input workers, of one core each.
        step_ms: milliseconds of a rank's step, if servers and input keep up.
        parts: milliseconds of the step by part; computation that hides messages counts as computation.
        samples_per_s: speed of all ranks.
        bottleneck: the largest part that is not computation where that is at least a fifth of the step; or which
            helper bounds all.
        per_billion: price of training on a billion samples.
    """

    mode: str
    ranks: int
    servers: int
    workers: int
    step_ms: float
    parts: dict[str, float]
    samples_per_s: float
    bottleneck: str
    per_billion: float


def point(
    mode: str,
    ranks: int,
    costs: Costs,
    network: Network,
    prices: Prices,
    *,
    servers: int | None = None,
    workers: int | None = None,
) -> Point | None:
    """Returns the speed of so many ranks in a mode; None where the mode cannot have them.

    Without `servers` and `workers`, their numbers are those of the lowest price.
    """
    if mode == "sync shared_memory" and ranks > network.ranks_per_host:
        return None
    bounds: dict[str, float] = {}
    if mode.startswith("sync"):
        parts, servers = in_step(ranks, costs, network, mode.removeprefix("sync ")), 0
    elif servers is None:
        numbers = [number for number in _SERVERS if number <= max(ranks, 2)]
        tried = [point(mode, ranks, costs, network, prices, servers=each, workers=workers) for each in numbers]
        return min((each for each in tried if each is not None), key=lambda each: each.per_billion)
    else:
        parts = served(mode, ranks, servers, costs, network)
        bounds = server_bounds(mode, ranks, servers, costs, network)
    step_ms = sum(parts.values())
    rate = ranks * costs.batch / step_ms * 1e3
    workers = workers or max(1, math.ceil(rate * costs.input_us / 1e6 / _BUSY))
    bounds[INPUT] = workers * _BUSY * 1e6 / costs.input_us
    slowest = min(bounds, key=lambda name: bounds[name])
    samples_per_s = min(rate, bounds[slowest])
    bottleneck = slowest if bounds[slowest] < rate else _largest(parts)
    per_billion = 1e9 / samples_per_s / 3600.0 * per_hour(mode, ranks, servers, workers, costs, prices)
    return Point(mode, ranks, servers, workers, step_ms, parts, samples_per_s, bottleneck, per_billion)


def in_step(ranks: int, costs: Costs, network: Network, transport: str) -> dict[str, float]:
    """Returns the parts of a step of `sync`.

    Source: `loop.in_step.one_step`. Two things are waited for: rows, before the dense part; gradients
    of rows and of dense weights, sent together, after it. The keys of the next batch travel during the dense part.

    - rows of a rank: a share (n - 1) / n of its unique ones changes the rank; (n - k) / n of them change the host.
    - dense: a ring sends 2 (n - 1) / n of the gradient through every rank, once through every host's interface
      (Patarasuk and Yuan, 2009).
    - latency: a call's own time, and its one-way trips between hosts. Horovod negotiates each call by Gloo's ring,
      whose 2 (n - 1) steps follow each other: trips measured with 2 ranks, times n - 1. In a fixed order they do not
      grow, but for one more where more than two ranks add slices of the dense gradient and send each other the sums.
    """
    through, slow = costs.transports[transport], turns(ranks, network)
    computed_ms = slow * computation_ms(ranks, costs, network)
    if ranks == 1:
        return {COMPUTATION: computed_ms}
    parts = {COMPUTATION: computed_ms / (1.0 - through.idle_cpu) + slow * costs.route_ms}
    parts[IMBALANCE] = expected_most(ranks) * costs.jitter * parts[COMPUTATION]
    here, changing = _per_host(ranks, network), (ranks - 1) / ranks
    away = max(ranks - here, 0) / ranks
    copies_ms = 2 * changing * costs.row_mb * through.rows_ms_per_mb
    parts[ROWS] = slow * copies_ms + 2 * network.ms(here * away * costs.row_mb)
    dense_mb = 2 * changing * costs.dense_mb
    parts[DENSE] = slow * dense_mb * through.dense_ms_per_mb + (network.ms(dense_mb) if away else 0.0)
    grown = ranks - 1 if through.negotiates else 1
    hops = (through.rows_hops + through.gradients_hops) * grown if away else 0.0
    if away and ranks > 2 and not through.negotiates:
        hops += 1.0
    parts[LATENCY] = slow * (through.rows_ms + through.gradients_ms) + hops * network.rtt_us / 2e3
    keys_ms = network.ms(here * away * costs.key_mb)
    if away:
        keys_ms += through.rows_hops * grown * network.rtt_us / 2e3
    parts[ROWS] += max(keys_ms - costs.dense_ms, 0.0)
    return parts


def served(mode: str, ranks: int, servers: int, costs: Costs, network: Network) -> dict[str, float]:
    """Returns the parts of a rank's step in `stale`, `shadow` and `async`, while the servers keep up.

    Rows are pulled `STALENESS` batches ahead and pushed behind: they are waited for only where a pull and a push take
    longer than so many steps and one. In `stale` the dense gradients are added up on the servers in the step, all wait;
    `shadow` averages in the background, every `SHADOW_GAP` steps; `async` pulls and pushes dense weights with the rows.
    """
    slow = turns(ranks, network)
    moved_mb = 2 * costs.row_mb + costs.key_mb + _dense_mb(mode, ranks, costs)
    busy_ms = computation_ms(ranks, costs, network, holds_rows=False) + moved_mb * costs.rank_ms_per_mb
    busy_ms += servers * calls(mode) * costs.rank_call_ms
    parts = {COMPUTATION: slow * busy_ms, IMBALANCE: 0.0, ROWS: 0.0, DENSE: 0.0, SERVER_CPU: 0.0, LATENCY: 0.0}
    here = _per_host(ranks, network)
    if mode == "stale" and ranks > 1:
        parts[IMBALANCE] = expected_most(ranks) * costs.jitter * parts[COMPUTATION]
        by_server_mb = ranks * costs.dense_mb / servers
        parts[DENSE] = 2 * max(network.ms(here * costs.dense_mb), network.ms(by_server_mb))
        parts[SERVER_CPU] = 2 * by_server_mb * costs.server_ms_per_mb
        parts[LATENCY] = (costs.rank_call_ms + costs.server_call_ms) / 2 + network.rtt_us / 1e3
    trip_ms = 2 * network.rtt_us / 1e3 + network.ms(here * moved_mb) + server_ms(mode, ranks, servers, costs) / servers
    parts[ROWS] = max(trip_ms / (STALENESS + 1) - sum(parts.values()), 0.0)
    return parts


def calls(mode: str) -> float:
    """Returns how many pairs of calls a rank makes at each server in a step: rows, and dense weights by themselves."""
    return {"stale": 1.5, "shadow": 1.0 + 0.5 / SHADOW_GAP, "async": 1.5}[mode]


def server_ms(mode: str, ranks: int, servers: int, costs: Costs) -> float:
    """Returns the processor time of all servers together for a rank's step.

    Every rank calls every server in every step, and a call has a price of its own: a server of one core that takes
    `server_call_ms` for it serves at most step / server_call_ms ranks, however many servers there are.
    """
    dense_mb = _dense_mb(mode, ranks, costs)
    rows_ms = costs.unique * costs.server_row_us / 1e3 * costs.dim / _MEASURED_DIM
    bytes_ms = (2 * costs.row_mb + costs.key_mb + dense_mb) * costs.server_ms_per_mb
    return servers * calls(mode) * costs.server_call_ms + rows_ms + bytes_ms


_MEASURED_DIM = 16
"""Width of the rows whose time on a server was measured; time is assumed to grow in proportion."""


def server_bounds(mode: str, ranks: int, servers: int, costs: Costs, network: Network) -> dict[str, float]:
    """Returns the most samples a second that so many servers of a core and an interface's share each can serve."""
    step_ms = server_ms(mode, ranks, servers, costs)
    out_mb = costs.row_mb + _dense_mb(mode, ranks, costs) / 2
    bounds = {SERVER_CPU: servers * _BUSY * costs.batch / step_ms * 1e3}
    if network.gbit_s:
        # Embeddings go out, keys and gradients come in; the larger one counts.
        bounds[SERVER_NETWORK] = servers * costs.batch / network.ms(out_mb + costs.key_mb) * 1e3
    return bounds


def computation_ms(ranks: int, costs: Costs, network: Network, *, holds_rows: bool = True) -> float:
    """Returns a rank's own work: on the machine it was measured, and with a core for each rank.

    Rows are looked up and updated once a step for all ranks together: u(n B) / n of them on each, u: `unique_keys`;
    where servers hold them, by none. A rank alone on its host does not share the memory; the others take `beside` times
    as long.
    """
    owned = unique_keys(ranks * costs.batch, num_ids=costs.num_ids) / ranks / costs.unique
    alone = costs.dense_ms + costs.unique_ms + costs.rest_ms + (owned * costs.rows_ms if holds_rows else 0.0)
    return alone * (costs.beside if _per_host(ranks, network) > 1 else 1.0)


def turns(ranks: int, network: Network) -> float:
    """Returns how many ranks share a core."""
    return max(1.0, _per_host(ranks, network) / network.cores_per_host)


def expected_most(ranks: int) -> float:
    """Returns the mean of the largest of so many standard normal numbers (Blom's approximation, 1958)."""
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)) if ranks > 1 else 0.0


def per_hour(mode: str, ranks: int, servers: int, workers: int, costs: Costs, prices: Prices) -> float:
    """Returns the price of an hour: a core and the planned memory of every process (`sangam.schemas.derived.plan`)."""
    kind = mode.split()[0]
    declared = _declared(kind, costs.dim)
    rows = dict(zip(declared.table_tags(), cardinalities(costs.num_ids), strict=True))
    made = plan(declared, rows=rows, ranks=ranks, servers=servers or None)
    held = ranks * made.ranks.mean.peak + workers * PROCESS_BYTES
    if made.servers is not None:
        held += servers * made.servers.mean.peak
    return (ranks + servers + workers) * prices.core_hour + held / 2**30 * prices.gib_hour


@functools.cache
def _declared(kind: str, dim: int) -> RankerSpec:
    declared = ranker(sync={"kind": kind})
    tables = {name: table.model_copy(update={"dim": dim}) for name, table in declared.tables.items()}
    return declared.model_copy(update={"tables": tables})


def _dense_mb(mode: str, ranks: int, costs: Costs) -> float:
    """Returns megabytes of dense weights that a rank exchanges in a step, both ways."""
    if ranks == 1 and mode != "async":
        return 0.0
    return 2 * costs.dense_mb / (SHADOW_GAP if mode == "shadow" else 1.0)


def _per_host(ranks: int, network: Network) -> int:
    return min(ranks, network.ranks_per_host)


def _largest(parts: dict[str, float]) -> str:
    """Returns the largest part besides computation if it is a fifth of the step and more, else computation."""
    others = {name: ms for name, ms in parts.items() if name != COMPUTATION}
    name = max(others, key=lambda each: others[each], default=COMPUTATION)
    return name if others and others[name] >= 0.2 * sum(parts.values()) else COMPUTATION
