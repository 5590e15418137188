"""Architectures, one file each: pure functions from features to one logit per task."""

from collections.abc import Sequence
from typing import assert_never

import tensorflow as tf

from sangam.schemas.derived.model_inputs import ModelInputs
from sangam.schemas.spec.models import Aitm, Esmm, Mmoe, Model, Ple, SharedBottom, SingleTask
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.interactions import Interaction, build_interaction
from sangam.trainer_module.models.aitm import AitmModel
from sangam.trainer_module.models.esmm import EsmmModel
from sangam.trainer_module.models.mmoe import MmoeModel
from sangam.trainer_module.models.ple import PleModel
from sangam.trainer_module.models.ranking_model import RankingModel
from sangam.trainer_module.models.shared_bottom import SharedBottomModel
from sangam.trainer_module.models.single_task import SingleTaskModel

__all__ = ["RankingModel", "build_model"]


def build_model(spec: Model, *, inputs: ModelInputs, tasks: Sequence[str]) -> RankingModel:
    """Returns the architecture of a spec.

    Args:
        spec: the spec's `model`.
        inputs: the blocks of its input.
        tasks: names, in the order of the logits.
    """
    if spec.interaction is None:
        return _task_heads(spec, tasks)
    interaction = build_interaction(spec.interaction, inputs=inputs, dropout=spec.dropout)
    return ComposedModel(interaction, _task_heads(spec, tasks))


def _task_heads(spec: Model, tasks: Sequence[str]) -> RankingModel:
    match spec:
        case SingleTask():
            return SingleTaskModel(spec, tasks)
        case SharedBottom():
            return SharedBottomModel(spec, tasks)
        case Mmoe():
            return MmoeModel(spec, tasks)
        case Ple():
            return PleModel(spec, tasks)
        case Esmm():
            return EsmmModel(spec, tasks)
        case Aitm():
            return AitmModel(spec, tasks)
        case _:
            assert_never(spec)


class ComposedModel:
    """y = task_heads(interaction(x))."""

    def __init__(self, interaction: Interaction, task_heads: RankingModel):
        self._interaction, self._task_heads = interaction, task_heads
        self.shared = task_heads.shared or interaction.shared

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        return self._task_heads(weights, self._interaction(weights, x_BI, noise), noise)

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        return self._task_heads.auxiliary_B(logits_BT)
