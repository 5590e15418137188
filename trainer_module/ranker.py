"""The model, from keys to predictions. Read this first: the trainer, the export and the tests all run it.

A batch is a dict of tensors as Transform made them: numeric features float32 [B], id features int64 keys [B],
multi-valued features ragged int64 keys [B, (values)], labels float32 [B] under the task's name, the event's time int64
[B] under `EVENT_TIME` where one is declared.
"""

from collections.abc import Mapping

import tensorflow as tf
from typing_extensions import assert_never

from schemas.columns import EVENT_TIME
from schemas.encoders import MeanEncoder, PositionalEncoder
from schemas.features import IdFeature, IdsFeature, NumericFeature, SequenceFeature
from schemas.groups import Group, groups_of
from schemas.spec import Ranker as Declared
from schemas.tasks import BinaryTask, RegressionTask
from trainer_module import pooling
from trainer_module.dense.weights import FlatWeights, Weight, Weights
from trainer_module.models import ModelInputs, build_model

Batch = Mapping[str, tf.Tensor | tf.RaggedTensor]

_SECONDS_A_MINUTE = 60

# Shape suffixes: B batch, n keys of a group of tables, D dimension, I model inputs, T tasks.


class Ranker:
    """A declared ranker as pure functions of weights, embeddings and a batch."""

    def __init__(self, declared: Declared):
        self.declared = declared
        self.tasks = tuple(declared.tasks)
        self.numeric = [name for name, feature in declared.features.items() if isinstance(feature, NumericFeature)]
        self.groups = groups_of(declared)
        group_of = {table: name for name, group in self.groups.items() for table in group.tags}
        # Features of one id come first in a group: their rows, example after example, are model inputs as they lie.
        self._single: dict[str, list[str]] = {name: [] for name in self.groups}
        self._several: dict[str, dict[str, IdsFeature | SequenceFeature]] = {name: {} for name in self.groups}
        for name, feature in declared.features.items():
            match feature:
                case NumericFeature():
                    pass
                case IdFeature():
                    self._single[group_of[feature.table]].append(name)
                case IdsFeature() | SequenceFeature():
                    self._several[group_of[feature.table]][name] = feature
                case _:
                    assert_never(feature)
        numbers = [(name, 1) for name in self.numeric]
        vectors = [
            (name, group.dim)
            for group in self.groups.values()
            for name in (*self._single[group.name], *self._several[group.name])
        ]
        self._compute_type = tf.as_dtype(declared.training.dense_precision)
        self._model = build_model(declared.model, inputs=ModelInputs(tuple(numbers), tuple(vectors)), tasks=self.tasks)
        self.weights = FlatWeights([*self._model.weights, *self._position_weights()])

    def _position_weights(self) -> list[Weight]:
        return [
            Weight(f"positions/{name}", (feature.max_length,), "zeros")
            for features in self._several.values()
            for name, feature in features.items()
            if isinstance(feature, SequenceFeature) and isinstance(feature.encoder, PositionalEncoder)
        ]

    def keys(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns all keys of the batch by group of tables: {group: [n] int64}.

        First those of features of one id, example after example; then feature after feature.
        """
        return {
            group: self._joined(group, batch, [batch[name].flat_values for name in self._several[group]])
            for group in self.groups
        }

    def features_of(self, group: str) -> tuple[str, ...]:
        """Returns the features of a group of tables, in the order of the model's inputs."""
        return (*self._single[group], *self._several[group])

    def _joined(self, group: str, single: Batch, several: list[tf.Tensor]) -> tf.Tensor:
        """Returns numbers in the order of `keys`, given those of features of one id, and the others flat."""
        columns = [single[name] for name in self._single[group]]
        together = [tf.reshape(tf.stack(columns, 1), [-1])] if columns else []
        parts = [*together, *several]
        return parts[0] if len(parts) == 1 else tf.concat(parts, 0)

    def minutes(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the time of each of `keys(batch)`, minutes since 1970, for groups that keep books: {group: [n]}."""
        if not self.declared.event_time:
            return {}
        minutes_B = tf.cast(batch[EVENT_TIME] // _SECONDS_A_MINUTE, tf.int32)
        found = {}
        for group in self.groups:
            if self.groups[group].keeps_books:
                single = dict.fromkeys(self._single[group], minutes_B)
                several = [tf.gather(minutes_B, batch[name].value_rowids()) for name in self._several[group]]
                found[group] = self._joined(group, single, several)
        return found

    def logits(self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns [batch, tasks].

        Args:
            weights: dense weights by name.
            batch: features.
            embeddings: {group: [n, dim]}, one row for each of `keys(batch)`.
        """
        parts_BI = [tf.stack([batch[name] for name in self.numeric], 1)] if self.numeric else []
        for name, group in self.groups.items():
            parts_BI += self._vectors(group, weights, batch, embeddings[name])
        return self.logits_of_inputs(weights, tf.concat(parts_BI, axis=1))

    def logits_of_inputs(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tasks], given numeric features and then the vectors of each group's `features_of`."""
        if self._compute_type == tf.float32:
            return self._model(weights, x_BI)
        weights = {name: tf.cast(weight, self._compute_type) for name, weight in weights.items()}
        return tf.cast(self._model(weights, tf.cast(x_BI, self._compute_type)), tf.float32)

    def _vectors(self, group: Group, weights: Weights, batch: Batch, rows_nD: tf.Tensor) -> list[tf.Tensor]:
        """Returns the model inputs of a group's features: each [batch, a multiple of dim]."""
        single, several = self._single[group.name], self._several[group.name]
        if not several:
            return [tf.reshape(rows_nD, [-1, len(single) * group.dim])]
        num_single = len(single) * tf.size(batch[single[0]]) if single else 0
        sizes = [num_single, *(tf.size(batch[name].flat_values) for name in several)]
        of_single, *of_several = tf.split(rows_nD, sizes, num=len(sizes))
        vectors = [tf.reshape(of_single, [-1, len(single) * group.dim])] if single else []
        for (name, feature), values_nD in zip(several.items(), of_several, strict=True):
            vectors.append(_encoded(name, feature, batch[name], values_nD, weights))
        return vectors

    def vector(self, name: str, column: tf.Tensor | tf.RaggedTensor, rows_nD: tf.Tensor, weights: Weights) -> tf.Tensor:
        """Returns one embedded feature as a model input: [batch, dim].

        Args:
            name: of the feature.
            column: its keys.
            rows_nD: embeddings of its keys, example after example.
            weights: dense weights by name.
        """
        feature = self.declared.features[name]
        if isinstance(feature, IdsFeature | SequenceFeature):
            return _encoded(name, feature, column, rows_nD, weights)
        return rows_nD

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


def _encoded(
    name: str, feature: IdsFeature | SequenceFeature, column: tf.RaggedTensor, values_nD: tf.Tensor, weights: Weights
) -> tf.Tensor:
    """Returns the vector of a feature of several ids for every example: [batch, dim]."""
    match feature:
        case IdsFeature():
            return pooling.combine(values_nD, column.value_rowids(), column.nrows(), feature.combiner)
        case SequenceFeature(encoder=MeanEncoder()):
            return pooling.combine(values_nD, column.value_rowids(), column.nrows(), "mean")
        case SequenceFeature():
            return pooling.weigh_positions(column, values_nD, weights[f"positions/{name}"])
        case _:
            assert_never(feature)
