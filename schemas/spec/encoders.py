"""Encoders: from a sequence of embeddings to one vector."""

from collections.abc import Iterator
from typing import Annotated, Literal

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import Name, PositiveInt, Units
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.parts.weight import Weight, dense, mlp, weight


class MeanEncoder(roles.Encoder):
    """The mean of the embeddings."""

    kind: Literal["mean"]


class PositionalEncoder(roles.Encoder):
    """A weighted mean; the weights of the positions are learned, with a softmax over those present."""

    kind: Literal["positional"]

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        """See `Encoder`."""
        del dim
        yield weight("positions", max_length, start="zeros")


class DinEncoder(roles.Encoder):
    """Attention to a target: each embedding is weighted by an MLP of it and the target's (Zhou et al.: Deep interest
    network, KDD 2018, equation 3)."""

    kind: Literal["din"]
    target: Name
    """Feature with one id per example and the sequence's dimension, such as the candidate."""
    units: Units = (36,)
    """Widths of the hidden layers of the activation unit."""

    def attends_to(self) -> Name:
        """See `Encoder`."""
        return self.target

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        """See `Encoder`."""
        del max_length
        yield from dense("first", 3 * dim, self.units[0])
        yield from mlp("rest", self.units[0], self.units[1:])
        yield from dense("head", self.units[-1], 1)


class TransformerEncoder(roles.Encoder):
    """Self-attention over the sequence, then the mean over its positions (Vaswani et al.: Attention is all you need,
    NIPS 2017; positions are learned)."""

    kind: Literal["transformer"]
    num_layers: PositiveInt = 1
    """Number of layers."""
    num_heads: PositiveInt = 2
    """Number of attention heads; a divisor of the table's dimension."""
    feed_forward_units: PositiveInt = 64
    """Width of the hidden layer after each attention."""

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        """See `Encoder`."""
        yield weight("positions", max_length, dim, start="zeros")
        for layer in range(self.num_layers):
            for part in ("queries", "keys", "values", "mixed"):
                yield from dense(f"{layer}/{part}", dim, dim)
            yield from dense(f"{layer}/wide", dim, self.feed_forward_units)
            yield from dense(f"{layer}/narrow", self.feed_forward_units, dim)
            for norm in (1, 2):
                yield weight(f"{layer}/norm_{norm}/gain", dim, start="zeros")
                yield weight(f"{layer}/norm_{norm}/bias", dim, start="zeros")


Encoder = Annotated[roles.Encoder, AnyKind(roles.Encoder)]
