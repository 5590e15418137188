"""The messages between a host and its coordinator: JSON over HTTP, always requested by the host.

A host reports its whole state, and the reply holds the whole command: a lost message is made up for by the next pair.
Beside these it holds one connection open, its lifeline: a request without a reply, which ends with either process.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel
from trainer_module.launch.failures import Failure

Label = Annotated[str, Field(pattern=r"^[a-z0-9-]{0,64}$")]


class Heartbeat(FrozenModel):
    """A host's report, once or twice a second.

    Attributes:
        index: of the host, from 0: first those with ranks, then one for each parameter server.
        incarnation: unique among all processes that were this host.
        attempt: the last one that it started processes in, "" for none.
        state: of its ranks or its server: idle: none runs; training: some run; done: all ranks have succeeded.
        failure: why the processes of `attempt` failed.
        leaves: the host ends now, and its processes have ended.
    """

    index: Annotated[int, Field(ge=0, lt=100_000)]
    incarnation: Label
    attempt: Label = ""
    state: Literal["idle", "training", "done"] = "idle"
    failure: Failure | None = None
    leaves: bool = False


class Lifeline(FrozenModel):
    """Begins the connection whose end is that of the host's process.

    Attributes:
        incarnation: as in its heartbeats.
    """

    incarnation: Label


class Command(FrozenModel):
    """What a host must do.

    Attributes:
        action: train: run your ranks, or your server, of `attempt`, once. wait: run none. done, failed: the job has
            ended, so end with exit code 0, 1. leave: another process has replaced this host.
        attempt: its name.
        hosts: number of those with ranks; the others, behind them, are of parameter servers.
        service: host:port of the pool's dispatcher, "" without a pool.
        alone_s: without a reply for so long, a host ends its processes: after twice that the coordinator counts it as
            lost and may replace it.
    """

    action: Literal["train", "wait", "done", "failed", "leave"]
    attempt: Label = ""
    hosts: Annotated[int, Field(ge=1)] = 1
    service: str = ""
    alone_s: Annotated[float, Field(gt=0)]


def name_of(index: int, hosts: int) -> str:
    """Returns what a host is called in errors and logs.

    Args:
        index: of the host.
        hosts: number of those with ranks.
    """
    return f"host {index}" if index < hosts else f"parameter server {index - hosts}"
