"""Inputs of `bench.scale_model`: measured costs, a declared network and declared prices."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.workload import BATCH_SIZE_PER_RANK, DIM, NUM_IDS, cardinalities

FILE = Path(__file__).with_suffix(".json")
"""The costs of docs/scale.md, written by `python -m bench.scale_model --measured`."""
ROWS, WEIGHTS = 36_000, 500_000
"""Unique keys of a batch and dense weights of the workload, in measured collectives."""
CALIBRATED_RTT_US = 2000.0
"""Round trip of a measured network on which no prediction is checked."""
FLOAT_BYTES, KEY_BYTES, NUM_ROWS = 4, 8, 10_000_000
WIRED = "horovod between namespaces"
"""The transport of `bench.wire`, whose program costs time too."""
_GRPC_MS_PER_MB = 4.1 / 2 / 4.9
"""Of either side: docs/performance.md, "Parameter servers"."""
_ZIPF_EXPONENT, _EXACT_IDS, _BINS = 1.05, 20_000, 4000


@dataclass(frozen=True)
class Transport:
    """Of collectives of two ranks of one host that have nothing else to do.

    Attributes:
        rows_ms: an all-to-all of next to nothing.
        gradients_ms: an all-to-all and an all-reduce of next to nothing, sent together.
        rows_ms_per_mb: what a message takes longer for each MB of rows that changes the rank.
        dense_ms_per_mb: likewise for each MB of the dense gradient.
        idle_cpu: share of the rank's core that the transport takes while the rank computes.
        rows_hops: one-way trips of the first between two hosts, negotiation included.
        gradients_hops: likewise of the second.
    """

    rows_ms: float
    gradients_ms: float
    rows_ms_per_mb: float
    dense_ms_per_mb: float
    idle_cpu: float
    rows_hops: float = 0.0
    gradients_hops: float = 0.0


@dataclass(frozen=True)
class Costs:
    """Of a rank that has a core, and of its helpers; the time of a rank alone on its machine.

    Attributes:
        batch: examples of a rank's step.
        ids: keys of an example.
        unique: of these, unique ones of a batch.
        dim: floats of an embedding.
        weights: of the dense part.
        num_ids: of all features together.
        dense_ms: of a step, forward and backward and the update of the weights.
        rows_ms: to look up and update the unique rows.
        unique_ms: to find the unique keys, once.
        route_ms: to pack and unpack messages between ranks, and to find the unique keys of those received.
        rest_ms: other operations, and between two steps.
        jitter: standard deviation of a step over its mean.
        beside: how many times as long computation takes while every core of the machine computes.
        transports: by name.
        server_row_us: processor time of a parameter server for a row, looked up once and updated once.
        server_ms_per_mb: of a parameter server for messages, received and sent.
        rank_ms_per_mb: likewise of a rank.
        rank_call_ms: processor time of a rank for a pull and a push at each server, whatever their size.
        server_call_ms: of that server.
        input_us: processor time of an input worker for an example.
    """

    batch: int
    ids: int
    unique: float
    dim: int
    weights: int
    num_ids: int
    dense_ms: float
    rows_ms: float
    unique_ms: float
    route_ms: float
    rest_ms: float
    jitter: float
    beside: float
    transports: Mapping[str, Transport]
    server_row_us: float
    server_ms_per_mb: float
    rank_ms_per_mb: float
    rank_call_ms: float
    server_call_ms: float
    input_us: float

    @property
    def row_mb(self) -> float:
        """Of the embeddings of a batch, and of their gradients."""
        return self.unique * self.dim * FLOAT_BYTES / 1e6

    @property
    def key_mb(self) -> float:
        """Of the keys of a batch."""
        return self.unique * KEY_BYTES / 1e6

    @property
    def dense_mb(self) -> float:
        """Of the dense weights, and of their gradient."""
        return self.weights * FLOAT_BYTES / 1e6


@dataclass(frozen=True)
class Network:
    """Declared.

    Attributes:
        gbit_s: of a host's interface, in each direction.
        rtt_us: round trip between two hosts.
        ranks_per_host: share the interface.
        cores_per_host: those of a host's ranks; fewer than ranks: they take turns.
    """

    gbit_s: float = 25.0
    rtt_us: float = 50.0
    ranks_per_host: int = 16
    cores_per_host: int = 16

    def ms(self, megabytes: float) -> float:
        """Returns how long so much takes through a host's interface."""
        return megabytes * 8.0 / self.gbit_s if self.gbit_s else 0.0


@dataclass(frozen=True)
class Prices:
    """Declared, in any currency."""

    core_hour: float = 0.04
    gib_hour: float = 0.005


def load(file: Path) -> Costs:
    """Returns the costs of a file."""
    document = json.loads(file.read_text())
    transports = {name: Transport(**of) for name, of in document.pop("transports").items()}
    return Costs(**document, transports=transports)


