"""Transform: generated from the spec. The same graph runs over the training data and inside the served model."""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from typing_extensions import assert_never

from schemas.columns import EVENT_TIME, feature_columns
from schemas.features import IdFeature, IdsFeature, NumericFeature, SequenceFeature
from schemas.spec import Inputs
from trainer_module.keys import NO_ID, id_keys


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Maps the columns of the logs to model inputs and labels; TensorFlow Transform calls it by its dotted path.

    Args:
        inputs: column name to SparseTensor [batch, values].
        custom_config: `inputs`, the JSON of `schemas.spec.Inputs`.

    Returns:
        Numeric features: float32 [batch]. Id features: int64 keys [batch]. Multi-valued features: int64 keys, sparse
        [batch, values]. Labels, where the logs have them: float32 [batch], under the task's name; the event's time
        likewise, int64.
    """
    declared = Inputs.model_validate_json(custom_config["inputs"])
    tags = declared.table_tags()
    outputs: dict[str, Any] = {}
    for name, feature in declared.features.items():
        column = inputs[feature_columns(declared, name)[0].name]
        match feature:
            case NumericFeature():
                outputs[name] = _numeric(feature, column)
            case IdFeature():
                outputs[name] = _scalar(_sparse_keys(tags[feature.table], column), _missing_key(tags, feature))
            case IdsFeature():
                outputs[name] = _head(_sparse_keys(tags[feature.table], column), feature.max_values)
            case SequenceFeature():
                outputs[name] = _head(_sparse_keys(tags[feature.table], column), feature.max_length)
            case _:
                assert_never(feature)
    for task in declared.tasks:
        column = inputs[declared.label_of(task)]
        outputs[task] = _scalar(tf.cast(column, tf.float32), math.nan)
    if declared.event_time:
        outputs[EVENT_TIME] = _scalar(inputs[declared.event_time], tf.constant(0, tf.int64))
    return outputs


def _numeric(feature: NumericFeature, column: tf.SparseTensor) -> tf.Tensor:
    missing = math.nan if feature.missing is None else feature.missing
    x = _scalar(tf.cast(column, tf.float32), missing)
    if feature.clip:
        x = tf.clip_by_value(x, feature.clip[0], feature.clip[1])
    if feature.log:
        x = tf.math.log1p(x)
    match feature.normalise:
        case "none":
            pass
        case "zscore":
            x = tft.scale_to_z_score(x)
        case "minmax":
            x = tft.scale_to_0_1(x)
        case _:
            assert_never(feature.normalise)
    # Validation lets no training row without a required value through; a request may lack it, and then reads as 0,
    # the mean after z-scoring.
    return tf.where(tf.math.is_nan(x), tf.zeros_like(x), x)


def _missing_key(tags: Mapping[str, int], feature: IdFeature) -> tf.Tensor:
    if feature.missing is None:
        return tf.constant(NO_ID, tf.int64)
    return id_keys(tags[feature.table], tf.constant([feature.missing]))[0]


def _sparse_keys(tag: int, column: tf.SparseTensor) -> tf.SparseTensor:
    return tf.SparseTensor(column.indices, id_keys(tag, column.values), column.dense_shape)


def _scalar(column: tf.SparseTensor, default: Any) -> tf.Tensor:
    """Returns the one value of each row, or the default: [batch]."""
    one_wide = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.reshape(tf.sparse.to_dense(one_wide, default), [-1])


def _head(column: tf.SparseTensor, count: int) -> tf.SparseTensor:
    """Keeps the first `count` values of each row."""
    return tf.sparse.retain(column, column.indices[:, 1] < count)
