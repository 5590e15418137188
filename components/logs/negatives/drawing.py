"""Draws candidates for positives: a function of the seed, the day and the row, never of files or workers.

The judged splits have up to M candidates of each positive, the train split a share k / M of as many. The odds among the
train split's rows are then M / k times those of the judged splits, and the served logit is z + log(k / M).
Reference: He et al.: Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, section 6.3.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.logs.negatives.catalog import Catalog, Ints, RowKeys
from sangam.components.logs.rows.hashes import Hashes
from sangam.components.outside import Floats, item_weights
from sangam.schemas.host.splitmix64 import GAMMA, mix64
from sangam.schemas.parts.judging import NegativeSampler
from sangam.schemas.spec.negatives import Popular, Uniform

_SALT = b"sangam: candidates"
_MOST_TRIES = 64
"""Tries of a draw in proportion: fewer than one draw in 2**64 fails where a user has half of the positives."""
_AT_ONCE = 2**20
"""Candidates that are compared at once."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of candidates of one positive.

    Attributes:
        wanted: to draw.
        judged: in the judged splits.
    """

    wanted: int
    judged: int


@dataclass(frozen=True)
class Drawn:
    """Candidates in the order of their positives.

    Attributes:
        rows: row of the positive of each candidate.
        places: its place in the catalog.
        num_without: positives that have no candidate at all.
    """

    rows: Ints
    places: Ints
    num_without: int


def identities(keys: RowKeys, seed: int, day: str) -> Hashes:
    """Returns a number for each row, from which all its draws follow: equal for equal user, item and time."""
    text = f"{seed} {day}".encode()
    start = np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8, key=_SALT).digest(), "little"))
    mixed: Hashes = mix64(mix64(mix64(keys.users + start) + keys.items) + keys.times.view(np.uint64))
    return mixed


Draw = Callable[[RowKeys, Hashes, Numbers], Drawn]
"""Draws candidates for rows that have a user and an item, given their hashes and identities."""


@functools.singledispatch
def drawer(sampler: NegativeSampler, catalog: Catalog, item: str) -> Draw:
    """Returns the draws of a sampler; those of one of others are in proportion to its weights.

    Args:
        sampler: the sampler.
        catalog: candidates of the day.
        item: column of the item.

    Raises:
        UserError: the method of a sampler of others is wrong.
    """
    weights = item_weights(sampler, catalog.ids(item), catalog.positives)
    return functools.partial(_in_proportion, catalog, _ends(weights))


@drawer.register
def _of_popular(sampler: Popular, catalog: Catalog, item: str) -> Draw:
    del sampler, item
    return functools.partial(_in_proportion, catalog, _ends(catalog.positives))


@drawer.register
def _of_uniform(sampler: Uniform, catalog: Catalog, item: str) -> Draw:
    del sampler, item
    return functools.partial(_without_replacement, catalog)


def _without_replacement(catalog: Catalog, keys: RowKeys, ids: Hashes, numbers: Numbers) -> Drawn:
    starts, sizes = catalog.ranges(keys.groups)
    # Where at least half of a group stays free, few tries find the wanted number. Elsewhere all are listed, as they are
    # where there may be fewer than the judged number.
    own = catalog.num_items(keys.users)
    is_small = sizes < np.maximum(numbers.judged + own, 2 * (numbers.wanted + own))
    small, large = np.flatnonzero(is_small), np.flatnonzero(~is_small)
    listed = [_listed(catalog, keys, ids, numbers, starts, sizes, rows) for rows in _chunks(small, sizes[small])]
    tried = _tried(catalog, keys, ids, numbers.wanted, starts, sizes, large)
    rows = np.concatenate([tried[0], *(part[0] for part in listed)])
    places = np.concatenate([tried[1], *(part[1] for part in listed)])
    order = np.argsort(rows, kind="stable")
    return Drawn(rows[order], places[order], sum(part[2] for part in listed))


def _ends(weights: NDArray[Any]) -> Floats:
    """Returns the sum of the weights up to each place, its own included, after a first 0."""
    return np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])


def _in_proportion(catalog: Catalog, ends: Floats, keys: RowKeys, ids: Hashes, numbers: Numbers) -> Drawn:
    """Draws with replacement, by the sums of the weights up to each place."""
    starts, sizes = catalog.ranges(keys.groups)
    wanted = numbers.wanted
    rows = np.repeat(np.arange(len(ids)), wanted)
    seeds = mix64(ids[rows] + np.tile(np.arange(1, wanted + 1).astype(np.uint64), len(ids)) * np.uint64(GAMMA))
    places = np.full(len(rows), -1)
    first, last = ends[starts], ends[starts + sizes]
    left = np.flatnonzero((last > first)[rows])
    for number in range(1, _MOST_TRIES + 1):
        row = rows[left]
        at = first[row] + _uniform(mix64(seeds[left] + np.uint64(number * GAMMA % 2**64))) * (last - first)[row]
        # A rounded sum is not beyond the group; a place without a weight has no number that is only below its end.
        found = np.searchsorted(ends, np.minimum(at, np.nextafter(last[row], first[row])), side="right") - 1
        is_free = ~catalog.has(keys.users[row], found)
        places[left[is_free]] = found[is_free]
        left = left[~is_free]
        if not len(left):
            break
    is_drawn = places >= 0
    num_without = len(ids) - len(np.unique(rows[is_drawn]))
    return Drawn(rows[is_drawn], places[is_drawn], num_without)


def _listed(
    catalog: Catalog, keys: RowKeys, ids: Hashes, numbers: Numbers, starts: Ints, sizes: Ints, rows: Ints
) -> tuple[Ints, Ints, int]:
    """Lists all candidates of rows, in an order by hash, and returns the first ones; and the rows without any."""
    of = np.repeat(np.arange(len(rows)), sizes[rows])
    before = np.cumsum(sizes[rows]) - sizes[rows]
    places = starts[rows][of] + np.arange(len(of)) - before[of]
    is_free = ~catalog.has(keys.users[rows][of], places)
    of, places = of[is_free], places[is_free]
    free = np.bincount(of, minlength=len(rows))
    # A share that is not a whole number is rounded up or down at random, so that its mean is exact.
    share = np.minimum(free, numbers.judged) * numbers.wanted / numbers.judged
    wanted = np.floor(share + _uniform(mix64(ids[rows] ^ np.uint64(GAMMA)))).astype(np.int64)
    order = np.lexsort((mix64(ids[rows][of] + catalog.items[places]), of))
    rank = np.arange(len(of)) - (np.cumsum(free) - free)[of]
    chosen = order[rank < wanted[of]]
    return rows[of[chosen]], places[chosen], int((free == 0).sum())


def _tried(
    catalog: Catalog, keys: RowKeys, ids: Hashes, wanted: int, starts: Ints, sizes: Ints, rows: Ints
) -> tuple[Ints, Ints]:
    """Draws distinct candidates for rows by trying again; at least half of each group must be free to the end."""
    places, counts = np.full((len(rows), wanted), -1), np.zeros(len(rows), np.int64)
    active = np.arange(len(rows))
    number = 0
    while len(active):
        number += 1
        row = rows[active]
        place = starts[row] + _below(mix64(ids[row] + np.uint64(number * GAMMA % 2**64)), sizes[row])
        is_free = ~catalog.has(keys.users[row], place) & ~(places[active] == place[:, None]).any(axis=1)
        took = active[is_free]
        places[took, counts[took]] = place[is_free]
        counts[took] += 1
        active = active[counts[active] < wanted]
    return np.repeat(rows, wanted), places.ravel()


def _chunks(rows: Ints, sizes: Ints) -> Iterator[Ints]:
    """Yields rows whose candidates are listed together."""
    numbers = np.cumsum(sizes) // _AT_ONCE
    yield from np.split(rows, np.flatnonzero(np.diff(numbers)) + 1) if len(rows) else ()


def _uniform(mixed: Hashes) -> NDArray[np.float64]:
    floats: NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return floats


def _below(mixed: Hashes, bounds: Ints) -> Ints:
    """Returns numbers from 0 to below the bounds."""
    return np.minimum((_uniform(mixed) * bounds).astype(np.int64), bounds - 1)
