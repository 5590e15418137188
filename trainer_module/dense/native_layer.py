"""Layers by our own operation: products, biases, relus and dropout of networks that share their input."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sangam.trainer_module.dense import fused
from sangam.trainer_module.native.library import operations

# Shape suffixes: B batch, I inputs, N networks side by side, H width of an output.


class Networks(NamedTuple):
    """Networks of one layer whose matrices lie side by side, for each member of an ensemble.

    Attributes:
        w: [members * I, N * H].
        b: [members * N * H].
        networks: N.
        has_relu: whether each computes relu(x W + b), not x W + b.
        drawn: dropout of the outputs of all, behind a relu; each column has the same rate.
    """

    w: tf.Tensor
    b: tf.Tensor
    networks: int
    has_relu: bool
    drawn: fused.Drawn | None = None

    @property
    def width(self) -> int:
        """H."""
        return int(self.w.shape[1]) // self.networks


def layer(x_BI: tf.Tensor, parts: Sequence[Networks], members: int = 1) -> list[list[tf.Tensor]]:
    """Returns the outputs of each part's networks: [B, H].

    Args:
        x_BI: common input; of an ensemble, member after member.
        parts: networks that read it.
        members: members of the ensemble.
    """
    counts = [part.networks for part in parts]
    attributes: dict[str, Any] = {
        "COUNTS": counts,
        "WIDTHS": [part.width for part in parts],
        "RELUS": [int(part.has_relu) for part in parts],
        "MEMBERS": members,
        "THREADS": max(1, fused.threads()),
    }

    @tf.custom_gradient
    def call(x_BI: tf.Tensor, *weights: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
        w, b = weights[: len(parts)], weights[len(parts) :]
        found = operations().sangam_layer(x_BI, w, b, OUTPUTS=sum(counts), **attributes)
        widths = [part.width for part in parts for _ in range(part.networks)]
        found = [tf.ensure_shape(each, [x_BI.shape[0], width]) for each, width in zip(found, widths, strict=True)]
        outputs = [each for part, its in zip(parts, _split(found, counts), strict=True) for each in _dropped(part, its)]

        def gradient(*gradients: tf.Tensor) -> list[tf.Tensor]:
            # Behind dropout an output is above 0 where relu's is and it is kept: there alone is a gradient, scaled.
            # Scaling weights and results is the same, and they are smaller.
            scaled_w = [_scaled(part, each) for part, each in zip(parts, w, strict=True)]
            of_x, of_w, of_b = _gradient(x_BI, outputs, gradients, scaled_w, attributes)
            of_weights = [tf.cast(each, x_BI.dtype) for each in (*of_w, *of_b)]
            shaped = [tf.ensure_shape(each, like.shape) for each, like in zip(of_weights, weights, strict=True)]
            return [
                tf.ensure_shape(of_x, x_BI.shape),
                *(_scaled(part, each) for part, each in zip((*parts, *parts), shaped, strict=True)),
            ]

        return outputs, gradient

    return _split(call(x_BI, *(part.w for part in parts), *(part.b for part in parts)), counts)


def _split(outputs: Sequence[tf.Tensor], counts: Sequence[int]) -> list[list[tf.Tensor]]:
    each = iter(outputs)
    return [list(itertools.islice(each, count)) for count in counts]


def _dropped(part: Networks, outputs: list[tf.Tensor]) -> list[tf.Tensor]:
    return outputs if part.drawn is None else fused.dropout(outputs, part.drawn)


def _scaled(part: Networks, x: tf.Tensor) -> tf.Tensor:
    return x if part.drawn is None else x * tf.cast(part.drawn.scale(x.dtype)[0], x.dtype)


def _gradient(
    x_BI: tf.Tensor,
    outputs: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    w: Sequence[tf.Tensor],
    attributes: dict[str, Any],
) -> tuple[tf.Tensor, Sequence[tf.Tensor], Sequence[tf.Tensor]]:
    """Returns the gradients of a layer's input, matrices and biases."""
    if not fused.are_inputs_first():
        return operations().sangam_layer_gradient(x_BI, outputs, gradients, w, **attributes)
    of_x, kept, of_b = operations().sangam_layer_inputs_gradient(outputs, gradients, w, **attributes)
    with tf.control_dependencies([of_x]):
        sizes = {"M": len(w), "OUTPUTS": len(outputs)}
        of_w = operations().sangam_layer_weights_gradient(x_BI, kept, **sizes, **attributes)
    return of_x, of_w, of_b
