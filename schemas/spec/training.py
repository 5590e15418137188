"""Training of the model."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sangam.schemas.parts.base import Fraction, FrozenModel, Name, NonNegativeFloat, PositiveFloat, PositiveInt
from sangam.schemas.spec.optimizers import DenseOptimizer, RowOptimizer
from sangam.schemas.spec.sync import InStep, Stale, Sync

SHUFFLE_BUFFER = 20_000

NonNegativeInt = Annotated[int, Field(ge=0)]


class _WarmUp(FrozenModel):
    kind: str
    warmup_steps: NonNegativeInt = 0
    """Number of first steps in which the factor grows linearly from 0 (Goyal et al., 2017, section 2.2)."""


class Constant(_WarmUp):
    """Factor 1 after the warm-up."""

    kind: Literal["constant"]


class Cosine(_WarmUp):
    """From 1 to `floor` by half a cosine (Loshchilov and Hutter: SGDR, ICLR 2017, equation 5, one cycle)."""

    kind: Literal["cosine"]
    decay_steps: PositiveInt
    """Number of steps from the warm-up to the floor."""
    floor: Fraction = 0.0
    """Last factor, which then stays."""


class Stepwise(_WarmUp):
    """After the warm-up multiplied by `factor` every `every_steps` steps."""

    kind: Literal["step"]
    every_steps: PositiveInt
    """Steps between two multiplications."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Multiplier."""


class FixedBalance(FrozenModel):
    """The weights of the tasks in the spec."""

    kind: Literal["fixed"]


class UncertaintyBalance(FrozenModel):
    """sum_k exp(-s_k) w_k L_k + s_k / 2 with learned s_k = log sigma_k^2 (Kendall et al., CVPR 2018, equation 10)."""

    kind: Literal["uncertainty"]


class GradNormBalance(FrozenModel):
    """Weights that bring the tasks' gradients of the last shared layer to equal rates of learning (Chen et al.:
    GradNorm, ICML 2018, algorithm 1)."""

    kind: Literal["gradnorm"]
    alpha: NonNegativeFloat = 1.5
    """Strength with which slower tasks get larger gradients; 0: equal gradients."""
    learning_rate: PositiveFloat = 0.025
    """Learning rate of the weights."""


Order = Literal["time", "shuffled_within_day", "shuffled"]
DeclaredOrder = Literal["time", "shuffled_within_day", "shuffled", "auto"]
ORDER_OF_DAYS: Order = "shuffled_within_day"
"""Default for logs by day; measured in docs/quality.md."""

Schedule = Annotated[Constant | Cosine | Stepwise, Field(discriminator="kind")]
LossBalance = Annotated[FixedBalance | UncertaintyBalance | GradNormBalance, Field(discriminator="kind")]


SAMPLE = 50_000


class EarlyStopping(FrozenModel):
    """End of training after `patience` scores of the validation split without improvement; the best model so far is
    exported."""

    task: Name | None = None
    """Task whose metric counts: AUC if binary, otherwise RMSE. Left out: the mean AUC of the binary tasks."""
    patience: PositiveInt = 1
    """Number of scores without improvement that end training."""
    min_change: NonNegativeFloat = 0.0
    """Smallest change that counts as an improvement."""
    per_epoch: PositiveInt = 1
    """Number of scores in each epoch after the first; in the first every example is new. Epochs after the first then go
    over the days so many times, each time over other days, so that every score follows new days."""
    sample: PositiveInt = SAMPLE
    """With `per_epoch` above 1, about how many examples of the validation split decide, from all over it. The ranks
    keep them in memory."""
    refit: bool = False
    """Whether the best model is also trained on the validation days, or the train rows that are held out, for as many
    epochs and at the same rates as on the others. The gates judge this model, which was not validated."""


