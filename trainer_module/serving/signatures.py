"""The ranker as a module that TensorFlow saves, and everything it answers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

from schemas.columns import Column, serving_columns
from schemas.features import IdFeature
from trainer_module.check import as_batch
from trainer_module.ranker import Batch, Ranker
from trainer_module.serving.candidates import candidate_logits
from trainer_module.serving.raw_columns import input_specs, inputs_of, sparse_columns, with_candidates
from trainer_module.serving.table import ServedTable

DEFAULT, RANK = "serving_default", "rank"
_EXAMPLES = tf.TensorSpec([None], tf.string, name="examples")
_KEYS = tf.TensorSpec([None], tf.int64, name="keys")

Signature = Callable[..., dict[str, tf.Tensor]]


class ServedRanker(tf.Module):
    """What is served: raw examples or columns in, one prediction per task out; rows that can be changed meanwhile.

    Attributes:
        columns: of the logs that features read, by name.
        tables: rows by group.
    """

    def __init__(
        self,
        ranker: Ranker,
        transform: tft.TFTransformOutput,
        flat: NDArray[Any],
        tables: Mapping[str, ServedTable],
    ):
        """Takes the dense weights as one vector, and the rows of each group."""
        super().__init__()
        self._ranker = ranker
        self._flat = tf.Variable(np.asarray(flat), trainable=False)
        self.tables = dict(tables)
        self._transform = transform.transform_features_layer()
        self.columns = _columns(ranker)
        self._parsed = {name: transform.raw_feature_spec()[name] for name in self.columns}

    @tf.function(input_signature=[_EXAMPLES], autograph=False)
    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]} for serialized raw tf.Examples [batch]."""
        batch = self._batch(examples)
        embeddings = {group: self.tables[group](keys) for group, keys in self._ranker.keys(batch).items()}
        return self._ranker.predictions(self._ranker.logits(self._weights(), batch, embeddings))

    @tf.function(input_signature=[], autograph=False)
    def release(self) -> tf.Tensor:
        """Gives the tables' memory back, which outlives a model loaded into Python; it cannot answer any more."""
        with tf.control_dependencies([table.release() for table in self.tables.values()]):
            return tf.constant(True)

    def signatures(self) -> dict[str, Signature]:
        """Returns all signatures by name.

        Of a ranker without ids there are none that concern rows. Where there are several groups of tables, `upsert` and
        `remove` have their group's name behind them.
        """
        found: dict[str, Signature] = {DEFAULT: self.serve_examples, RANK: self._rank()}
        if any(isinstance(feature, IdFeature) for feature in self._ranker.declared.features.values()):
            found["known_ids"] = _signature(self._known_ids, _EXAMPLES)
        if self.tables:
            found["table_size"] = _signature(lambda: {name: table.num_rows() for name, table in self.tables.items()})
        for name, table in self.tables.items():
            suffix = "" if len(self.tables) == 1 else f"_{name}"
            found[f"upsert{suffix}"] = _upsert(table)
            found[f"remove{suffix}"] = _remove(table)
        return found

    def rank_inputs(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns raw tf.Examples [batch] as a request for `rank`."""
        return inputs_of(self.columns, tf.io.parse_example(examples, self._parsed))

    def _rank(self) -> Signature:
        def rank(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            candidates, inputs = with_candidates(inputs)
            batch = as_batch(self._transform(sparse_columns(self.columns, inputs)))
            logits = candidate_logits(self._ranker, self._weights(), batch, self.tables, candidates)
            return self._ranker.predictions(logits)

        return _signature(rank, input_specs(self.columns))

    def _known_ids(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {feature of one id: [batch] bool}: whether its id has a row; an absent id has none."""
        batch = self._batch(examples)
        return {
            name: table.find(batch[name])[1]
            for group, table in self.tables.items()
            for name in self._ranker.features_of(group)
            if isinstance(self._ranker.declared.features[name], IdFeature)
        }

    def _batch(self, examples: tf.Tensor) -> Batch:
        return as_batch(self._transform(tf.io.parse_example(examples, self._parsed)))

    def _weights(self) -> Mapping[str, tf.Tensor]:
        return self._ranker.weights.unpack(self._flat)


def _columns(ranker: Ranker) -> dict[str, Column]:
    return {column.name: column for column in serving_columns(ranker.declared)}


def _upsert(table: ServedTable) -> Signature:
    rows = tf.TensorSpec([None, table.group.dim], tf.float32, name="rows")
    return _signature(lambda keys, rows: {"upserted": table.upsert(keys, rows)}, _KEYS, rows)


def _remove(table: ServedTable) -> Signature:
    return _signature(lambda keys: {"removed": table.remove(keys)}, _KEYS)


def _signature(function: Callable[..., Any], *inputs: Any) -> Signature:
    return tf.function(function, input_signature=inputs, autograph=False)
