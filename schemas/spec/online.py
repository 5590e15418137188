"""Training between daily runs: on actions as they arrive, with deltas to serving."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from schemas.spec.base import FrozenModel, Name, PositiveFloat, PositiveInt
from schemas.spec.optimizers import NonNegativeFloat
from schemas.spec.training import NonNegativeInt


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


class Joining(FrozenModel):
    """How rows that arrive become examples, with the actions that follow them."""

    lateness_s: NonNegativeInt = 10
    """How much later than a newer row or action one may arrive; later rows lack actions, later actions are left out."""
    idle_s: PositiveFloat = 30.0
    """Where nothing arrives for so long, no more is waited for: all rows become examples with the actions so far."""
    settle_s: NonNegativeFloat = 1.0
    """A file is read once its size and time have not changed for so long."""
    segment_rows: PositiveInt = 8192
    """Most examples of a segment."""
    segment_every_s: PositiveFloat = 2.0
    """Least time between two segments, unless one is full."""
    max_waiting_rows: PositiveInt = 5_000_000
    """Most rows that wait for their actions, and most actions kept for them; beyond that nothing is read until some
    have become examples."""


class Online(FrozenModel):
    """Online training."""

    joining: Joining = Joining()
    sync: DeltaSync = DeltaSync()
    lag: Literal["wait"] | SkipTo = "wait"
    """Where examples come faster than they are learned: `wait`, learn all of them, later and later; or skip."""
    checkpoint_every_s: PositiveFloat = 60.0
    guards: tuple[Guard, ...] = ()
    keep_days: Annotated[int, Field(ge=1, le=30)] = 2
    """How long joined examples stay after they were trained on. A newly blessed model learns again from those after its
    own data, so this is at least the time from a day's end to the push of its run."""
