"""Messages between the ranks of one machine through shared memory: `native/shared_memory.cc`.

Horovod negotiates each message in a thread of its own. Over loopback, memory saves the negotiation's latency and a copy
each way.
"""

import ctypes
import os
from collections.abc import Callable

from sangam.schemas.errors import UserError
from sangam.schemas.host.cgroup import usable_cores
from sangam.trainer_module.collectives.in_order import InOrder
from sangam.trainer_module.native.library import functions


class SharedMemory(InOrder):
    """Communication between ranks of one machine."""

    are_apart = False

    def __init__(self, *, rank: int, texts: Callable[[str], list[str]]):
        """Connects to the other ranks. All ranks together.

        Args:
            rank: rank of this process.
            texts: returns every rank's text, given this rank's.

        Raises:
            UserError: another rank's memory cannot be opened.
        """
        own = functions().sangam_open()
        if own < 0:
            raise UserError(f"training.sync.transport: no shared memory (got: {os.strerror(-own)}); take tcp")
        said = [text.split() for text in texts(f"{os.getpid()} {own}")]
        super().__init__(len(said))
        self.local_rank = rank
        numbers = ctypes.c_int * len(said)
        processes, files = (numbers(*map(int, column)) for column in zip(*said, strict=True))
        unreached = functions().sangam_join(rank, len(said), processes, files, int(usable_cores()))
        if unreached >= 0:
            raise UserError(
                f"training.sync.transport: rank {unreached} does not share its memory with rank {rank} (they need one "
                "user and one view of processes, and there may be 64 of them); take tcp"
            )
        # Report an unreachable rank before others wait for it.
        texts("joined")
