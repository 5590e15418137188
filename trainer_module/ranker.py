"""The model, from keys to predictions. Read this first: the trainer, the export and the tests all run it.

`trainer_module/input/batch.py` defines a batch. All features of a kind share one operation, except encoders of
sequences.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from schemas.derived.groups import groups_of
from schemas.spec import RankerSpec
from schemas.spec.encoders import DinEncoder
from schemas.spec.features import IdsFeature, SequenceFeature
from trainer_module import losses
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import FlatWeights, Weights
from trainer_module.encoders import Encoder, build_encoder
from trainer_module.encoders.lists import Lists
from trainer_module.encoders.pooling import COMBINERS, combine, lists_of_values
from trainer_module.input.batch import Batch, Layout, size_of
from trainer_module.models import ModelInputs, build_model

_SECONDS_A_MINUTE = 60

# Shape suffixes: B batch, S features of one id, M features whose rows are combined, n keys of a group of tables or
# values of such features, D dimension, I model inputs, T tasks.


class _Rows(NamedTuple):
    """Embeddings of a group of tables: [B, S, D], [n, D], and those of each encoded feature."""

    ids: tf.Tensor
    combined: tf.Tensor
    encoded: dict[str, Lists]


class Ranker:
    """A declared ranker as pure functions of weights, embeddings and a batch."""

    def __init__(self, declared: RankerSpec):
        """Lays the model out.

        Args:
            declared: its precision settled, see `trainer_module.loop.precision`: never `auto`.
        """
        self.declared = declared
        self.tasks = tuple(declared.tasks)
        self.layout = Layout(declared)
        self.groups = groups_of(declared)
        self.encoders: dict[str, Encoder] = {}
        self._targets: dict[str, str] = {}
        for group, names in self.layout.encoded.items():
            for name in names:
                self._add_encoder(name, self.groups[group].dim)
        vectors = [(name, group.dim) for group in self.groups.values() for name in self.layout.features(group.name)]
        self._compute_type = tf.as_dtype(declared.training.dense_precision)
        self.inputs = ModelInputs(self.layout.floats, tuple(vectors))
        self._model = build_model(declared.model, inputs=self.inputs, tasks=self.tasks)
        self.shared = self._model.shared
        """Names of the weights of the last layer that all tasks share; empty where there is none."""
        encoders = [weight for encoder in self.encoders.values() for weight in encoder.weights]
        self.weights = FlatWeights([*self._model.weights, *encoders, *losses.balance_weights(declared)])

    def _add_encoder(self, name: str, dim: int) -> None:
        feature = self.declared.features[name]
        if not isinstance(feature, SequenceFeature):
            raise TypeError(f"features.{name}: only sequences are encoded (got {feature.kind})")
        encoder = build_encoder(name, feature, dim)
        if encoder is not None:
            self.encoders[name] = encoder
        if isinstance(feature.encoder, DinEncoder):
            self._targets[name] = feature.encoder.target

    def serving(self, batch: Batch) -> Batch:
        """Returns the batch as every prediction sees it: bias features have the value they are served with."""
        widths = [name for name, width in self.layout.floats for _ in range(width)]
        fixed = batch | _replaced(batch, "floats", widths, self.layout.bias_floats)
        return fixed | _replaced(batch, "ids", self.layout.all_ids, self.layout.bias_ids)

    def keys(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns all keys of the batch by group of tables: {group: [n] int64}.

        First those of features of one id, example after example; then feature after feature.
        """
        lists = self._by_group(batch, "lists", {group: self.layout.lists(group) for group in self.groups})
        found = {}
        for group in self.groups:
            parts = [tf.reshape(batch["ids"][:, self._ids(group)], [-1])] if self.layout.ids[group] else []
            found[group] = _joined([*parts, *([lists[group]] if group in lists else [])])
        return found

    def minutes(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the time of each of `keys(batch)`, minutes since 1970, for groups that keep books: {group: [n]}."""
        if not self.declared.event_time:
            return {}
        # Clipped as int64: books hold int32, in which the minutes of a time in milliseconds would wrap.
        minutes_B = tf.clip_by_value(batch["event_time"] // _SECONDS_A_MINUTE, tf.int32.min, tf.int32.max)
        minutes_B = tf.cast(minutes_B, tf.int32)
        found = {}
        for group in self.groups:
            if self.groups[group].tracks_usage:
                num_ids, num_lists = len(self.layout.ids[group]), len(self.layout.lists(group))
                parts = [tf.repeat(minutes_B, num_ids)] if num_ids else []
                if num_lists:
                    lengths = tf.reshape(self._lengths(batch, self.layout.lists(group)), [-1])
                    list_n = lists_of_values(lengths, tf.cast(tf.reduce_sum(lengths), tf.int32))
                    parts.append(tf.gather(tf.tile(minutes_B, [num_lists]), list_n))
                found[group] = _joined(parts)
        return found

    def logits(
        self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor], noise: Noise | None = None
    ) -> tf.Tensor:
        """Returns [batch, tasks].

        Args:
            weights: dense weights by name.
            batch: features.
            embeddings: {group: [n, dim]}, one row for each of `keys(batch)`.
            noise: of dropout, in training alone.
        """
        parts_BI = [batch["floats"]] if self.layout.floats else []
        rows = {group: self._split(group, batch, embeddings[group]) for group in self.groups}
        list_weights = self._by_group(batch, "list_weights", self.layout.weighted)
        for group, (ids_BSD, combined_nD, encoded) in rows.items():
            dim = self.groups[group].dim
            if self.layout.ids[group]:
                parts_BI.append(tf.reshape(ids_BSD, [-1, len(self.layout.ids[group]) * dim]))
            if combined := self.combined_features(group):
                lengths_MB = self._lengths(batch, combined)
                codes_MB = tf.broadcast_to(self.combiners(group)[:, None], tf.shape(lengths_MB))
                vectors = self.combine(
                    combined_nD, tf.reshape(lengths_MB, [-1]), tf.reshape(codes_MB, [-1]), list_weights.get(group)
                )
                vectors_BMD = tf.transpose(tf.reshape(vectors, [len(combined), -1, dim]), [1, 0, 2])
                parts_BI.append(tf.reshape(vectors_BMD, [-1, len(combined) * dim]))
            for name, lists in encoded.items():
                target = None
                if place := self.target_of(name):
                    target = rows[place[0]].ids[:, place[1]]
                parts_BI.append(self.encoders[name](weights, lists, target))
        return self.logits_of_inputs(weights, tf.concat(parts_BI, axis=1), noise)

    def logits_of_inputs(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, tasks], given features that are floats and then the vectors of each group's features."""
        if self._compute_type == tf.float32:
            return self._model(weights, x_BI, noise)
        weights = {name: tf.cast(weight, self._compute_type) for name, weight in weights.items()}
        return tf.cast(self._model(weights, tf.cast(x_BI, self._compute_type), noise), tf.float32)

    def combined_features(self, group: str) -> tuple[str, ...]:
        """Returns a group's features of several ids whose rows are combined; those with weights come last."""
        return (*self.layout.unweighted[group], *self.layout.weighted[group])

    def combiners(self, group: str) -> tf.Tensor:
        """Returns how each of `combined_features` is combined, as `pooling.COMBINERS` counts: [M] int32."""
        declared = [self.declared.features[name] for name in self.combined_features(group)]
        hows = [feature.combiner if isinstance(feature, IdsFeature) else "mean" for feature in declared]
        return tf.constant([COMBINERS.index(how) for how in hows], tf.int32)

    def combine(
        self, values_nD: tf.Tensor, lengths: tf.Tensor, combiners: tf.Tensor, weights_m: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the vectors of a group's lists, see `pooling.combine`; its last m values have weights."""
        if weights_m is None:
            return combine(values_nD, lengths, combiners)
        ones = tf.ones([tf.shape(values_nD)[0] - tf.size(weights_m)])
        return combine(values_nD, lengths, combiners, tf.concat([ones, weights_m], 0))

    def target_of(self, feature: str) -> tuple[str, int] | None:
        """Returns the group of a sequence's target, and its place among the group's features of one id."""
        if feature not in self._targets:
            return None
        target = self._targets[feature]
        return next((group, names.index(target)) for group, names in self.layout.ids.items() if target in names)

    def loss_sums(self, logits_BT: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Returns each task's loss, summed over the batch: [tasks]."""
        return losses.loss_sums(
            self.declared,
            self.tasks,
            logits_BT,
            batch["labels"],
            batch.get("weights"),
            self._model.auxiliary_B(logits_BT),
        )

    def predictions(self, logits_BT: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]}: a probability, a number, or a time."""
        return losses.predictions(self.declared, self.tasks, logits_BT)

    def labels(self, batch: Batch) -> tf.Tensor:
        """Returns [batch, tasks]; NaN where an example takes no part in a task."""
        return batch["labels"]

    def batch_size(self, batch: Batch) -> tf.Tensor:
        """Returns the number of examples, int64 scalar."""
        return size_of(batch)

    def _ids(self, group: str) -> slice:
        return self.layout.places(group, self.layout.ids)

    def _lengths(self, batch: Batch, features: tuple[str, ...]) -> tf.Tensor:
        """Returns the lengths of features that follow one another in the batch: [features, B]."""
        start = self.layout.all_lists.index(features[0])
        return batch["lengths"][start : start + len(features)]

    def _by_group(self, batch: Batch, name: str, features: Mapping[str, tuple[str, ...]]) -> dict[str, tf.Tensor]:
        """Returns the values that belong to each group's features, for groups that have such."""
        groups = [group for group, names in features.items() if names]
        if not groups:
            return {}
        sizes = tf.stack([tf.reduce_sum(self._lengths(batch, features[group])) for group in groups])
        parts = tf.split(batch[name], sizes, num=len(groups))
        return dict(zip(groups, parts, strict=True))

    def _split(self, group: str, batch: Batch, rows_nD: tf.Tensor) -> _Rows:
        """Returns the rows of a group's `keys(batch)` by what becomes of them."""
        ids, combined, encoded = self.layout.ids[group], self.combined_features(group), self.layout.encoded[group]
        dim = self.groups[group].dim
        if not combined and not encoded:
            return _Rows(tf.reshape(rows_nD, [-1, len(ids), dim]), rows_nD, {})
        none = tf.constant(0, tf.int64)
        sizes = [size_of(batch) * len(ids), none]
        if combined:
            sizes[1] = tf.reduce_sum(self._lengths(batch, combined))
        lengths_RB = self._lengths(batch, encoded) if encoded else None
        if lengths_RB is not None:
            sizes += tf.unstack(tf.reduce_sum(lengths_RB, axis=1))
        of_ids, of_combined, *of_encoded = tf.split(rows_nD, sizes, num=len(sizes))
        lengths = [] if lengths_RB is None else tf.unstack(lengths_RB)
        lists = {name: Lists(*parts) for name, *parts in zip(encoded, of_encoded, lengths, strict=True)}
        ids_BSD = tf.reshape(of_ids, [-1, max(len(ids), 1), dim])
        return _Rows(ids_BSD, of_combined, lists)


def _joined(parts: list[tf.Tensor]) -> tf.Tensor:
    return parts[0] if len(parts) == 1 else tf.concat(parts, 0)


def _replaced(batch: Batch, name: str, columns: Sequence[str], bias: tuple[str, ...]) -> Batch:
    """Returns a tensor of the batch with the columns of bias features exchanged."""
    if not bias:
        return {}
    both = tf.concat([batch[name], batch[f"{name}_serving"]], 1)
    places = [len(columns) + bias.index(column) if column in bias else place for place, column in enumerate(columns)]
    return {name: tf.gather(both, places, axis=1)}
