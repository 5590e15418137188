"""Groups a batch's keys by the server that owns them."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.transforms.keys import tags_of

_NO_COUNTS = np.zeros(0, np.int64)

# Shape suffixes: n requested keys, u unique keys, S servers.


class RoutedKeys(NamedTuple):
    """One group's keys, ordered by server; arrays in `Request`, tensors in a graph.

    Attributes:
        keys_u: unique keys, int64.
        index_n: index into `keys_u` of each requested key.
        counts_S: number of keys by server.
        observed_u2: int32, occurrences and newest minute, for groups that count; else empty.
        asked: flattened arguments of `RowStore.count_asked`: [2, tags].
    """

    keys_u: Any
    index_n: Any
    counts_S: Any
    observed_u2: Any
    asked: Any


def route(
    groups: Mapping[str, Group], keys: Mapping[str, tf.Tensor], minutes: Mapping[str, tf.Tensor], servers: int
) -> dict[str, RoutedKeys]:
    """Returns a batch's unique keys ordered by server; runs in graphs.

    Args:
        groups: groups of tables.
        keys: [n] int64 by group.
        minutes: [n] int32, the event time of each key, for groups that track usage.
        servers: number of servers.
    """
    routed = {}
    for name, group in groups.items():
        keys_u, index_n, occurrences_u = tf.unique_with_counts(keys[name])
        newest_u = tf.zeros_like(occurrences_u)
        if name in minutes:
            newest_u = tf.math.unsorted_segment_max(minutes[name], index_n, tf.size(keys_u))
        size = max(group.tags.values()) + 1
        tags_u = tags_of(keys_u)
        ids = tf.math.bincount(tags_u, occurrences_u, minlength=size, maxlength=size)
        unique = tf.math.bincount(tags_u, minlength=size, maxlength=size)
        counts_S = tf.size(keys_u)[None]
        if servers > 1:
            by_server = tf.dynamic_partition(tf.range(tf.size(keys_u)), owner_of(keys_u, servers), servers)
            order_u, counts_S = tf.concat(by_server, 0), tf.stack([tf.size(part) for part in by_server])
            index_n = tf.gather(tf.math.invert_permutation(order_u), index_n)
            keys_u, occurrences_u, newest_u = (tf.gather(each, order_u) for each in (keys_u, occurrences_u, newest_u))
        observed_u2 = tf.stack([occurrences_u, newest_u], 1) if group.counts_occurrences else tf.zeros([0, 2], tf.int32)
        asked = tf.cast(tf.stack([ids, unique]), tf.int64)
        routed[name] = RoutedKeys(keys_u, index_n, counts_S, observed_u2, asked)
    return routed


class Request(NamedTuple):
    """A batch's keys as arrays.

    Attributes:
        groups: keys by group.
        slices: by group and server, a server's keys among all.
    """

    groups: dict[str, RoutedKeys]
    slices: dict[str, list[slice]]

    @classmethod
    def of(cls, routed: Mapping[str, RoutedKeys]) -> "Request":
        """Converts the result of `route`."""
        groups = {name: RoutedKeys(*(tensor.numpy() for tensor in of_group)) for name, of_group in routed.items()}
        slices = {}
        for name, of_group in groups.items():
            ends = [0, *itertools.accumulate(of_group.counts_S.tolist())]
            slices[name] = [slice(first, last) for first, last in itertools.pairwise(ends)]
        return cls(groups, slices)

    def keys(self, server: int) -> list[NDArray[Any]]:
        """Returns a server's keys by group."""
        return [of_group.keys_u[self.slices[name][server]] for name, of_group in self.groups.items()]

    def counted(self, server: int, groups: Mapping[str, Group]) -> list[NDArray[Any]]:
        """Returns usage counts of a server's keys, for groups that count; the first server also counts the batch."""
        observed = [
            of_group.observed_u2[self.slices[name][server]]
            for name, of_group in self.groups.items()
            if groups[name].counts_occurrences
        ]
        asked = [of_group.asked.reshape(-1) for of_group in self.groups.values()] if server == 0 else []
        return [*observed, np.concatenate([_NO_COUNTS, *asked])]
