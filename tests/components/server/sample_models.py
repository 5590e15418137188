"""Handmade SavedModels with the signatures of an exported ranker; stock operations alone."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from sangam.components.server.tensors import pack
from sangam.schemas.contracts.export import CUSTOM_OPS
from tests.schemas.sample_exports import sample_description

NAME = "feed"


class SmallRanker(tf.Module):
    """Scores that tell the version: its number is their sum for a candidate of length 0 and price 0."""

    def __init__(self, number: float):
        super().__init__()
        self._number = tf.Variable(number, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = {
            "post": tf.io.FixedLenFeature([], tf.string, ""),
            "price": tf.io.FixedLenFeature([], tf.float32, 0.0),
        }
        parsed = tf.io.parse_example(examples, columns)
        return self._scores(parsed["post"], parsed["price"])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="user"),
            tf.TensorSpec([None], tf.string, name="post"),
            tf.TensorSpec([None], tf.float32, name="price"),
            tf.TensorSpec([None, None], tf.int64, name="topics"),
            tf.TensorSpec([None], tf.int64, name="topics_length"),
        ]
    )
    def rank(
        self, user: tf.Tensor, post: tf.Tensor, price: tf.Tensor, topics: tf.Tensor, topics_length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        is_topic = tf.sequence_mask(topics_length, tf.shape(topics)[1], tf.float32)
        topic = tf.reduce_sum(tf.cast(topics, tf.float32) * is_topic, axis=1)
        known = tf.cast(tf.strings.length(user), tf.float32)
        return self._scores(post, price + topic + 0.0 * known)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="seconds")])
    def slow(self, seconds: tf.Tensor) -> dict[str, tf.Tensor]:
        """Takes as long as it is told to."""
        end = tf.timestamp() + tf.cast(tf.reduce_max(seconds), tf.float64)
        turns = tf.constant(0.0)
        while tf.timestamp() < end:
            turns += 1.0
        return {"like": tf.expand_dims(self._number + 0.0 * (turns + seconds), 1)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int64, name="keys"),
            tf.TensorSpec([None, 1], tf.float32, name="rows"),
        ]
    )
    def upsert(self, keys: tf.Tensor, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        self._number.assign(rows[0, 0])
        return {"num_rows": tf.size(keys, tf.int64)}

    def _scores(self, post: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        length = tf.cast(tf.strings.length(post), tf.float32)
        return {
            "like": tf.expand_dims(self._number + length + price, 1),
            "watch": tf.expand_dims(self._number * 2.0 + length * 0.0 + price * 0.0, 1),
        }

    def save(self, folder: Path) -> None:
        signatures = {"serving_default": self.serve, "rank": self.rank, "upsert": self.upsert, "slow": self.slow}
        tf.saved_model.save(self, str(folder), signatures=signatures)


class OtherColumns(SmallRanker):
    """A ranker that reads another column."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="post"), tf.TensorSpec([None], tf.float32, name="age")]
    )
    def rank(self, post: tf.Tensor, age: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._scores(post, age)


class Failing(SmallRanker):
    """A ranker that fails on prices that are not negative."""

    def _scores(self, post: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_negative(price)]):
            return super()._scores(post, tf.identity(price))


class Waiting(SmallRanker):
    """A ranker that computes until a file is there."""

    def __init__(self, number: float, file: Path):
        super().__init__(number)
        self._file = str(file)

    def _scores(self, post: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        def is_absent(turns: tf.Tensor) -> tf.Tensor:
            # Of a constant TensorFlow would look once, and compute with what it found.
            nothing = tf.strings.substr(tf.strings.as_string(turns), 0, 0)
            return tf.equal(tf.size(tf.io.matching_files(tf.strings.join([self._file, nothing]))), 0)

        with tf.control_dependencies(tf.nest.flatten(tf.while_loop(is_absent, lambda turns: [turns + 1], [0]))):
            return super()._scores(post, tf.identity(price))


def candidates(count: int, posts: list[str] | None = None) -> dict[str, NDArray[Any]]:
    """Returns inputs of `rank`: one user, so many candidates."""
    return {
        "user": np.array(["u1"]),
        "post": np.array(posts or [f"p{index}" for index in range(count)], dtype=object),
        "price": np.zeros(1, np.float32),
        "topics": np.zeros([1, 2], np.int64),
        "topics_length": np.array([2]),
    }


def scores(number: float, count: int) -> NDArray[Any]:
    """Returns the `like` that version `number` gives to `candidates(count)`."""
    return np.array([[number + len(f"p{index}")] for index in range(count)], np.float32)


def add_manifest(folder: Path) -> None:
    """Describes a version as the pusher does, as far as a server reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    entries = {
        path.relative_to(folder).as_posix(): {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in files
    }
    (folder / "manifest.json").write_text(json.dumps({"files": entries}))


def add_warmup(folder: Path, examples: list[bytes], count: int) -> None:
    """Adds recorded requests for `serving_default`."""
    request = predict_pb2.PredictRequest()
    pack(np.array(examples, dtype=object), request.inputs["examples"])
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    (folder / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / "assets.extra/tf_serving_warmup_requests")) as writer:
        for _ in range(count):
            writer.write(log.SerializeToString())


def put(model: Path, versions: Path, number: int, *, with_manifest: bool = True) -> Path:
    """Copies a model to a folder of versions as the pusher does: whole or not at all."""
    versions.mkdir(parents=True, exist_ok=True)
    aside = versions / f".tmp-{number}"
    shutil.copytree(model, aside)
    if with_manifest:
        add_manifest(aside)
    aside.rename(versions / str(number))
    return versions / str(number)


def save_with_tfra(folder: Path) -> None:
    """Saves a table of TFRA's that knows the key 7, and the description that a server needs to load it."""
    import tensorflow_recommenders_addons.dynamic_embedding as dynamic_embedding

    module = tf.Module()
    module.table = dynamic_embedding.CuckooHashTable(tf.int64, tf.float32, default_value=tf.constant([-1.0]))
    module.table.insert(tf.constant([7], tf.int64), tf.constant([[7.0]]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="keys")])
    def rows(keys: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"row": module.table.lookup(keys)}

    module.rows = rows
    options = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": rows}, options=options)
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "ranker.json").write_text(sample_description(custom_ops=CUSTOM_OPS).text())
