"""Encoders, one file each: from the embeddings of a list to one vector. The mean is in `pooling`."""

from typing import Protocol, assert_never

import tensorflow as tf

from sangam.schemas.spec.encoders import DinEncoder, MeanEncoder, PositionalEncoder, TransformerEncoder
from sangam.schemas.spec.features import SequenceFeature
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.din import DinLists
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.positional import PositionalLists
from sangam.trainer_module.encoders.transformer import TransformerLists


class Encoder(Protocol):
    """A pure function of its weights."""

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """Returns [lists, dim]; zeros for an empty list.

        Args:
            weights: weights by name.
            lists: embeddings of the lists.
            target: embeddings of the targets, [lists, dim]; None for an encoder without targets.
        """


def build_encoder(name: str, feature: SequenceFeature, dim: int) -> Encoder | None:
    """Returns a feature's encoder; None for the mean, which combines many features at once."""
    match feature.encoder:
        case MeanEncoder():
            return None
        case PositionalEncoder():
            return PositionalLists(name)
        case DinEncoder():
            return DinLists(name, feature.encoder, dim)
        case TransformerEncoder():
            return TransformerLists(name, feature.encoder, dim)
        case _:
            assert_never(feature.encoder)
