"""How ranks train together: in step, or with parameter servers that hold the rows."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, PositiveInt
from schemas.spec.optimizers import NonNegativeFloat

MAX_STALENESS = 64

Share = Annotated[float, Field(gt=0, le=1)]


class InStep(FrozenModel):
    """Every rank owns a share of the rows; rows and dense gradients are exchanged in every step."""

    kind: Literal["sync"]
    transport: Literal["horovod", "shared_memory"] = "horovod"
    """Between the ranks. `shared_memory`: through the memory of the one machine that all are on, without rounds of
    negotiation; docs/performance.md has what it gives."""


class _Served(FrozenModel):
    """Rows on parameter servers, fetched ahead of the step that needs them and updated behind it."""

    staleness: Annotated[int, Field(ge=0, le=MAX_STALENESS)] = 4
    """The most batches of a rank between reading a row and applying its gradient; 0: none, nothing is done ahead."""
    wire: Literal["float32", "float16"] = "float32"
    """Of embeddings and their gradients between ranks and servers; rows and their updates are always float32."""


class Stale(_Served):
    """Dense weights are equal on all ranks and updated in step, rows a few batches later (Lian et al.: Persia, KDD
    2022, section 4.1)."""

    kind: Literal["stale"]
    compare_every_steps: PositiveInt = 1000
    """How often the ranks check that their dense weights are equal, bit by bit."""


class Shadow(_Served):
    """Each rank has its own dense weights, which a thread averages with those of the others while it trains (Zheng et
    al.: ShadowSync, 2020)."""

    kind: Literal["shadow"]
    algorithm: Literal["easgd", "ma", "bmuf"] = "easgd"
    """`easgd`: rank and center move towards each other (Zhang, Choromanska, LeCun, NIPS 2015, equations 5 and 6). `ma`:
    the rank moves towards the mean of all. `bmuf`: towards a center that follows the mean with momentum (Chen, Huo,
    ICASSP 2016, equations 4 and 5)."""
    elastic_rate: Share = 0.5
    """How far a rank moves in one exchange: 1 takes the other side's weights, 0.5 goes half the way."""
    block_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of `bmuf`."""
    every_steps: PositiveInt | None = None
    """Exchange in the step, once in so many steps, and wait for it. Left out: in the background."""
    least_interval_s: NonNegativeFloat = 0.0
    """Pause between two exchanges in the background."""


class Async(_Served):
    """Dense weights are on the parameter servers too; every rank's gradients are applied as they come (Liu et al.:
    Monolith, 2022, section 2.2)."""

    kind: Literal["async"]


Served = Stale | Shadow | Async
Sync = Annotated[InStep | Stale | Shadow | Async, Field(discriminator="kind")]
