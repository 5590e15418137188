"""Parts of a training step on one thread that are computed in one pass over memory: see `native`.

Results equal those of TensorFlow's operations, up to the last bits of a sum. Exported models, and trainings on several
threads or on a GPU, use TensorFlow's.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from sangam.schemas.errors import UserError
from sangam.trainer_module.native.library import functions, operations

# Shape suffixes: B batch, I inputs, N networks, E experts, T tasks, H width of an output.

_WIDEST = 2_048
"""Most inputs of a layer: with 4,096 TensorFlow's products are as fast, in float32 faster (ADR 0049)."""
LAYERS_VARIABLE = "SANGAM_LAYERS"
"""Environment variable: `tensorflow` computes layers as on a processor without the units; `native` is the default."""
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
    before = _USE.set(use if on_host and is_possible() else "none")
    try:
        yield
    finally:
        _USE.reset(before)


def is_possible() -> bool:
    """Returns whether the host computes on one thread."""
    return bool(tf.config.threading.get_intra_op_parallelism_threads() == 1)


def applies_to(x: tf.Tensor) -> bool:
    """Returns whether a tensor is computed with these operations."""
    return is_used() and x.dtype in (tf.float32, tf.bfloat16)


def is_used() -> bool:
    """Returns whether graphs traced now use these operations."""
    return _USE.get() != "none"


def computes_layers(x: tf.Tensor) -> bool:
    """Returns whether `layer` takes an input.

    It needs AVX-512, in bfloat16 AMX or AVX512-BF16 too, and is slower on wide inputs.

    Raises:
        UserError: LAYERS_VARIABLE has an unknown value.
    """
    return applies_to(x) and x.shape[1] <= _WIDEST and _are_layers_native() and has_units_for(x.dtype)


def _are_layers_native() -> bool:
    value = os.environ.get(LAYERS_VARIABLE, "native")
    if value not in ("native", "tensorflow"):
        raise UserError(f"{LAYERS_VARIABLE}: unknown (got {value!r}); take native or tensorflow, or unset it")
    return value == "native"


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


class Networks(NamedTuple):
    """Networks of one layer whose matrices lie side by side.

    Attributes:
        w: [I, N * H].
        b: [N * H].
        networks: N.
        has_relu: whether each computes relu(x W + b), not x W + b.
    """

    w: tf.Tensor
    b: tf.Tensor
    networks: int
    has_relu: bool

    @property
    def width(self) -> int:
        """H."""
        return int(self.w.shape[1]) // self.networks


def layer(x_BI: tf.Tensor, parts: Sequence[Networks]) -> list[list[tf.Tensor]]:
    """Returns the outputs of each part's networks: [B, H].

    Args:
        x_BI: common input.
        parts: networks that read it.
    """
    counts = [part.networks for part in parts]
    attributes: dict[str, Any] = {
        "COUNTS": counts,
        "WIDTHS": [part.width for part in parts],
        "RELUS": [int(part.has_relu) for part in parts],
    }

    @tf.custom_gradient
    def call(x_BI: tf.Tensor, *weights: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
        w, b = weights[: len(parts)], weights[len(parts) :]
        outputs = operations().sangam_layer(x_BI, w, b, OUTPUTS=sum(counts), **attributes)

        def gradient(*gradients: tf.Tensor) -> list[tf.Tensor]:
            of_x, of_w, of_b = _gradient(x_BI, outputs, gradients, w, attributes)
            shaped = [tf.ensure_shape(found, each.shape) for found, each in zip([*of_w, *of_b], weights, strict=True)]
            return [tf.ensure_shape(of_x, x_BI.shape), *(tf.cast(each, x_BI.dtype) for each in shaped)]

        widths = [part.width for part in parts for _ in range(part.networks)]
        return [
            tf.ensure_shape(output, [x_BI.shape[0], width]) for output, width in zip(outputs, widths, strict=True)
        ], gradient

    outputs = iter(call(x_BI, *(part.w for part in parts), *(part.b for part in parts)))
    return [list(itertools.islice(outputs, count)) for count in counts]


def _gradient(
    x_BI: tf.Tensor,
    outputs: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    w: Sequence[tf.Tensor],
    attributes: dict[str, Any],
) -> tuple[tf.Tensor, Sequence[tf.Tensor], Sequence[tf.Tensor]]:
    """Returns the gradients of a layer's input, matrices and biases."""
    if _USE.get() != "inputs first":
        return operations().sangam_layer_gradient(x_BI, outputs, gradients, w, **attributes)
    of_x, kept, of_b = operations().sangam_layer_inputs_gradient(outputs, gradients, w, **attributes)
    with tf.control_dependencies([of_x]):
        sizes = {"M": len(w), "OUTPUTS": len(outputs)}
        of_w = operations().sangam_layer_weights_gradient(x_BI, kept, **sizes, **attributes)
    return of_x, of_w, of_b


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
