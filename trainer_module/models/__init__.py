"""Architectures, one file each: pure functions from features to one logit per task."""

from collections.abc import Sequence

from typing_extensions import assert_never

from schemas.spec.models import Aitm, Esmm, Mmoe, Model, Ple, SharedBottom, SingleTask
from trainer_module.dense.inputs import ModelInputs
from trainer_module.dense.weights import Blocks
from trainer_module.interactions import build_interaction
from trainer_module.models.aitm import AitmModel
from trainer_module.models.composed import ComposedModel
from trainer_module.models.esmm import EsmmModel
from trainer_module.models.mmoe import MmoeModel
from trainer_module.models.ple import PleModel
from trainer_module.models.ranking_model import RankingModel
from trainer_module.models.shared_bottom import SharedBottomModel
from trainer_module.models.single_task import SingleTaskModel

__all__ = ["ModelInputs", "RankingModel", "build_model"]


def build_model(declared: Model, *, inputs: ModelInputs, tasks: Sequence[str]) -> RankingModel:
    """Returns the declared architecture.

    Args:
        declared: the spec's `model`.
        inputs: what its input consists of.
        tasks: names, in the order of the logits.
    """
    if declared.interaction is None:
        return _tasks_part(declared, inputs=inputs.blocks, tasks=tasks)
    interaction = build_interaction(declared.interaction, inputs=inputs, dropout=declared.dropout)
    return ComposedModel(interaction, _tasks_part(declared, inputs=interaction.outputs, tasks=tasks))


def _tasks_part(declared: Model, *, inputs: Blocks, tasks: Sequence[str]) -> RankingModel:
    match declared:
        case SingleTask():
            return SingleTaskModel(declared, inputs=inputs, tasks=tasks)
        case SharedBottom():
            return SharedBottomModel(declared, inputs=inputs, tasks=tasks)
        case Mmoe():
            return MmoeModel(declared, inputs=inputs, tasks=tasks)
        case Ple():
            return PleModel(declared, inputs=inputs, tasks=tasks)
        case Esmm():
            return EsmmModel(declared, inputs=inputs, tasks=tasks)
        case Aitm():
            return AitmModel(declared, inputs=inputs, tasks=tasks)
        case _:
            assert_never(declared)
