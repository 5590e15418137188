"""Parts of a training step on the host that are computed in one pass over memory: see `native`.

Results equal those of TensorFlow's operations, up to the last bits of a sum. Exported models, and trainings on a GPU,
use TensorFlow's. Layers: `native_layer`.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.native.library import functions, operations

# Shape suffixes: B batch, I inputs, N numbers, E experts, T tasks, H width of an output.

_Use = Literal["none", "gradients together", "inputs first"]
_USE: ContextVar[_Use] = ContextVar("use", default="none")


@contextmanager
def in_training(*, on_host: bool = True, are_inputs_first: bool = False) -> Iterator[None]:
    """Makes graphs traced meanwhile use these operations where possible.

    Args:
        on_host: whether the dense layers are on the host.
        are_inputs_first: backward, compute the gradient of a layer's inputs before that of its weights; see
            `layers.matmul_of_inputs`. Otherwise both are computed together, which is quicker.
    """
    use: _Use = "inputs first" if are_inputs_first else "gradients together"
    before = _USE.set(use if on_host and threads() else "none")
    try:
        yield
    finally:
        _USE.reset(before)


def threads() -> int:
    """Returns the threads on which this process computes; 0 where nothing has set them."""
    return int(tf.config.threading.get_intra_op_parallelism_threads())


def is_possible() -> bool:
    """Returns whether rows are updated where they lie: on one thread."""
    return threads() == 1


def applies_to(x: tf.Tensor) -> bool:
    """Returns whether a tensor is computed with these operations."""
    return is_used() and x.dtype in (tf.float32, tf.bfloat16)


def are_inputs_first() -> bool:
    """Returns whether graphs traced now compute the gradient of a layer's inputs before that of its weights."""
    return _USE.get() == "inputs first"


def is_used() -> bool:
    """Returns whether graphs traced now use these operations."""
    return _USE.get() != "none"


@functools.cache
def has_units_for(dtype: tf.DType) -> bool:
    """Returns whether this processor has the units that `layer` needs for these numbers."""
    return bool(functions().sangam_has_layers(dtype == tf.bfloat16))


class Gathered(NamedTuple):
    """Embeddings of the same features of every example, which share rows.

    Attributes:
        rows_uD: [u, D].
        index_n: [B * features] int32, example after example.
        features: features of an example.
    """

    rows_uD: tf.Tensor
    index_n: tf.Tensor
    features: int

    def side_by_side(self) -> tf.Tensor:
        """Returns [B, features * D]."""
        width = self.features * self.rows_uD.shape[1]
        return tf.reshape(tf.gather(self.rows_uD, self.index_n), [-1, width])


