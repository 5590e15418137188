"""Architectures, one file each: pure functions from features to one logit per task."""

from collections.abc import Sequence

from schemas.models import Mmoe
from trainer_module.dense.weights import Blocks
from trainer_module.models.mmoe import MmoeModel


def build_model(declared: Mmoe, *, inputs: Blocks, tasks: Sequence[str]) -> MmoeModel:
    """Returns the declared architecture.

    Args:
        declared: the spec's `model`.
        inputs: the concatenated features and their widths, in turn.
        tasks: names, in the order of the logits.
    """
    return MmoeModel(declared, inputs=inputs, tasks=tasks)
