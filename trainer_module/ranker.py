"""The model, from keys to predictions. Read this first: the trainer, the export and the tests all run it.

A batch is a dict of tensors as Transform made them: numeric features float32 [B], id features int64 keys [B],
multi-valued features ragged int64 keys [B, (values)], labels float32 [B] under the task's name, the event's time int64
[B] under `EVENT_TIME` where one is declared.
"""

from collections.abc import Mapping

import tensorflow as tf
from typing_extensions import assert_never

from schemas.columns import EVENT_TIME
from schemas.features import EmbeddedFeature, IdFeature, IdsFeature, NumericFeature, SequenceFeature
from schemas.spec import Ranker as Declared
from schemas.tasks import BinaryTask, RegressionTask
from trainer_module import pooling
from trainer_module.dense.weights import FlatWeights, Weight, Weights
from trainer_module.embedding.groups import groups_of
from trainer_module.models import build_model

Batch = Mapping[str, tf.Tensor | tf.RaggedTensor]

_SECONDS_A_MINUTE = 60

# Shape suffixes: B batch, n keys of a group of tables, D dimension, I model inputs, T tasks.


class Ranker:
    """A declared ranker as pure functions of weights, embeddings and a batch."""

    def __init__(self, declared: Declared):
        self.declared = declared
        self.tasks = tuple(declared.tasks)
        self._numeric = [name for name, feature in declared.features.items() if isinstance(feature, NumericFeature)]
        self.groups = groups_of(declared)
        group_of = {table: name for name, group in self.groups.items() for table in group.tags}
        self._embedded: dict[str, dict[str, EmbeddedFeature]] = {name: {} for name in self.groups}
        for name, feature in declared.features.items():
            if not isinstance(feature, NumericFeature):
                self._embedded[group_of[feature.table]][name] = feature
        numbers = [(name, 1) for name in self._numeric]
        vectors = [(name, group.dim) for group in self.groups.values() for name in self._embedded[group.name]]
        self._compute_type = tf.as_dtype(declared.training.dense_precision)
        self._model = build_model(declared.model, inputs=(*numbers, *vectors), tasks=self.tasks)
        self.weights = FlatWeights([*self._model.weights, *self._position_weights()])

    def _position_weights(self) -> list[Weight]:
        return [
            Weight(f"positions/{name}", (feature.max_length,), "zeros")
            for features in self._embedded.values()
            for name, feature in features.items()
            if isinstance(feature, SequenceFeature) and feature.encoder == "positional"
        ]

    def keys(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns all keys of the batch by group of tables, feature after feature: {group: [n] int64}."""
        return {
            group: tf.concat([_flat(batch[name]) for name in features], 0) for group, features in self._embedded.items()
        }

    def minutes(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the time of each of `keys(batch)`, minutes since 1970, for groups that keep books: {group: [n]}."""
        if not self.declared.event_time:
            return {}
        minutes_B = tf.cast(batch[EVENT_TIME] // _SECONDS_A_MINUTE, tf.int32)
        return {
            group: tf.concat([_of_values(minutes_B, batch[name]) for name in features], 0)
            for group, features in self._embedded.items()
            if self.groups[group].keeps_books
        }

    def logits(self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns [batch, tasks].

        Args:
            weights: dense weights by name.
            batch: features.
            embeddings: {group: [n, dim]}, one row for each of `keys(batch)`.
        """
        parts_BI = [batch[name][:, None] for name in self._numeric]
        for group, features in self._embedded.items():
            sizes = [tf.size(_flat(batch[name])) for name in features]
            rows = tf.split(embeddings[group], sizes, num=len(sizes))
            parts_BI += [
                _encoded(name, feature, batch[name], values_nD, weights)
                for (name, feature), values_nD in zip(features.items(), rows, strict=True)
            ]
        x_BI = tf.concat(parts_BI, axis=1)
        if self._compute_type == tf.float32:
            return self._model(weights, x_BI)
        weights = {name: tf.cast(weight, self._compute_type) for name, weight in weights.items()}
        return tf.cast(self._model(weights, tf.cast(x_BI, self._compute_type)), tf.float32)

    def loss_sums(self, logits_BT: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Returns each task's loss, summed over the batch: [tasks]."""
        sums = []
        for task, logits_B in zip(self.tasks, tf.unstack(logits_BT, axis=1), strict=True):
            labels_B = batch[task]
            match self.declared.tasks[task]:
                case BinaryTask():
                    losses_B = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels_B, logits=logits_B)
                case RegressionTask():
                    losses_B = tf.square(logits_B - labels_B)
                case unknown:
                    assert_never(unknown)
            sums.append(tf.reduce_sum(losses_B))
        return tf.stack(sums)

    def predictions(self, logits_BT: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]}: a probability, or the predicted number."""
        return {
            task: tf.sigmoid(logits_B1) if isinstance(self.declared.tasks[task], BinaryTask) else logits_B1
            for task, logits_B1 in zip(self.tasks, tf.split(logits_BT, len(self.tasks), axis=1), strict=True)
        }

    def batch_size(self, batch: Batch) -> tf.Tensor:
        """Returns the number of examples, int64 scalar."""
        return _rows(batch[next(iter(self.declared.features))])


def _rows(column: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return column.nrows() if isinstance(column, tf.RaggedTensor) else tf.shape(column, tf.int64)[0]


def _of_values(of_example_B: tf.Tensor, column: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    """Returns the example's number for each of a column's values."""
    if isinstance(column, tf.RaggedTensor):
        return tf.gather(of_example_B, column.value_rowids())
    return of_example_B


def _flat(column: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return column.flat_values if isinstance(column, tf.RaggedTensor) else column


def _encoded(
    name: str, feature: EmbeddedFeature, column: tf.Tensor | tf.RaggedTensor, values_nD: tf.Tensor, weights: Weights
) -> tf.Tensor:
    """Returns a feature's vector for every example: [batch, dim]."""
    match feature:
        case IdFeature():
            return values_nD
        case IdsFeature():
            return pooling.combine(values_nD, column.value_rowids(), column.nrows(), feature.combiner)
        case SequenceFeature(encoder="mean"):
            return pooling.combine(values_nD, column.value_rowids(), column.nrows(), "mean")
        case SequenceFeature():
            return pooling.weigh_positions(column, values_nD, weights[f"positions/{name}"])
        case _:
            assert_never(feature)
