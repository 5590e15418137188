"""The server through which the ranks of a job find each other over Horovod, and hosts their coordinator.

Ranks speak the protocol of Horovod's `KVStoreHandler` and `RendezvousHandler`: values by scope and key, over HTTP. Its
own server needs Horovod installed, which ranks of other transports do not.
"""

import logging
import re
import socket
import socketserver
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from pydantic import ValidationError

from sangam.schemas.host.limited_log import LimitedLog

_LOG = logging.getLogger(__name__)
_REFUSALS = LimitedLog(_LOG)
_LOOPBACK, _INTERFACE = "127.0.0.1", "lo"
MAX_BODY_BYTES = 128 * 1024
HOST_PATH, LIFELINE_PATH = "/host", "/lifeline"
_SCOPE_AND_KEY = re.compile(r"/(?P<scope>(global|local|cross)[\w.:-]{0,128})/(?P<key>[\w.:-]{1,64})")


class Slot(NamedTuple):
    """A rank's place: among all ranks, among those of its host, and among the hosts."""

    host: int
    rank: int
    size: int
    local_rank: int
    local_size: int
    hosts: int

    @property
    def scopes(self) -> dict[str, int]:
        """The scopes in which the rank meets others, and how many ranks meet there."""
        return {
            "global": self.size,
            f"local_{self.host_name}": self.local_size,
            f"cross_{self.local_rank}": self.hosts,
        }

    @property
    def host_name(self) -> str:
        """The host's name for Horovod."""
        return f"host-{self.host}"


