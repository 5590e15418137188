"""Interactions of features, one file each: from the model's input to the input of the task heads."""

from typing import Protocol, assert_never

import tensorflow as tf

from sangam.schemas.derived.model_inputs import ModelInputs
from sangam.schemas.spec.models import DcnV2, Dlrm
from sangam.schemas.spec.models import Interaction as InteractionSpec
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.interactions.dcn_v2 import DcnV2Interaction
from sangam.trainer_module.interactions.dlrm import DlrmInteraction


class Interaction(Protocol):
    """A pure function of its weights.

    Attributes:
        shared: names of the matrices of its last layer; empty where it has none.
    """

    shared: tuple[str, ...]

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, outputs], given [batch, inputs]."""


def build_interaction(spec: InteractionSpec, *, inputs: ModelInputs, dropout: float = 0.0) -> Interaction:
    """Returns the interaction of a spec.

    Args:
        spec: the spec's `model.interaction`.
        inputs: the blocks of its input.
        dropout: share of the outputs of its hidden layers.
    """
    match spec:
        case DcnV2():
            return DcnV2Interaction(spec, dropout=dropout)
        case Dlrm():
            return DlrmInteraction(spec, inputs=inputs, dropout=dropout)
        case _:
            assert_never(spec)
