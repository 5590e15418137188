"""Encoders, one file each: from the embeddings of a list to one vector."""

from functools import singledispatch
from typing import Protocol

import tensorflow as tf

from sangam.schemas.parts.roles import Encoder as EncoderSpec
from sangam.schemas.spec.encoders import (
    DinEncoder,
    HstuEncoder,
    MeanEncoder,
    PositionalEncoder,
    TargetTransformerEncoder,
    TransformerEncoder,
)
from sangam.schemas.spec.features import SequenceFeature
from sangam.trainer_module.dense import choice
from sangam.trainer_module.dense.weights import Weights, below
from sangam.trainer_module.encoders.din import DinLists
from sangam.trainer_module.encoders.hstu import HstuLists
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.mean import MeanLists
from sangam.trainer_module.encoders.positional import PositionalLists
from sangam.trainer_module.encoders.target_transformer import TargetTransformerLists
from sangam.trainer_module.encoders.transformer import TransformerLists
from sangam.trainer_module.outside import computed


class Encoder(Protocol):
    """A pure function of its weights."""

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """Returns [lists, dim]; zeros for an empty list.

        Args:
            weights: weights by name.
            lists: embeddings of the lists.
            target: embeddings of the targets, [lists, dim]; None for an encoder without targets.
        """


def build_encoder(name: str, feature: SequenceFeature, dim: int) -> Encoder:
    """Returns a feature's encoder."""
    return encoder_of(feature.encoder, name, dim)


@singledispatch
def encoder_of(spec: EncoderSpec, name: str, dim: int) -> Encoder:
    """Returns the encoder of a feature's `encoder`; each kind of the product registers its own here."""
    return OutsideEncoder(spec, name, dim)


encoder_of.register(MeanEncoder, lambda spec, name, dim: MeanLists())
encoder_of.register(PositionalEncoder, lambda spec, name, dim: PositionalLists(name))
encoder_of.register(DinEncoder, lambda spec, name, dim: DinLists(name, spec, dim))
encoder_of.register(TransformerEncoder, lambda spec, name, dim: TransformerLists(name, spec, dim))
encoder_of.register(TargetTransformerEncoder, lambda spec, name, dim: TargetTransformerLists(name, spec, dim))
encoder_of.register(HstuEncoder, lambda spec, name, dim: HstuLists(name, spec, dim))


class OutsideEncoder:
    """An encoder of others."""

    def __init__(self, spec: EncoderSpec, name: str, dim: int):
        self._spec, self._prefix, self._dim = spec, f"encoders/{name}/", dim

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """See `Encoder`."""
        own = below(self._prefix, weights)
        with choice.below(self._prefix):
            return computed(self._spec, own, lists, target, shape=[None, self._dim], dtype=tf.float32)
