"""A table spread over the ranks: every key has one owner, which alone holds and updates its row.

One exchange a step each way, whatever the number of features: keys out, embeddings back; later gradients out. Keys
are de-duplicated before the wire and again on the owner, so a row is read and written once a step.
"""

from typing import NamedTuple

import tensorflow as tf

from trainer_module import collectives
from trainer_module.embedding.hashing import owner_of
from trainer_module.embedding.row_store import RowStore

# Shape suffixes: n keys asked for, u unique keys on this rank, r keys received from all ranks, o unique ones of these.


class _Route(NamedTuple):
    """The way of the keys to their owners, kept for the way back."""

    sender_order_u: tf.Tensor
    sent_splits: tf.Tensor
    received_splits: tf.Tensor
    owned_of_received_r: tf.Tensor


class Pulled(NamedTuple):
    """What a step knows of the rows it has asked for."""

    embeddings_uD: tf.Tensor
    unique_of_key_n: tf.Tensor
    route: _Route
    row_numbers_o: tf.Tensor
    rows_oW: tf.Tensor


class ShardedTable:
    """All rows of one dimension, over all ranks."""

    def __init__(self, store: RowStore, *, num_ranks: int, name: str):
        self.store = store
        self._num_ranks = num_ranks
        self._name = name

    def pull(self, keys_n: tf.Tensor) -> Pulled:
        """Fetches the rows of a training batch, making those of new keys. All ranks call it together."""
        unique_of_key_n, owned_keys_o, route = self._send_keys(keys_n, "train")
        row_numbers_o = self.store.find_or_make(owned_keys_o)
        rows_oW = self.store.read(row_numbers_o)
        embeddings_uD = self._send_back(rows_oW[:, : self.store.dim], route, "train")
        return Pulled(embeddings_uD, unique_of_key_n, route, row_numbers_o, rows_oW)

    def read(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Fetches embeddings without making any; unknown keys read as zeros. All ranks call it together.

        Returns:
            Embeddings of the unique keys [u, dim], and for each key its place among them [n].
        """
        unique_of_key_n, owned_keys_o, route = self._send_keys(keys_n, "read")
        return self._send_back(self.store.embeddings_or_zeros(owned_keys_o), route, "read"), unique_of_key_n

    def push(self, pulled: Pulled, gradients_uD: tf.Tensor, scale: tf.Tensor, step: tf.Tensor) -> tf.Operation:
        """Sums the gradients of all ranks on the owners, multiplies by `scale` and updates every row once."""
        sent = tf.gather(gradients_uD, pulled.route.sender_order_u)
        received, _ = collectives.alltoall(sent, pulled.route.sent_splits, name=f"{self._name}_gradients")
        num_owned = tf.size(pulled.row_numbers_o)
        summed_oD = tf.math.unsorted_segment_sum(received, pulled.route.owned_of_received_r, num_owned)
        return self.store.apply(pulled.row_numbers_o, pulled.rows_oW, summed_oD * scale, step)

    def _send_keys(self, keys_n: tf.Tensor, use: str) -> tuple[tf.Tensor, tf.Tensor, _Route]:
        keys_u, unique_of_key_n = tf.unique(keys_n)
        owners_u = owner_of(keys_u, self._num_ranks)
        sender_order_u = tf.argsort(owners_u, stable=True)
        splits = tf.math.bincount(owners_u, minlength=self._num_ranks, maxlength=self._num_ranks)
        received_r, received_splits = collectives.alltoall(
            tf.gather(keys_u, sender_order_u), splits, name=f"{self._name}_{use}_keys"
        )
        owned_keys_o, owned_of_received_r = tf.unique(received_r)
        return unique_of_key_n, owned_keys_o, _Route(sender_order_u, splits, received_splits, owned_of_received_r)

    def _send_back(self, embeddings_oD: tf.Tensor, route: _Route, use: str) -> tf.Tensor:
        answers_rD = tf.gather(embeddings_oD, route.owned_of_received_r)
        received, _ = collectives.alltoall(answers_rD, route.received_splits, name=f"{self._name}_{use}_embeddings")
        return tf.gather(received, tf.math.invert_permutation(route.sender_order_u))
