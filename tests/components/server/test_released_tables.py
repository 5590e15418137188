"""A version that is not served any more leaves nothing in memory, its hash tables and its graphs included."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from sangam.components.server.model import LoadedModel

pytestmark = pytest.mark.slow


class _WithTable(tf.Module):
    """Looks one key up in a table, which TensorFlow's loader would keep for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__()
        self._table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=[0.0])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="keys")])
    def serve(self, keys: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"rows": self._table.lookup(keys)}


def test_tables_are_destroyed_when_the_last_request_has_let_go_of_a_version(tmp_path: Path) -> None:
    module = _WithTable()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    model = LoadedModel(tmp_path, 1)
    signature, keys = model.signature(""), np.array([1])
    assert signature.call({"keys": keys})["rows"].tolist() == [[0.0]]
    del model
    gc.collect()
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


def test_graphs_are_freed_with_their_version(tmp_path: Path) -> None:
    module = _WithGradient()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    functions = context.context().list_function_names()
    for version in range(3):
        model = LoadedModel(tmp_path, version)
        answer = model.run(model.signature(""), {"values": np.array([1.5], np.float32)})
        assert answer["doubled"].tolist() == [3.0]
        session = weakref.ref(model._session._session)
        graph = weakref.ref(model._session._session.graph)
        del model
        gc.collect()
        assert session() is None
        assert graph() is None
    assert context.context().list_function_names() == functions
