"""Limits on the contents of a pipeline root."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from sangam.schemas.parts.base import FrozenModel, PositiveInt

AtLeastTwo = Annotated[int, Field(ge=2)]
"""At least two: the newest one, and one to roll back to."""


class Keep(FrozenModel):
    """Numbers of a ranker's runs, models and checkpoints that stay in the root after each run.

    docs/runs.md#what-stays lists the files that always stay.
    """

    runs: PositiveInt | None = None
    """Number of the newest runs that stay: summary, logs, outputs of steps other than models and checkpoints. Left out:
    all."""
    models: AtLeastTwo | None = None
    """Number of the newest models that stay, as artifacts and as pushed versions. Left out: all."""
    checkpoints: AtLeastTwo | None = None
    """Number of the newest final checkpoints that stay, and of those of abandoned trainings; incremental training
    starts from them. `training.checkpoint.keep` limits those of one training. Left out: all."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.runs is None and self.models is None and self.checkpoints is None:
            raise ValueError("declare runs, models or checkpoints; without the section everything stays")
        return self
