"""Rivals of the engine: the same ranker in Keras, on TFRA's layers or on Keras' own embeddings.

Every rival has the fastest options of its public interface: one traced step with an input
signature, arrays that need no further gathering, tables made large beforehand, ids de-duplicated by its own layers.
"""

import itertools
from collections.abc import Callable, Sequence

import horovod.tensorflow as hvd
import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de

from bench.workload import DIM, EXPERT_UNITS, NUM_EXPERTS, NUM_FLOATS, NUM_IDS, NUM_TASKS, TOWER_UNITS, Pool

Step = Callable[[], float]
"""Trains on the next batch of a pool, which starts over when it ends, and returns the loss."""

_LEARNING_RATE, _ROW_LEARNING_RATE = 0.001, 0.01
_SIGNATURE = (
    tf.TensorSpec([None, NUM_IDS], tf.int64),
    tf.TensorSpec([None, NUM_FLOATS], tf.float32),
    tf.TensorSpec([None, NUM_TASKS], tf.float32),
)

# Shape suffixes: B batch, F id features, D dimension, E experts, H width of an expert's output, T tasks.


def join() -> None:
    """Joins the other ranks, if there are any."""
    hvd.init()


def tfra_one_table(pool: Pool, batch_size: int, *, rows: int, bfloat16: bool) -> Step:
    """TFRA with all features in one of its tables: its fastest form."""
    layer = _tfra_layer("ids", rows)
    return _tfra_step(pool, batch_size, layer, bfloat16=bfloat16)


