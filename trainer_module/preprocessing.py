"""Transform: generated from the spec. The same graph runs over the training data and inside the served model."""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from typing_extensions import assert_never

from schemas.columns import (
    EVENT_TIME,
    example_weight_of,
    feature_columns,
    is_bias,
    serving_columns,
    serving_of,
    weights_of,
)
from schemas.features import (
    AgeFeature,
    BiasFeature,
    BucketsFeature,
    CrossFeature,
    Feature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)
from schemas.spec import Inputs
from trainer_module.transforms import ids, numbers, times
from trainer_module.transforms.columns import filled, one_value

# Shape suffixes: R rows of a column.


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Maps the columns of the logs to model inputs and labels; TensorFlow Transform calls it by its dotted path.

    Args:
        inputs: column name to SparseTensor [batch, values].
        custom_config: `inputs`, the JSON of `schemas.spec.Inputs`.

    Returns:
        What `schemas.outputs.outputs` lists; labels, example weights and the event's time where the logs have them.
    """
    declared = Inputs.model_validate_json(custom_config["inputs"])
    outputs: dict[str, Any] = _Features(declared, inputs).outputs()
    for name, task in declared.tasks.items():
        label_R = one_value(tf.cast(inputs[declared.label_of(name)], tf.float32), math.nan)
        if task.only_where:
            takes_part_R = one_value(tf.cast(inputs[task.only_where], tf.float32), 0.0)
            label_R = _masked(label_R, tf.equal(takes_part_R, 1.0))
        if task.example_weight:
            weight_R = one_value(inputs[task.example_weight], math.nan)
            given_R = ~tf.math.is_nan(weight_R)
            label_R = _masked(label_R, given_R)
            outputs[example_weight_of(name)] = tf.where(given_R, weight_R, tf.zeros_like(weight_R))
        outputs[name] = label_R
    if declared.event_time:
        outputs[EVENT_TIME] = one_value(inputs[declared.event_time], tf.constant(0, tf.int64))
    return outputs


def _masked(label_R: tf.Tensor, takes_part_R: tf.Tensor) -> tf.Tensor:
    return tf.where(takes_part_R, label_R, tf.fill(tf.shape(label_R), math.nan))


class _Features:
    """The features of a batch, with the statistics that they need."""

    def __init__(self, declared: Inputs, inputs: Mapping[str, tf.SparseTensor]):
        self._declared = declared
        self._inputs = inputs
        self._tags = declared.table_tags()
        self._numbers = {name: number for name in declared.features if (number := self._number(name)) is not None}
        scaled, cut = {}, {}
        for name, feature in declared.features.items():
            if isinstance(feature, NumericFeature | AgeFeature):
                scaled[name] = feature
            elif isinstance(feature, BucketsFeature):
                cut[name] = feature
        self._scales = numbers.scales(scaled, self._numbers)
        self._boundaries = numbers.boundaries(cut, self._numbers)

    def outputs(self) -> dict[str, Any]:
        """Returns the outputs of all features by name."""
        made: dict[str, Any] = {}
        for name, feature in self._declared.features.items():
            made[name] = self._feature(name, feature)
            if isinstance(feature, IdsFeature) and feature.weights:
                made[weights_of(name)] = ids.weights_of_lists(feature, *self._columns(name))
            if isinstance(feature, BiasFeature) and is_bias(feature):
                made[serving_of(name)] = self._at_serving(name, feature)
        return made

    def _columns(self, name: str) -> list[tf.SparseTensor]:
        return [self._inputs[column.name] for column in feature_columns(self._declared, name)]

    def _number(self, name: str) -> tf.Tensor | None:
        """Returns what the statistics of a feature are computed of; None for one without statistics."""
        match self._declared.features[name]:
            case NumericFeature() as feature:
                return numbers.prepared(feature, numbers.logged(feature, *self._columns(name)))
            case AgeFeature() as feature:
                return numbers.prepared(feature, times.ages(feature, *self._columns(name)))
            case BucketsFeature() as feature:
                return numbers.logged(feature, *self._columns(name))
            case _:
                return None

    def _feature(self, name: str, feature: Feature) -> Any:
        columns = self._columns(name)
        table = self._declared.table_of(name)
        tag = self._tags[table] if table else 0
        match feature:
            case NumericFeature() | AgeFeature():
                return numbers.normalised(self._scales.get(name), self._numbers[name])
            case BucketsFeature():
                return self._bucket(name, feature, self._numbers[name])
            case IdFeature():
                return ids.keys_of_ids(feature, tag, columns[0])
            case CrossFeature():
                return ids.keys_of_pairs(feature, tag, (columns[0], columns[1]))
            case IdsFeature():
                return ids.keys_of_lists(feature, tag, columns[0])
            case SequenceFeature():
                return ids.keys_of_sequences(feature, tag, columns[0])
            case VectorFeature():
                return numbers.vectors(name, feature, columns[0])
            case TimeFeature():
                return times.time_keys(feature, tag, columns[0]) if table else times.time_points(feature, columns[0])
            case MatchFeature():
                return ids.matches(feature, columns[0], columns[1])
            case _:
                assert_never(feature)

    def _bucket(self, name: str, feature: BucketsFeature, x_R: tf.Tensor) -> tf.Tensor:
        if feature.table is None:
            return numbers.bucket_shares(feature, self._boundaries[name], x_R)
        return ids.keys_of_buckets(feature, self._tags[feature.table], self._boundaries[name], x_R)

    def _at_serving(self, name: str, feature: BiasFeature) -> tf.Tensor:
        """Returns what predictions read instead of a bias feature, whose own column a request lacks: [R]."""
        like = self._inputs[serving_columns(self._declared)[0].name]
        match feature:
            case NumericFeature():
                x_R = numbers.prepared(feature, filled(like, feature.at_serving, tf.float32))
                return numbers.normalised(self._scales.get(name), x_R)
            case BucketsFeature():
                return self._bucket(name, feature, filled(like, feature.at_serving, tf.float32))
            case IdFeature():
                assert feature.at_serving is not None
                key = ids.constant_keys(self._tags[feature.table], feature.at_serving)
                return tf.tile(key, like.dense_shape[:1])
            case _:
                assert_never(feature)
