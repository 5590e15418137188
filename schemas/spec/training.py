"""How a model is trained."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from schemas.spec.base import FrozenModel, Name, PositiveFloat, PositiveInt
from schemas.spec.optimizers import DenseOptimizer, Fraction, NonNegativeFloat, RowOptimizer
from schemas.spec.sync import InStep, Stale, Sync

SHUFFLE_BUFFER = 20_000

NonNegativeInt = Annotated[int, Field(ge=0)]


class Constant(FrozenModel):
    """Factor 1 after the warm-up."""

    kind: Literal["constant"]
    warmup_steps: NonNegativeInt = 0
    """Steps over which the factor grows linearly from 0 (Goyal et al., 2017, section 2.2)."""


class Cosine(FrozenModel):
    """From 1 to `floor` by half a cosine (Loshchilov and Hutter: SGDR, ICLR 2017, equation 5, one cycle)."""

    kind: Literal["cosine"]
    decay_steps: PositiveInt
    """Steps from the warm-up to the floor, where the factor stays."""
    floor: Fraction = 0.0
    warmup_steps: NonNegativeInt = 0


class Stepwise(FrozenModel):
    """Multiplied by `factor` every `every_steps` after the warm-up."""

    kind: Literal["step"]
    every_steps: PositiveInt
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    warmup_steps: NonNegativeInt = 0


class FixedBalance(FrozenModel):
    """The tasks' weights of the spec."""

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
"""The default for logs by day. docs/quality.md has the measurement."""

Schedule = Annotated[Constant | Cosine | Stepwise, Field(discriminator="kind")]
LossBalance = Annotated[FixedBalance | UncertaintyBalance | GradNormBalance, Field(discriminator="kind")]


class EarlyStopping(FrozenModel):
    """Ends training when the validation split has not improved for `patience` epochs; the model is that of the best
    epoch."""

    task: Name | None = None
    """Task whose metric counts: AUC if binary, otherwise RMSE. Left out: the mean AUC of the binary tasks."""
    patience: PositiveInt = 1
    min_change: NonNegativeFloat = 0.0
    """Smallest change that counts as an improvement."""
    refit: bool = False
    """Train the best epoch's model on the validation days too, for as many epochs and at the same rates as on the other
    days. The pushed model is then not the validated one; the gates judge the pushed one."""


class EmaOfWeights(FrozenModel):
    """Exponential moving average over all steps: a <- d a + (1 - d) w, d = min(decay, (1 + t) / (10 + t)) in step t."""

    kind: Literal["ema"]
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999


class LastOfWeights(FrozenModel):
    """The mean over the steps of the last epoch (Polyak and Juditsky, 1992)."""

    kind: Literal["last"]


AverageOfWeights = Annotated[EmaOfWeights | LastOfWeights, Field(discriminator="kind")]


class Checkpoint(FrozenModel):
    """How often the whole state of training is saved, and how many checkpoints are kept."""

    every_steps: PositiveInt = 1000
    keep: PositiveInt = 2


class Training(FrozenModel):
    """How the model learns. One step takes `batch_size_per_rank` examples on every rank."""

    mode: Literal["full", "incremental"] = "full"
    """`full`: from nothing, on all `train_days`. `incremental`: from the last blessed checkpoint, on the days after
    it; from nothing if there is none."""
    sync: Sync = InStep(kind="sync")
    """How the ranks train together."""
    batch_size_per_rank: PositiveInt
    dense_optimizer: DenseOptimizer
    dense_precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Of the dense layers' products; weights, optimizers, embeddings and losses stay float32. `auto`: the faster of the
    two on this machine, measured for a second when a job starts."""
    embedding_optimizer: RowOptimizer
    """Optimizer of tables without their own."""
    schedule: Schedule = Constant(kind="constant")
    """Factor of all learning rates by step, of dense weights and of rows."""
    clip_gradient_norm: PositiveFloat | None = None
    """Bound on the norm of the dense gradient, all weights together (Pascanu et al., ICML 2013)."""
    loss_balance: LossBalance = FixedBalance(kind="fixed")
    average: AverageOfWeights | None = None
    """The dense weights that are validated, exported and published are an average over steps; training goes on from the
    last step's. `null`: the last step's. Left out: ema, which docs/quality.md compares; null where ranks make no steps
    together (`sync` of kind shadow or async)."""
    early_stopping: EarlyStopping | None = None
    epochs: PositiveInt = 1
    incremental_epochs: PositiveInt | None = None
    """Epochs when training starts from a base; `epochs` when left out."""
    order: Order | None = None
    """`time`: day after day, in the order of the logs. `shuffled_within_day`: day after day, each shuffled. `shuffled`:
    all days shuffled together. Left out: `shuffled_within_day` for logs by day, `shuffled` for named splits."""
    shuffle_buffer: PositiveInt = SHUFFLE_BUFFER
    """Examples in each data worker's shuffle buffer; 1 keeps the order of the logs."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    max_skipped_steps: Annotated[int, Field(ge=0)] = 10
    """Consecutive steps without finite loss and gradients that are skipped; one more fails the job."""
    evict_every_steps: PositiveInt = 1000
    """How often expired rows, and rows above a table's capacity, are removed; they are also removed at the end."""
    checkpoint: Checkpoint = Checkpoint()

    @model_validator(mode="after")
    def _averaged(self) -> Self:
        if "average" not in self.model_fields_set and isinstance(self.sync, InStep | Stale):
            # Frozen for everyone else.
            self.__dict__["average"] = EmaOfWeights(kind="ema")
        return self
