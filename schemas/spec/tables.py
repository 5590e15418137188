"""Embedding tables: dimension, optimizer, admission and expiry of rows."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import Fraction, FrozenModel, NonNegativeFloat, PositiveInt
from sangam.schemas.spec.optimizers import RowOptimizer


class CountAdmission(FrozenModel):
    """An id gets a row in the step of its `at_least`-th occurrence."""

    kind: Literal["count"]
    at_least: Annotated[int, Field(ge=2, lt=2**31)]
    """Number of the occurrence at which an id gets a row."""
    counters: Annotated[int, Field(ge=1024, le=2**30)] = 1 << 20
    """Cells in each of the four rows of every rank's count-min sketch, 16 bytes each. With fewer cells than waiting
    ids, some ids share cells and are admitted early. After eight occurrences per cell all counts are halved, which
    frees the cells of old ids."""


class RandomAdmission(FrozenModel):
    """An id without a row gets one with a fixed probability at each occurrence (McMahan et al., KDD 2013, section
    4.1.1: Poisson inclusion)."""

    kind: Literal["random"]
    probability: Annotated[float, Field(gt=0, lt=1)]
    """Probability at each occurrence."""


Admission = Annotated[CountAdmission | RandomAdmission, Field(discriminator="kind")]


class Capacity(FrozenModel):
    """Limit on the rows of a table."""

    rows: PositiveInt
    """Most rows after eviction, over all ranks."""
    evict: Literal["least_recent", "least_frequent"] = "least_recent"
    """Row that is removed first: the one seen longest ago by event time, or least often since its creation."""


Place = Literal["host", "device"]


class Table(FrozenModel):
    """An embedding table: one row of `dim` floats for every id of its features in training."""

    dim: Annotated[int, Field(gt=0, le=1024)]
    """Floats in each row."""
    optimizer: RowOptimizer | None = None
    """Optimizer of the rows. Left out: `training.embedding_optimizer`."""
    admission: Admission | None = None
    """Condition for an id to get a row. Left out: every id gets one."""
    default_value: float = 0.0
    """Value of all floats of an id without a row, in training, evaluation and serving."""
    l2: NonNegativeFloat = 0.0
    """Weight of the L2 penalty: l2 * w is added to the gradient of every row of a step."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight of the decay: every row of a step also moves by -rate * weight_decay * w (Loshchilov and Hutter: Decoupled
    weight decay regularization, ICLR 2019)."""
    dropout: Fraction = 0.0
    """Share of the floats of each feature's vector that training sets to zero at the input of the model (Srivastava et
    al.: Dropout, JMLR 2014)."""
    unseen: Literal["auto"] | Fraction = 0.0
    """Share of the occurrences of ids that training reads as ids without a row, so that the model learns to score ids
    that it has not seen. `auto`: for each feature, the share of its ids in the validation split, or else on the newest
    days, that no earlier day has (docs/tables.md)."""
    expire_after_days: PositiveInt | None = None
    """Days between the last event of an id and the newest event of training after which its row is removed. Left out:
    rows do not expire."""
    capacity: Capacity | None = None
    """Limit on the number of rows. Left out: none."""
    place: Place = "host"
    """Memory of the rows: the machine's, or that of the rank's GPU, where it has one; docs/gpu.md. Either restores the
    other's checkpoints."""

    @property
    def needs_event_time(self) -> bool:
        """Whether rows expire or are evicted by event time."""
        return self.expire_after_days is not None or (
            self.capacity is not None and self.capacity.evict == "least_recent"
        )

    @property
    def tracks_usage(self) -> bool:
        """Whether rows record the last time and the number of occurrences of their ids."""
        return self.expire_after_days is not None or self.capacity is not None
