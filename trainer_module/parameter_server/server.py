"""Serves calls on a port: a thread for each connection answers its calls in their order.

A rank has one connection for each kind of call, so that none holds up another kind. Who is not a rank of this attempt
gets no memory, and one of few threads for some seconds.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from sangam.schemas.errors import UserError
from sangam.schemas.host.limited_log import LimitedLog
from sangam.trainer_module.parameter_server.calls import HELLO, METHODS, NUM_LANES, Status, text_array
from sangam.trainer_module.parameter_server.stream import ARRIVAL_S, PATIENCE_S, Stream, host_and_port
from sangam.trainer_module.parameter_server.wire import Caller, Head, MessageError

_LOG = logging.getLogger("sangam.trainer_module.parameter_server")
_MOST_STRANGERS = 32
"""Connections, besides one for each rank, that have not said hello; the oldest makes room."""
_HELLO_S = 10.0
_BEAT_S, _END_S = 1.0, 1.0

Answer = Callable[[str, Caller, list[NDArray[Any]]], tuple[Status, Sequence[NDArray[Any]]]]


class _Connection:
    """A connection, and the call that it carries.

    Attributes:
        stream: its messages.
        call: the call under way, and when the rank last heard of it.
    """

    def __init__(self, stream: Stream):
        self.stream = stream
        self.call: tuple[Caller, float] | None = None

    def next(self) -> Head | None:
        """Waits for a call, however long."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.stream.head()

    def tell_under_way(self, now: float) -> None:
        """Tells the rank that its call is under way, if it has waited for some seconds."""
        call = self.call
        if call is not None and now - call[1] > PATIENCE_S and self.stream.hint(Status.UNDER_WAY, call[0]):
            self.call = (call[0], now) if self.call is call else self.call


class Server:
    """Serves until it is stopped.

    Attributes:
        port: the port.
    """

    def __init__(self, answer: Answer, *, attempt: int, address: str, ranks: int, max_message_bytes: int):
        """Begins to serve.

        Args:
            answer: answers a call, given its method; an OSError ends the connection without an answer.
            attempt: number of the attempt whose ranks may call.
            address: host:port; port 0 for any.
            ranks: number of ranks.
            max_message_bytes: maximum size of a call.

        Raises:
            UserError: the address cannot be served on.
        """
        self._answer, self._attempt, self._ranks, self._most_bytes = answer, attempt, ranks, max_message_bytes
        host, port = host_and_port(address)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            raise UserError(f"parameter server: cannot serve on {address} ({error}); use a free port") from error
        self.port: int = self._listening.getsockname()[1]
        self._refusals = LimitedLog(_LOG)
        self._changed = threading.Lock()
        self._strangers: list[_Connection] = []
        self._known: dict[tuple[int, int], _Connection] = {}
        self._is_stopped = threading.Event()
        self._threads = {self._started(self._accept), self._started(self._beat)}

    def _started(self, body: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=body, args=arguments, name="call", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Closes all connections, and waits a moment for the calls under way."""
        self._is_stopped.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        with self._changed:
            open_ones, threads = [*self._strangers, *self._known.values()], set(self._threads)
        for connection in open_ones:
            connection.stream.close()
        given_up = time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(0.0, given_up - time.monotonic()))
        self._listening.close()

    def _accept(self) -> None:
        while not self._is_stopped.is_set():
            try:
                accepted, _ = self._listening.accept()
                connection = _Connection(Stream(accepted))
            except OSError as error:  # The stranger has left, or this process has no file left.
                if not self._is_stopped.wait(0.1):
                    self._refusals.warning("no connection", str(error))
                continue
            with self._changed:
                self._strangers.append(connection)
                oldest = self._strangers.pop(0) if len(self._strangers) > _MOST_STRANGERS + self._ranks else None
                self._threads.add(self._started(self._serve, connection))
            if oldest is not None:
                oldest.stream.close()
            if self._is_stopped.is_set():
                connection.stream.close()

    def _serve(self, connection: _Connection) -> None:
        try:
            self._admit(connection)
            while (head := connection.next()) is not None:
                self._answer_call(connection, head)
        except MessageError as error:
            self._refusals.warning("refused", str(error))
            with contextlib.suppress(OSError):
                connection.stream.send(Status.REFUSED, Caller(self._attempt, 0, 0), [text_array(str(error))])
                connection.stream.drain()
        except OSError:
            pass  # A rank connects again.
        finally:
            self._forget(connection)

    def _admit(self, connection: _Connection) -> None:
        """Waits for the hello of a rank.

        Raises:
            MessageError: it is none of this attempt's ranks.
        """
        connection.stream.limit(_HELLO_S)
        hello = connection.stream.head()
        if hello is None:
            raise ConnectionError
        (attempt, rank, lane), ranks = hello.caller, self._ranks
        if hello.kind != HELLO or hello.length or attempt != self._attempt:
            raise MessageError("a rank of another attempt")
        if not (0 <= rank < ranks and 0 <= lane < NUM_LANES):
            raise MessageError(f"no such connection (got rank {rank} of {ranks}, lane {lane})")
        connection.stream.limit(ARRIVAL_S)
        with self._changed:
            if connection not in self._strangers:
                raise ConnectionError
            self._strangers.remove(connection)
            before, self._known[rank, lane] = self._known.get((rank, lane)), connection
        if before is not None:
            before.stream.close()

    def _answer_call(self, connection: _Connection, head: Head) -> None:
        caller = head.caller
        if caller.attempt != self._attempt or head.kind >= len(METHODS) or head.length > self._most_bytes:
            raise MessageError(
                f"no call of this attempt, or too large (got kind {head.kind}, {head.length} bytes; at most "
                f"{self._most_bytes})"
            )
        arrays = connection.stream.arrays(head)
        connection.call = caller, time.monotonic()
        status, answered = self._answer(METHODS[head.kind], caller, arrays)
        connection.call = None
        connection.stream.send(status, caller, answered)

    def _forget(self, connection: _Connection) -> None:
        connection.call = None
        connection.stream.close()
        with self._changed:
            if connection in self._strangers:
                self._strangers.remove(connection)
            for key in [key for key, its in self._known.items() if its is connection]:
                del self._known[key]
            self._threads.discard(threading.current_thread())

    def _beat(self) -> None:
        while not self._is_stopped.wait(_BEAT_S):
            with self._changed:
                known = list(self._known.values())
            for connection in known:
                connection.tell_under_way(time.monotonic())
