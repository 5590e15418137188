"""Optimizers of dense weights and of embedding rows, with the floats that each keeps besides a weight or a row."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import Fraction, FrozenModel, NonNegativeFloat, PositiveFloat
from sangam.schemas.parts.kinds import AnyKind


class _Optimizer(FrozenModel):
    kind: str
    learning_rate: PositiveFloat
    """Learning rate, before the factor of `training.schedule`."""


class _HasAccumulator(FrozenModel):
    initial_accumulator: PositiveFloat = 1e-6
    """Initial value of a. Gradients are means over the global batch, hence small: 0.1, common for sums, would keep rows
    of rare ids from moving."""


class _HasMoments(FrozenModel):
    beta1: Fraction = 0.9
    """Decay rate of the mean of gradients."""
    beta2: Fraction = 0.999
    """Decay rate of the mean of squared gradients."""
    epsilon: PositiveFloat = 1e-7
    """Summand of the denominator."""


class Sgd(_Optimizer):
    """w <- w - learning_rate * g."""

    kind: Literal["sgd"]

    def slot_floats(self, dim: int) -> int:
        """Returns the floats that a row keeps besides its embedding of `dim` floats."""
        del dim
        return 0


class Adagrad(_HasAccumulator, _Optimizer):
    """a <- a + g^2; w <- w - learning_rate * g / sqrt(a) (Duchi et al., JMLR 2011)."""

    kind: Literal["adagrad"]

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return dim


class RowwiseAdagrad(_HasAccumulator, _Optimizer):
    """a <- a + mean(g^2) over the row; w <- w - learning_rate * g / sqrt(a): one float per row instead of `dim`
    (Gupta et al.: Training recommender systems at scale, 2020, section 2; FBGEMM's row-wise Adagrad)."""

    kind: Literal["rowwise_adagrad"]

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        del dim
        return 1


class Adam(_HasMoments, _Optimizer):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1); only the rows of a step's ids move."""

    kind: Literal["adam"]

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return 2 * dim


class Ftrl(_Optimizer):
    """FTRL-Proximal (McMahan et al.: Ad click prediction, KDD 2013, algorithm 1), with its alpha = learning_rate."""

    kind: Literal["ftrl"]
    beta: PositiveFloat = 1.0
    """Summand of the denominator of the per-coordinate rate."""
    l1: NonNegativeFloat = 0.0
    """Weight of the L1 penalty, which sets floats of a row to zero."""
    l2: NonNegativeFloat = 0.0
    """Weight of the L2 penalty."""

    def slot_floats(self, dim: int) -> int:
        """See `Sgd`."""
        return 2 * dim


class DenseSgd(roles.DenseOptimizer):
    """u <- momentum * u + g; w <- w - learning_rate * u."""

    kind: Literal["sgd"]
    momentum: Fraction = 0.0
    """Share of u that a step keeps; 0: u is the gradient."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight d of the additional update w <- w - rate * d * w, biases excepted (Loshchilov and Hutter, ICLR 2019)."""

    def moments(self) -> Mapping[str, float]:
        """See `DenseOptimizer`."""
        return {"u": 0.0} if self.momentum else {}


class DenseAdagrad(_HasAccumulator, roles.DenseOptimizer):
    """a <- a + g^2; w <- w - learning_rate * g / sqrt(a) (Duchi et al., JMLR 2011)."""

    kind: Literal["adagrad"]

    def moments(self) -> Mapping[str, float]:
        """See `DenseOptimizer`."""
        return {"a": self.initial_accumulator}


class DenseAdam(_HasMoments, roles.DenseOptimizer):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1)."""

    kind: Literal["adam"]

    def moments(self) -> Mapping[str, float]:
        """See `DenseOptimizer`."""
        return {"m": 0.0, "v": 0.0}


class AdamW(_HasMoments, roles.DenseOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019, algorithm 2)."""

    kind: Literal["adamw"]
    weight_decay: PositiveFloat = 0.01
    """Weight d of the additional update w <- w - rate * d * w, biases excepted (Loshchilov and Hutter, ICLR 2019)."""

    def moments(self) -> Mapping[str, float]:
        """See `DenseOptimizer`."""
        return {"m": 0.0, "v": 0.0}


DenseOptimizer = Annotated[roles.DenseOptimizer, AnyKind(roles.DenseOptimizer)]
RowOptimizer = Annotated[Sgd | Adagrad | RowwiseAdagrad | Adam | Ftrl, Field(discriminator="kind")]
