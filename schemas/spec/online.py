"""Training between daily runs: on actions as they arrive, with deltas to serving."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from schemas.spec.base import FrozenModel, Name, PositiveFloat, PositiveInt


class DeltaSync(FrozenModel):
    """How often serving gets what was learned (Liu et al.: Monolith, 2022, section 2.2.2)."""

    rows_every_s: PositiveFloat = 10.0
    """Rows that were updated, and keys whose rows were removed."""
    dense_every_s: PositiveFloat = 60.0
    """All dense weights, with the rows of that moment."""
    full_every: PositiveInt = 100
    """Deltas between two full versions."""


class SkipTo(FrozenModel):
    """Leaves out what is too old."""

    skip_to_s: PositiveInt
    """Begin again so many seconds before the newest example."""


class Guard(FrozenModel):
    """A bound on predictions of examples that were not trained on yet. Where it is crossed, no delta goes out."""

    task: Name
    metric: Literal["auc", "calibration", "prediction_mean"]
    """`calibration`: mean prediction over mean label."""
    at_least: float | None = None
    at_most: float | None = None
    minutes: PositiveInt = 60
    """Of event time, up to the newest."""
    least_examples: PositiveInt = 1000
    """With fewer in these minutes, nothing is judged."""

    @model_validator(mode="after")
    def _has_bound(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("declare at_least or at_most")
        return self


class Online(FrozenModel):
    """Online training."""

    sync: DeltaSync = DeltaSync()
    lag: Literal["wait"] | SkipTo = "wait"
    """Where examples come faster than they are learned: `wait`, learn all of them, later and later; or skip."""
    checkpoint_every_s: PositiveFloat = 60.0
    guards: tuple[Guard, ...] = ()
    keep_days: Annotated[int, Field(ge=1, le=30)] = 2
    """How long joined examples stay after they were trained on. A newly blessed model learns again from those after its
    own data, so this is at least the time from a day's end to the push of its run."""
