"""Architectures, one file each: pure functions from features to one logit per task."""

from collections.abc import Sequence
from functools import singledispatch

import tensorflow as tf

from sangam.schemas.derived.weights import OUTSIDE_MODEL
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.weight import Blocks
from sangam.schemas.spec.models import Aitm, Esmm, Mmoe, Model, Ple, SharedBottom, SingleTask
from sangam.trainer_module.dense import choice
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, whole
from sangam.trainer_module.dense.weights import Weights, below
from sangam.trainer_module.interactions import Interaction, build_interaction
from sangam.trainer_module.models.aitm import AitmModel
from sangam.trainer_module.models.esmm import EsmmModel
from sangam.trainer_module.models.mmoe import MmoeModel
from sangam.trainer_module.models.ple import PleModel
from sangam.trainer_module.models.ranking_model import NoAuxiliary, RankingModel
from sangam.trainer_module.models.shared_bottom import SharedBottomModel
from sangam.trainer_module.models.single_task import SingleTaskModel
from sangam.trainer_module.outside import computed

__all__ = ["RankingModel", "build_model"]


def build_model(spec: Model, *, inputs: ModelInputs, tasks: Sequence[str]) -> RankingModel:
    """Returns the architecture of a spec.

    Args:
        spec: the spec's `model`.
        inputs: the blocks of its input.
        tasks: names, in the order of the logits.
    """
    if spec.interaction is None:
        return task_heads(spec, inputs.blocks, tasks)
    interaction = build_interaction(spec.interaction, inputs=inputs, dropout=spec.dropout)
    return ComposedModel(interaction, task_heads(spec, spec.interaction.outputs(inputs), tasks))


@singledispatch
def task_heads(spec: Model, inputs: Blocks, tasks: Sequence[str]) -> RankingModel:
    """Returns the layers behind the interaction; each kind of the product registers its own here."""
    return OutsideModel(spec, inputs, tasks)


for _kind, _build in (
    (SingleTask, SingleTaskModel),
    (SharedBottom, SharedBottomModel),
    (Mmoe, MmoeModel),
    (Ple, PleModel),
    (Esmm, EsmmModel),
    (Aitm, AitmModel),
):
    task_heads.register(_kind, lambda spec, inputs, tasks, build=_build: build(spec, tasks))


class OutsideModel(NoAuxiliary):
    """An architecture of others."""

    shared: tuple[str, ...] = ()

    def __init__(self, spec: Model, inputs: Blocks, tasks: Sequence[str]):
        self._spec, self._inputs, self._tasks = spec, inputs, tuple(tasks)

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        x_BI, own = whole(x_BI), below(OUTSIDE_MODEL, weights)
        shape = [x_BI.shape[0], len(self._tasks)]
        with choice.below(OUTSIDE_MODEL):
            return computed(self._spec, own, x_BI, self._inputs, self._tasks, noise, shape=shape, dtype=x_BI.dtype)


class ComposedModel:
    """y = task_heads(interaction(x))."""

    def __init__(self, interaction: Interaction, task_heads: RankingModel):
        self._interaction, self._task_heads = interaction, task_heads
        self.shared = task_heads.shared or interaction.shared

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        return self._task_heads(weights, self._interaction(weights, x_BI, noise), noise)

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        return self._task_heads.auxiliary_B(logits_BT)
