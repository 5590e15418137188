"""One server's share of a small model, called by hand as ranks call it."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense.optimizers import moment_starts
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.parameter_server.shard import Push, Shard
from sangam.trainer_module.parameter_server.wire import Caller
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.transforms.keys import ID_BITS
from tests.trainer_module.sample_job import declared

Array = NDArray[Any]

RATE = 0.125
"""Of SGD: a power of two, so that small numbers stay exact."""
SGD = {"kind": "sgd", "learning_rate": RATE}
ASYNC: Mapping[str, Any] = {"kind": "async", "staleness": 1}
STALE: Mapping[str, Any] = {"kind": "stale", "staleness": 1}
EVERY_MODE = {"stale": STALE, "async": ASYNC, "shadow": {"kind": "shadow", "staleness": 1}}


def spec_of(sync: Mapping[str, Any], *, ranks: int = 1, servers: int = 1, **changes: Any) -> RankerSpec:
    """Returns the small ranker with rows on servers, by SGD unless told otherwise."""
    settings = {"embedding_optimizer": SGD, **changes}
    return declared(sync=dict(sync), ranks=ranks, parameter_servers=servers, **settings)


def keys_of(spec: RankerSpec, table: str, *ids: int) -> Array:
    """Returns keys of ids."""
    return np.array(ids, np.int64) | (spec.table_tags()[table] << ID_BITS)


class Calls:
    """Calls of ranks, about rows of one group."""

    def __init__(self, spec: RankerSpec, *, server: int = 0, step: int = 0, dense: Mapping[str, Array] | None = None):
        """Begins with a shard without rows."""
        self.spec = spec
        self.shard = Shard(spec, server=server)
        self.stores = self.shard.rows.stores
        self.group = next(name for name, store in self.stores.items() if "users" in store.group.tables)
        self.dim = self.stores[self.group].group.dim
        if dense is not None:
            self.shard.begin(step, 0, dense)

    def pull(self, rank: int, number: int, keys: Array, *, occurrences: int = 1, minute: int = 0) -> Array:
        """Returns a batch's embeddings: [n, D]."""
        _, embeddings, _ = self.shard.pull(
            Caller(0, rank, number),
            self._padded(keys, np.zeros(0, np.int64)),
            {
                name: np.tile(np.array([[occurrences, minute]], np.int32), (len(keys) if name == self.group else 0, 1))
                for name, store in self.stores.items()
                if store.group.counts_occurrences
            },
            np.zeros(0, np.int64),
            number + 1,
        )
        return embeddings[self.group]

    def push_of(
        self, gradients: Any, *, step: int = 1, scale: float = 1.0, newest: int = 0, dense: Array | None = None
    ) -> Push:
        """Returns a push of gradients: [n, D]."""
        by_group = {name: np.zeros([0, store.group.dim], np.float32) for name, store in self.stores.items()} | {
            self.group: np.asarray(gradients, np.float32)
        }
        if dense is None and self.shard.dense is not None:
            dense = np.zeros_like(self.shard.dense.weights())
        return Push(Update(step, scale, 1.0), newest, np.ones(len(self.stores), np.float32), by_group, dense)

    def push(self, rank: int, number: int, gradients: Any, **more: Any) -> Any:
        """Pushes a batch's gradients; returns at once: None while other ranks are missing."""
        return self.shard.push(Caller(0, rank, number), self.push_of(gradients, **more), patience_s=0.0)

    def skip(self, rank: int, number: int) -> Any:
        """Says that a batch is left out."""
        return self.shard.push(Caller(0, rank, number), None, patience_s=0.0)

    def evict(self) -> None:
        """Removes rows as the first rank has the only server remove them."""
        sums = None
        for sequence in itertools.count():
            counts = self.shard.evict(Caller(0, 0, sequence), sums)
            # An answer that was lost is given again, whatever the repeated call says.
            assert self.shard.evict(Caller(0, 0, sequence), None) is counts
            if counts is None:
                return
            sums = counts

    def rows(self) -> dict[int, bytes]:
        """Returns the bits of all rows of the group by key."""
        keys, rows = self.stores[self.group].contents()
        found = {int(key): row.tobytes() for key, row in zip(keys, rows, strict=True)}
        assert len(found) == len(keys)
        return found

    def embeddings(self, keys: Array) -> Array:
        """Returns embeddings without making rows."""
        return self.shard.read(self._padded(keys, np.zeros(0, np.int64)))[self.group]

    def _padded(self, own: Array, other: Array) -> dict[str, Array]:
        return {name: own if name == self.group else other for name in self.stores}


def ones(calls: Calls, n: int, value: float = 1.0) -> Array:
    """Returns equal gradients: [n, D]."""
    return np.full([n, calls.dim], value, np.float32)


def initial_dense(spec: RankerSpec) -> dict[str, Array]:
    """Returns the dense weights that a training begins with, and their moments."""
    weights = Ranker(spec).weights.initial(spec.training.seed)
    starts = moment_starts(spec.training.dense_optimizer)
    return {"weights": weights} | {name: np.full_like(weights, start) for name, start in starts.items()}
