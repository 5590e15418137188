"""The model, and how it is trained."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Declaration, PositiveInt, Units
from schemas.optimizers import DenseOptimizer, RowOptimizer


class Mmoe(Declaration):
    """Multi-gate mixture of experts (Ma et al., KDD 2018)."""

    kind: Literal["mmoe"]
    num_experts: PositiveInt = 4
    expert_units: Units = (64, 32)
    tower_units: Units = (16,)


class Checkpoint(Declaration):
    """How often the whole state of training is written, and how many of these are kept."""

    every_steps: PositiveInt = 1000
    keep: PositiveInt = 2


class Training(Declaration):
    """How the model learns. One step takes `batch_size_per_rank` examples on every rank."""

    mode: Literal["full", "incremental"] = "full"
    """`full`: from nothing, on all `train_days`. `incremental`: from the last blessed checkpoint, on the days after
    it; from nothing where there is none."""
    batch_size_per_rank: PositiveInt
    dense_optimizer: DenseOptimizer
    dense_precision: Literal["float32", "bfloat16"] = "float32"
    """Of the dense layers' products; weights, optimizers, embeddings and losses stay float32."""
    embedding_optimizer: RowOptimizer
    """Of the tables that declare none."""
    epochs: PositiveInt = 1
    incremental_epochs: PositiveInt | None = None
    """Epochs of a training that starts from a base; `epochs` when left out."""
    shuffle_buffer: PositiveInt = 20_000
    """Examples in each data worker's shuffle buffer; 1 keeps the order of the files."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    max_skipped_steps: Annotated[int, Field(ge=0)] = 10
    """Steps in a row whose loss or gradients are not finite that are skipped; one more fails the job."""
    evict_every_steps: PositiveInt = 1000
    """How often expired rows, and those over a table's capacity, are removed; and once more at the end."""
    checkpoint: Checkpoint = Checkpoint()
