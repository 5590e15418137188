"""Serves a process's metrics over HTTP in a thread, and registers the address with Prometheus."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from sangam.schemas.contracts.monitoring import PLACE, Target
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_REQUEST_S = 5.0
"""Timeout for a whole request: a client that stops half-way must not block a thread."""


def new_registry() -> CollectorRegistry:
    """Returns a registry with the metrics of every process: memory, CPU time, open files."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, *_: Any) -> None:
        """Logs no requests."""


class _Server(ThreadingWSGIServer):
    def server_bind(self) -> None:
        # Not WSGIServer's method, which looks up the host name: that may take seconds.
        socket_address: Any = self.server_address
        self.socket.bind(socket_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, *_: Any) -> None:
        """Logs errors of a client or page and continues: training does not depend on them."""
        _LOG.debug("a request for metrics failed", exc_info=True)


class Endpoint:
    """Serves a process's metrics at an address.

    Attributes:
        address: host:port.
    """

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int, place: str, target: Target | None = None):
        """Starts serving.

        Args:
            registry: registry of the metrics.
            host: address to listen on.
            port: 0 for any free port.
            place: name of the port's setting, for errors.
            target: Prometheus target to write; None if Prometheus is configured otherwise.

        Raises:
            UserError: this process cannot listen at that address.
        """
        self._target = target
        try:
            self._server: WSGIServer = make_server(host, port, _guarded(registry), _Server, _Handler)
        except OSError as error:
            raise _cannot_listen(place, host, port, error) from error
        self.address = f"{host}:{self._server.server_port}"
        # Scrapes are rare, and the thread sleeps between them: it does not slow down the steps.
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        self._announce()
        _LOG.info("metrics at=%s/metrics", self.address)

    def _announce(self) -> None:
        if self._target is None:
            return
        try:
            self._target.announce(self.address)
        except OSError as error:
            # Training does not depend on the target; the address is in the log.
            _LOG.warning("Prometheus cannot discover %s: cannot write %s (%s)", self.address, self._target.file, error)

    def close(self) -> None:
        """Stops serving."""
        if self._target is not None:
            self._target.withdraw()
        self._server.shutdown()
        self._server.server_close()


def refuse_ports_in_use(host: str, ports: Iterable[int]) -> None:
    """Refuses ports of the spec that are in use, before any process of the training starts.

    Raises:
        UserError: a port is in use.
    """
    for port in ports:
        try:
            socket.create_server((host, port)).close()
        except OSError as error:
            raise _cannot_listen(PLACE, host, port, error) from error


def _cannot_listen(place: str, host: str, port: int, error: OSError) -> UserError:
    told = os.strerror(error.errno) if error.errno else error
    return UserError(f"{place}: cannot listen for Prometheus (got {host}:{port}: {told}); give a free port, or 0")


def _guarded(registry: CollectorRegistry) -> Callable[..., Iterable[bytes]]:
    """Returns the page as a WSGI app; an error of a metric only gives a response 500 and a line in the log."""
    page: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != "/metrics":
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"/metrics\n"]
        try:
            return page(environ, start_response)
        except Exception:  # noqa: BLE001 - training continues after any error
            _LOG.exception("metrics could not be read")
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [b"see the log\n"]

    return answer
