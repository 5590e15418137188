"""What stays in a pipeline root."""

from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import Self

from schemas.spec.base import FrozenModel, PositiveInt

AtLeastTwo = Annotated[int, Field(ge=2)]
"""The newest, and the one that a rollback goes back to."""


class Keep(FrozenModel):
    """How much of a ranker stays in the root at the end of each run; what is left out is not limited.

    Changes no result, so it is no part of the digest. docs/runs.md says what stays in any case.
    """

    runs: PositiveInt | None = None
    """The newest runs: summary, logs, and outputs of steps other than models and checkpoints."""
    models: AtLeastTwo | None = None
    """The newest models, as artifacts and as pushed versions."""
    checkpoints: AtLeastTwo | None = None
    """The newest final checkpoints, from which incremental training may start, and of trainings that were given up.
    How many one training keeps while it runs is `training.checkpoint.keep`."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.runs is None and self.models is None and self.checkpoints is None:
            raise ValueError("declare runs, models or checkpoints; without the section everything stays")
        return self
