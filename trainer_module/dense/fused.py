"""Parts of the dense layers that a training step on one thread computes in one pass over memory: `native/dense.cc`.

They compute what TensorFlow's operations do, to the last bits of a sum. Models that are exported, or trained on several
threads or on a GPU, have TensorFlow's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from trainer_module.native.library import operations

# Shape suffixes: B batch, I inputs, N networks, E experts, T tasks, H width of an output.

_IN_TRAINING: ContextVar[bool] = ContextVar("in_training", default=False)


@contextmanager
def in_training() -> Iterator[None]:
    """Has what is traced meanwhile use these operations where they can be."""
    before = _IN_TRAINING.set(is_possible())
    try:
        yield
    finally:
        _IN_TRAINING.reset(before)


def is_possible() -> bool:
    """Returns whether this process computes on one thread of a CPU."""
    return tf.config.threading.get_intra_op_parallelism_threads() == 1 and not tf.config.get_visible_devices("GPU")


def applies_to(x: tf.Tensor) -> bool:
    """Returns whether a tensor is computed with these operations."""
    return _IN_TRAINING.get() and x.dtype in (tf.float32, tf.bfloat16)


def relu_layer(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns relu(x W + b): [B, H].

    In float32 TensorFlow has one operation for it; in bfloat16 that one is slower than the product alone by more than
    the product takes.
    """
    if x.dtype == tf.float32:
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))

    @tf.custom_gradient
    def call(y: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        output = tf.ensure_shape(operations().sangam_bias_relu(y, b), y.shape)

        def gradient(of_output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_sums, of_bias = operations().sangam_relu_gradient([output], [of_output])
            return tf.ensure_shape(of_sums, y.shape), tf.ensure_shape(of_bias, b.shape)

        return output, gradient

    return call(tf.matmul(x, w), b)


def relu_of_networks(x_BI: tf.Tensor, w: tf.Tensor, b: tf.Tensor, networks: int) -> list[tf.Tensor]:
    """Returns relu(x W_n + b_n) of each network: [B, H].

    Forward, each network's product is one of its own, whose output nothing has to split; backward, one product of all
    networks is faster, and reads the gradients that one pass has put side by side.

    Args:
        x_BI: input of all.
        w: their matrices side by side: [I, N * H].
        b: [N * H].
        networks: N.
    """

    @tf.custom_gradient
    def call(x_BI: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
        parts = zip(tf.split(w, networks, axis=1), tf.split(b, networks), strict=True)
        outputs = [relu_layer(x_BI, w_n, b_n) for w_n, b_n in parts]

        def gradient(*gradients: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_sums, of_bias = operations().sangam_relu_gradient(outputs, gradients)
            of_sums = tf.ensure_shape(of_sums, [None, w.shape[1]])
            of_x = tf.matmul(of_sums, w, transpose_b=True)
            # As in `layers.matmul_of_inputs`.
            with tf.control_dependencies([of_x]):
                return of_x, tf.matmul(x_BI, of_sums, transpose_a=True), tf.ensure_shape(of_bias, b.shape)

        return outputs, gradient

    return list(call(x_BI, w, b))


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
        numbers_NB: in coordinates of bins; has no gradient.
        w_NTD: of each number.
    """
    count, bins, dim = w_NTD.shape

    @tf.custom_gradient
    def call(w_NTD: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(of_vectors: tf.Tensor) -> tf.Tensor:
            of_w = operations().sangam_piecewise_gradient(numbers_NB, of_vectors, BINS=bins)
            return tf.ensure_shape(of_w, [count, bins, dim])

        return operations().sangam_piecewise(numbers_NB, w_NTD), gradient

    return tf.ensure_shape(call(w_NTD), [count, None, dim])


def adam_rows(
    rows: tf.Tensor, gradients: tf.Tensor, corrected: tf.Tensor, betas: tuple[float, float], epsilon: float
) -> tf.Tensor:
    """Returns [w | m | v] after Adam: [n, 3 dim].

    Args:
        rows: [n, at least 3 dim], [w | m | v | anything].
        gradients: [n, dim].
        corrected: rate times the correction of the step, see `embedding.row_optimizers.adam`.
        betas: decays.
        epsilon: of the denominator.
    """
    beta1, beta2 = betas
    numbers = tf.stack([tf.cast(corrected, tf.float32), beta1, 1.0 - beta1, beta2, 1.0 - beta2, epsilon])
    return tf.ensure_shape(operations().sangam_adam_rows(rows, gradients, numbers), [None, 3 * gradients.shape[1]])