def slots_of(ranks: int, hosts: int = 1) -> list[Slot]:
    """Returns each rank's place; a host has consecutive ranks.

    >>> slots_of(4, 2)[3]
    Slot(host=1, rank=3, size=4, local_rank=1, local_size=2, hosts=2)
    """
    each = ranks // hosts
    return [Slot(rank // each, rank, ranks, rank % each, each, hosts) for rank in range(ranks)]


def environment(slot: Slot, *, address: str, port: int, interface: str) -> dict[str, str]:
    """Returns the environment variables of a rank's process.

    Args:
        slot: the rank's place.
        address: address of the rendezvous server.
        port: port of the rendezvous server.
        interface: network interface for the ranks' messages.
    """
    return {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": interface,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "NCCL_SOCKET_IFNAME": interface,
        "HOROVOD_HOSTNAME": slot.host_name,
        "HOROVOD_RANK": str(slot.rank),
        "HOROVOD_SIZE": str(slot.size),
        "HOROVOD_LOCAL_RANK": str(slot.local_rank),
        "HOROVOD_LOCAL_SIZE": str(slot.local_size),
        "HOROVOD_CROSS_RANK": str(slot.host),
        "HOROVOD_CROSS_SIZE": str(slot.hosts),
    }


class HostMessages(Protocol):
    """Handles the messages of hosts; raises pydantic's ValidationError for an invalid one."""

    def answer(self, message: bytes) -> bytes:
        """Replies to a heartbeat."""

    def hold(self, message: bytes) -> Callable[[], None]:
        """Begins a lifeline; returns a callback for the end of the process at its other end."""


class _Values:
    """What ranks tell each other, by scope and key."""

    def __init__(self, slots: list[Slot]):
        self._lock = threading.Lock()
        self._sizes = {scope: size for slot in slots for scope, size in slot.scopes.items()}
        self._values: dict[str, dict[str, bytes]] = {}
        self._ended: dict[str, set[str]] = {}

    def put(self, scope: str, key: str, value: bytes) -> None:
        with self._lock:
            self._values.setdefault(scope, {})[key] = value

    def get(self, scope: str, key: str) -> bytes | None:
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def end(self, scope: str, key: str) -> None:
        """Notes that a rank has left a scope, which ends with the last one; of a set of ranks, removes its value."""
        with self._lock:
            if (size := self._sizes.get(scope)) is None:
                self._values.get(scope, {}).pop(key, None)
                return
            ended = self._ended.setdefault(scope, set())
            ended.add(key)
            if len(ended) == size:
                self._values.pop(scope, None)
                del self._ended[scope]


class _Handler(BaseHTTPRequestHandler):
    """Takes and gives values, and the messages of hosts; no large request bodies."""

    server: "_Server"
    timeout = 3  # Of the connection.

    def do_POST(self) -> None:
        hosts = self.server.hosts
        if hosts is None or self.path not in (HOST_PATH, LIFELINE_PATH) or not self._fits():
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        message = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if self.path == LIFELINE_PATH:
                self._hold(hosts.hold(message))
                return
            reply = hosts.answer(message)
        except ValidationError as error:
            _REFUSALS.warning("refused a message", f"{self.client_address[0]}: {error.errors(include_input=False)}")
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        self._answer(HTTPStatus.OK, reply)

    def _hold(self, ended: Callable[[], None]) -> None:
        """Waits for the end of the connection, and reports it if the other process's kernel closed it."""
        self.connection.settimeout(None)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        while self.rfile.read(1):
            pass
        # A reset or missing keepalives raise an error instead: the state of the process is unknown.
        ended()

    def do_PUT(self) -> None:
        place = self._place()
        value = self._body() if place and self._fits() else None
        if place and value is not None:
            self.server.values.put(*place, value)
            self._answer(HTTPStatus.OK)
        else:
            self._answer(HTTPStatus.BAD_REQUEST)

    def do_GET(self) -> None:
        if place := self._place():
            value = self.server.values.get(*place)
            self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")
        else:
            self._answer(HTTPStatus.BAD_REQUEST)

    def do_DELETE(self) -> None:
        if place := self._place():
            self.server.values.end(*place)
            self._answer(HTTPStatus.OK)
        else:
            self._answer(HTTPStatus.BAD_REQUEST)

    def do_HEAD(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: ranks ask a hundred times a second."""

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _place(self) -> tuple[str, str] | None:
        """Returns scope and key of the path."""
        found = _SCOPE_AND_KEY.fullmatch(self.path)
        return (found["scope"], found["key"]) if found else None

    def _body(self) -> bytes | None:
        """Returns the whole body; None where the connection ended within it."""
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def _fits(self) -> bool:
        length = self.headers.get("Content-Length", "")
        return length.isdecimal() and int(length) <= MAX_BODY_BYTES


class _Server(ThreadingHTTPServer):
    # Each waiting rank sends a hundred requests per second; with the default of 5, connections fail.
    request_queue_size = 1024
    hosts: HostMessages | None = None
    values: _Values

    def server_bind(self) -> None:
        # HTTPServer's asks DNS for a name that nobody needs.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        _LOG.info("lost the connection of %s", client_address[0], exc_info=_LOG.isEnabledFor(logging.DEBUG))


class Rendezvous:
    """Serves the rendezvous of one job's ranks while it is open."""

    def __init__(
        self,
        ranks: int,
        *,
        hosts: int = 1,
        address: str = _LOOPBACK,
        port: int = 0,
        messages: HostMessages | None = None,
    ):
        """Binds the port.

        Args:
            ranks: total number of ranks.
            hosts: number of hosts, with equally many ranks each.
            address: address of the interface to serve on; empty for all.
            port: port to serve on; 0 for any.
            messages: handles the messages of hosts.
        """
        self._slots = slots_of(ranks, hosts)
        self._server = _Server((address, port), _Handler)
        self._server.hosts = messages
        self.forget()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="rendezvous", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The port."""
        port: int = self._server.server_address[1]
        return port

    def forget(self) -> None:
        """Removes the ranks of an earlier attempt."""
        self._server.values = _Values(self._slots)

    def environment(self, rank: int) -> dict[str, str]:
        """Returns the environment variables of a rank on this machine."""
        return environment(self._slots[rank], address=_LOOPBACK, port=self.port, interface=_INTERFACE)