def tfra_table_per_feature(pool: Pool, batch_size: int, *, rows: int, bfloat16: bool) -> Step:
    """TFRA with one table for each feature: its usual form."""
    embed = _TablePerFeature([_tfra_layer(f"ids_{n:02}", rows // NUM_IDS) for n in range(NUM_IDS)])
    return _tfra_step(pool, batch_size, embed, bfloat16=bfloat16)


def keras_table(pool: Pool, batch_size: int, *, rows: int, bfloat16: bool, with_adagrad: bool) -> Step:
    """Keras' Embedding of `rows` rows, ids hashed to it: ids that meet share a row. Every rank has all of it.

    Keras' Adam moves the moments of every row in every step. `with_adagrad` updates the table by Adagrad, which touches
    the rows of the batch alone.
    """
    embed = _HashedTable(rows)
    model = _model(embed, bfloat16=bfloat16)
    optimizer = tf.keras.optimizers.legacy.Adam(_LEARNING_RATE)
    of_rows = tf.keras.optimizers.legacy.Adagrad(_ROW_LEARNING_RATE) if with_adagrad else optimizer

    @tf.function(input_signature=_SIGNATURE)
    def train(keys_BF: tf.Tensor, floats: tf.Tensor, labels_BT: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = _loss(model(keys_BF, floats), labels_BT)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        if hvd.size() > 1:
            gradients = [
                hvd.allreduce(gradient, op=hvd.Average, name=f"gradient_{n}") for n, gradient in enumerate(gradients)
            ]
        pairs = list(zip(gradients, variables, strict=True))
        table = embed.trainable_variables[0]
        of_rows.apply_gradients([pair for pair in pairs if pair[1] is table])
        optimizer.apply_gradients([pair for pair in pairs if pair[1] is not table])
        return loss

    return _over_pool(train, pool, batch_size)


def _tfra_layer(name: str, rows: int) -> tf.keras.layers.Layer:
    shared = {"embedding_size": DIM, "initializer": tf.keras.initializers.RandomUniform(-0.05, 0.05), "name": name}
    if hvd.size() == 1:
        return de.keras.layers.BasicEmbedding(init_capacity=rows, **shared)
    saver = de.FileSystemSaver(proc_size=hvd.size(), proc_rank=hvd.rank())
    creator = de.CuckooHashTableCreator(saver=saver)
    return de.keras.layers.HvdAllToAllEmbedding(init_capacity=rows // hvd.size(), kv_creator=creator, **shared)


class _TablePerFeature(tf.keras.layers.Layer):
    def __init__(self, tables: Sequence[tf.keras.layers.Layer]):
        super().__init__()
        self._tables = list(tables)

    def call(self, keys_BF: tf.Tensor) -> tf.Tensor:
        """Returns [batch, features, dim]."""
        columns = tf.unstack(keys_BF, axis=1)
        return tf.stack([table(column) for table, column in zip(self._tables, columns, strict=True)], axis=1)


class _HashedTable(tf.keras.layers.Layer):
    def __init__(self, rows: int):
        super().__init__()
        self._rows, self._table = rows, tf.keras.layers.Embedding(rows, DIM)

    def call(self, keys_BF: tf.Tensor) -> tf.Tensor:
        """Returns [batch, features, dim]."""
        return self._table(tf.math.floormod(keys_BF, self._rows))


def _tfra_step(pool: Pool, batch_size: int, embed: tf.keras.layers.Layer, *, bfloat16: bool) -> Step:
    model = _model(embed, bfloat16=bfloat16)
    optimizer = de.DynamicEmbeddingOptimizer(tf.keras.optimizers.legacy.Adam(_LEARNING_RATE), synchronous=True)

    @tf.function(input_signature=_SIGNATURE)
    def train(keys_BF: tf.Tensor, floats: tf.Tensor, labels_BT: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = _loss(model(keys_BF, floats), labels_BT)
            # Its optimizer sums the gradients of the ranks.
            scaled = loss / hvd.size()
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        return loss

    return _over_pool(train, pool, batch_size)


def _model(embed: tf.keras.layers.Layer, *, bfloat16: bool) -> "_Mmoe":
    return _Mmoe(embed, tf.keras.mixed_precision.Policy("mixed_bfloat16" if bfloat16 else "float32"))


class _Mmoe(tf.keras.Model):
    """The ranker of `workload.ranker`. The first layers of the experts are one product, as in the engine: the same
    numbers from fewer operations."""

    def __init__(self, embed: tf.keras.layers.Layer, policy: tf.keras.mixed_precision.Policy):
        super().__init__()
        self._embed = embed
        first, second = EXPERT_UNITS

        def dense(units: int, activation: str | None) -> tf.keras.layers.Dense:
            return tf.keras.layers.Dense(units, activation, dtype=policy)

        self._first = dense(NUM_EXPERTS * first, "relu")
        self._second = [dense(second, "relu") for _ in range(NUM_EXPERTS)]
        self._expert_gates = dense(NUM_TASKS * NUM_EXPERTS, None)
        self._towers = [dense(TOWER_UNITS[0], "relu") for _ in range(NUM_TASKS)]
        self._heads = [dense(1, None) for _ in range(NUM_TASKS)]

    def call(self, keys_BF: tf.Tensor, floats: tf.Tensor) -> tf.Tensor:
        """Returns logits [batch, tasks]."""
        embeddings = tf.reshape(self._embed(keys_BF), [-1, NUM_IDS * DIM])
        x = tf.concat([floats, embeddings], axis=1)
        inputs = tf.split(self._first(x), NUM_EXPERTS, axis=1)
        experts_BEH = tf.stack([layer(part) for layer, part in zip(self._second, inputs, strict=True)], axis=1)
        gates_BTE = tf.nn.softmax(tf.reshape(self._expert_gates(x), [-1, NUM_TASKS, NUM_EXPERTS]))
        mixed = tf.unstack(tf.matmul(gates_BTE, experts_BEH), axis=1)
        logits = [head(tower(part)) for head, tower, part in zip(self._heads, self._towers, mixed, strict=True)]
        return tf.cast(tf.concat(logits, axis=1), tf.float32)


def _loss(logits_BT: tf.Tensor, labels_BT: tf.Tensor) -> tf.Tensor:
    losses_BT = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels_BT, logits=logits_BT)
    return tf.reduce_mean(tf.reduce_sum(losses_BT, axis=1))


def _over_pool(train: Callable[..., tf.Tensor], pool: Pool, batch_size: int) -> Step:
    batches: Sequence[tuple[tf.Tensor, ...]] = [
        tuple(tf.constant(part[start : start + batch_size]) for part in (pool.keys, pool.floats, pool.labels))
        for start in range(0, len(pool.labels), batch_size)
    ]
    ahead = itertools.cycle(batches)
    return lambda: float(train(*next(ahead)))
