"""The input of training."""

from typing import Literal

from sangam.schemas.parts.base import FrozenModel

Where = Literal["ahead", "in_pool"]


class Input(FrozenModel):
    """Place where examples are transformed; it does not change the learned model."""

    transform: Where = "in_pool"
    """Process that transforms examples. `in_pool`: the data workers, or without any the ranks, at every read. `ahead`:
    the transform step, once and into files; always so with features of kind rate or count."""
