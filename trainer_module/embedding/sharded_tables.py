"""Tables spread over the ranks: every key has one owner, which alone holds and updates its row.

One exchange a step each way, whatever the number of features and tables: keys out, embeddings back; later gradients
out. Keys are deduplicated before the exchange and again on the owner: a row is read once and written once a step.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import tensorflow as tf

from sangam.schemas.derived.groups import Group
from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.bookkeeping import Observed
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.embedding.wire import pack, unpack

# Shape suffixes: n keys asked for, u unique keys on this rank, r keys received from all ranks, o unique ones of these,
# D dimension, W width of a row, R ranks, G groups of tables, P parts of the message of keys.


class _Owned(NamedTuple):
    """The keys that owners are asked for, by group.

    Attributes:
        keys_o: unique keys.
        observed_o: times and occurrences of each key in the batch, for groups that count occurrences.
    """

    keys_o: dict[str, tf.Tensor]
    observed_o: dict[str, Observed]


class _Route(NamedTuple):
    """The way of all groups' keys to their owners, kept for the way back.

    Attributes:
        owned_of_received_r: by group, the index of each received key among the unique ones of these; empty where one
            rank keeps its keys unchanged.
        sent_RG: number of keys sent to each rank.
        received_RG: number of keys received from each rank.
    """

    owned_of_received_r: dict[str, tf.Tensor]
    sent_RG: tf.Tensor
    received_RG: tf.Tensor


class Routed(NamedTuple):
    """A batch's keys at their owners. Dictionaries are by group; every leaf is a tensor.

    Attributes:
        index_n: index of each key among this rank's unique keys, which are in the order of their owners.
        asked: this rank's keys, and the unique ones among them, counted by table; empty where nothing is observed.
        owned: keys that the ranks have asked this one for.
        route: the way back.
    """

    index_n: dict[str, tf.Tensor]
    asked: dict[str, tuple[tf.Tensor, tf.Tensor]]
    owned: _Owned
    route: _Route


class SentKeys(NamedTuple):
    """A batch's keys on their way to their owners; see `Routed`.

    Attributes:
        index_n: see `Routed`.
        asked: see `Routed`.
        uniques: this rank's unique keys, as `_Owned`, in any order.
        sent_RG: number of these keys that each rank owns.
        received: returns the message of keys that this rank owns; None where there is only one rank.
    """

    index_n: dict[str, tf.Tensor]
    asked: dict[str, tuple[tf.Tensor, tf.Tensor]]
    uniques: _Owned
    sent_RG: tf.Tensor
    received: Callable[[], collectives.Received] | None


class Unique(NamedTuple):
    """Embeddings of a group's unique keys [u, dim], and the index of each key asked for among them [n]."""

    embeddings_uD: tf.Tensor
    index_n: tf.Tensor


class Pulled(NamedTuple):
    """The rows of a training step's batch, by group."""

    unique: dict[str, Unique]
    routed: Routed
    numbers_o: dict[str, tf.Tensor]
    rows_oW: dict[str, tf.Tensor]


