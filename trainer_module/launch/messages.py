"""The messages between a host and its coordinator: JSON over HTTP, always requested by the host.

A host reports its whole state, and the reply contains the whole command: the next pair makes up for a lost message. The
host also holds one connection open, its lifeline: a request without a reply, which ends with either process.
"""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel
from sangam.trainer_module.launch.failures import Failure

Label = Annotated[str, Field(pattern=r"^[a-z0-9-]{0,64}$")]


class Heartbeat(FrozenModel):
    """A host's report, once or twice a second.

    Attributes:
        index: the host's index, from 0: first hosts with ranks, then one per parameter server.
        incarnation: unique id of this process among all that were this host.
        attempt: the last attempt in which it started processes; "" for none.
        state: state of its ranks or its server: idle: none runs; training: some run; done: all ranks have succeeded.
        failure: failure of the processes of `attempt`.
        leaves: whether the host ends now; its processes have ended.
    """

    index: Annotated[int, Field(ge=0, lt=100_000)]
    incarnation: Label
    attempt: Label = ""
    state: Literal["idle", "training", "done"] = "idle"
    failure: Failure | None = None
    leaves: bool = False


class Lifeline(FrozenModel):
    """The request that opens a lifeline, whose end marks the end of the host's process.

    Attributes:
        incarnation: as in the host's heartbeats.
    """

    incarnation: Label


class Command(FrozenModel):
    """A command to a host.

    Attributes:
        action: train: run the ranks or the server of `attempt`, once. wait: run none. done, failed: the job has ended,
            so exit with code 0 or 1. leave: another process has replaced this host.
        attempt: its name.
        hosts: number of hosts with ranks; the hosts after them have parameter servers.
        service: host:port of the pool's dispatcher; "" without a pool.
        alone_s: seconds without a reply after which a host ends its processes; after twice as long, the coordinator
            considers it lost and may replace it.
    """

    action: Literal["train", "wait", "done", "failed", "leave"]
    attempt: Label = ""
    hosts: Annotated[int, Field(ge=1)] = 1
    service: str = ""
    alone_s: Annotated[float, Field(gt=0)]


def name_of(index: int, hosts: int) -> str:
    """Returns a host's name for errors and logs.

    Args:
        index: the host's index.
        hosts: number of hosts with ranks.
    """
    return f"host {index}" if index < hosts else f"parameter server {index - hosts}"
