"""How training reads its examples."""

from typing import Literal

from schemas.spec.base import FrozenModel

Where = Literal["ahead", "in_pool"]


class Input(FrozenModel):
    """Where examples pass Transform's graph; the model that is learned is the same.

    Attributes:
        transform: `in_pool`: whenever they are read, by the workers of the pool, or by the ranks where there is none;
            `ahead`: once, by the transform step, which writes them to files. With features of kind `rate` or `count`
        always `ahead`.
    """

    transform: Where = "in_pool"
