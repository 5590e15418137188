"""Tables spread over the ranks: every key has one owner, which alone holds and updates its row.

One exchange a step each way, whatever the number of features and dimensions: keys out, embeddings back; later
gradients out. Keys are de-duplicated before the wire and again on the owner, so a row is read and written once a step.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from trainer_module import collectives
from trainer_module.embedding.hashing import owner_of
from trainer_module.embedding.row_store import RowStore
from trainer_module.embedding.wire import pack, unpack

# Shape suffixes: n keys asked for, u unique keys on this rank, r keys received from all ranks, o unique ones of these,
# D dimension, W width of a row, R ranks, G dimensions ("groups"), each one's table a group on the wire.


class _Route(NamedTuple):
    """The way of the keys to their owners, kept for the way back. Dictionaries are by dimension."""

    owner_order_u: dict[int, tf.Tensor]
    owned_of_received_r: dict[int, tf.Tensor]
    sent_RG: tf.Tensor
    received_RG: tf.Tensor


class Unique(NamedTuple):
    """Embeddings of a dimension's unique keys [u, dim], and for each key asked for its place among them [n]."""

    embeddings_uD: tf.Tensor
    place_n: tf.Tensor


class Pulled(NamedTuple):
    """What a training step knows of the rows it has asked for, by dimension."""

    unique: dict[int, Unique]
    row_numbers_o: dict[int, tf.Tensor]
    rows_oW: dict[int, tf.Tensor]
    route: _Route


class ShardedTables:
    """All rows of all dimensions, over all ranks."""

    def __init__(self, stores: Mapping[int, RowStore], *, num_ranks: int):
        """Takes this rank's store of each dimension; there may be none."""
        self.stores = dict(sorted(stores.items()))
        self._num_ranks = num_ranks
        self._dims = tuple(self.stores)

    def pull(self, keys: Mapping[int, tf.Tensor]) -> Pulled:
        """Fetches the rows of a training batch, making those of new keys: {dim: [n] int64}. All ranks together."""
        if not self._dims:
            return Pulled({}, {}, {}, _Route({}, {}, tf.zeros([0, 0]), tf.zeros([0, 0])))
        places, owned, route = self._send_keys(keys, "train")
        numbers = {dim: store.find_or_make(owned[dim]) for dim, store in self.stores.items()}
        rows = {dim: store.read(numbers[dim]) for dim, store in self.stores.items()}
        embeddings = self._send_back({dim: rows[dim][:, :dim] for dim in self._dims}, route, "train")
        unique = {dim: Unique(embeddings[dim], places[dim]) for dim in self._dims}
        return Pulled(unique, numbers, rows, route)

    def read(self, keys: Mapping[int, tf.Tensor]) -> dict[int, Unique]:
        """Fetches embeddings without making any; unknown keys read as zeros. All ranks together."""
        if not self._dims:
            return {}
        places, owned, route = self._send_keys(keys, "read")
        found = {dim: store.embeddings_or_zeros(owned[dim]) for dim, store in self.stores.items()}
        embeddings = self._send_back(found, route, "read")
        return {dim: Unique(embeddings[dim], places[dim]) for dim in self._dims}

    def push(self, pulled: Pulled, gradients_uD: Mapping[int, tf.Tensor], scale: tf.Tensor, step: tf.Tensor) -> None:
        """Sums the gradients of all ranks on the owners, multiplies by `scale` and updates every row once."""
        if not self._dims:
            return
        route = pulled.route
        sent = {dim: tf.gather(gradients_uD[dim], route.owner_order_u[dim]) for dim in self._dims}
        received = self._exchange(sent, route.sent_RG, route.received_RG, name="gradients")
        for dim, store in self.stores.items():
            owners, num_owned = route.owned_of_received_r[dim], tf.size(pulled.row_numbers_o[dim])
            summed_oD = tf.math.unsorted_segment_sum(received[dim], owners, num_owned)
            store.apply(pulled.row_numbers_o[dim], pulled.rows_oW[dim], summed_oD * scale, step)

    def _send_keys(
        self, keys: Mapping[int, tf.Tensor], use: str
    ) -> tuple[dict[int, tf.Tensor], dict[int, tf.Tensor], _Route]:
        """Returns each key's place among the unique ones [n], the owned keys [o], and the route."""
        places, orders, to_send, counts_R = {}, {}, [], []
        for dim in self._dims:
            keys_u, places[dim] = tf.unique(keys[dim])
            owners_u = owner_of(keys_u, self._num_ranks)
            orders[dim] = tf.argsort(owners_u, stable=True)
            to_send.append(tf.gather(keys_u, orders[dim]))
            counts_R.append(tf.math.bincount(owners_u, minlength=self._num_ranks, maxlength=self._num_ranks))
        sent_RG = tf.ensure_shape(tf.stack(counts_R, axis=1), [self._num_ranks, len(self._dims)])
        # The counts travel ahead of the keys they count, in the same message.
        header_1 = tf.fill([self._num_ranks, 1], len(self._dims))
        packed = pack([tf.reshape(tf.cast(sent_RG, tf.int64), [-1]), *to_send], tf.concat([header_1, sent_RG], axis=1))
        lengths_R = len(self._dims) + tf.reduce_sum(sent_RG, axis=1)
        received, received_lengths_R = collectives.alltoall(packed, lengths_R, name=f"{use}_keys")
        starts_R = tf.cumsum(received_lengths_R, exclusive=True)
        received_RG = tf.gather(received, starts_R[:, None] + tf.range(len(self._dims))[None, :])
        received_RG = tf.ensure_shape(tf.cast(received_RG, tf.int32), [self._num_ranks, len(self._dims)])
        _, *received_keys = unpack(received, tf.concat([header_1, received_RG], axis=1))
        owned, owned_of_received = {}, {}
        for dim, keys_r in zip(self._dims, received_keys, strict=True):
            owned[dim], owned_of_received[dim] = tf.unique(keys_r)
        return places, owned, _Route(orders, owned_of_received, sent_RG, received_RG)

    def _send_back(self, embeddings_oD: Mapping[int, tf.Tensor], route: _Route, use: str) -> dict[int, tf.Tensor]:
        """Returns the embeddings of this rank's unique keys: {dim: [u, dim]}."""
        answers = {dim: tf.gather(embeddings_oD[dim], route.owned_of_received_r[dim]) for dim in self._dims}
        received = self._exchange(answers, route.received_RG, route.sent_RG, name=f"{use}_embeddings")
        return {
            dim: tf.gather(received[dim], tf.math.invert_permutation(route.owner_order_u[dim])) for dim in self._dims
        }

    def _exchange(
        self, rows: Mapping[int, tf.Tensor], sent_RG: tf.Tensor, received_RG: tf.Tensor, *, name: str
    ) -> dict[int, tf.Tensor]:
        """Sends rows of every dimension, ordered by rank, in one message to each rank: {dim: [rows, dim]}."""
        dims_G = tf.constant(self._dims, tf.int32)
        sent_floats_RG, received_floats_RG = sent_RG * dims_G, received_RG * dims_G
        packed = pack([tf.reshape(rows[dim], [-1]) for dim in self._dims], sent_floats_RG)
        received, _ = collectives.alltoall(packed, tf.reduce_sum(sent_floats_RG, axis=1), name=name)
        flats = unpack(received, received_floats_RG)
        return {dim: tf.reshape(flat, [-1, dim]) for dim, flat in zip(self._dims, flats, strict=True)}
