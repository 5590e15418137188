"""Optimizers of dense weights and of embedding rows, with the floats that each keeps besides a weight or a row."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, PositiveFloat

Fraction = Annotated[float, Field(ge=0, lt=1)]
NonNegativeFloat = Annotated[float, Field(ge=0)]


class Sgd(FrozenModel):
    """w <- w - learning_rate * g."""

    kind: Literal["sgd"]
    learning_rate: PositiveFloat

    def slot_floats(self, dim: int) -> int:
        """Returns the floats that a row keeps besides its embedding of `dim` floats."""
        del dim
        return 0


class Adagrad(FrozenModel):
    """a <- a + g^2; w <- w - learning_rate * g / sqrt(a) (Duchi et al., JMLR 2011)."""

    kind: Literal["adagrad"]
    learning_rate: PositiveFloat
    initial_accumulator: PositiveFloat = 1e-6
    """Gradients are means over the global batch, hence small: 0.1, which is common for sums, would keep rows of rare
    ids from moving."""

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return dim


class RowwiseAdagrad(FrozenModel):
    """a <- a + mean(g^2) over the row; w <- w - learning_rate * g / sqrt(a): one float per row instead of `dim`
    (Gupta et al.: Training recommender systems at scale, 2020, section 2; FBGEMM's row-wise Adagrad)."""

    kind: Literal["rowwise_adagrad"]
    learning_rate: PositiveFloat
    initial_accumulator: PositiveFloat = 1e-6

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        del dim
        return 1


class Adam(FrozenModel):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1); only the rows of a step's ids move."""

    kind: Literal["adam"]
    learning_rate: PositiveFloat
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: PositiveFloat = 1e-7

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return 2 * dim


class Ftrl(FrozenModel):
    """FTRL-Proximal (McMahan et al.: Ad click prediction, KDD 2013, algorithm 1), with its alpha = learning_rate."""

    kind: Literal["ftrl"]
    learning_rate: PositiveFloat
    beta: PositiveFloat = 1.0
    l1: NonNegativeFloat = 0.0
    l2: NonNegativeFloat = 0.0

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return 2 * dim


class DenseSgd(FrozenModel):
    """u <- momentum * u + g; w <- w - learning_rate * u."""

    kind: Literal["sgd"]
    learning_rate: PositiveFloat
    momentum: Fraction = 0.0
    weight_decay: NonNegativeFloat = 0.0
    """And w <- w - rate * weight_decay * w, as in `AdamW` (SGDW: Loshchilov and Hutter, ICLR 2019, algorithm 1)."""

    @property
    def num_moments(self) -> int:
        """Floats kept besides each weight."""
        return 1 if self.momentum else 0


class DenseAdagrad(FrozenModel):
    """See `Adagrad`."""

    kind: Literal["adagrad"]
    learning_rate: PositiveFloat
    initial_accumulator: PositiveFloat = 1e-6

    @property
    def num_moments(self) -> int:
        """See `DenseSgd`."""
        return 1


class DenseAdam(FrozenModel):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1)."""

    kind: Literal["adam"]
    learning_rate: PositiveFloat
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: PositiveFloat = 1e-7

    @property
    def num_moments(self) -> int:
        """See `DenseSgd`."""
        return 2


class AdamW(FrozenModel):
    """Adam, and w <- w - rate * weight_decay * w (Loshchilov and Hutter, ICLR 2019, algorithm 2). Biases do
    not decay."""

    kind: Literal["adamw"]
    learning_rate: PositiveFloat
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: PositiveFloat = 1e-7
    weight_decay: PositiveFloat = 0.01

    @property
    def num_moments(self) -> int:
        """See `DenseSgd`."""
        return 2


DenseOptimizer = Annotated[DenseSgd | DenseAdagrad | DenseAdam | AdamW, Field(discriminator="kind")]
RowOptimizer = Annotated[Sgd | Adagrad | RowwiseAdagrad | Adam | Ftrl, Field(discriminator="kind")]
