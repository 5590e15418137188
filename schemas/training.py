"""The model, how it is trained, and on what resources."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Declaration, PositiveFloat, PositiveInt, Units

Fraction = Annotated[float, Field(ge=0, lt=1)]


class Mmoe(Declaration):
    """Multi-gate mixture of experts (Ma et al., KDD 2018)."""

    kind: Literal["mmoe"]
    num_experts: PositiveInt = 4
    expert_units: Units = (64, 32)
    tower_units: Units = (16,)


class Sgd(Declaration):
    """w <- w - learning_rate * g."""

    kind: Literal["sgd"]
    learning_rate: PositiveFloat


class Adagrad(Declaration):
    """a <- a + g^2; w <- w - learning_rate * g / sqrt(a) (Duchi et al., JMLR 2011)."""

    kind: Literal["adagrad"]
    learning_rate: PositiveFloat
    initial_accumulator: PositiveFloat = 1e-6
    """Gradients are means over the global batch, hence small: a start of 0.1, as is common where they are sums, would
    keep rows of rare ids from moving."""


class Adam(Declaration):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1); for embedding rows only the rows met in a step move."""

    kind: Literal["adam"]
    learning_rate: PositiveFloat
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: PositiveFloat = 1e-7


DenseOptimizer = Annotated[Sgd | Adam, Field(discriminator="kind")]
RowOptimizer = Annotated[Sgd | Adagrad | Adam, Field(discriminator="kind")]


class Training(Declaration):
    """How the model learns. One step takes `batch_size_per_rank` examples on every rank."""

    batch_size_per_rank: PositiveInt
    dense_optimizer: DenseOptimizer
    embedding_optimizer: RowOptimizer
    epochs: PositiveInt = 1
    shuffle_buffer: PositiveInt = 20_000
    """Examples in each data worker's shuffle buffer; 1 keeps the order of the files."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


class Cluster(Declaration):
    """What one training job is given. Nothing here changes what the model means."""

    ranks: PositiveInt = 2
    """Horovod processes."""
    threads_per_rank: PositiveInt = 1
    data_workers: Annotated[int, Field(ge=0)] = 2
    """tf.data service worker processes; 0: every rank reads by itself, in a fixed order."""
    deadline_s: PositiveInt = 6 * 3600
    """Training that has not ended by then is stopped and fails."""
    heartbeat_timeout_s: PositiveInt = 300
    """A rank that has made no progress for so long is taken for hung, and training fails."""
