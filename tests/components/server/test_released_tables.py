"""A version that is not served any more leaves nothing in memory, its hash tables and its graphs included."""

import gc
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from sangam.components.server.model import LoadedModel

pytestmark = pytest.mark.slow


class _WithTable(tf.Module):
    """Looks one key up in a table that can be destroyed, as exports of ours can."""

    def __init__(self) -> None:
        super().__init__()
        self._table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=[0.0])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="keys")])
    def serve(self, keys: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"rows": self._table.lookup(keys)}

    @tf.function(input_signature=[])
    def release(self) -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.DestroyResourceOp(resource=self._table.resource_handle)]):
            return tf.constant(True)


def test_tables_are_destroyed_when_the_last_request_has_let_go_of_a_version(tmp_path: Path) -> None:
    module = _WithTable()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    model = LoadedModel(tmp_path, 1)
    signature, keys = model.signature(""), tf.constant([1], tf.int64)
    assert signature.call({"keys": keys})["rows"].numpy().tolist() == [[0.0]]
    del model
    gc.collect()
    with pytest.raises(tf.errors.OpError):
        signature.call({"keys": keys})


def test_a_version_that_is_freed_while_another_is_loaded_leaves_its_graph_alone(tmp_path: Path) -> None:
    module = _WithTable()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    model = LoadedModel(tmp_path, 1)
    signature, keys = model.signature(""), tf.constant([1], tf.int64)
    with tf.Graph().as_default() as graph:  # As within TensorFlow's loader.
        del model
        gc.collect()
    assert not graph.get_operations()
    with pytest.raises(tf.errors.OpError):
        signature.call({"keys": keys})


class _WithGradient(tf.Module):
    """Has a gradient of its own, which TensorFlow registers for ever when it loads the model."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="values")])
    def serve(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        @tf.custom_gradient
        def doubled(values: tf.Tensor) -> Any:
            return values * 2.0, lambda upstream: upstream * 2.0

        return {"doubled": doubled(values)}


def _num_functions() -> int:
    gc.collect()
    return len(context.context().list_function_names())


def test_graphs_are_freed_with_their_version(tmp_path: Path) -> None:
    module = _WithGradient()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    before = _num_functions()
    for version in range(3):
        model = LoadedModel(tmp_path, version)
        answer = model.run(model.signature(""), {"values": tf.constant([1.5])})
        assert answer["doubled"].tolist() == [3.0]
        assert _num_functions() > before
        del model
    assert _num_functions() == before
