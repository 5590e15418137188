"""Encoders: from a sequence of embeddings to one vector."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.spec.base import FrozenModel, Name, PositiveInt, Units


class MeanEncoder(FrozenModel):
    """The mean of the embeddings."""

    kind: Literal["mean"]


class PositionalEncoder(FrozenModel):
    """A weighted mean; the weights of the positions are learned, with a softmax over those present."""

    kind: Literal["positional"]


class DinEncoder(FrozenModel):
    """Attention to a target: each embedding is weighted by an MLP of it and the target's (Zhou et al.: Deep interest
    network, KDD 2018, equation 3)."""

    kind: Literal["din"]
    target: Name
    """Feature with one id per example and the sequence's dimension, such as the candidate."""
    units: Units = (36,)
    """Widths of the hidden layers of the activation unit."""


class TransformerEncoder(FrozenModel):
    """Self-attention over the sequence, then the mean over its positions (Vaswani et al.: Attention is all you need,
    NIPS 2017; positions are learned)."""

    kind: Literal["transformer"]
    num_layers: PositiveInt = 1
    """Number of layers."""
    num_heads: PositiveInt = 2
    """Number of attention heads; a divisor of the table's dimension."""
    feed_forward_units: PositiveInt = 64
    """Width of the hidden layer after each attention."""


Encoder = Annotated[MeanEncoder | PositionalEncoder | DinEncoder | TransformerEncoder, Field(discriminator="kind")]
