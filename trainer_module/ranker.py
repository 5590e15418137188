"""The model, from keys to predictions. Read this first: the trainer, the export and the tests all run it.

`trainer_module/input/batch.py` defines a batch. All features of a kind share one operation, except sequence encoders.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.model_inputs import model_inputs
from sangam.schemas.derived.unseen import declared_rates
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.parts.weight import width_of
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.features import SequenceFeature
from sangam.trainer_module import losses
from sangam.trainer_module.dense import fused
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, Split, for_members, side_by_side, whole
from sangam.trainer_module.dense.weights import FlatWeights, Weights
from sangam.trainer_module.embedded import EmbeddedBatch, EmbeddedRows, Indexed, ListsToCombine
from sangam.trainer_module.encoders import Encoder, build_encoder
from sangam.trainer_module.encoders.numbers import EncodedNumbers
from sangam.trainer_module.encoders.pooling import COMBINERS, combine, lists_of_values
from sangam.trainer_module.events import EventVectors
from sangam.trainer_module.input.batch import Batch, Layout, size_of
from sangam.trainer_module.models import build_model
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.unseen import UnseenIds

_SECONDS_A_MINUTE = 60

# Shape suffixes: B batch, M features whose embeddings are combined, n keys of a group of tables or values of such
# features, D dimension, I model inputs, T tasks.


class Ranker:
    """A ranker as pure functions of weights, embeddings and a batch."""

    def __init__(
        self,
        spec: RankerSpec,
        calibrations: Mapping[str, Calibration] | None = None,
        placement: Placement = HOST_ALONE,
        unseen: Mapping[str, float] | None = None,
    ):
        """Builds the model's structure.

        Args:
            spec: the spec; its precision is not `auto`, see `loop.precision`.
            calibrations: calibrations of the predictions, by task.
            placement: devices of a training; what is exported names none.
            unseen: shares of ids that training reads as unseen, by feature, see `loop.unseen`; None: those declared.
        """
        self.spec = spec
        self.placement = placement
        self.calibrations: Mapping[str, Calibration] = calibrations or {}
        """Fitted after training, which they do not affect."""
        self.tasks = tuple(spec.tasks)
        self.layout = Layout(spec)
        self.unseen = UnseenIds(self.layout, declared_rates(spec) if unseen is None else unseen, spec.training.seed)
        self.groups = groups_of(spec)
        self.encoders: dict[str, Encoder] = {}
        self._events: dict[str, EventVectors] = {}
        self._targets: dict[str, tuple[str, int]] = {}
        """By encoded sequence: the group of its target, and the target's index among the group's `ids`."""
        self._keeps_lists: set[str] = set()
        """Encoded sequences with a target of which an encoder takes each user's list once."""
        for group, names in self.layout.encoded.items():
            for name in names:
                self._add_encoder(name, self.groups[group].dim)
        self._compute_type = tf.bfloat16 if spec.training.dense_precision == "bfloat16" else tf.float32
        self._numbers = EncodedNumbers(spec, self.layout.floats)
        self.inputs = model_inputs(spec)
        self._dropout_I = self._dropout_of_inputs()
        self._members = spec.model.members
        self._model = build_model(spec.model, inputs=self.inputs, tasks=self.tasks)
        self.shared = self._model.shared
        """Names of the weights of the last layer shared by all tasks; empty without one."""
        self.weights = FlatWeights(dense_weights(spec))

    @property
    def has_dropout(self) -> bool:
        """Whether training uses dropout noise."""
        return self.spec.model.dropout > 0 or bool(self._dropout_I.any())

    def _dropout_of_inputs(self) -> NDArray[np.float32]:
        rates = [np.zeros(width_of(self.inputs.floats), np.float32)]
        for name, width in self.inputs.embeddings:
            rates.append(np.full(width, self.spec.tables[str(self.spec.table_of(name))].dropout, np.float32))
        return np.concatenate(rates)

    def _add_encoder(self, name: str, dim: int) -> None:
        feature = self.spec.features[name]
        if not isinstance(feature, SequenceFeature):
            raise TypeError(f"features.{name}: only sequences are encoded (got {feature.kind})")
        self.encoders[name] = build_encoder(name, feature, dim)
        if feature.adds_to_rows:
            self._events[name] = EventVectors(name, feature)
        if target := feature.encoder.attends_to():
            self._targets[name] = next(
                (group, names.index(target)) for group, names in self.layout.ids.items() if target in names
            )
            if feature.encoder.keeps_lists:
                self._keeps_lists.add(name)

    def serving(self, batch: Batch) -> Batch:
        """Returns the batch for predictions: bias features have their serving value."""
        floats, bias = (
            [(name, index) for name, width in self.layout.floats if name in chosen for index in range(width)]
            for chosen in (dict(self.layout.floats), self.layout.bias_floats)
        )
        fixed = batch | _replaced(batch, "floats", floats, bias)
        return fixed | _replaced(batch, "ids", self.layout.all_ids, self.layout.bias_ids)

    def keys(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns all keys of the batch by group of tables: {group: [n] int64}.

        Single-id features come first, example after example; then lists, feature after feature.
        """
        lists = self.layout.by_group(batch, "lists", {group: self.layout.lists(group) for group in self.groups})
        keys = {}
        for group in self.groups:
            parts = [tf.reshape(batch["ids"][:, self._ids(group)], [-1])] if self.layout.ids[group] else []
            keys[group] = _joined([*parts, *([lists[group]] if group in lists else [])])
        return keys

    def keys_in_training(self, batch: Batch, epoch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `keys`, with no id where one reads as unseen.

        Args:
            batch: has the tensors of `unseen.read`.
            epoch: number of the epoch; int64 scalar.
        """
        return self.keys(self.unseen.applied(batch, epoch))

    def minutes(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the event minute since 1970 of each of `keys(batch)`, for groups that track usage: {group: [n]}."""
        if not self.spec.event_time:
            return {}
        # Clipped as int64: in the rows' int32, the minutes of a time in milliseconds would overflow.
        minutes_B = tf.clip_by_value(batch["event_time"] // _SECONDS_A_MINUTE, tf.int32.min, tf.int32.max)
        minutes_B = tf.cast(minutes_B, tf.int32)
        minutes = {}
        for group in self.groups:
            if self.groups[group].tracks_usage:
                num_ids, num_lists = len(self.layout.ids[group]), len(self.layout.lists(group))
                parts = [tf.repeat(minutes_B, num_ids)] if num_ids else []
                if num_lists:
                    lengths = tf.reshape(self.layout.lengths(batch, self.layout.lists(group)), [-1])
                    list_n = lists_of_values(lengths, tf.cast(tf.reduce_sum(lengths), tf.int32))
                    parts.append(tf.gather(tf.tile(minutes_B, [num_lists]), list_n))
                minutes[group] = _joined(parts)
        return minutes

    def logits(self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns [batch, tasks] outside training.

        Args:
            weights: dense weights by name.
            batch: features.
            embeddings: {group: [n, dim]}, one row for each of `keys(batch)`.
        """
        return self.logits_of_inputs(weights, self._inputs_of_batch(weights, batch, embeddings))

    def losses(
        self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor | Indexed], noise: Noise | None
    ) -> tf.Tensor:
        """Returns each task's loss in training, summed over the batch: [tasks]; see `logits`."""
        logits = self.logits_of_members(weights, self._inputs_of_batch(weights, batch, embeddings), noise)
        return self.loss_sums(logits, batch)

    def _inputs_of_batch(self, weights: Weights, batch: Batch, embeddings: Mapping[str, tf.Tensor | Indexed]) -> Input:
        dims = {name: group.dim for name, group in self.groups.items()}
        return self.inputs_of(weights, EmbeddedBatch(self.layout, batch, embeddings, dims, self.placement))

    def inputs_of(self, weights: Weights, rows: EmbeddedRows) -> Input:
        """Returns the model's input x [B, inputs]: floats, then the vectors of each group's features.

        It is float32, or already in the precision of the dense layers; in two parts if those of the rows are. The only
        place where embeddings become inputs, both for a batch and for one user's candidates.
        """
        parts_BI: list[Input | fused.Gathered] = []
        if self.layout.floats:
            parts_BI.append(self._numbers(weights, rows.floats()))
        for group in self.groups:
            if self.layout.ids[group]:
                parts_BI.append(rows.ids(group))
            if combined := self.layout.combined(group):
                lists = rows.lists_to_combine(group)
                vectors = self._combined(combined, lists)
                parts_BI.append(rows.side_by_side(group, vectors, lists.lists_per_feature, len(combined)))
            for name in self.layout.encoded[group]:
                vectors = self._encoded(weights, rows, group, name)
                parts_BI.append(rows.side_by_side(group, vectors, tf.shape(vectors)[:1], 1))
        if split := [part for part in parts_BI if isinstance(part, Split)]:
            return side_by_side(split)
        if fused.is_used():
            # Dropout of tables is before the rounding.
            return fused.inputs(parts_BI, tf.float32 if self._dropout_I.any() else self._compute_type)
        whole_BI = [part.side_by_side() if isinstance(part, fused.Gathered) else part for part in parts_BI]
        return tf.concat(whole_BI, axis=1)

    def _encoded(self, weights: Weights, rows: EmbeddedRows, group: str, name: str) -> tf.Tensor:
        """Returns the vector of each list of a sequence, or of each of its targets: [any, dim]."""
        lists, beside = rows.list_to_encode(group, name)
        if name in self._events:
            lists = self._events[name](weights, lists, beside)
        target = None
        if name in self._targets:
            target = rows.id(*self._targets[name])
            keeps = name in self._keeps_lists
            lists = rows.of_targets(lists, tf.shape(target)[0]) if keeps else rows.for_targets(lists)
        return self.encoders[name](weights, lists, target)

    def _combined(self, features: Sequence[str], lists: ListsToCombine) -> tf.Tensor:
        """Returns the vector of each list: [lists, dim]."""
        names = [self.spec.features[name].combined_by() for name in features]
        combiners_M = tf.constant([COMBINERS.index(name) for name in names], tf.int32)
        combiners = tf.repeat(combiners_M, lists.lists_per_feature)
        weights = lists.weights
        if weights is not None:
            weights = tf.concat([tf.ones([tf.shape(lists.values_nD)[0] - tf.size(weights)]), weights], 0)
        return combine(lists.values_nD, lists.lengths, combiners, weights, lists.list_n)

    def logits_of_inputs(self, weights: Weights, x_BI: Input) -> tf.Tensor:
        """Returns [batch, tasks] for `inputs_of`; for an ensemble, the logits of its members' mean prediction."""
        logits = self.logits_of_members(weights, x_BI, None)
        if self._members == 1:
            return logits
        logits_KBT = tf.reshape(logits, [self._members, -1, len(self.tasks)])
        return losses.logits_of_mean_prediction(self.spec, self.tasks, logits_KBT)

    def logits_of_members(self, weights: Weights, x_BI: Input, noise: Noise | None) -> tf.Tensor:
        """Returns [members * batch, tasks], member after member."""
        if self._members > 1:
            x_BI = for_members(x_BI, self._members)
        if noise is not None:
            x_BI = noise.dropout(x_BI, self._dropout_I, "tables")
        if self._compute_type == tf.float32:
            return self._model(weights, x_BI, noise)
        weights = {name: tf.cast(weight, self._compute_type) for name, weight in weights.items()}
        # The rounding of a product is not that of its parts' sum.
        return tf.cast(self._model(weights, tf.cast(whole(x_BI), self._compute_type), noise), tf.float32)

    def loss_sums(self, logits_BT: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Returns each task's loss, summed over the batch: [tasks]; for an ensemble, the mean over its members.

        Args:
            logits_BT: [members * batch, tasks], member after member.
            batch: labels, and weights if present.
        """
        labels, weights = (
            None if part is None else tf.tile(part, [self._members, 1]) if self._members > 1 else part
            for part in (batch["labels"], batch.get("weights"))
        )
        auxiliary_B = self._model.auxiliary_B(logits_BT)
        ids = self._ids_of_losses(batch)
        sums = losses.loss_sums(self.spec, self.tasks, logits_BT, labels, weights, auxiliary_B, ids)
        return sums / self._members if self._members > 1 else sums

    def _ids_of_losses(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the keys of the features that losses read: [members * batch] each."""
        read = dict.fromkeys(name for task in self.spec.tasks.values() for name in losses.ids_read(task))
        return {name: tf.tile(batch["ids"][:, self.layout.all_ids.index(name)], [self._members]) for name in read}

    def predictions(self, logits_BT: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]}: a probability, a number, or a time."""
        return losses.predictions(self.spec, self.tasks, logits_BT, self.calibrations)

    def labels(self, batch: Batch) -> tf.Tensor:
        """Returns [batch, tasks]; NaN if an example has no label for a task."""
        return batch["labels"]

    def batch_size(self, batch: Batch) -> tf.Tensor:
        """Returns the number of examples, int64 scalar."""
        return size_of(batch)

    def _ids(self, group: str) -> slice:
        return self.layout.columns_of(group, self.layout.ids)


def with_precision(spec: RankerSpec, precision: str) -> RankerSpec:
    """Returns a spec with another precision of the dense layers."""
    training = spec.training.model_copy(update={"dense_precision": precision})
    return spec.model_copy(update={"training": training})


def _joined(parts: list[tf.Tensor]) -> tf.Tensor:
    return parts[0] if len(parts) == 1 else tf.concat(parts, 0)


def _replaced(batch: Batch, name: str, columns: Sequence[Hashable], bias: Sequence[Hashable]) -> Batch:
    """Returns a tensor of the batch with the columns of bias features replaced."""
    if not bias:
        return {}
    both = tf.concat([batch[name], batch[f"{name}_serving"]], 1)
    columns_of_result = [
        len(columns) + bias.index(column) if column in bias else index for index, column in enumerate(columns)
    ]
    return {name: tf.gather(both, columns_of_result, axis=1)}
