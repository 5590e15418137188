"""How a number becomes inputs of the model."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, PositiveFloat, PositiveInt


class StandardEncoding(FrozenModel):
    """The number itself, normalized: one float."""

    kind: Literal["standard"]


class PiecewiseLinearEncoding(FrozenModel):
    """A share of each bin that the number has passed, then a linear layer of the feature's own and a relu (Gorishniy,
    Rubachev, Babenko: On embeddings for numerical features in tabular deep learning, NeurIPS 2022, section 3.2)."""

    kind: Literal["piecewise_linear"]
    bins: Annotated[int, Field(ge=2, le=256)] = 64
    """Between quantiles of the training split; fewer where the numbers are."""
    dim: PositiveInt = 8
    """Floats that the model sees."""
    tail: Literal["clip", "linear"] = "clip"
    """Of numbers beyond those of the training split: they count as its lowest or highest, or continue the line of the
    first or the last bin."""


class PeriodicEncoding(FrozenModel):
    """Sines and cosines of the normalized number at trained frequencies, then a linear layer of the feature's own and a
    relu (Gorishniy, Rubachev, Babenko, section 3.3)."""

    kind: Literal["periodic"]
    frequencies: PositiveInt = 16
    sigma: PositiveFloat = 0.1
    """Standard deviation of the initial frequencies, in periods per unit of the normalized number."""
    dim: PositiveInt = 8
    """Floats that the model sees."""


Encoding = Annotated[StandardEncoding | PiecewiseLinearEncoding | PeriodicEncoding, Field(discriminator="kind")]
