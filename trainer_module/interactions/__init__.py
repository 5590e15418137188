"""Interactions of features, one file each: from the model's input to the input of the task heads."""

from functools import singledispatch
from typing import Protocol

import tensorflow as tf

from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.roles import Interaction as InteractionSpec
from sangam.schemas.parts.weight import width_of
from sangam.schemas.spec.models import DcnV2, Dlrm
from sangam.trainer_module.dense import choice
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, whole
from sangam.trainer_module.dense.weights import Weights, below
from sangam.trainer_module.interactions.dcn_v2 import DcnV2Interaction
from sangam.trainer_module.interactions.dlrm import DlrmInteraction
from sangam.trainer_module.outside import computed

_PREFIX = "interaction/"


class Interaction(Protocol):
    """A pure function of its weights.

    Attributes:
        shared: names of the matrices of its last layer; empty where it has none.
    """

    shared: tuple[str, ...]

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> Input:
        """Returns [batch, outputs], given [batch, inputs]; in two parts only for an input in two parts."""


@singledispatch
def build_interaction(spec: InteractionSpec, *, inputs: ModelInputs, dropout: float = 0.0) -> Interaction:
    """Returns the interaction of a spec; each kind of the product registers its own here.

    Args:
        spec: the spec's `model.interaction`.
        inputs: the blocks of its input.
        dropout: share of the outputs of its hidden layers.
    """
    del dropout
    return OutsideInteraction(spec, inputs)


@build_interaction.register
def _(spec: DcnV2, *, inputs: ModelInputs, dropout: float = 0.0) -> Interaction:
    return DcnV2Interaction(spec, inputs=inputs, dropout=dropout)


@build_interaction.register
def _(spec: Dlrm, *, inputs: ModelInputs, dropout: float = 0.0) -> Interaction:
    return DlrmInteraction(spec, inputs=inputs, dropout=dropout)


class OutsideInteraction:
    """An interaction of others."""

    shared: tuple[str, ...] = ()

    def __init__(self, spec: InteractionSpec, inputs: ModelInputs):
        self._spec, self._inputs, self._width = spec, inputs, width_of(spec.outputs(inputs))

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `Interaction`."""
        x_BI, own = whole(x_BI), below(_PREFIX, weights)
        shape = [x_BI.shape[0], self._width]
        with choice.below(_PREFIX):
            return computed(self._spec, own, x_BI, self._inputs, noise, shape=shape, dtype=x_BI.dtype)
