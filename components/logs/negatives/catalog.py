"""The candidates of a day: items by group with their newest rows, and the items that each user has.

Values are known by 64-bit hashes, so that an order is the same for any partition of the logs into files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.joining.slices import single
from sangam.components.logs.rows.hashes import Hashes, hashes
from sangam.components.logs.rows.sampling import scalars
from sangam.schemas.host.splitmix64 import GAMMA, mix64
from sangam.schemas.spec.negatives import Negatives

Ints = NDArray[np.int64]
_GROUP, _ITEM, _COUNT, _TIME = "group", "item", "count", "time"
_VALUE = "="
"""Prefix of columns of the logs: they may have any name."""
_NULL = 0x5851F42D4C957F2D
_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class RowKeys:
    """Hashes of rows, one number for each.

    Attributes:
        users: user.
        items: item.
        groups: columns whose values candidates share.
        times: time of the event, the least number where there is none.
        is_known: whether the row has a user and an item.
    """

    users: Hashes
    items: Hashes
    groups: Hashes
    times: Ints
    is_known: NDArray[np.bool_]


def keys_of(batch: pa.RecordBatch, negatives: Negatives, event_time: str | None) -> RowKeys:
    """Returns the hashes of converted rows."""
    user, item = scalars(batch, negatives.user), scalars(batch, negatives.item)
    groups = np.zeros(batch.num_rows, np.uint64)
    for name in negatives.within:
        values = scalars(batch, name)
        is_null = np.asarray(values.is_null(), dtype=bool)
        groups = mix64(groups + np.uint64(GAMMA) + np.where(is_null, np.uint64(_NULL), hashes([values])))
    times = np.full(batch.num_rows, _NO_TIME)
    if event_time is not None:
        times = np.asarray(scalars(batch, event_time).fill_null(_NO_TIME), dtype=np.int64)
    is_known = np.asarray(user.is_valid(), dtype=bool) & np.asarray(item.is_valid(), dtype=bool)
    return RowKeys(hashes([user]), hashes([item]), groups, times, is_known)


@dataclass(frozen=True)
class Candidates:
    """Items, and pairs of users and items.

    Attributes:
        items: one row for each item of each group, sorted by both: hashes, number of positives, and the time and the
            columns of its newest row.
        pairs: one row for each user and item, sorted by both: hashes.
    """

    items: pa.RecordBatch
    pairs: pa.RecordBatch


def candidates_of(batch: pa.RecordBatch, negatives: Negatives, event_time: str | None) -> Candidates:
    """Returns the items and pairs of converted rows; rows without a user or an item have none."""
    keys = keys_of(batch, negatives, event_time)
    rows = np.flatnonzero(keys.is_known)
    values = [batch.column(batch.schema.get_field_index(name)).take(pa.array(rows)) for name in negatives.of_item]
    numbers = [keys.groups[rows], keys.items[rows], np.ones(len(rows), np.int64), keys.times[rows]]
    items = pa.RecordBatch.from_arrays(
        [*map(pa.array, numbers), *values],
        [_GROUP, _ITEM, _COUNT, _TIME, *(_VALUE + name for name in negatives.of_item)],
    )
    pairs = pa.RecordBatch.from_arrays([pa.array(keys.users[rows]), pa.array(keys.items[rows])], ["user", _ITEM])
    return Candidates(newest([items]), distinct([pairs]))


def newest(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns each item of each group once, with its newest row; of rows with one time, the last one in the parts."""
    items = single(list(parts))
    groups, hashed, times = (_numbers(items, name) for name in (_GROUP, _ITEM, _TIME))
    order = np.lexsort((times, hashed, groups))  # Stable.
    if not len(order):
        return items
    is_last = np.append((np.diff(groups[order]) != 0) | (np.diff(hashed[order]) != 0), True)
    starts = np.concatenate([[0], np.flatnonzero(is_last)[:-1] + 1])
    counts = np.add.reduceat(_numbers(items, _COUNT)[order], starts)
    kept = items.take(pa.array(order[is_last]))
    return kept.set_column(kept.schema.get_field_index(_COUNT), _COUNT, pa.array(counts))


def distinct(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns each pair once."""
    pairs = single(list(parts))
    users, items = _numbers(pairs, "user"), _numbers(pairs, _ITEM)
    order = np.lexsort((items, users))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(users[order]) != 0) | (np.diff(items[order]) != 0)
    return pairs.take(pa.array(order[is_first]))


class Catalog:
    """Candidates to draw from; places are row numbers of `items`."""

    def __init__(self, candidates: Candidates):
        """Takes the candidates."""
        self.items = _numbers(candidates.items, _ITEM)
        """Hash of the item at each place."""
        self._batch = candidates.items
        self._groups, self._starts = np.unique(_numbers(candidates.items, _GROUP), return_index=True)
        self._ends = np.append(self._starts[1:], len(self.items))
        users, items = _numbers(candidates.pairs, "user"), _numbers(candidates.pairs, _ITEM)
        self._pairs = np.sort(_pair(users, items))
        self._users, self._items_of_user = np.unique(users, return_counts=True)

    @property
    def positives(self) -> Ints:
        """Number of positives of the item at each place."""
        return _numbers(self._batch, _COUNT)

    def ranges(self, groups: Hashes) -> tuple[Ints, Ints]:
        """Returns the first place of each group, and its number of places."""
        if not len(self._groups):
            return np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)
        found = np.minimum(np.searchsorted(self._groups, groups), len(self._groups) - 1)
        starts = self._starts[found]
        return starts, np.where(self._groups[found] == groups, self._ends[found] - starts, 0)

    def num_items(self, users: Hashes) -> Ints:
        """Returns the number of items that each user has."""
        if not len(self._users):
            return np.zeros(len(users), np.int64)
        found = np.minimum(np.searchsorted(self._users, users), len(self._users) - 1)
        return np.where(self._users[found] == users, self._items_of_user[found], 0)

    def has(self, users: Hashes, places: Ints) -> NDArray[np.bool_]:
        """Says which users have the items at places."""
        pairs = _pair(users, self.items[places])
        found = np.minimum(np.searchsorted(self._pairs, pairs), max(len(self._pairs) - 1, 0))
        return self._pairs[found] == pairs if len(self._pairs) else np.zeros(len(pairs), bool)

    def ids(self, name: str) -> NDArray[Any]:
        """Returns a column of the items with one id each, by place: int64 or str."""
        values = self.values(name).flatten()
        if pa.types.is_integer(values.type):
            return np.asarray(values, dtype=np.int64)
        texts = (each.decode(errors="backslashreplace") for each in values.cast(pa.binary()).to_pylist())
        return np.array(list(texts), str)

    def values(self, name: str) -> pa.Array:
        """Returns a column of the items, by place."""
        return self._batch.column(self._batch.schema.get_field_index(_VALUE + name))


def _pair(users: Hashes, items: Hashes) -> Hashes:
    pairs: Hashes = mix64(mix64(users + np.uint64(GAMMA)) + items)
    return pairs


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.asarray(batch.column(batch.schema.get_field_index(name)))