def costs_of(raw: Mapping[str, Any]) -> Costs:
    """Returns the costs that `bench.scale_measure` has measured; medians of the repeats, of collectives the least.

    Those of parameter servers are a line through calls of few and of many rows. gRPC takes as long for the bytes as the
    tables do not: docs/performance.md ("Parameter servers") has 4.1 ms of 4.9 MB, taken as half on either side.

    Args:
        raw: by part, a list of repeats.
    """
    alone = {
        stage: _median(repeat["stages_ms"][stage] for repeat in raw["one"]) for stage in raw["one"][0]["stages_ms"]
    }
    two = {
        stage: _median(repeat["shared_memory"]["stages_ms"][stage] for repeat in raw["two"])
        for stage in ("unique", "exchange")
    }
    steps = [second for repeat in raw["one"] for second in repeat["step_s"]]
    step_ms = statistics.median(steps) * 1e3
    together = _median(statistics.median(each["step_s"]) for repeat in raw["apart"] for each in repeat)
    profiled = sum(alone.values())
    # The profile makes a step longer: its stages are shares of the steps that were measured without.
    share = {stage: ms / profiled * step_ms for stage, ms in alone.items()}
    (rank_ms, rank_call_ms), (server_ms, server_call_ms) = (_line(raw["calls"], side) for side in (0, 1))
    call_mb = (KEY_BYTES + 2 * DIM * FLOAT_BYTES) / 1e6  # Of a row: its key, its embedding, its gradient.
    dense_ms, rows_ms = share["dense"] + share["dense_update"], share["lookup"] + share["update"]
    return Costs(
        batch=BATCH_SIZE_PER_RANK,
        ids=NUM_IDS,
        unique=unique_keys(BATCH_SIZE_PER_RANK),
        dim=DIM,
        weights=WEIGHTS,
        num_ids=NUM_ROWS,
        dense_ms=dense_ms,
        rows_ms=rows_ms,
        unique_ms=share["unique"],
        route_ms=max(two["unique"] - alone["unique"], 0.0) + two["exchange"] - alone["exchange"],
        rest_ms=step_ms - dense_ms - rows_ms - share["unique"],
        jitter=_quartile_deviation(steps) / statistics.median(steps),
        beside=together * 1e3 / step_ms,
        transports={name: _transport(name, raw["meetings"]) for name in ("horovod", "shared_memory", WIRED)},
        server_row_us=(server_ms - _GRPC_MS_PER_MB * call_mb) * 1e3,
        server_ms_per_mb=_GRPC_MS_PER_MB,
        rank_ms_per_mb=rank_ms / call_mb,
        rank_call_ms=rank_call_ms,
        server_call_ms=server_call_ms,
        input_us=_median(repeat["batch_s"] for repeat in raw["reading"]) / BATCH_SIZE_PER_RANK * 1e6,
    )


def _line(repeats: list[Any], side: int) -> tuple[float, float]:
    """Returns milliseconds of a row, and of a call without any: a line through the fewest and the most rows."""
    sizes = sorted(map(int, repeats[0]))
    few, many = (_median(repeat[str(size)][side] for repeat in repeats) for size in (sizes[0], sizes[-1]))
    row_ms = (many - few) / (sizes[-1] - sizes[0])
    return row_ms, few - sizes[0] * row_ms


def _transport(name: str, repeats: list[Any]) -> Transport:
    wired, longer_wired = "horovod, wire", f"horovod, {CALIBRATED_RTT_US:.0f} us"
    itself = wired if name == WIRED else name

    def of(which: str, key: str) -> float:
        # The least: whatever else the machine does makes a collective longer, up to five times as long.
        return float(min(repeat[which][key] for repeat in repeats)) * (1.0 if key == "idle_cpu" else 1e3)

    rows_mb, dense_mb = ROWS * DIM * FLOAT_BYTES / 2e6, WEIGHTS * FLOAT_BYTES / 1e6  # Half of the rows stay.
    of_rows = of(itself, "rows_all_s") - of(itself, "rows_few_s")
    of_both = of(itself, "gradients_all_s") - of(itself, "gradients_few_s")
    hops = {"rows": 0.0, "gradients": 0.0}
    if name != "shared_memory":
        for part in hops:
            longer = of(longer_wired, f"{part}_few_s") - of(wired, f"{part}_few_s")
            hops[part] = max(longer, 0.0) / (CALIBRATED_RTT_US / 2e3)
    return Transport(
        rows_ms=of(itself, "rows_few_s"),
        gradients_ms=of(itself, "gradients_few_s"),
        rows_ms_per_mb=max(of_rows, 0.0) / rows_mb,
        dense_ms_per_mb=max(of_both - of_rows, 0.0) / dense_mb,
        idle_cpu=of(itself, "idle_cpu"),
        rows_hops=hops["rows"],
        gradients_hops=hops["gradients"],
    )


def unique_keys(examples: float, *, num_ids: int = NUM_ROWS) -> float:
    """Returns how many unique keys so many examples of the workload are expected to have.

    Id r of N is drawn with p(r) = F(r + 1) - F(r), F(x) = (x^(1-s) - 1) / (N^(1-s) - 1), s = 1.05 (`workload.zipf`); it
    is among e examples with 1 - (1 - p)^e. Features are added up; far down the tail, ids of one bin count alike.
    """
    total, rest = 0.0, 1.0 - _ZIPF_EXPONENT
    for count in cardinalities(num_ids):
        edges = np.arange(1.0, min(count, _EXACT_IDS) + 1.0)
        if count > _EXACT_IDS:
            edges = np.concatenate([edges, np.geomspace(_EXACT_IDS, count, _BINS)[1:]])
        below = (edges**rest - 1.0) / (count**rest - 1.0)
        ids = np.diff(edges)
        total += float((ids * -np.expm1(examples * np.log1p(-np.minimum(np.diff(below) / ids, 1 - 1e-12)))).sum())
    return total


def _median(values: Any) -> float:
    return float(statistics.median(values))


def _quartile_deviation(values: list[float]) -> float:
    """Returns a standard deviation that a few outliers do not move: the distance of the quartiles / 1.35."""
    first, _, third = statistics.quantiles(values, n=4)
    return (third - first) / 1.349
