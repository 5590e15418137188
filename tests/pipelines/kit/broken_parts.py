"""Parts that each break one promise, for the kit to find."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sangam.parts import (
    Architecture,
    BinaryLoss,
    Blocks,
    DenseOptimizer,
    Encoder,
    Examples,
    Interaction,
    Lists,
    ModelInputs,
    Name,
    Noise,
    Tensor,
    Weights,
    heads,
    tf,
)

CALLS: list[str] = []
"""State of Python that outlives a call."""


class Random(BinaryLoss):
    """Weighs examples at random."""

    kind: Literal["broken_random"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        del examples
        return logits_B * tf.random.uniform(tf.shape(logits_B))


class Remembers(BinaryLoss):
    """Scales by the number of earlier calls."""

    kind: Literal["broken_remembers"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        CALLS.append(self.kind)
        return float(len(CALLS)) * (logits_B - examples.labels_B) ** 2


class WrongSlope(BinaryLoss):
    """A square whose gradient lacks the factor 2."""

    kind: Literal["broken_slope"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        @tf.custom_gradient
        def square(error_B: Tensor) -> tuple[Tensor, Any]:
            return error_B**2, lambda upstream_B: upstream_B * error_B

        return square(logits_B - examples.labels_B)


class LosesRows(Interaction):
    """The inputs, whose gradient it forgets: right for all dense weights above it."""

    kind: Literal["broken_rows"]

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del weights, inputs, noise

        @tf.custom_gradient
        def same(x: Tensor) -> tuple[Tensor, Any]:
            return tf.identity(x), tf.zeros_like

        return same(x_BI)


class OfTheBatch(Interaction):
    """The inputs less their means over the batch."""

    kind: Literal["broken_batch"]

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del weights, inputs, noise
        return x_BI - tf.reduce_mean(x_BI, axis=0)


class NoLabels(BinaryLoss):
    """Divides by the number of labels."""

    kind: Literal["broken_empty"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        labeled_B = tf.cast(examples.is_labeled_B, tf.float32)
        scale = tf.reduce_sum(labeled_B) / tf.reduce_sum(labeled_B)
        return scale * labeled_B * tf.math.softplus(-logits_B)


class Coarse(Interaction):
    """The inputs through a sum that has no digits left in bfloat16."""

    kind: Literal["broken_coarse"]

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del weights, inputs, noise
        return (x_BI + 1000.0) - 1000.0


class CallsPython(Interaction):
    """The inputs by way of Python."""

    kind: Literal["broken_python"]

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del weights, inputs, noise
        return tf.ensure_shape(
            tf.grad_pass_through(lambda x: tf.py_function(tf.identity, [x], x.dtype))(x_BI), x_BI.shape
        )


class Forgets(DenseOptimizer):
    """Gradient descent whose rate falls with the traces of the process, which no checkpoint has."""

    kind: Literal["broken_forgets"]

    def update(
        self, flat_F: Tensor, gradient_F: Tensor, moments: Mapping[str, Tensor], step: Tensor, rate: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        del moments, step
        CALLS.append(self.kind)
        return flat_F - rate / len(CALLS) * gradient_F, {}


class Otherwise(Architecture):
    """Heads that score otherwise each time that a graph of predictions is made."""

    kind: Literal["broken_otherwise"]

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Any:
        yield from heads(tasks, sum(width for _, width in inputs))

    def logits(self, weights: Weights, x_BI: Tensor, inputs: Blocks, tasks: Sequence[Name], noise: Noise) -> Tensor:
        from sangam.parts.layers import Heads

        del inputs
        if noise is None and not tf.executing_eagerly():
            CALLS.append(self.kind)
        return Heads(tasks)(weights, [x_BI] * len(tasks)) + float(CALLS.count(self.kind))


class OneTarget(Encoder):
    """The sum of each list times the first list's target if there is one list, as if it then had one target."""

    kind: Literal["broken_target"]

    def attends_to(self) -> Name:
        return "item"

    def encode(self, weights: Weights, lists: Lists, target_QD: Tensor | None) -> Tensor:
        del weights
        values_RLD, _ = lists.padded()
        sums_RD = tf.reduce_sum(values_RLD, axis=1)
        return tf.where(tf.equal(tf.shape(sums_RD)[0], 1), sums_RD * target_QD[:1], sums_RD * target_QD)
