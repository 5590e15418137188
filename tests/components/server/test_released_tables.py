"""A version that is not served any more leaves nothing in memory, its hash tables included."""

import gc
from pathlib import Path

import pytest
import tensorflow as tf

from components.server.model import LoadedModel

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
