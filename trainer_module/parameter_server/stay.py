"""A rank's place among those that train: it has one for as long as its process holds a call open."""

import logging
import queue
import secrets
import threading
import time
from contextlib import suppress

import grpc

from trainer_module.parameter_server.client import Servers
from trainer_module.parameter_server.wire import decode

_LOG = logging.getLogger("trainer_module.rank")
_PAUSE_S = 0.2


def take_place(servers: Servers) -> None:
    """Waits until this process takes part: at once when training begins, after a checkpoint as a replacement."""
    places: queue.SimpleQueue[tuple[int, list[int]]] = queue.SimpleQueue()
    threading.Thread(target=_stay, args=(servers, places), daemon=True, name="stay").start()
    started = time.monotonic()
    generation, ranks = places.get()
    if generation:
        _LOG.info("takes part after %.0f s, generation=%d", time.monotonic() - started, generation)
    servers.begin_generation(generation, ranks)


def _stay(servers: Servers, places: "queue.SimpleQueue[tuple[int, list[int]]]") -> None:
    process = secrets.randbits(62)
    while True:
        # The server says again what it has said before where the call has broken off: nobody reads that.
        with suppress(grpc.RpcError):
            for message in servers.first.stay(process):
                _, (numbers,) = decode(message)
                generation, *ranks = map(int, numbers)
                places.put((generation, ranks))
        time.sleep(_PAUSE_S)
