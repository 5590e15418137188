"""The memory of a rank and of a parameter server.

Besides what a process always holds, there are two copies for a while: of the rows that change while a checkpoint is
written, at most all, and of a group of tables that moves into twice the room.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.sizes import (
    COUNTER_BYTES,
    FLOAT_BYTES,
    KEY_BYTES,
    ORDER_BYTES,
    PROCESS_BYTES,
    dense_parameters,
    index_bytes,
    stored_bytes,
)
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.events import EventAmount
from sangam.schemas.spec.features import Feature, IdsFeature, SequenceFeature
from sangam.schemas.spec.sync import Async, InStep, Served, Shadow, Stale

_COUNTS_BYTES = 64 * 2**20
"""Messages about an epoch or a table: losses by step, histograms."""


@dataclass(frozen=True)
class ProcessPlan:
    """One rank, or one parameter server. Everything but `rows` is in bytes.

    Attributes:
        rows: number of rows of all tables.
        tables: rows, keys and index.
        counters: bytes of the counters for admission.
        in_flight: batches between a rank and the servers: keys, embeddings and their gradients.
        dense: weights, their optimizer's moments, one gradient; a share of them, or of the ranks' averages, on servers.
        process: the process itself, before it holds anything.
        checkpoint: the rows that change while one is written, at most all, and their order. Reading needs none.
        growth: the copy while the largest group moves into twice the room.
    """

    rows: float
    tables: float
    counters: int
    in_flight: float
    dense: float
    process: int
    checkpoint: float
    growth: float

    @property
    def held(self) -> float:
        """Bytes that the process always holds."""
        return self.tables + self.counters + self.in_flight + self.dense + self.process

    @property
    def peak(self) -> float:
        """The most it can hold: a group may grow while a checkpoint is being written."""
        return self.held + self.checkpoint + self.growth


def rank_plan(ranker: RankerSpec, rows: Mapping[str, float], *, ranks: int) -> ProcessPlan:
    """Returns the memory of a rank.

    Args:
        ranker: the spec.
        rows: its share of them, by group of tables; not used where parameter servers hold all rows.
        ranks: number of ranks.
    """
    sync, dense = ranker.training.sync, _dense_bytes(ranker, ranks)
    if isinstance(sync, InStep):
        return _process(ranker, rows, dense=dense.rank, saved=dense.saved_by_rank)
    in_flight = _in_flight_bytes(ranker, sync)
    return _process(ranker, {}, dense=dense.rank, saved=dense.saved_by_rank, in_flight=in_flight)


def server_plan(ranker: RankerSpec, rows: Mapping[str, float], *, ranks: int, servers: int) -> ProcessPlan:
    """Returns the memory of a parameter server.

    Args:
        ranker: the spec.
        rows: rows that the process holds, by group of tables.
        ranks: number of ranks.
        servers: number of parameter servers, which hold even shares of the dense state.

    Raises:
        ValueError: the spec's mode has no servers.
    """
    sync, dense = ranker.training.sync, _dense_bytes(ranker, ranks)
    if isinstance(sync, InStep):
        raise ValueError("training.sync: has no parameter servers (got sync)")
    in_flight = ranks * _in_flight_bytes(ranker, sync) / servers
    return _process(ranker, rows, dense=dense.servers / servers, in_flight=in_flight)


class _DenseBytes(NamedTuple):
    """Bytes of the dense state on a rank, in a checkpoint, and on all servers together."""

    rank: int
    saved_by_rank: int
    servers: int = 0


def _dense_bytes(ranker: RankerSpec, ranks: int) -> _DenseBytes:
    sync, weights = ranker.training.sync, dense_parameters(ranker) * FLOAT_BYTES
    state = weights * (1 + len(ranker.training.dense_optimizer.moments()) + (ranker.training.average is not None))
    match sync:
        case InStep() | Stale():  # And a gradient.
            return _DenseBytes(state + weights, state)
        case Shadow():  # And the weights that it moves towards.
            return _DenseBytes(state + 2 * weights, state, weights * _copies_of_weights(sync, ranks))
        case Async():  # The same on both sides: a rank reads the servers' state for a checkpoint.
            return _DenseBytes(state + weights, state, state + weights)
        case _:
            assert_never(sync)


def _copies_of_weights(sync: Shadow, ranks: int) -> int:
    """Returns how many copies of the dense weights the servers hold; see `trainer_module.parameter_server.center`."""
    match sync.algorithm:
        case "easgd":
            return 1  # The center.
        case "ma":
            return 1 + ranks  # Those at the start, and the last of each rank.
        case "bmuf":
            return 2 + ranks  # The center, its velocity, and those of each rank in a round.
        case _:
            assert_never(sync.algorithm)


def message_bytes(ranker: RankerSpec) -> int:
    """Returns the most that a message between a rank and a parameter server has: a batch, the dense state, counts."""
    dense = dense_parameters(ranker) * FLOAT_BYTES * (2 + len(ranker.training.dense_optimizer.moments()))
    return _COUNTS_BYTES + dense + _batch_bytes(ranker)


def _in_flight_bytes(ranker: RankerSpec, sync: Served) -> int:
    """Returns the most that a rank's batches between reading rows and applying their gradients hold.

    The batch that is trained on, and `staleness` others.
    """
    return (sync.staleness + 1) * _batch_bytes(ranker)


def most_ids(feature: Feature) -> int:
    """Returns the most ids that an example has of a feature with a table."""
    match feature:
        case IdsFeature():
            return feature.max_values
        case SequenceFeature():
            return feature.max_length
        case _:
            return 1


def _batch_bytes(ranker: RankerSpec) -> int:
    """Returns the most that a batch has: keys, embeddings and gradients where no id repeats, and numbers of events."""
    bytes_per_example = 0
    for name, feature in ranker.features.items():
        for table in ranker.tables_of(name):
            bytes_per_example += most_ids(feature) * (KEY_BYTES + 2 * FLOAT_BYTES * ranker.tables[table].dim)
        if isinstance(feature, SequenceFeature):
            amounts = sum(isinstance(part, EventAmount) for part in feature.beside.values())
            bytes_per_example += most_ids(feature) * FLOAT_BYTES * (amounts + (feature.times is not None))
    return ranker.training.batch_size_per_rank * bytes_per_example


def _process(
    ranker: RankerSpec, rows: Mapping[str, float], *, dense: float, saved: float = 0, in_flight: float = 0
) -> ProcessPlan:
    """Returns the memory of a process that holds rows; `saved`: the part of `dense` that a checkpoint has."""
    groups = {name: group for name, group in groups_of(ranker).items() if name in rows}
    stored = {name: rows[name] * stored_bytes(group) for name, group in groups.items()}
    index = {name: index_bytes(rows[name]) for name in groups}
    counters = COUNTER_BYTES * sum(group.num_counters for group in groups.values())
    return ProcessPlan(
        rows=sum(rows.values()),
        tables=sum(stored.values()) + sum(index.values()),
        counters=counters,
        in_flight=in_flight,
        dense=dense,
        process=PROCESS_BYTES,
        # Groups are sorted for the files one after another.
        checkpoint=sum(stored.values()) + counters + saved + ORDER_BYTES * max(rows.values(), default=0),
        # Groups reach their limits in different steps: no two grow at once.
        growth=max((stored[name] + index[name] / 2 for name in groups), default=0.0),
    )
