"""Embedding tables: how wide, how they learn, which ids get a row and for how long."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, PositiveInt
from schemas.spec.optimizers import Fraction, NonNegativeFloat, RowOptimizer


class CountAdmission(FrozenModel):
    """An id gets a row in the step of its `at_least`-th occurrence."""

    kind: Literal["count"]
    at_least: Annotated[int, Field(ge=2, lt=2**31)]
    counters: Annotated[int, Field(ge=1024, le=2**30)] = 1 << 20
    """Cells in each of the four rows of every rank's count-min sketch; 16 bytes per counter. With fewer than the ids
    that wait, some share cells and are admitted early. After eight occurrences per cell all counts are halved, so that
    old ids make room."""


class RandomAdmission(FrozenModel):
    """An id without a row gets one with this probability at each occurrence (McMahan et al., KDD 2013, section 4.1.1:
    Poisson inclusion)."""

    kind: Literal["random"]
    probability: Annotated[float, Field(gt=0, lt=1)]


Admission = Annotated[CountAdmission | RandomAdmission, Field(discriminator="kind")]


class Capacity(FrozenModel):
    """The most rows of a table after eviction, over all ranks."""

    rows: PositiveInt
    evict: Literal["least_recent", "least_frequent"] = "least_recent"
    """Which row is removed first: the one seen longest ago by event time, or seen least often since it exists."""


class Table(FrozenModel):
    """An embedding table: one row of `dim` floats for every id of its features in training."""

    dim: Annotated[int, Field(gt=0, le=1024)]
    optimizer: RowOptimizer | None = None
    """Optimizer of the rows; training.embedding_optimizer when left out."""
    admission: Admission | None = None
    """Which ids get a row; every one when left out."""
    default_value: float = 0.0
    """Every float of the vector of an id without a row, in training, evaluation and serving."""
    l2: NonNegativeFloat = 0.0
    """l2 * w is added to the gradient of every row in a step."""
    weight_decay: NonNegativeFloat = 0.0
    """Every row in a step also moves by -rate * weight_decay * w, whatever its optimizer (Loshchilov and Hutter:
    Decoupled weight decay regularization, ICLR 2019)."""
    dropout: Fraction = 0.0
    """Share of the floats of each feature's vector that is zeroed where it enters the model, in training only
    (Srivastava et al.: Dropout, JMLR 2014)."""
    expire_after_days: PositiveInt | None = None
    """A row is removed when its id was last seen this long before the newest event trained on."""
    capacity: Capacity | None = None

    @property
    def needs_event_time(self) -> bool:
        """Whether rows expire or are evicted by event time."""
        return self.expire_after_days is not None or (
            self.capacity is not None and self.capacity.evict == "least_recent"
        )

    @property
    def tracks_usage(self) -> bool:
        """Whether a row must remember when and how often its id was seen."""
        return self.expire_after_days is not None or self.capacity is not None
