"""Modes of training: in step, or with parameter servers that hold the rows."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, NonNegativeFloat, PositiveInt

MAX_STALENESS = 64
MAX_SHARING = 64
"""Most ranks that share memory: `kMaxRanks` of `native/shared_memory.cc`."""

Transport = Literal["horovod", "shared_memory", "tcp"]
Share = Annotated[float, Field(gt=0, le=1)]


class InStep(FrozenModel):
    """Every rank owns a share of the rows; rows and dense gradients are exchanged in every step."""

    kind: Literal["sync"]
    transport: Literal["auto"] | Transport = "auto"
    """Transport between the ranks. `shared_memory`: through memory, for ranks on one machine. `tcp`: over connections
    between all ranks. Both send in a fixed order, without `horovod`'s rounds of negotiation (docs/scale.md). `auto`:
    `shared_memory` where all ranks are on one machine, otherwise `tcp`."""


class _Served(FrozenModel):
    """Rows on parameter servers, fetched before their step and updated after it."""

    staleness: Annotated[int, Field(ge=0, le=MAX_STALENESS)] = 4
    """Most batches of a rank between reading a row and applying its gradient; 0: nothing is fetched ahead."""
    wire: Literal["float32", "float16"] = "float32"
    """Type of embeddings and gradients between ranks and servers; rows and their updates are always float32."""


class Stale(_Served):
    """Dense weights are equal on all ranks and updated in step, rows a few batches later (Lian et al.: Persia, KDD
    2022, section 4.1)."""

    kind: Literal["stale"]
    compare_every_steps: PositiveInt = 1000
    """Steps between two checks that all ranks have equal dense weights, bit by bit."""


class Shadow(_Served):
    """Each rank has its own dense weights; a thread averages them with those of the other ranks during training (Zheng
    et al.: ShadowSync, 2020)."""

    kind: Literal["shadow"]
    algorithm: Literal["easgd", "ma", "bmuf"] = "easgd"
    """Averaging. `easgd`: rank and center move towards each other (Zhang, Choromanska, LeCun, NIPS 2015, equations 5
    and 6). `ma`: the rank moves towards the mean of all. `bmuf`: towards a center that follows the mean with momentum
    (Chen, Huo, ICASSP 2016, equations 4 and 5)."""
    elastic_rate: Share = 0.5
    """Share of the distance that a rank moves in one exchange; 1: all of it."""
    block_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Momentum of the center, for algorithm bmuf."""
    every_steps: PositiveInt | None = None
    """Steps between two exchanges, for which the ranks wait. Left out: exchanges in the background."""
    least_interval_s: NonNegativeFloat = 0.0
    """Shortest pause between two exchanges in the background, in seconds."""


class Async(_Served):
    """Dense weights are on the parameter servers too, which apply each rank's gradients on arrival (Liu et al.:
    Monolith, 2022, section 2.2)."""

    kind: Literal["async"]


Served = Stale | Shadow | Async
Sync = Annotated[InStep | Stale | Shadow | Async, Field(discriminator="kind")]
