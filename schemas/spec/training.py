"""How a model is trained."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, Name, PositiveFloat, PositiveInt
from schemas.spec.optimizers import DenseOptimizer, Fraction, NonNegativeFloat, RowOptimizer

SHUFFLE_BUFFER = 20_000

NonNegativeInt = Annotated[int, Field(ge=0)]


class Constant(FrozenModel):
    """Factor 1 after the warm-up."""

    kind: Literal["constant"]
    warmup_steps: NonNegativeInt = 0
    """Steps over which the factor grows evenly from 0 to what it then is (Goyal et al., 2017, section 2.2)."""


class Cosine(FrozenModel):
    """From 1 to `floor` by half a cosine (Loshchilov and Hutter: SGDR, ICLR 2017, equation 5, one cycle)."""

    kind: Literal["cosine"]
    decay_steps: PositiveInt
    """Steps after the warm-up until the floor is reached; it stays there."""
    floor: Fraction = 0.0
    warmup_steps: NonNegativeInt = 0


class Stepwise(FrozenModel):
    """Multiplied by `factor` every `every_steps` after the warm-up."""

    kind: Literal["step"]
    every_steps: PositiveInt
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    warmup_steps: NonNegativeInt = 0


class FixedBalance(FrozenModel):
    """The tasks' declared weights."""

    kind: Literal["fixed"]


class UncertaintyBalance(FrozenModel):
    """sum_k exp(-s_k) w_k L_k + s_k / 2 with learned s_k = log sigma_k^2 (Kendall et al., CVPR 2018, equation 10)."""

    kind: Literal["uncertainty"]


class GradNormBalance(FrozenModel):
    """Weights that bring the tasks' gradients of the last shared layer to equal rates of learning (Chen et al.:
    GradNorm, ICML 2018, algorithm 1)."""

    kind: Literal["gradnorm"]
    alpha: NonNegativeFloat = 1.5
    learning_rate: PositiveFloat = 0.025


Order = Literal["time", "shuffled_within_day", "shuffled"]
ORDER_OF_DAYS: Order = "shuffled_within_day"
"""Where none is declared, for logs by day. docs/training.md has the measurement."""

Schedule = Annotated[Constant | Cosine | Stepwise, Field(discriminator="kind")]
LossBalance = Annotated[FixedBalance | UncertaintyBalance | GradNormBalance, Field(discriminator="kind")]


class EarlyStopping(FrozenModel):
    """Training ends when the validation split has not got better for `patience` epochs, and the model is the best
    epoch's."""

    task: Name | None = None
    """Whose metric counts: AUC of a binary task, RMSE of another. The mean of all tasks' AUC when left out."""
    patience: PositiveInt = 1
    min_change: NonNegativeFloat = 0.0
    """What counts as better."""
    refit: bool = False
    """Then train the best epoch's model on the validation days as well, as often and at the same rates as on the other
    days. What was validated is no longer quite what is pushed; the gates judge what is."""


class Checkpoint(FrozenModel):
    """How often the whole state of training is written, and how many of these are kept."""

    every_steps: PositiveInt = 1000
    keep: PositiveInt = 2


class Training(FrozenModel):
    """How the model learns. One step takes `batch_size_per_rank` examples on every rank."""

    mode: Literal["full", "incremental"] = "full"
    """`full`: from nothing, on all `train_days`. `incremental`: from the last blessed checkpoint, on the days after
    it; from nothing where there is none."""
    batch_size_per_rank: PositiveInt
    dense_optimizer: DenseOptimizer
    dense_precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Of the dense layers' products; weights, optimizers, embeddings and losses stay float32. `auto`: the faster of the
    two on the machine at hand, measured for a second when a job starts."""
    embedding_optimizer: RowOptimizer
    """Of the tables that declare none."""
    schedule: Schedule = Constant(kind="constant")
    """Factor of all learning rates, dense and of rows, by step."""
    clip_gradient_norm: PositiveFloat | None = None
    """Longest dense gradient, all weights together; a longer one is shortened (Pascanu et al., ICML 2013)."""
    loss_balance: LossBalance = FixedBalance(kind="fixed")
    early_stopping: EarlyStopping | None = None
    epochs: PositiveInt = 1
    incremental_epochs: PositiveInt | None = None
    """Epochs of a training that starts from a base; `epochs` when left out."""
    order: Order | None = None
    """`time`: day after day, each in the order of its logs. `shuffled_within_day`: day after day, the examples of each
    shuffled. `shuffled`: over all days. Left out: `shuffled_within_day` for logs by day, `shuffled` for named
    splits."""
    shuffle_buffer: PositiveInt = SHUFFLE_BUFFER
    """Examples in each data worker's shuffle buffer; 1 keeps the order of the logs."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    max_skipped_steps: Annotated[int, Field(ge=0)] = 10
    """Steps in a row whose loss or gradients are not finite that are skipped; one more fails the job."""
    evict_every_steps: PositiveInt = 1000
    """How often expired rows, and those over a table's capacity, are removed; and once more at the end."""
    checkpoint: Checkpoint = Checkpoint()
