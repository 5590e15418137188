"""Removes expired rows, and rows beyond a table's capacity, between steps.

Rows are spread over owners, and the rows that leave are those that would leave one owner of all rows. So an eviction
is a generator: it yields counts of this owner's rows, and takes the sums over all owners. A pass over the keys and
books of all rows (`native/usage.cc`) counts bins of what orders the rows, another takes those below the last one.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.schemas.spec.tables import Capacity
from sangam.trainer_module.embedding.bookkeeping import MINUTES_A_DAY
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.native.library import operations
from sangam.trainer_module.transforms.keys import ID_BITS

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS
_SHIFTS = (48, 32, 16, 0)
_NEVER = -(2**31)

Counts = NDArray[np.int64]
_Result = TypeVar("_Result")
Counting = Generator[Counts, Counts, _Result]
"""Yields this owner's counts, takes the sums over all owners, and returns its result."""


def finish(counting: Counting[_Result], total: Callable[[Counts], Counts]) -> _Result:
    """Returns the result; `total` returns the sums over all owners of their counts."""
    try:
        counts = next(counting)
        while True:
            counts = counting.send(total(counts))
    except StopIteration as ended:
        result: _Result = ended.value
        return result


def evict(store: RowStore, *, now: int) -> Counting[None]:
    """Removes rows by their tables' expiry and capacity, slots included, and counts them.

    Rows may be read, written and added between two of its counts, but no others may be removed.

    Args:
        store: this owner's.
        now: minutes since 1970 of the newest event that any rank has trained on.
    """
    if store.admission.sketch is not None:
        store.admission.sketch.age()
    if store.books is None:
        return
    going = yield from rows_to_go(store.group, Usage(store.keys, store.books, store.num_rows + 1, now))
    for counter, rows_by_tag in (("expired", going.expired), ("evicted", going.evicted)):
        store.counters[counter].assign_add(rows_by_tag)
    remove(store, going.numbers)


class Going(NamedTuple):
    """The rows that an eviction removes from this owner.

    Attributes:
        numbers: [n] int64, ascending.
        expired, evicted: [tags] int64, how many of each table, by age and by capacity.
    """

    numbers: NDArray[Any]
    expired: Counts
    evicted: Counts


class _Pass(NamedTuple):
    """The outcome of a pass over all rows.

    Attributes:
        bins: [tables with a capacity, bins] int64, counted rows.
        expired: [tags] int64; of the first pass.
        going: numbers of rows that leave, [n] int64, ascending; of the first pass, the expired ones.
        undecided: numbers of rows at the edge, [n] int64, ascending.
    """

    bins: tf.Tensor
    expired: tf.Tensor
    going: tf.Tensor
    undecided: tf.Tensor


