"""The result of a training: a part of the trainer's training.json.

Loads without TensorFlow and TFX: the record of a run contains it.
"""

from pydantic import BaseModel, ConfigDict


class _Report(BaseModel):
    # The file has more fields, for the charts of the page.
    model_config = ConfigDict(frozen=True, extra="ignore")


class TableReport(_Report):
    """A table after training, over all ranks; the counts are of this training.

    `load_max_over_mean` is the fullest rank's rows over the mean, `unique_share` unique ids over all ids of a batch.
    """

    rows: int
    bytes: int
    admitted: int
    rejected: int
    evicted: int
    expired: int
    load_max_over_mean: float | None
    unique_share: float | None


class WarmStart(_Report):
    """Tables and weights that training loaded from the base, by name; parts of weights if only parts fit."""

    base_days: list[str]
    loaded: list[str]
    new: list[str]
    dropped: list[str]


class EarlyStop(_Report):
    """The point of training that the model is of, and the metric by which it was the best.

    `best_step` counts the steps of the epoch before it.
    """

    metric: str
    best_epoch: int
    best_step: int = 0
    is_within_epoch: bool = False
    best: float
    reason: str | None


class Checkpoints(_Report):
    """Checkpoints abandoned on a full disk, and damaged ones that were skipped."""

    given_up: int = 0
    passed_over: list[str] = []


class Refit(_Report):
    """The validation days that the model was trained on after its epoch was chosen, and the number of passes."""

    days: list[str]
    passes: float


class TrainingReport(_Report):
    """The whole training, including all resumptions.

    `input_wait` is the share of its time that the ranks waited for batches, `rank_wait` the share that they waited for
    each other; None where that is unknown. `layers` says which code computed the dense layers, and why; it is empty
    where no step was left to train.
    """

    examples: int
    examples_per_s: float
    input_wait: float = 0.0
    rank_wait: float | None = None
    layers: str = ""
    skipped_steps: int
    resumed_from_step: list[int]
    checkpoint: Checkpoints = Checkpoints()
    warm_start: WarmStart | None
    early_stopping: EarlyStop | None = None
    notes: list[str] = []
    refit: Refit | None = None
    tables: dict[str, TableReport]
