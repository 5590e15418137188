"""The connections of the REST interface: how many may be open, and how long each may take over a request."""

import asyncio
import logging
import time
from typing import Any

from aiohttp import http_exceptions, web

from components.server.metrics import Metrics
from components.server.request_error import Code, Refused, invalid

_LOG = logging.getLogger("components.server")
_IDLE_S = 60.0
"""Between an answer and the head of the next request."""
_LINGERING_S = 2.0
"""For the rest of a body whose request was refused: a client that still sends would not read why."""
_TELL_EVERY_S = 10.0
_DETAIL_CHARACTERS = 200


class ClientGone(Exception):
    """A connection that was closed before its request was there, by the client or for want of room."""


class Connection(web.RequestHandler):
    """One connection, which must bring its first request in time."""

    __slots__ = ("_all", "_first_request")

    def __init__(self, every: "Connections", server: web.Server, loop: asyncio.AbstractEventLoop):
        settings: Any = {"access_log": None, "keepalive_timeout": _IDLE_S, "lingering_time": _LINGERING_S}
        super().__init__(server, loop=loop, **settings)
        self._all = every
        self._first_request: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts it, and starts its time."""
        super().connection_made(transport)
        self._first_request = self._loop.call_later(self._all.timeout_s, self._all.drop, self, "no_request")
        self._all.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forgets it."""
        self.has_head()
        self._all.closed(self)
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Has a line for what is no HTTP or has gone, a traceback for all else."""
        error = kw.get("exc_info")
        if isinstance(error, (http_exceptions.HttpProcessingError, web.RequestPayloadError, ConnectionError)):
            self._all.count("no_http", f"{type(error).__name__}: {error}")
        else:
            super().log_exception(*args, **kw)

    def has_head(self) -> None:
        """Stops the time of the first request's head."""
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None


class Connections:
    """All open connections; used by the thread of the loop alone.

    Where there are too many, or they hold too much that is not yet a request, the one that has taken longest over its
    request is closed: whoever sends a request whole is never it, however many others do not.

    Attributes:
        timeout_s: for the first head, and for each body from its head on.
    """

    def __init__(self, *, max_open: int, max_body_bytes: int, max_bytes: int, timeout_s: float, metrics: Metrics):
        """Takes the bounds: of connections, of one body, and of all bodies that have not arrived yet."""
        self._max_open, self._max_body_bytes, self._max_bytes = max_open, max_body_bytes, max_bytes
        self.timeout_s, self._metrics = timeout_s, metrics
        # In the order in which they began to wait: those that never sent a request, then those between two.
        self._strangers: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._answering: set[Connection] = set()
        self._bodies: dict[Connection, int] = {}
        self._num_bytes = 0
        self._told = -_TELL_EVERY_S
        metrics.connections.set_function(self._num_open)

    def opened(self, connection: Connection) -> None:
        """Adds a connection; closes another one if there are too many."""
        self._strangers[connection] = None
        if self._num_open() > self._max_open:
            first = next(iter(self._strangers))
            self.drop(first if first is not connection else next(iter(self._idle), connection), "too_many")

    def arrived(self, connection: Any) -> None:
        """Notes that a request is there, all of it."""
        self.closed(connection)
        connection.has_head()
        self._answering.add(connection)

    def answered(self, connection: Any) -> None:
        """Notes that a request was answered: the connection waits for the next one."""
        if connection in self._answering:
            self._answering.discard(connection)
            self._idle[connection] = None

    def closed(self, connection: Connection) -> None:
        """Forgets a connection."""
        self._strangers.pop(connection, None)
        self._idle.pop(connection, None)
        self._answering.discard(connection)
        self._num_bytes -= self._bodies.pop(connection, 0)

    def drop(self, connection: Connection, reason: str) -> None:
        """Closes a connection that has no whole request."""
        self.count(reason)
        self.closed(connection)
        if isinstance(connection.transport, asyncio.Transport):
            connection.transport.abort()

    def count(self, reason: str, detail: str = "") -> None:
        """Counts what came to no request; says so now and then: a line for each would fill the disk."""
        self._metrics.dropped_connections.labels(reason).inc()
        if time.monotonic() - self._told > _TELL_EVERY_S:
            self._told = time.monotonic()
            text = detail.encode("unicode_escape").decode()[:_DETAIL_CHARACTERS]
            _LOG.warning("api=rest no_request=%s %s (sangam_dropped_connections_total counts all)", reason, text)

    async def body(self, request: web.Request, deadline: float) -> bytes:
        """Returns the body of a request once it is there, all of it, by `deadline` of time.monotonic.

        Raises:
            Refused: if it is too late, too large or broken.
            ClientGone: if there is nobody to answer.
        """
        connection: Any = request.protocol
        connection.has_head()
        self._bodies[connection] = 0
        try:
            body = await asyncio.wait_for(self._read(request, connection), max(0.0, deadline - time.monotonic()))
        except asyncio.TimeoutError:
            self.count("late_body")
            raise Refused(
                Code.DEADLINE_EXCEEDED,
                f"body: came too slowly (got {self._bodies.get(connection, 0)} bytes in {self.timeout_s:g} s); "
                "send it at once, or raise --rest-timeout-s",
                http_status=408,
            ) from None
        except (web.RequestPayloadError, ConnectionError) as error:
            if request.transport is None or connection not in self._bodies:
                raise ClientGone from None
            raise invalid(f"body: cannot be read (got {type(error).__name__}: {error}); mend its encoding") from None
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
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"body: too large (got more than {self._max_body_bytes} bytes); send fewer rows",
                    http_status=413,
                )
            if self._num_bytes > self._max_bytes:
                self.drop(next(iter(self._bodies)), "too_many_bytes")

    def _num_open(self) -> int:
        return len(self._strangers) + len(self._idle) + len(self._answering)
