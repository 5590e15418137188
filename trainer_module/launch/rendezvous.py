"""Horovod's rendezvous server, through which the ranks of a job connect to each other.

`horovodrun` uses it too, but starts ranks through ssh; here every host starts its own.
"""

import logging
import re
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import Any, Protocol, Self

from horovod.runner.common.util.hosts import SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
from pydantic import ValidationError

from sangam.schemas.host.limited_log import LimitedLog

_LOG = logging.getLogger(__name__)
_REFUSALS = LimitedLog(_LOG)
_LOOPBACK, _INTERFACE = "127.0.0.1", "lo"
MAX_BODY_BYTES = 128 * 1024
HOST_PATH, LIFELINE_PATH = "/host", "/lifeline"
_SCOPE_AND_KEY = re.compile(r"/(global|local|cross)[\w.:-]{0,128}/[\w.:-]{1,64}")


def slots_of(ranks: int, hosts: int = 1) -> list[SlotInfo]:
    """Returns Horovod's description of each rank; a host has consecutive ranks."""
    each = ",".join(f"host-{index}:{ranks // hosts}" for index in range(hosts))
    slots: list[SlotInfo] = get_host_assignments(parse_hosts(each), ranks)
    return slots


def environment(slot: SlotInfo, *, address: str, port: int, interface: str) -> dict[str, str]:
    """Returns the environment variables of a rank's process.

    Args:
        slot: the rank's slot.
        address: address of the rendezvous server.
        port: port of the rendezvous server.
        interface: network interface for the ranks' messages.
    """
    job = create_run_env_vars(address, [interface], port)
    return {key: str(value) for key, value in (job | create_slot_env_vars(slot)).items()}


class HostMessages(Protocol):
    """Handles the messages of hosts; raises pydantic's ValidationError for an invalid one."""

    def answer(self, message: bytes) -> bytes:
        """Replies to a heartbeat."""

    def hold(self, message: bytes) -> Callable[[], None]:
        """Begins a lifeline; returns a callback for the end of the process at its other end."""


class _Handler(RendezvousHandler):
    """Horovod's handler with limits: no large request bodies, and no access to the working folder."""

    server: "_Server"

    def do_POST(self) -> None:
        hosts = self.server.hosts
        if hosts is None or self.path not in (HOST_PATH, LIFELINE_PATH) or not self._fits():
            self.send_status_code(HTTPStatus.BAD_REQUEST)
            return
        message = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if self.path == LIFELINE_PATH:
                self._hold(hosts.hold(message))
                return
            reply = hosts.answer(message)
        except ValidationError as error:
            _REFUSALS.warning("refused a message", f"{self.client_address[0]}: {error.errors(include_input=False)}")
            self.send_status_code(HTTPStatus.BAD_REQUEST)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def _hold(self, ended: Callable[[], None]) -> None:
        """Waits for the end of the connection, and reports it if the other process's kernel closed it."""
        self.connection.settimeout(None)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        while self.rfile.read(1):
            pass
        # A reset or missing keepalives raise an error instead: the state of the process is unknown.
        ended()

    def do_PUT(self) -> None:
        if self._names_a_scope() and self._fits():
            super().do_PUT()
        else:
            self.send_status_code(HTTPStatus.BAD_REQUEST)

    def do_GET(self) -> None:
        if self._names_a_scope():
            super().do_GET()
        else:
            self.send_status_code(HTTPStatus.BAD_REQUEST)

    def do_HEAD(self) -> None:
        # SimpleHTTPRequestHandler would list files.
        self.send_status_code(HTTPStatus.METHOD_NOT_ALLOWED)

    def _names_a_scope(self) -> bool:
        return _SCOPE_AND_KEY.fullmatch(self.path) is not None

    def _fits(self) -> bool:
        length = self.headers.get("Content-Length", "")
        return length.isdecimal() and int(length) <= MAX_BODY_BYTES


class _Server(RendezvousHTTPServer):
    daemon_threads = True
    # Each waiting rank sends a hundred requests per second; with the default of 5, connections fail.
    request_queue_size = 1024
    hosts: HostMessages | None = None

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
        self._server = _Server((address, port), _Handler, 0)
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
        self._server.init(self._slots)

    def environment(self, rank: int) -> dict[str, str]:
        """Returns the environment variables of a rank on this machine."""
        return environment(self._slots[rank], address=_LOOPBACK, port=self.port, interface=_INTERFACE)