class ShardedTables:
    """All rows of all groups, over all ranks."""

    def __init__(self, stores: Mapping[str, RowStore], *, num_ranks: int):
        """Takes this rank's store of each group; there may be none."""
        self.stores = dict(stores)
        self._num_ranks = num_ranks
        self._groups: dict[str, Group] = {name: store.group for name, store in stores.items()}

    def send_keys(self, keys: Mapping[str, tf.Tensor], minutes: Mapping[str, tf.Tensor] | None, use: str) -> SentKeys:
        """Sends keys to their owners; `routed` receives them. All ranks together.

        No row is looked up or created, so a batch's keys can travel while another batch is trained on.

        Args:
            keys: [n] int64 by group.
            minutes: [n] int32, the time of each key's event, for groups that track usage; may be empty. None where
                nothing is counted.
            use: prefix of the collectives' names; each has one call in flight at a time.
        """
        index_n, asked, uniques = {}, {}, _Owned({}, {})
        with tf.name_scope("unique"):
            for name, group in self._groups.items():
                keys_u, index_n[name], occurrences_u = tf.unique_with_counts(keys[name])
                uniques.keys_o[name] = keys_u
                if minutes is not None:
                    asked[name] = self.stores[name].counts_by_table(keys_u, occurrences_u)
                    if group.counts_occurrences:
                        newest_u = _newest(minutes.get(name), index_n[name], occurrences_u)
                        uniques.observed_o[name] = Observed(occurrences_u, newest_u)
        if self._num_ranks == 1 or not self._groups:
            return SentKeys(index_n, asked, uniques, tf.zeros([1, len(self._groups)], tf.int32), None)
        with tf.name_scope("exchange"):
            by_owner_n, sent_RG, received = self._to_owners(uniques, index_n, use)
            return SentKeys(by_owner_n, asked, uniques, sent_RG, received)

    def routed(self, sent: SentKeys) -> Routed:
        """Receives the keys that this rank owns. All ranks together."""
        if sent.received is None:
            return Routed(sent.index_n, sent.asked, sent.uniques, _Route({}, sent.sent_RG, sent.sent_RG))
        with tf.name_scope("exchange"):
            return Routed(sent.index_n, sent.asked, *self._of_owners(sent, *sent.received()))

    def pull(self, routed: Routed, step: tf.Tensor) -> Pulled:
        """Fetches the rows of a training batch, and creates rows for admitted new keys. All ranks together.

        Args:
            routed: the batch's keys, `use="train"`.
            step: step of this batch.
        """
        with tf.name_scope("lookup"):
            numbers, rows = {}, {}
            for name, store in self.stores.items():
                store.count_asked(*routed.asked[name])
                keys_o, observed_o = routed.owned
                numbers[name] = store.find_or_make(keys_o[name], observed_o.get(name), step)
                rows[name] = store.read(numbers[name])
        embeddings = self._answer(routed, numbers, rows, "train")
        unique = {name: Unique(embeddings[name], routed.index_n[name]) for name in self._groups}
        return Pulled(unique, routed, numbers, rows)

    def read(self, keys: Mapping[str, tf.Tensor]) -> dict[str, Unique]:
        """Fetches embeddings without creating rows; unknown keys read as their table's default. All ranks together."""
        routed = self.routed(self.send_keys(keys, None, "read"))
        numbers = {name: store.find(routed.owned.keys_o[name]) for name, store in self.stores.items()}
        rows = {name: store.read(numbers[name]) for name, store in self.stores.items()}
        embeddings = self._answer(routed, numbers, rows, "read")
        return {name: Unique(embeddings[name], routed.index_n[name]) for name in self._groups}

    def _answer(
        self,
        routed: Routed,
        numbers: Mapping[str, tf.Tensor],
        rows: Mapping[str, tf.Tensor],
        use: str,
    ) -> dict[str, tf.Tensor]:
        """Returns the embeddings of this rank's unique keys: {group: [u, dim]}."""
        embeddings = {
            name: store.embeddings(routed.owned.keys_o[name], numbers[name], rows[name])
            for name, store in self.stores.items()
        }
        if self._num_ranks == 1 or not self._groups:
            return embeddings
        route = routed.route
        with tf.name_scope("exchange"):
            answers = {name: tf.gather(w_oD, route.owned_of_received_r[name]) for name, w_oD in embeddings.items()}
            return self._exchange(answers, route.received_RG, route.sent_RG, name=f"{use}_embeddings")()

    def send_gradients(
        self, pulled: Pulled, gradients_uD: Mapping[str, tf.Tensor]
    ) -> Callable[[], Mapping[str, tf.Tensor]]:
        """Sends gradients to the owners of their rows. All ranks together.

        Returns:
            A function that returns the gradients of this rank's own keys, summed over the ranks: {group: [o, dim]}.
        """
        if self._num_ranks == 1 or not self._groups:
            return lambda: gradients_uD
        route = pulled.routed.route
        with tf.name_scope("exchange"):
            received = self._exchange(gradients_uD, route.sent_RG, route.received_RG, name="gradients")

        def summed() -> Mapping[str, tf.Tensor]:
            with tf.name_scope("exchange"):
                gradients = received()
                return {
                    name: tf.math.unsorted_segment_sum(
                        gradients[name], route.owned_of_received_r[name], tf.size(pulled.numbers_o[name])
                    )
                    for name in self._groups
                }

        return summed

    def apply(
        self,
        names: Iterable[str],
        pulled: Pulled,
        gradients_oD: Mapping[str, tf.Tensor],
        scale: tf.Tensor,
        context: StepContext,
    ) -> None:
        """Updates every row of these groups that this rank owns once, with its gradient times `scale`."""
        for name in names:
            store = self.stores[name]
            keys_o, observed_o = pulled.routed.owned
            numbers_o, rows_oW = pulled.numbers_o[name], pulled.rows_oW[name]
            store.apply(keys_o[name], numbers_o, rows_oW, gradients_oD[name], scale, observed_o.get(name), context)

    def _to_owners(
        self, uniques: _Owned, index_n: Mapping[str, tf.Tensor], use: str
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, Callable[[], collectives.Received]]:
        """Returns `index_n`, `sent_RG` and `received` of `SentKeys`, given the index of each key in `uniques`."""
        ranks, groups = self._num_ranks, len(self._groups)
        by_owner_n, counts, parts, part_groups = {}, [], [], []
        for group_index, (name, keys_u) in enumerate(uniques.keys_o.items()):
            owners_u = owner_of(keys_u, ranks)
            by_owner = tf.dynamic_partition(tf.range(tf.size(keys_u)), owners_u, ranks)
            order_u = tf.concat(by_owner, 0)
            by_owner_n[name] = tf.gather(tf.math.invert_permutation(order_u), index_n[name])
            counts.append(tf.stack([tf.size(part) for part in by_owner]))
            parts.append(tf.gather(keys_u, order_u))
            part_groups.append(group_index)
            if observed_u := uniques.observed_o.get(name):
                both = tf.stack([observed_u.occurrences, observed_u.newest], 1)
                parts.append(tf.bitcast(tf.gather(both, order_u), tf.int64))
                part_groups.append(group_index)
        sent_RG = tf.stack(counts, axis=1)
        # The counts travel ahead of the keys they count, in the same message.
        header_1 = tf.fill([ranks, 1], groups)
        sizes_RP = tf.concat([header_1, tf.gather(sent_RG, part_groups, axis=1)], axis=1)
        packed = pack([tf.reshape(tf.cast(sent_RG, tf.int64), [-1]), *parts], sizes_RP)
        return by_owner_n, sent_RG, collectives.send(packed, tf.reduce_sum(sizes_RP, axis=1), name=f"{use}_keys")

    def _of_owners(self, sent: SentKeys, received: tf.Tensor, lengths_R: tf.Tensor) -> tuple[_Owned, _Route]:
        """Reads the message that `_to_owners` of all ranks have sent."""
        ranks, groups = self._num_ranks, len(self._groups)
        part_groups = [
            index
            for index, name in enumerate(sent.uniques.keys_o)
            for _ in range(2 if name in sent.uniques.observed_o else 1)
        ]
        header_1 = tf.fill([ranks, 1], groups)
        starts_R = tf.cumsum(lengths_R, exclusive=True)
        received_RG = tf.cast(tf.gather(received, starts_R[:, None] + tf.range(groups)[None, :]), tf.int32)
        received_RG = tf.ensure_shape(received_RG, [ranks, groups])
        sizes_RP = tf.concat([header_1, tf.gather(received_RG, part_groups, axis=1)], axis=1)
        _, *received_parts = unpack(received, sizes_RP)
        owned, owned_of_received = _Owned({}, {}), {}
        for name in sent.uniques.keys_o:
            keys_o, owned_of_received_r = tf.unique(received_parts.pop(0))
            owned.keys_o[name] = keys_o
            if name in sent.uniques.observed_o:
                both_r2 = tf.bitcast(received_parts.pop(0), tf.int32)
                owned.observed_o[name] = Observed(
                    tf.math.unsorted_segment_sum(both_r2[:, 0], owned_of_received_r, tf.size(keys_o)),
                    tf.math.unsorted_segment_max(both_r2[:, 1], owned_of_received_r, tf.size(keys_o)),
                )
            owned_of_received[name] = owned_of_received_r
        return owned, _Route(owned_of_received, sent.sent_RG, received_RG)

    def _exchange(
        self, rows: Mapping[str, tf.Tensor], sent_RG: tf.Tensor, received_RG: tf.Tensor, *, name: str
    ) -> Callable[[], dict[str, tf.Tensor]]:
        """Sends rows of every group, ordered by rank, in one message to each rank: returns {group: [rows, dim]}."""
        dims_G = tf.constant([group.dim for group in self._groups.values()], tf.int32)
        sent_floats_RG, received_floats_RG = sent_RG * dims_G, received_RG * dims_G
        packed = pack([tf.reshape(rows[group], [-1]) for group in self._groups], sent_floats_RG)
        sent = collectives.send(packed, tf.reduce_sum(sent_floats_RG, axis=1), name=name)

        def received() -> dict[str, tf.Tensor]:
            flats = unpack(sent()[0], received_floats_RG)
            return {
                name: tf.reshape(flat, [-1, group.dim])
                for (name, group), flat in zip(self._groups.items(), flats, strict=True)
            }

        return received


def _newest(minutes_n: tf.Tensor | None, index_n: tf.Tensor, occurrences_u: tf.Tensor) -> tf.Tensor:
    if minutes_n is None:
        return tf.zeros_like(occurrences_u)
    return tf.math.unsorted_segment_max(minutes_n, index_n, tf.size(occurrences_u))