@dataclass(frozen=True)
class Usage:
    """Keys and books of rows.

    Attributes:
        keys: [any] int64.
        books: [any, 2] int32.
        end: end of the rows in use, from 1.
        now: minutes.
    """

    keys: tf.Variable
    books: tf.Variable
    end: int
    now: int

    def passed(self, rules: NDArray[np.int64], *, is_first: bool = False) -> _Pass:
        """Passes over the rows; `rules` has one for each tag."""
        end, now = tf.constant(self.end, tf.int64), tf.constant(self.now, tf.int32)
        return _Pass(*operations().sangam_usage_pass(self.keys.handle, self.books.handle, end, now, is_first, rules))

    def tags(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns the tags of rows: [n] int64."""
        tags: NDArray[Any] = tf.gather(self.keys, numbers).numpy() >> ID_BITS
        return tags

    def of(self, numbers: NDArray[Any], order: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the keys of rows, and their sort key of eviction, least first: both numbers of a row in one int64."""
        seen, count = tf.gather(self.books, numbers).numpy().T
        first, then = (seen, count) if order == "least_recent" else (count, seen)
        return tf.gather(self.keys, numbers).numpy(), (first.astype(np.int64) << 32) + then


_OLDEST, _BY_COUNT, _PLACE, _EDGE = range(4)
"""Columns of the rules, see `native/usage.cc`."""


def rows_to_go(group: Group, usage: Usage) -> Counting[Going]:
    """Returns the rows to remove.

    Args:
        group: group of the tables.
        usage: of this owner's rows.
    """
    rules, capacities = _rules(group, usage.now)
    evicted = np.zeros(len(rules), np.int64)
    first = usage.passed(rules, is_first=True)
    going = [first.going.numpy()]
    if capacities:
        left = _edges(rules, capacities, (yield first.bins.numpy().ravel()).reshape(first.bins.shape))
        if left:
            last = usage.passed(rules)
            going.append(last.going.numpy())
            undecided = _by_tag(usage, last.undecided.numpy(), len(rules))
            for tag, number in left.items():
                keys, worth = usage.of(undecided[tag], capacities[tag].evict)
                going.append(undecided[tag][(yield from least_of_all(worth, keys, number))])
            evicted += np.bincount(usage.tags(np.concatenate(going[1:])), minlength=len(rules))
    return Going(np.sort(np.concatenate(going), kind="stable"), first.expired.numpy(), evicted)


def _by_tag(usage: Usage, numbers: NDArray[Any], num_tags: int) -> list[NDArray[Any]]:
    """Returns the numbers of the rows of each tag."""
    tags = usage.tags(numbers).astype(np.uint16)  # NumPy sorts these by radix.
    ends = np.cumsum(np.bincount(tags, minlength=num_tags))
    return np.split(numbers[np.argsort(tags, kind="stable")], ends[:-1])


def _rules(group: Group, now: int) -> tuple[NDArray[np.int64], dict[int, Capacity]]:
    """Returns the rules of the first pass, [tags, 4], and the capacities by tag, in the order of their places."""
    rules = np.array([[_NEVER, 0, -1, -1]] * (max(group.tags.values()) + 1), np.int64)
    capacities: dict[int, Capacity] = {}
    for name, table in group.tables.items():
        tag = group.tags[name]
        if table.expire_after_days is not None:
            rules[tag, _OLDEST] = max(now - table.expire_after_days * MINUTES_A_DAY + 1, _NEVER)
        if table.capacity is not None:
            rules[tag, _BY_COUNT], rules[tag, _PLACE] = table.capacity.evict == "least_frequent", len(capacities)
            capacities[tag] = table.capacity
    return rules, capacities


def _edges(rules: NDArray[np.int64], capacities: dict[int, Capacity], bins: Counts) -> dict[int, int]:
    """Sets the rules of the last pass; returns how many rows of the edge leave each table above its capacity, by tag.

    Args:
        rules: of the first pass.
        capacities: by tag.
        bins: [tables with a capacity, bins], of all owners.
    """
    left = {}
    for tag, capacity in capacities.items():
        of_table = bins[rules[tag, _PLACE]]
        surplus = int(of_table.sum()) - capacity.rows
        if surplus > 0:
            rules[tag, _EDGE], left[tag] = _edge(of_table, surplus)
        else:
            rules[tag, _PLACE] = -1
    return left


def _edge(bins: Counts, number: int) -> tuple[int, int]:
    """Returns the bin of the last of so many rows, and how many of its rows they are."""
    ends = np.cumsum(bins)
    edge = min(int(np.searchsorted(ends, number)), len(bins) - 1)
    return edge, number - int(ends[edge] - bins[edge])


def least_of_all(worth: NDArray[Any], keys: NDArray[Any], number: int) -> Counting[NDArray[Any]]:
    """Returns the indices of this owner's rows among the `number` least of all owners.

    The key decides between equals, so that they are always the same. A radix selection: each round counts one digit of
    the rows that are still undecided.

    Args:
        worth: [n] int64.
        keys: [n] int64 of one table, each once over all owners.
        number: how many, from 1; at most all rows of all owners.
    """
    taken: list[NDArray[Any]] = []
    undecided = np.arange(len(keys))
    for numbers in (worth ^ np.int64(-(2**63)), keys):  # As unsigned numbers they have the order of the signed ones.
        left = numbers[undecided] if len(undecided) < len(keys) else numbers
        for shift in _SHIFTS:
            digits = left >> shift & (_DIGITS - 1)
            own = np.bincount(digits, minlength=_DIGITS)
            counts = yield own
            # Rows may have been used since they were counted, and be above the edge now.
            number = min(number, int(counts.sum()))
            edge, number_at_edge = _edge(counts, number)
            if own[edge] < len(left):
                taken.append(undecided[digits < edge])
                is_undecided = digits == edge
                undecided, left = undecided[is_undecided], left[is_undecided]
            number = number_at_edge
            if number == counts[edge]:
                return np.concatenate([*taken, undecided])
    raise AssertionError("a key has two rows")


def remove(store: RowStore, numbers: NDArray[Any]) -> None:
    """Removes rows by number; the last rows move into the gaps.

    Args:
        store: is changed.
        numbers: [n], ascending, each once, none 0.
    """
    if not len(numbers):
        return
    end = int(store.end)
    new_end = end - len(numbers)
    gaps = numbers[numbers < new_end]
    is_gone = np.zeros(end - new_end, bool)
    is_gone[numbers[numbers >= new_end] - new_end] = True
    moved = np.flatnonzero(~is_gone) + new_end
    gone_keys = tf.gather(store.keys, numbers)
    store.index.remove(gone_keys)
    store.keep(tf.constant(gaps, tf.int64))
    for variable in store.by_number:
        variable.scatter_update(tf.IndexedSlices(tf.gather(variable, moved), gaps))
    store.index.insert(tf.gather(store.keys, gaps), tf.constant(gaps[:, None], tf.int64))
    store.mark(tf.range(new_end, end), False)
    store.end.assign(new_end)
    if store.removed is not None:
        store.removed.add(gone_keys.numpy())
