"""Limits on the connections of the REST interface: their number, and the time that a request may take to arrive."""

import asyncio
import time
from typing import Any

from aiohttp import http_exceptions, web

from sangam.components.server.metrics import Metrics
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.schemas.host.limited_log import LimitedLog

_IDLE_S = 60.0
"""Seconds from a response to the head of the next request."""
_LINGERING_S = 2.0
"""Seconds to read the rest of a refused body: a client that is still sending would not read the response."""


class ClientGone(Exception):
    """The connection was closed before its request arrived, by the client or because of a limit."""


class Connection(web.RequestHandler):
    """One connection, whose first request must arrive in time."""

    __slots__ = ("_all", "_first_request")

    def __init__(self, every: "Connections", server: web.Server, loop: asyncio.AbstractEventLoop):
        settings: Any = {"access_log": None, "keepalive_timeout": _IDLE_S, "lingering_time": _LINGERING_S}
        super().__init__(server, loop=loop, **settings)
        self._all = every
        self._first_request: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection and starts its timeout."""
        super().connection_made(transport)
        self._first_request = self._loop.call_later(self._all.timeout_s, self._all.drop, self, "no_request")
        self._all.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Unregisters the connection."""
        self.has_head()
        self._all.closed(self)
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Logs a line for invalid HTTP and lost connections, and a traceback for any other error."""
        error = kw.get("exc_info")
        if isinstance(error, (http_exceptions.HttpProcessingError, web.RequestPayloadError, ConnectionError)):
            self._all.count("no_http", f"{type(error).__name__}: {error}")
        else:
            self._all.log.error("api=rest failed", error if isinstance(error, Exception) else RuntimeError(str(args)))

    def has_head(self) -> None:
        """Stops the timeout of the first request's head."""
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None


class Connections:
    """All open connections; used only by the thread of the event loop.

    If there are too many, or their incomplete bodies take too much memory, the connection that has taken longest to
    send its request is closed. So clients that send complete requests are not affected by those that do not.

    Attributes:
        timeout_s: timeout for the first head, and for each body from its head on.
        log: log of dropped connections.
    """

    def __init__(
        self,
        *,
        max_open: int,
        max_body_bytes: int,
        max_bytes: int,
        timeout_s: float,
        metrics: Metrics,
        log: LimitedLog,
    ):
        """Takes the limits of connections, of one body, and of all incomplete bodies together."""
        self._max_open, self._max_body_bytes, self._max_bytes = max_open, max_body_bytes, max_bytes
        self.timeout_s, self._metrics, self.log = timeout_s, metrics, log
        # Connections before their first request and between requests, in the order in which they started to wait.
        self._new: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._busy: set[Connection] = set()
        self._bodies: dict[Connection, int] = {}
        self._num_bytes = 0
        metrics.connections.set_function(self._num_open)

    def opened(self, connection: Connection) -> None:
        """Registers a connection, and closes another one if there are too many."""
        self._new[connection] = None
        if self._num_open() > self._max_open:
            first = next(iter(self._new))
            self.drop(first if first is not connection else next(iter(self._idle), connection), "too_many")

    def arrived(self, connection: Any) -> None:
        """Marks the connection's request as complete."""
        self.closed(connection)
        connection.has_head()
        self._busy.add(connection)

    def answered(self, connection: Any) -> None:
        """Marks the connection as waiting for its next request."""
        if connection in self._busy:
            self._busy.discard(connection)
            self._idle[connection] = None

    def closed(self, connection: Connection) -> None:
        """Unregisters a connection."""
        self._new.pop(connection, None)
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        self._num_bytes -= self._bodies.pop(connection, 0)

    def drop(self, connection: Connection, reason: str) -> None:
        """Closes a connection without a complete request."""
        self.count(reason)
        self.closed(connection)
        if isinstance(connection.transport, asyncio.Transport):
            connection.transport.abort()

    def count(self, reason: str, detail: str = "") -> None:
        """Counts a dropped connection, and logs some: a line for each could fill the disk."""
        self._metrics.dropped_connections.labels(reason).inc()
        self.log.warning(f"api=rest no_request={reason}", detail or "sangam_dropped_connections_total counts all")

    async def body(self, request: web.Request, deadline: float) -> bytes:
        """Returns the complete body of a request.

        Raises:
            RequestError: if it is too large, broken, or incomplete at `deadline`, of time.monotonic.
            ClientGone: if the connection is closed.
        """
        connection: Any = request.protocol
        connection.has_head()
        self._bodies[connection] = 0
        try:
            body = await asyncio.wait_for(self._read(request, connection), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            self.count("late_body")
            raise RequestError(
                Code.DEADLINE_EXCEEDED,
                f"body: arrived too slowly (got {self._bodies.get(connection, 0)} bytes in {self.timeout_s:g} s); "
                "send it at once, or raise --rest-timeout-s",
                http_status=408,
            ) from None
        except (web.RequestPayloadError, ConnectionError) as error:
            if request.transport is None or connection not in self._bodies:
                raise ClientGone from None
            raise invalid(f"body: cannot be read (got {type(error).__name__}: {error}); correct its encoding") from None
        finally:
            self._num_bytes -= self._bodies.pop(connection, 0)
        self.arrived(connection)
        return body

    async def _read(self, request: web.Request, connection: Connection) -> bytes:
        body = bytearray()
        while True:
            if request.transport is None or connection not in self._bodies:
                raise ConnectionResetError
            chunk = await request.content.readany()
            if not chunk:
                return bytes(body)
            body += chunk
            self._num_bytes += len(chunk)
            self._bodies[connection] += len(chunk)
            if len(body) > self._max_body_bytes:
                raise RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    f"body: too large (got more than {self._max_body_bytes} bytes); send fewer rows",
                    http_status=413,
                )
            if self._num_bytes > self._max_bytes:
                self.drop(next(iter(self._bodies)), "too_many_bytes")

    def _num_open(self) -> int:
        return len(self._new) + len(self._idle) + len(self._busy)
