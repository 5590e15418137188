"""Encodings: from a number to inputs of the model."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, PositiveFloat, PositiveInt


class StandardEncoding(FrozenModel):
    """The number itself, normalized: one float."""

    kind: Literal["standard"]


class PiecewiseLinearEncoding(FrozenModel):
    """The share of each bin that lies below the number, then a linear layer of the feature and a relu (Gorishniy,
    Rubachev, Babenko: On embeddings for numerical features in tabular deep learning, NeurIPS 2022, section 3.2)."""

    kind: Literal["piecewise_linear"]
    bins: Annotated[int, Field(ge=2, le=256)] = 64
    """Number of bins, between quantiles of the training split; fewer for a column with fewer values."""
    dim: PositiveInt = 8
    """Number of floats that the model sees."""
    tail: Literal["clip", "linear"] = "clip"
    """Treatment of numbers beyond those of the training split. `clip`: they count as its lowest or highest. `linear`:
    they continue the line of the first or the last bin."""


class PeriodicEncoding(FrozenModel):
    """Sines and cosines of the normalized number at trained frequencies, then a linear layer of the feature and a relu
    (Gorishniy, Rubachev, Babenko, section 3.3)."""

    kind: Literal["periodic"]
    frequencies: PositiveInt = 16
    """Number of frequencies."""
    sigma: PositiveFloat = 0.1
    """Standard deviation of the initial frequencies, in periods per unit of the normalized number."""
    dim: PositiveInt = 8
    """Number of floats that the model sees."""


Encoding = Annotated[StandardEncoding | PiecewiseLinearEncoding | PeriodicEncoding, Field(discriminator="kind")]
