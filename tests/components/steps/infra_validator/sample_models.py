"""Small models made by hand, good and broken in one way each, with what training leaves beside a model."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.export import Description, ServedColumn, StoredRows
from sangam.schemas.spec import RankerSpec

Defect = Literal[
    "none", "nan", "nan of new ids", "shape", "slow", "skew", "rank differs", "one row differs", "inserts", "crashes"
]
NEVER_SEEN = "sangam-never-seen.*"
"""What the serving check calls the ids that it makes up."""

NUM_EXAMPLES = 64
SLOW_TURNS = 20_000
COLUMNS = {
    "user_id": {"type": "string", "is_list": False, "input": "user_id"},
    "post_id": {"type": "int", "is_list": False, "input": "post_id"},
    "tags": {"type": "string", "is_list": True, "input": "tags"},
    "list price": {"type": "float", "is_list": False, "input": "list_price"},
}
RANKER = RankerSpec.model_validate_json(
    json.dumps(
        {
            "name": "tiny",
            "tables": {name: {"dim": 1} for name in ("users", "posts", "tags")},
            "features": {
                "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
                "post": {"kind": "id", "column": "post_id", "type": "int", "table": "posts"},
                "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sum"},
                "price": {"kind": "numeric", "normalize": "zscore", "column": "list price"},
            },
            "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression"}},
            "model": {"kind": "mmoe", "num_experts": 1, "expert_units": [4], "tower_units": [2]},
            "training": {
                "epochs": 1,
                "batch_size_per_rank": 8,
                "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
                "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
            },
        }
    )
)


@dataclass(frozen=True)
class Made:
    """A model, and the report of the training that it came from.

    Attributes:
        model: the SavedModel.
        training: folder with examples and scores.
    """

    model: Path
    training: Path


class TinyModel(tf.Module):
    """Scores by a hash table of users, the number of tags, the post and the price."""

    def __init__(self, defect: Defect):
        super().__init__()
        self._defect = defect
        self._users = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.25)
        self._initial = tf.constant([f"u{number}" for number in range(8)])
        self._users.insert(self._initial, tf.range(8, dtype=tf.float32) / 8)

    def scores(self, user: Any, post: Any, num_tags: Any, price: Any, *, skewed: bool) -> dict[str, Any]:
        """Returns {task: [n, 1]} for columns [n]."""
        if self._defect == "inserts":
            self._users.insert(user, self._users.lookup(user))
        is_new = tf.strings.regex_full_match(user, NEVER_SEEN)
        if self._defect == "crashes":
            price += tf.cond(tf.reduce_any(is_new), _abort, lambda: 0.0)
        price = tf.where(tf.math.is_nan(price), tf.zeros_like(price), price)
        if self._defect == "nan of new ids":
            price = tf.where(is_new, np.nan, price)
        seen = price * (1.001 if skewed else 1.0) + self._users.lookup(user) + tf.cast(post % 5, tf.float32) / 5
        logit = tf.expand_dims(seen + tf.cast(num_tags, tf.float32) / 4, 1)
        if self._defect == "nan":
            logit = tf.where(logit > 0.8, tf.math.log(-logit), logit)
        like = tf.sigmoid(logit)
        return {"like": like[:, 0] if self._defect == "shape" else like, "watch": 3 * logit}

    def serve(self, examples: Any) -> dict[str, Any]:
        """Returns {task: [n, 1]} for serialized tf.Examples [n]."""
        types = {"string": tf.string, "int": tf.int64, "float": tf.float32}
        spec = {name: tf.io.VarLenFeature(types[str(column["type"])]) for name, column in COLUMNS.items()}
        parsed = tf.io.parse_example(examples, spec)
        one = {
            name: tf.sparse.to_dense(
                tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1]), _absent(value.dtype)
            )[:, 0]
            for name, value in parsed.items()
            if name != "tags"
        }
        ones = tf.SparseTensor(
            parsed["tags"].indices, tf.ones_like(parsed["tags"].values, tf.int64), parsed["tags"].dense_shape
        )
        num_tags = tf.sparse.reduce_sum(ones, axis=1)
        return self.scores(one["user_id"], one["post_id"], num_tags, one["list price"], skewed=self._defect == "skew")

    def rank(self, **columns: Any) -> dict[str, Any]:
        """Returns {task: [n, 1]} for columns of one row or n."""
        count = tf.reduce_max([tf.shape(column)[0] for column in columns.values()])
        user, post, price, num_tags = (
            tf.broadcast_to(columns[name], [count]) for name in ("user_id", "post_id", "list_price", "tags_length")
        )
        if self._defect == "one row differs":
            price += tf.where(tf.shape(columns["user_id"])[0] < count, 0.01, 0.0)
        scores = self.scores(user, post, num_tags, price, skewed=self._defect in ("skew", "rank differs"))
        if self._defect == "slow":
            spun = tf.while_loop(lambda turn, _: turn < SLOW_TURNS, _spin, [0, scores["watch"] * 0 + tf.ones([1, 64])])[
                1
            ]
            scores["watch"] += 1e-12 * spun[:, :1]
        return scores

    def table_size(self) -> dict[str, Any]:
        """Returns the rows of the table."""
        return {"users": self._users.size()}


def _spin(turn: Any, rows: Any) -> tuple[Any, Any]:
    return turn + 1, tf.sin(rows)


def _abort() -> Any:
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="the model crashes")]):
        return tf.constant(1.0)


def _absent(dtype: Any) -> Any:
    return {tf.string: b"", tf.int64: tf.constant(0, tf.int64), tf.float32: np.nan}[dtype]


def make(folder: Path, defect: Defect = "none", *, rows: StoredRows = "float32") -> Made:
    """Writes a model with a defect, and the scores that a trainer without it gives."""
    made = Made(folder / "model" / "Format-Serving", folder / "training")
    made.training.mkdir(parents=True)
    examples = _examples()
    with tf.io.TFRecordWriter(str(made.training / "check_examples.tfrecord")) as writer:
        for example in examples:
            writer.write(example)
    expected = {task: scores.numpy() for task, scores in TinyModel("none").serve(tf.constant(examples)).items()}
    np.savez(made.training / "check_scores.npz", **expected)
    _save(TinyModel(defect), made.model)
    _describe(made.model, rows)
    return made


def _save(model: TinyModel, folder: Path) -> None:
    types = {"string": tf.string, "int": tf.int64, "float": tf.float32}
    inputs: dict[str, Any] = {"tags_length": tf.TensorSpec([None], tf.int64, "tags_length")}
    for column in COLUMNS.values():
        shape = [None, None] if column["is_list"] else [None]
        inputs[str(column["input"])] = tf.TensorSpec(shape, types[str(column["type"])], column["input"])
    rank: Callable[..., Any] = tf.function(model.rank)
    serve = tf.function(model.serve, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    signatures = {
        "serving_default": serve,
        "rank": rank.get_concrete_function(**inputs),  # type: ignore[attr-defined]
        "table_size": tf.function(model.table_size, input_signature=[]),
    }
    tf.saved_model.save(model, str(folder), signatures=signatures)


def _describe(folder: Path, rows: StoredRows) -> None:
    export = RANKER.export.model_copy(update={"rows": rows})
    described = Description(
        name="tiny",
        spec_digest="",
        ranker=RANKER.model_copy(update={"export": export}),
        tasks={},
        signatures=("serving_default", "rank", "table_size"),
        form="stock",
        rows=rows,
        versions={"tensorflow": tf.__version__},
        columns={name: ServedColumn.model_validate(column) for name, column in COLUMNS.items()},
        groups={},
    )
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "ranker.json").write_text(described.text())


def _examples() -> list[bytes]:
    random = np.random.default_rng(3)
    serialized = []
    for index in range(NUM_EXAMPLES):
        example = tf.train.Example()
        feature = example.features.feature
        feature["user_id"].bytes_list.value.append(f"u{index % 10}".encode())
        feature["post_id"].int64_list.value.append(int(random.integers(1000)))
        if index % 7:
            feature["list price"].float_list.value.append(float(random.normal()))
        feature["tags"].bytes_list.value.extend([b"a", b"bb", b"ccc"][: index % 4])
        serialized.append(example.SerializeToString())
    return serialized
