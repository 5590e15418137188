"""Encoders: from a sequence of embeddings to one vector."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import Name, PositiveInt, Units
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.parts.weight import Start, Weight, dense, mlp, weight
from sangam.schemas.spec.buckets import NUM_BUCKETS, position_buckets


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

    keeps_lists: ClassVar[bool] = True
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
    NIPS 2017; positions are learned; norms first: Xiong et al., ICML 2020)."""

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
            yield from _behind_attention(str(layer), dim, self.feed_forward_units)


def _behind_attention(layer: str, dim: int, feed_forward_units: int, start: Start = "glorot") -> Iterator[Weight]:
    """Yields what a transformer's layer has besides its attention: two products, the second with a start, two norms."""
    yield from dense(f"{layer}/wide", dim, feed_forward_units)
    yield from dense(f"{layer}/narrow", feed_forward_units, dim, start=start)
    for norm in (1, 2):
        yield weight(f"{layer}/norm_{norm}/gain", dim, start="zeros")
        yield weight(f"{layer}/norm_{norm}/bias", dim, start="zeros")


class CandidateEncoder(roles.Encoder):
    """Layers of attention over the sequence and the target behind its newest id. An id sees older ones, the target all
    of them, and nothing sees the target; so a target's vector depends on no other target. What a layer adds begins at
    0: the vector begins as the target's row."""

    keeps_lists: ClassVar[bool] = True
    positions_start: ClassVar[Start] = "zeros"
    """Start of the biases of relative positions."""
    target: Name
    """Feature with one id per example and the sequence's dimension, such as the candidate."""
    num_layers: PositiveInt = 1
    """Number of layers. In the last one the target alone attends: its cost has the length of the sequence, that of each
    other one the square."""
    num_heads: PositiveInt = 2
    """Number of attention heads; a divisor of the table's dimension."""

    def attends_to(self) -> Name:
        """See `Encoder`."""
        return self.target

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        """See `Encoder`."""
        for layer in range(self.num_layers):
            yield weight(f"{layer}/positions", self.num_heads, position_buckets(max_length), start=self.positions_start)
            yield from self.layer_weights(str(layer), dim)

    def age_weights(self) -> Iterator[Weight]:
        """See `Encoder`."""
        for layer in range(self.num_layers):
            yield weight(f"{layer}/ages", self.num_heads, NUM_BUCKETS, start="zeros")

    def layer_weights(self, layer: str, dim: int) -> Iterator[Weight]:
        """Yields the weights of a layer, without those of the relative positions."""
        raise NotImplementedError


class TargetTransformerEncoder(CandidateEncoder):
    """The state of the target behind a transformer's layers over the sequence and the target (Chen et al.: Behavior
    sequence transformer, DLP-KDD 2019), causal, norms first (Xiong et al., ICML 2020), with biases of relative
    positions and ages for each head."""

    kind: Literal["target_transformer"]
    feed_forward_units: PositiveInt = 64
    """Width of the hidden layer after each attention."""

    def layer_weights(self, layer: str, dim: int) -> Iterator[Weight]:
        """See `CandidateEncoder`."""
        yield from dense(f"{layer}/keys_values", dim, 2 * dim, columns=2)
        yield from dense(f"{layer}/queries", dim, dim)
        yield from dense(f"{layer}/mixed", dim, dim, start="zeros")
        yield from _behind_attention(layer, dim, self.feed_forward_units, start="zeros")


class HstuEncoder(CandidateEncoder):
    """The state of the target behind hierarchical sequential transduction units (Zhai et al.: Actions speak louder than
    words, ICML 2024, equations 1 to 3): attention by silu instead of a softmax, so that many likes weigh more than one,
    with biases of relative positions and ages for each head."""

    positions_start: ClassVar[Start] = "ones"
    kind: Literal["hstu"]

    def layer_weights(self, layer: str, dim: int) -> Iterator[Weight]:
        """See `CandidateEncoder`."""
        for part in ("keys_values", "queries_gates"):
            yield from dense(f"{layer}/{part}", dim, 2 * dim, columns=2)
        yield from dense(f"{layer}/mixed", dim, dim, start="zeros")


Encoder = Annotated[roles.Encoder, AnyKind(roles.Encoder)]
