"""Inputs of `bench.scale_model`: measured costs, a declared network and declared prices."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.workload import cardinalities

FILE = Path(__file__).with_suffix(".json")
"""The costs of docs/scale.md, measured at 1d05276 by the programs of ddf0f86; those of parameter servers by
`bench.parameter_server --costs`."""
FLOAT_BYTES, KEY_BYTES, NUM_ROWS = 4, 8, 10_000_000
_ZIPF_EXPONENT, _EXACT_IDS, _BINS = 1.05, 20_000, 4000


@dataclass(frozen=True)
class Transport:
    """Costs of collectives between two idle ranks of one host.

    Attributes:
        rows_ms: an all-to-all of a few bytes.
        gradients_ms: an all-to-all and an all-reduce of a few bytes, sent together.
        rows_ms_per_mb: milliseconds of a MB of rows that changes the rank.
        dense_ms_per_mb: milliseconds of a MB of the dense gradient.
        idle_cpu: share of a rank's core that the transport takes during computation.
        rows_hops: one-way trips of `rows_ms` between two hosts, with negotiation.
        gradients_hops: one-way trips of `gradients_ms` between two hosts.
        negotiates: whether a ring agrees on each call, with trips that grow with the number of ranks.
    """

    rows_ms: float
    gradients_ms: float
    rows_ms_per_mb: float
    dense_ms_per_mb: float
    idle_cpu: float
    rows_hops: float = 0.0
    gradients_hops: float = 0.0
    negotiates: bool = True


@dataclass(frozen=True)
class Costs:
    """Costs of a rank with a core of its own, alone on its machine, and of its helpers.

    Attributes:
        batch: examples of a rank and step.
        ids: keys of an example.
        unique: unique keys of a batch.
        dim: floats of an embedding.
        weights: number of dense weights.
        num_ids: number of ids of all features.
        dense_ms: dense part of a step: forward, backward, update of the weights.
        rows_ms: to look up and update the unique rows.
        unique_ms: to find the unique keys, once.
        route_ms: to pack and unpack messages between ranks, and to find the unique keys of those received.
        rest_ms: other operations, and between two steps.
        jitter: standard deviation of a step over its mean.
        beside: factor of computation while every core of the machine computes.
        transports: transports by name.
        server_row_us: processor time of a parameter server for a row, looked up once and updated once.
        server_ms_per_mb: processor time of a parameter server for a MB of messages.
        rank_ms_per_mb: processor time of a rank for a MB of messages.
        rank_call_ms: processor time of a rank for a pull and a push at each server, whatever their size.
        server_call_ms: processor time of the server for the same.
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
        """Megabytes of the embeddings of a batch, and of their gradients."""
        return self.unique * self.dim * FLOAT_BYTES / 1e6

    @property
    def key_mb(self) -> float:
        """Megabytes of the keys of a batch."""
        return self.unique * KEY_BYTES / 1e6

    @property
    def dense_mb(self) -> float:
        """Megabytes of the dense weights, and of their gradient."""
        return self.weights * FLOAT_BYTES / 1e6


@dataclass(frozen=True)
class Network:
    """A declared network.

    Attributes:
        gbit_s: rate of a host's interface in each direction.
        rtt_us: round trip between two hosts.
        ranks_per_host: ranks that share an interface.
        cores_per_host: cores of a host's ranks, which take turns on fewer cores than ranks.
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
    """Declared prices, in any currency."""

    core_hour: float = 0.04
    gib_hour: float = 0.005


def load(file: Path) -> Costs:
    """Returns the costs of a file."""
    document = json.loads(file.read_text())
    transports = {name: Transport(**of) for name, of in document.pop("transports").items()}
    return Costs(**document, transports=transports)


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
