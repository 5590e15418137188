"""What a host says to its coordinator, and what it is told in reply: JSON, over HTTP, always in this direction.

A host says what it does and is told what to do; whichever message is lost, the next pair says all there is to say.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel
from trainer_module.launch.failures import Failure

Label = Annotated[str, Field(pattern=r"^[a-z0-9-]{0,64}$")]


class Beat(FrozenModel):
    """Of a host, once or twice a second.

    Attributes:
        index: of the host, from 0.
        incarnation: differs from that of any other process that is or was this host.
        attempt: the last one that it has started ranks in, "" for none.
        state: of its ranks: none runs, some do, all have ended well.
        failure: why the ranks of `attempt` have ended.
        leaves: it ends now, and its ranks have ended.
    """

    index: Annotated[int, Field(ge=0, lt=100_000)]
    incarnation: Label
    attempt: Label = ""
    state: Literal["idle", "training", "done"] = "idle"
    failure: Failure | None = None
    leaves: bool = False


class Order(FrozenModel):
    """To a host.

    Attributes:
        say: train: run your ranks of `attempt`, once. wait: run none. done, failed: the job has ended, so end with
            exit code 0, 1. leave: another process is this host now.
        attempt: names it.
        hosts: how many there are.
        service: host:port of the pool's dispatcher, "" without a pool.
        alone_s: a host that has not been answered for so long ends its ranks: the coordinator takes it for lost after
            twice that, and may have others do their work.
    """

    say: Literal["train", "wait", "done", "failed", "leave"]
    attempt: Label = ""
    hosts: Annotated[int, Field(ge=1)] = 1
    service: str = ""
    alone_s: Annotated[float, Field(gt=0)]
