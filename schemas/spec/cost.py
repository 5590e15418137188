"""Prices, from which runs and plans compute their cost. They change no result."""

from typing import Annotated

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, NonNegativeFloat


class Cost(FrozenModel):
    """Prices per hour, of whole machines or of the share of a machine that a process uses."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    """ISO 4217 code of the currency, such as EUR."""
    rank_per_hour: NonNegativeFloat
    """Price of one rank's machine for an hour."""
    gpu_rank_per_hour: NonNegativeFloat | None = None
    """Price of one rank's machine with a GPU for an hour. Only `sangam plan` reads it, to compare."""
    serving_core_hour: NonNegativeFloat | None = None
    """Price of an hour of one core of a server. With it, the serving check measures what a million candidates cost,
    also beside the live version; docs/planning.md#serving."""
    step_per_hour: NonNegativeFloat
    """Price for an hour of the machine of each other step, data worker or parameter server."""
