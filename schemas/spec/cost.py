"""Prices, with which runs and plans say what they cost. Nothing else depends on them."""

from typing import Annotated

from pydantic import Field

from schemas.spec.base import FrozenModel
from schemas.spec.optimizers import NonNegativeFloat


class Cost(FrozenModel):
    """Prices of machines by the hour, whole machines or the share that a process has of one."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    """ISO 4217, such as EUR."""
    rank_per_hour: NonNegativeFloat
    """Of the machine of one rank of the training job."""
    step_per_hour: NonNegativeFloat
    """Of the machine of each other step, of a data worker and of a parameter server."""