def inputs(parts: Sequence[tf.Tensor | Gathered], dtype: tf.DType) -> tf.Tensor:
    """Returns float32 parts side by side, gathered and rounded in one pass: [B, I], given [B, width] each."""
    index = [part.index_n for part in parts if isinstance(part, Gathered)]
    numbers = [part.rows_uD if isinstance(part, Gathered) else part for part in parts]
    features = [part.features if isinstance(part, Gathered) else 0 for part in parts]
    width = sum(part.shape[1] * max(each, 1) for part, each in zip(numbers, features, strict=True))

    @tf.custom_gradient
    def call(*numbers: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(of_x: tf.Tensor) -> list[tf.Tensor]:
            found = operations().sangam_inputs_gradient(of_x, numbers, index, FEATURES=features)
            return [tf.ensure_shape(each, part.shape) for each, part in zip(found, numbers, strict=True)]

        x_BI = operations().sangam_inputs(numbers, index, FEATURES=features, N=dtype)
        return tf.ensure_shape(x_BI, [None, width]), gradient

    return call(*numbers)


def mixtures(gates_BTE: tf.Tensor, experts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns sum_e gates_te x_e of each task: [B, H], given each expert's output x_e: [B, H]."""
    tasks = gates_BTE.shape[1]

    @tf.custom_gradient
    def call(gates_BTE: tf.Tensor, *experts: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
        def gradient(*gradients: tf.Tensor) -> list[tf.Tensor]:
            found = operations().sangam_mix_gradient(gates_BTE, experts, gradients)
            return [found.of_gates, *found.of_experts]

        return operations().sangam_mix(gates_BTE, experts, TASKS=tasks), gradient

    mixed = call(gates_BTE, *experts)
    return [tf.ensure_shape(task_BH, experts[0].shape) for task_BH in mixed]


def piecewise_linear(numbers_NB: tf.Tensor, w_NTD: tf.Tensor) -> tf.Tensor:
    """Returns the products of `encoders.numbers.passed_shares` and W, without the shares: [N, B, D].

    Of T shares all but one are 0 or 1: the product is a running sum of W's rows and a part of one more.

    Args:
        numbers_NB: numbers in coordinates of bins; without gradient.
        w_NTD: weights of each number.
    """
    count, bins, dim = w_NTD.shape

    @tf.custom_gradient
    def call(w_NTD: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(of_vectors: tf.Tensor) -> tf.Tensor:
            of_w = operations().sangam_piecewise_gradient(numbers_NB, of_vectors, BINS=bins)
            return tf.ensure_shape(of_w, [count, bins, dim])

        return operations().sangam_piecewise(numbers_NB, w_NTD), gradient

    return tf.ensure_shape(call(w_NTD), [count, None, dim])


class Drawn(NamedTuple):
    """Random numbers of `tf.random.stateless_uniform` that decide what dropout keeps.

    Attributes:
        key, counter: state of the generator.
        rate: share of each column that is dropped: [columns].
    """

    key: tf.Tensor
    counter: tf.Tensor
    rate: NDArray[Any]

    def scale(self, dtype: tf.DType) -> NDArray[np.float32]:
        """Returns what kept numbers are multiplied with, rounded to their type: [columns]."""
        return (1 / (1 - self.rate)).astype(np.float32).astype(dtype.as_numpy_dtype).astype(np.float32)


def dropout(parts: Sequence[tf.Tensor], drawn: Drawn) -> list[tf.Tensor]:
    """Returns [B, n] each with a share of the numbers zeroed and the others scaled, see `noise`.

    One draw covers all parts side by side; its numbers are never in memory. Without gradient: see `dropped`.
    """
    # TensorFlow makes a float32 of 23 bits of each number.
    least = np.ceil(drawn.rate.astype(np.float32).astype(np.float64) * 2**23).astype(np.int32)
    state = (drawn.key, drawn.counter)
    kept = operations().sangam_dropout(parts, *state, least, drawn.scale(parts[0].dtype), THREADS=max(1, threads()))
    return [tf.ensure_shape(each, part.shape) for each, part in zip(kept, parts, strict=True)]


def dropped(x: tf.Tensor, drawn: Drawn) -> tf.Tensor:
    """Returns `dropout` of [B, n], with its gradient: that of the gradient, by the same numbers."""

    @tf.custom_gradient
    def call(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        return dropout([x], drawn)[0], lambda g: dropout([g], drawn)[0]

    return call(x)


def read_rows(rows: tf.Variable, numbers: tf.Tensor, columns: int) -> tf.Tensor:
    """Returns the first columns of rows by number: [n] int64 to [n, columns]."""
    part = operations().sangam_read_rows(rows.handle, numbers, COLUMNS=columns)
    return tf.ensure_shape(part, [None, columns])


Seen = tuple[tf.Tensor, tf.Tensor]
"""Minutes of the newest event and occurrences of each row, [n] int32: see `embedding.bookkeeping`."""


def adam_rows(
    rows: tf.Variable,
    numbers: tf.Tensor,
    gradients: tf.Tensor,
    corrected: tf.Tensor,
    betas: tuple[float, float],
    epsilon: float,
    seen: Seen | None = None,
) -> tf.Operation:
    """Updates rows where they lie by Adam, and their books.

    Args:
        rows: [any, 3 dim], [w | m | v], or with books [any, 3 dim + 2].
        numbers: [n] int64, each once but 0.
        gradients: [n, dim].
        corrected: rate times the correction of the step, see `embedding.row_optimizers.adam`.
        betas: decays of both moments.
        epsilon: constant added to the denominator.
        seen: new usage of the rows; None without bookkeeping.
    """
    beta1, beta2 = betas
    settings = tf.stack([tf.cast(corrected, tf.float32), beta1, 1.0 - beta1, beta2, 1.0 - beta2, epsilon])
    return operations().sangam_adam_rows(rows.handle, numbers, gradients, settings, *_or_nothing(seen))


def rowwise_adagrad_rows(
    rows: tf.Variable, numbers: tf.Tensor, gradients: tf.Tensor, rate: tf.Tensor | float, seen: Seen | None = None
) -> tf.Operation:
    """Updates rows, [w | a | books], by `embedding.row_optimizers.RowwiseAdagradUpdate`; see `adam_rows`."""
    settings = tf.reshape(tf.cast(rate, tf.float32), [1])
    return operations().sangam_rowwise_adagrad_rows(rows.handle, numbers, gradients, settings, *_or_nothing(seen))


def _or_nothing(seen: Seen | None) -> Seen:
    return seen or (tf.zeros([0], tf.int32), tf.zeros([0], tf.int32))
