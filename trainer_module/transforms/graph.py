"""The graph that Transform has written, loaded."""

import contextlib
import functools
import posixpath
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from sangam.schemas.contracts.statistics import FILE_NAME, parse_statistics
from sangam.schemas.host.wildcards import without_wildcards
from sangam.schemas.spec import Inputs
from sangam.trainer_module.transforms.columns import OfSeveral
from sangam.trainer_module.transforms.history import HistoryTables
from sangam.trainer_module.transforms.preprocessing import features_of
from sangam.trainer_module.transforms.stacked import Logged, Made


@functools.lru_cache(maxsize=1)
def transform_graph(folder: str) -> "TransformGraph":
    """Returns the graph of a Transform artifact, loaded once: TensorFlow leaks memory with each that it loads."""
    return TransformGraph(folder)


class TransformGraph(tf.Module):
    """From raw columns to the outputs of Transform. Counts before a row's day come from the newest tables.

    TensorFlow Transform's own layer walks the graph once for each output, to learn which columns it needs; with 2,000
    features that takes four minutes. Its package also imports Beam.

    Attributes:
        columns: types of the columns of the logs by name.
        history: adds the columns of the history tables.
    """

    def __init__(self, folder: str):
        """Loads the graph of a Transform artifact."""
        super().__init__()
        # Open as long as this: an export copies assets from there.
        self._folder = contextlib.ExitStack()
        self._statistics = Path(folder, FILE_NAME)
        literal = self._folder.enter_context(without_wildcards(posixpath.join(folder, "transform_fn")))
        self._loaded = tf.saved_model.load(literal)
        restored = self._loaded.transform_fn
        [self._function] = getattr(restored, "concrete_functions", [restored])
        [specs], _ = self._function.structured_input_signature
        self.history = HistoryTables(folder)
        self.columns: dict[str, tf.DType] = {
            name: spec.dtype for name, spec in specs.items() if name not in self.history.columns
        }

    def __call__(
        self, columns: Mapping[str, tf.SparseTensor], rows: tf.Tensor | int | None = None
    ) -> dict[str, tf.Tensor | tf.SparseTensor]:
        """Returns all outputs by name.

        Args:
            columns: values of raw columns by name; others are ignored.
            rows: of the columns left out, such as labels of a request: they are empty. By default as many as the first
                column has.
        """
        if rows is None:
            rows = next(iter(columns.values())).dense_shape[0]
        shape = tf.stack([tf.cast(rows, tf.int64), 1])
        whole = {name: columns[name] if name in columns else _empty(kind, shape) for name, kind in self.columns.items()}
        whole |= self.history(whole)
        inputs = tf.nest.flatten(whole, expand_composites=True)
        outputs: dict[str, tf.Tensor | tf.SparseTensor] = self._function(*inputs)
        return outputs

    def features_of(
        self, spec: Inputs, columns: Mapping[str, Logged], of_several: OfSeveral | None = None
    ) -> dict[str, Made]:
        """Returns the features as the code computes them that has written the graph, those of a kind in one tensor.

        Args:
            spec: what the graph was written for.
            columns: values of the columns that features read in requests.
            of_several: what is known of several requests; None: there is one.
        """
        statistics = parse_statistics(str(self._statistics), self._statistics.read_bytes())
        shape = tf.constant([1, 1], tf.int64)
        whole = {name: columns[name] if name in columns else _empty(kind, shape) for name, kind in self.columns.items()}
        repeated = of_several.repeated if of_several else {}
        return features_of(spec, statistics, whole | self.history(whole, repeated), of_several)


def _empty(kind: tf.DType, shape: tf.Tensor) -> tf.SparseTensor:
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], kind), shape)
