"""The ranker as a module that TensorFlow saves, and its signatures."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.export import (
    BLOCKS,
    IS_KNOWN,
    RANK,
    RANK_SEVERAL,
    REMOVE,
    REPLACE_DENSE,
    SERVE,
    TABLE_SIZE,
    UPSERT,
    VECTORS,
    embeddings_of,
    known_ids_of,
    of_group,
)
from sangam.schemas.derived.columns import columns_together, serving_columns
from sangam.schemas.derived.ids import id_columns
from sangam.schemas.derived.rank_inputs import REQUEST_NUMBER
from sangam.schemas.parts.columns import Column
from sangam.trainer_module.dense.split import Requests
from sangam.trainer_module.input.batch import TensorsByName
from sangam.trainer_module.input.blocks import Table, num_rows
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.serving.candidates import candidate_logits, in_request
from sangam.trainer_module.serving.missing import without_missing
from sangam.trainer_module.serving.raw_columns import checked, input_specs, inputs_of, num_candidates
from sangam.trainer_module.serving.request_columns import columns_of, repeated_columns_of
from sangam.trainer_module.serving.table import ServedTable
from sangam.trainer_module.transforms.columns import OfSeveral
from sangam.trainer_module.transforms.graph import TransformGraph
from sangam.trainer_module.transforms.keys import id_keys

_EXAMPLES = tf.TensorSpec([None], tf.string, name="examples")
_BLOCKS = tf.TensorSpec([None], tf.string, name="blocks")
_KEYS = tf.TensorSpec([None], tf.int64, name="keys")
_IDS = tf.TensorSpec([None], tf.string, name="ids")

Signature = Callable[..., dict[str, tf.Tensor]]


class ServedRanker(tf.Module):
    """The served model: raw examples or columns in, one prediction per task out; its rows can be changed meanwhile.

    Attributes:
        columns: columns of the logs that features read, by name.
        history_as_of: first day, YYYY-MM-DD, that the history tables do not cover; None: no feature needs them.
        tables: rows by group.
    """

    def __init__(
        self,
        ranker: Ranker,
        transform: TransformGraph,
        flat: NDArray[Any],
        tables: Mapping[str, ServedTable],
    ):
        """Takes the dense weights as one vector, and the rows of each group."""
        super().__init__()
        self._ranker = ranker
        self._lines = tf.Variable(ranker.weights.lines(tf.constant(flat)), trainable=False, name="dense")
        self.tables = dict(tables)
        self._transform = transform
        self.columns: dict[str, Column] = {column.name: column for column in serving_columns(ranker.spec)}
        self.history_as_of = transform.history.as_of
        self._parsed = {name: tf.io.VarLenFeature(transform.columns[name]) for name in self.columns}
        self._table = Table({name: transform.columns[name] for name in self.columns})

    def table_variables(self) -> dict[str, tf.Variable]:
        """Returns the variables that hold rows, by their path of attributes."""
        return {
            f"tables/{name}/{attribute}": variable
            for name, table in self.tables.items()
            for attribute, variable in table.variables_by_attribute().items()
        }

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """Calibrations of the predictions by task."""
        return self._ranker.calibrations

    @tf.function(input_signature=[_EXAMPLES], autograph=False)
    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]} for serialized raw tf.Examples [batch]."""
        columns = self._transformed(self._columns_of(examples), tf.size(examples, tf.int64))
        batch = self._ranker.layout.pack_features(columns)
        embeddings = {group: self.tables[group](keys) for group, keys in self._ranker.keys(batch).items()}
        return self._ranker.predictions(self._ranker.logits(self._weights(), batch, embeddings))

    @tf.function(input_signature=[], autograph=False)
    def release(self) -> tf.Tensor:
        """Frees the tables' memory, which outlives a model loaded into Python; the model is unusable afterwards."""
        tables = [table.release() for table in self.tables.values()]
        with tf.control_dependencies([*tables, *self._transform.history.release()]):
            return tf.constant(True)

    def signatures(self) -> dict[str, Signature]:
        """Returns all signatures by name.

        A ranker without ids has none for rows.
        """
        flat = tf.TensorSpec([self._ranker.weights.size], tf.float32, name="flat")
        signatures: dict[str, Signature] = {
            SERVE: self.serve_examples,
            BLOCKS: _signature(self._score_blocks, _BLOCKS),
            **self._rank(),
            REPLACE_DENSE: _signature(self._replace_dense, flat),
        }
        if self.tables:
            signatures[TABLE_SIZE] = _signature(lambda: {name: table.num_rows() for name, table in self.tables.items()})
        for name, table in self.tables.items():
            signatures[of_group(UPSERT, name, len(self.tables))] = _upsert(table)
            signatures[of_group(REMOVE, name, len(self.tables))] = _remove(table)
            if self._ranker.spec.export.ids:
                of_ids = id_columns(self._ranker.spec).keys() & table.group.tags.keys()
                signatures |= {embeddings_of(each): _embeddings(table, table.group.tags[each]) for each in of_ids}
        return signatures

    def rank_inputs(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns raw tf.Examples [batch] as a request for `rank`."""
        return inputs_of(self.columns, self._columns_of(examples))

    def _rank(self) -> dict[str, Signature]:
        """Returns `rank`, and what computes it: the same for several requests at once."""
        columns, spec = self.columns, self._ranker.spec
        of_one, together = input_specs(columns), sorted(columns_together(spec))

        def rank_several(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            asked = {name: inputs[name] for name in of_one}
            number_C, asked = checked(columns, asked, inputs[REQUEST_NUMBER])
            requests = Requests.of(number_C)
            repeated = repeated_columns_of({name: columns[name] for name in together}, asked, requests)
            of_several = OfSeveral(repeated, requests.of_row_B)
            features = self._transform.features_of(spec, columns_of(columns, asked), of_several)
            made = self._ranker.layout.at_serving(in_request(features))
            return self._ranker.predictions(
                candidate_logits(self._ranker, self._weights(), made, self.tables, requests)
            )

        number = tf.TensorSpec([None], tf.int32, name=REQUEST_NUMBER)
        several = _signature(rank_several, of_one | {REQUEST_NUMBER: number})

        def rank(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            of_one_request = tf.zeros(num_candidates(inputs)[None], tf.int32)
            return several(inputs | {REQUEST_NUMBER: of_one_request})

        return {RANK: _signature(rank, of_one), RANK_SEVERAL: several}

    def _score_blocks(self, blocks: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [rows, 1]} for the rows of blocks, and by feature of one id whether its id has a row.

        An absent id has none.
        """
        rows = self._table.parse(blocks)
        # Ingestion has left out missing values.
        columns = self._transformed(self._table.sparse(rows), num_rows(rows))
        batch = self._ranker.layout.pack_features(columns)
        found = {group: self.tables[group].read(keys) for group, keys in self._ranker.keys(batch).items()}
        embeddings = {group: rows_nD for group, (rows_nD, _) in found.items()}
        answer = dict(self._ranker.predictions(self._ranker.logits(self._weights(), batch, embeddings)))
        for group, (_, is_known_n) in found.items():
            if names := self._ranker.layout.ids[group]:
                # The keys of ids come first, row after row.
                of_ids = tf.reshape(is_known_n[: tf.size(batch["ids"][:, 0]) * len(names)], [-1, len(names)])
                answer |= zip(map(known_ids_of, names), tf.unstack(of_ids, axis=1), strict=True)
        return answer

    def _replace_dense(self, flat: tf.Tensor) -> dict[str, tf.Tensor]:
        """Replaces all dense weights at once: [size] float32; a request has read either the old ones or the new."""
        is_finite = tf.reduce_all(tf.math.is_finite(flat))
        text = f"{REPLACE_DENSE}: weights hold NaN or infinity"
        with tf.control_dependencies([tf.debugging.Assert(is_finite, [text])]):
            flat = tf.identity(flat)
        with tf.control_dependencies([self._lines.assign(self._ranker.weights.lines(flat))]):
            return {"replaced": tf.size(flat, tf.int64)}

    def _columns_of(self, examples: tf.Tensor) -> dict[str, tf.SparseTensor]:
        return without_missing(self.columns, tf.io.parse_example(examples, self._parsed))

    def _transformed(self, given: Mapping[str, tf.SparseTensor], rows: tf.Tensor | int) -> TensorsByName:
        """Returns Transform's outputs for predictions, given the number of `rows` of columns that these do not need."""
        return self._ranker.layout.at_serving(self._transform(given, rows))

    def _weights(self) -> Mapping[str, tf.Tensor]:
        # Read once: all weights of a request are those before a replacement, or all are those after it.
        return self._ranker.weights.unpack_lines(self._lines.read_value())


def _embeddings(table: ServedTable, tag: int) -> Signature:
    def embeddings(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        rows_nD, is_known_n = table.find(id_keys(tag, ids))
        return {VECTORS: tf.where(is_known_n[:, None], rows_nD, tf.zeros_like(rows_nD)), IS_KNOWN: is_known_n}

    return _signature(embeddings, _IDS)


def _upsert(table: ServedTable) -> Signature:
    rows = tf.TensorSpec([None, table.group.dim], tf.float32, name="rows")
    return _signature(lambda keys, rows: {"upserted": table.upsert(keys, rows)}, _KEYS, rows)


def _remove(table: ServedTable) -> Signature:
    return _signature(lambda keys: {"removed": table.remove(keys)}, _KEYS)


def _signature(function: Callable[..., Any], *inputs: Any) -> Signature:
    return tf.function(function, input_signature=inputs, autograph=False)
