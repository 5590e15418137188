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


def build_model(spec: Model, *, inputs: ModelInputs, tasks: Sequence[str]) -> RankingModel:
    """Returns the architecture of a spec.

    Args:
        spec: the spec's `model`.
        inputs: the blocks of its input.
        tasks: names, in the order of the logits.
    """
    if spec.interaction is None:
        return _task_heads(spec, inputs=inputs.blocks, tasks=tasks)
    interaction = build_interaction(spec.interaction, inputs=inputs, dropout=spec.dropout, members=spec.members)
    return ComposedModel(interaction, _task_heads(spec, inputs=interaction.outputs, tasks=tasks))


def _task_heads(spec: Model, *, inputs: Blocks, tasks: Sequence[str]) -> RankingModel:
    match spec:
        case SingleTask():
            return SingleTaskModel(spec, inputs=inputs, tasks=tasks)
        case SharedBottom():
            return SharedBottomModel(spec, inputs=inputs, tasks=tasks)
        case Mmoe():
            return MmoeModel(spec, inputs=inputs, tasks=tasks)
        case Ple():
            return PleModel(spec, inputs=inputs, tasks=tasks)
        case Esmm():
            return EsmmModel(spec, inputs=inputs, tasks=tasks)
        case Aitm():
            return AitmModel(spec, inputs=inputs, tasks=tasks)
        case _:
            assert_never(spec)
