"""Architectures, one file each: pure functions from features to one logit per task."""

from collections.abc import Sequence

from schemas.models import Mmoe, Model, SharedBottom, SingleTask
from trainer_module.models.mmoe import MmoeModel
from trainer_module.models.ranking_model import ModelInputs, RankingModel
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
    match declared:
        case SingleTask():
            return SingleTaskModel(declared, inputs=inputs.blocks, tasks=tasks)
        case SharedBottom():
            return SharedBottomModel(declared, inputs=inputs.blocks, tasks=tasks)
        case Mmoe():
            return MmoeModel(declared, inputs=inputs.blocks, tasks=tasks)
    raise NotImplementedError(declared.kind)