class EmaOfWeights(FrozenModel):
    """Exponential moving average over all steps: a <- d a + (1 - d) w, d = min(decay, (1 + t) / (10 + t)) in step t."""

    kind: Literal["ema"]
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Largest d; a higher one averages over more steps."""


class LastOfWeights(FrozenModel):
    """The mean over the steps of the last epoch (Polyak and Juditsky, 1992)."""

    kind: Literal["last"]


AverageOfWeights = Annotated[EmaOfWeights | LastOfWeights, Field(discriminator="kind")]


class Checkpoint(FrozenModel):
    """Checkpoints of the whole state of training."""

    every_steps: PositiveInt = 1000
    """Steps between two checkpoints."""
    keep: PositiveInt = 2
    """Number of checkpoints that a training keeps."""


class Training(FrozenModel):
    """Training of the model. In one step every rank learns from `batch_size_per_rank` examples."""

    mode: Literal["full", "incremental"] = "full"
    """Start of training. `full`: new weights, on all `train_days`. `incremental`: the last blessed checkpoint, on the
    days after it; new weights if there is none."""
    sync: Sync = InStep(kind="sync")
    """Mode of training: places of rows and dense weights, and waits between ranks; docs/modes.md."""
    batch_size_per_rank: PositiveInt
    """Examples of each rank in one step."""
    dense_optimizer: DenseOptimizer
    """Optimizer of the dense weights."""
    dense_place: Literal["auto", "host", "device"] = "auto"
    """Device of the dense layers. `auto`: the rank's GPU, where it has one, else the host's processors. `device`: a
    GPU, without which training does not start. docs/gpu.md"""
    dense_precision: Literal["float32", "tf32", "bfloat16", "auto"] = "float32"
    """Precision of the dense layers' products; weights, optimizers, embeddings and losses stay float32. `tf32`: of
    numbers rounded to TensorFloat-32 on a GPU, float32 elsewhere. `auto`: the faster one on this machine of bfloat16
    and float32 (on a GPU tf32), measured for a second when a job starts."""
    embedding_optimizer: RowOptimizer
    """Optimizer of the rows of tables without their own."""
    schedule: Schedule = Constant(kind="constant")
    """Factor of all learning rates, of dense weights and of rows, by step."""
    clip_gradient_norm: PositiveFloat | None = None
    """Largest norm of the gradient of all dense weights together (Pascanu et al., ICML 2013). Left out: no bound."""
    loss_balance: LossBalance = FixedBalance(kind="fixed")
    """Weights of the tasks' losses."""
    average: AverageOfWeights | None = None
    """Average over steps of the dense weights that are validated, exported and published; training continues from the
    last step's weights. `null`: no average. Left out: ema (measured in docs/quality.md), but null with `sync` of kind
    shadow or async."""
    early_stopping: EarlyStopping | None = None
    """End of training by the validation metric. Left out: all epochs are trained."""
    epochs: PositiveInt = 1
    """Number of passes over the training examples."""
    incremental_epochs: PositiveInt | None = None
    """Number of passes of a training that starts from a checkpoint. Left out: `epochs`."""
    order: DeclaredOrder | None = None
    """Order of the examples. `time`: day after day, in the order of the logs. `shuffled_within_day`: day after day,
    each shuffled. `shuffled`: all days shuffled together. `auto`: of the last two the better one on the validation
    days, after short trainings on the newest examples. Left out: `shuffled_within_day` for logs by day, `shuffled`
    for named splits."""
    shuffle_buffer: PositiveInt = SHUFFLE_BUFFER
    """Examples in each data worker's shuffle buffer; 1 keeps the order of the logs."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of initial weights and rows, shuffling and dropout."""
    max_skipped_steps: Annotated[int, Field(ge=0)] = 10
    """Most consecutive steps without finite loss and gradients that are skipped; one more fails the job."""
    evict_every_steps: PositiveInt = 1000
    """Steps between two removals of expired rows and of rows above a table's capacity; another one follows the last
    step."""
    checkpoint: Checkpoint = Checkpoint()
    """Interval and number of checkpoints."""

    @model_validator(mode="after")
    def _averaged(self) -> Self:
        if "average" not in self.model_fields_set and isinstance(self.sync, InStep | Stale):
            # A frozen model: only this validator may write.
            self.__dict__["average"] = EmaOfWeights(kind="ema")
        return self

    @property
    def refits(self) -> bool:
        """Whether the best model is trained on the validation split too."""
        return self.early_stopping is not None and self.early_stopping.refit
