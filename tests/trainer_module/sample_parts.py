"""A part of every role that the trainer computes, as a team outside would write them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sangam.parts import (
    Architecture,
    BinaryLoss,
    Blocks,
    Column,
    ColumnName,
    DenseOptimizer,
    Encoder,
    Examples,
    Feature,
    Fraction,
    Interaction,
    Lists,
    ModelInputs,
    Name,
    Noise,
    PositiveInt,
    Problem,
    RegressionLoss,
    Tensor,
    Units,
    Weight,
    Weights,
    dense,
    heads,
    mlp,
    tf,
    weight,
)


class Ratio(Feature):
    """A number over a count, and whether the number is missing; 0 where either is."""

    kind: Literal["ratio"]
    over: ColumnName
    """Column of the numerator."""
    under: ColumnName
    """Column of the denominator."""

    def reads(self, name: Name) -> Sequence[Column]:
        del name
        return [Column(self.over, "float", is_required=False), Column(self.under, "int", is_required=False)]

    def width(self) -> int:
        return 2

    def problems(self) -> Iterator[Problem]:
        if self.over == self.under:
            yield Problem(("under",), f"is the numerator's column (got '{self.under}')", "another column")

    def transform(self, columns: Sequence[Tensor]) -> Tensor:
        over, under = columns
        ratio = tf.math.divide_no_nan(over, tf.cast(under, tf.float32))
        is_missing = tf.math.is_nan(ratio)
        return tf.stack([tf.where(is_missing, 0.0, ratio), tf.cast(is_missing, tf.float32)], axis=1)


class FirstLetter(Feature):
    """The first letter of a text, which has a row."""

    kind: Literal["first_letter"]
    column: ColumnName
    """Column of texts."""
    table: Name
    """Table with a row per letter."""

    def table_name(self) -> Name:
        return self.table

    def reads(self, name: Name) -> Sequence[Column]:
        del name
        return [Column(self.column, "string", is_required=False)]

    def transform(self, columns: Sequence[Tensor]) -> Tensor:
        return tf.strings.substr(columns[0], 0, 1)


class WordsOf(Feature):
    """The words of a text, whose rows are summed."""

    kind: Literal["words_of"]
    column: ColumnName
    """Column of texts."""
    table: Name
    """Table with a row per word."""

    def table_name(self) -> Name:
        return self.table

    def is_list(self) -> bool:
        return True

    def combined_by(self) -> Literal["sum"]:
        return "sum"

    def reads(self, name: Name) -> Sequence[Column]:
        del name
        return [Column(self.column, "string", is_required=False)]

    def transform(self, columns: Sequence[Tensor]) -> Tensor:
        return tf.strings.split(columns[0])


class Newest(Encoder):
    """The embedding of the newest id, scaled by learned numbers and the target."""

    kind: Literal["newest"]
    target: Name
    """Feature of one id."""

    def attends_to(self) -> Name:
        return self.target

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        del max_length
        yield weight("scale", dim, start="ones")

    def encode(self, weights: Weights, lists: Lists, target_QD: Tensor | None) -> Tensor:
        values_RLD, _ = lists.padded()
        first_RD = tf.reduce_sum(values_RLD[:, :1], axis=1)
        return first_RD * weights["scale"] * (1.0 + target_QD)


class Gated(Interaction):
    """x * sigmoid(x W + b), beside x."""

    kind: Literal["gated"]

    def weights(self, inputs: ModelInputs) -> Iterator[Weight]:
        yield from dense("gate", inputs.blocks, inputs.blocks)

    def outputs(self, inputs: ModelInputs) -> Blocks:
        return (*inputs.blocks, ("gated", inputs.width))

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del inputs, noise
        return tf.concat([x_BI, x_BI * tf.sigmoid(tf.matmul(x_BI, weights["gate/w"]) + weights["gate/b"])], axis=1)


class OneTower(Architecture):
    """One MLP and a head for each task, of the product's layers."""

    kind: Literal["one_tower"]
    units: Units = (6,)
    """Layer widths."""

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        yield from mlp("tower", inputs, self.units)
        yield from heads(tasks, self.units[-1])

    def logits(self, weights: Weights, x_BI: Tensor, inputs: Blocks, tasks: Sequence[Name], noise: Noise) -> Tensor:
        from sangam.parts.layers import Heads, Mlp

        del inputs
        hidden = Mlp("tower", len(self.units), dropout=self.dropout)(weights, x_BI, noise)
        return Heads(tasks)(weights, [hidden] * len(tasks))


class Listwise(BinaryLoss):
    """-log of the softmax of each positive among the examples with its id, beside cross-entropy."""

    kind: Literal["listwise"]
    of: Name
    """Feature of one id, such as the request."""
    share: Fraction = 0.5
    """Share of the listwise part."""

    def reads(self) -> Sequence[Name]:
        return [self.of]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        counts_BB = tf.equal(examples.ids[self.of][:, None], examples.ids[self.of]) & examples.is_labeled_B
        among_BB = tf.where(counts_BB, logits_B, -1e9)
        listwise_B = examples.labels_B * (tf.reduce_logsumexp(among_BB, axis=1) - logits_B)
        listwise_B = tf.where(examples.is_labeled_B, listwise_B, 0.0)
        pointwise_B = tf.nn.sigmoid_cross_entropy_with_logits(labels=examples.labels_B, logits=logits_B)
        return self.share * listwise_B + (1.0 - self.share) * pointwise_B


class LogCosh(RegressionLoss):
    """log cosh(prediction - label)."""

    kind: Literal["log_cosh"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        error_B = tf.abs(logits_B - examples.labels_B)
        return error_B + tf.math.softplus(-2.0 * error_B) - tf.math.log(2.0)


class Lion(DenseOptimizer):
    """Lion (Chen et al.: Symbolic discovery of optimization algorithms, NeurIPS 2023, algorithm 2)."""

    kind: Literal["lion"]
    beta1: Fraction = 0.9
    """Share of the moment in the update."""
    beta2: Fraction = 0.99
    """Decay rate of the moment."""
    every_steps: PositiveInt = 1
    """Steps between updates."""

    def moments(self) -> Mapping[str, float]:
        return {"m": 0.0}

    def update(
        self, flat_F: Tensor, gradient_F: Tensor, moments: Mapping[str, Tensor], step: Tensor, rate: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        del step
        m_F = moments["m"]
        moved_F = flat_F - rate * tf.sign(self.beta1 * m_F + (1.0 - self.beta1) * gradient_F)
        return moved_F, {"m": self.beta2 * m_F + (1.0 - self.beta2) * gradient_F}
