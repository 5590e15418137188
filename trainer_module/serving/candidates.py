"""One user with many candidates: what all candidates share is looked up and pooled once."""

from collections.abc import Mapping

import tensorflow as tf

from trainer_module.dense.weights import Weights
from trainer_module.ranker import Batch, Ranker
from trainer_module.serving.table import ServedTable

# Shape suffixes: R rows of one feature, 1 or C; C candidates; n keys; D dimension; I model inputs.


def candidate_logits(
    ranker: Ranker, weights: Weights, batch: Batch, tables: Mapping[str, ServedTable], candidates: tf.Tensor
) -> tf.Tensor:
    """Returns [candidates, tasks]: the same numbers as if each feature of one row had been repeated.

    Args:
        ranker: that scores.
        weights: dense weights by name.
        batch: features, each of one row or one for each candidate.
        tables: rows by group.
        candidates: number of them, int32 scalar.
    """
    parts_CI = [_for_all(batch[name][:, None], candidates) for name in ranker.numeric]
    for group, table in tables.items():
        names = ranker.features_of(group)
        keys = [_flat(batch[name]) for name in names]
        rows_nD = tf.split(table(tf.concat(keys, 0)), [tf.size(part) for part in keys], num=len(keys))
        parts_CI += [
            _for_all(ranker.vector(name, batch[name], rows, weights), candidates)
            for name, rows in zip(names, rows_nD, strict=True)
        ]
    return ranker.logits_of_inputs(weights, tf.concat(parts_CI, axis=1))


def _flat(column: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return column.flat_values if isinstance(column, tf.RaggedTensor) else column


def _for_all(vector_RD: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    return tf.broadcast_to(vector_RD, tf.stack([candidates, tf.shape(vector_RD)[1]]))
