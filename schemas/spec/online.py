"""Training between daily runs: on actions as they arrive, with deltas to serving."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sangam.schemas.parts.base import FrozenModel, Name, NonNegativeFloat, PositiveFloat, PositiveInt
from sangam.schemas.spec.training import NonNegativeInt


class DeltaSync(FrozenModel):
    """Intervals between updates of the servers (Liu et al.: Monolith, 2022, section 2.2.2)."""

    rows_every_s: PositiveFloat = 10.0
    """Seconds between two deltas with the updated rows and the keys of removed rows."""
    dense_every_s: PositiveFloat = 60.0
    """Seconds between two deltas that also have all dense weights."""
    full_every: PositiveInt = 100
    """Number of deltas between two full versions."""


class SkipTo(FrozenModel):
    """Skips old examples."""

    skip_to_s: PositiveInt
    """Seconds before the newest example at which learning continues."""


class Guard(FrozenModel):
    """A bound on predictions of examples before they are trained on. While it is crossed, no delta is published."""

    task: Name
    """Binary task that is judged."""
    metric: Literal["auc", "calibration", "prediction_mean"]
    """Metric that is bounded. `calibration`: mean prediction over mean label."""
    at_least: float | None = None
    """Lowest allowed value. Left out: no bound."""
    at_most: float | None = None
    """Highest allowed value. Left out: no bound."""
    minutes: PositiveInt = 60
    """Minutes of event time, up to the newest, over which the metric is computed."""
    least_examples: PositiveInt = 1000
    """Fewest examples in these minutes that are judged."""

    @model_validator(mode="after")
    def _has_bound(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("declare at_least or at_most")
        return self


class Joining(FrozenModel):
    """The join of arriving rows with the actions that follow them."""

    lateness_s: NonNegativeInt = 10
    """Seconds by which a row or action may arrive after a newer one; later rows lack actions, later actions are
    dropped."""
    idle_s: PositiveFloat = 30.0
    """Seconds without arrivals after which the machine's clock ends windows, less `lateness_s`: more than the pause
    between two files."""
    ahead_s: NonNegativeInt = 300
    """Seconds by which a time may be after its arrival, for clocks that are slightly wrong."""
    ahead: Literal["drop", "clip"] = "drop"
    """Treatment of a later time. `drop`: its row or action becomes a dead letter; `clip`: the time becomes that of the
    arrival. Both are counted."""
    settle_s: NonNegativeFloat = 1.0
    """Seconds without a change of a file's size and time after which it is read."""
    segment_rows: PositiveInt = 8192
    """Most examples in a segment."""
    segment_every_s: PositiveFloat = 2.0
    """Fewest seconds between two segments, unless one is full."""
    max_waiting_rows: PositiveInt = 5_000_000
    """Most rows that wait for their actions, and most actions that wait for rows; beyond that reading pauses."""


class Online(FrozenModel):
    """Online training."""

    joining: Joining = Joining()
    """Join of arriving rows with their actions."""
    sync: DeltaSync = DeltaSync()
    """Intervals between updates of the servers."""
    lag: Literal["wait"] | SkipTo = "wait"
    """Treatment of examples that arrive faster than they are learned. `wait`: all are learned, with growing delay."""
    checkpoint_every_s: PositiveFloat = 60.0
    """Seconds between two checkpoints."""
    guards: tuple[Guard, ...] = ()
    """Bounds on predictions; while one is crossed, no delta is published."""
    shadow: bool = True
    """With `push.after: shadow`: whether the version that waits is trained on the same examples, with deltas to
    servers, so that both are compared as fresh. While one waits, this takes as many ranks and rows again."""
    keep_days: Annotated[int, Field(ge=1, le=30)] = 2
    """Days that joined examples stay after training. A newly blessed model learns again from those after its own data,
    so the number must cover the time from a day's end to the push of its run."""
