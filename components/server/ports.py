"""The ports of a server: refused at once when taken, and held for the processes that share them."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sangam.components.server.options import Options, flag
from sangam.schemas.errors import UserError

_PORTS = ("grpc_port", "rest_port")


def refuse_taken(options: Options) -> None:
    """Refuses a port in use at once, not only after TensorFlow's import.

    Raises:
        UserError: it cannot listen there.
    """
    for name in _PORTS:
        port = getattr(options, name)
        try:
            socket.create_server((options.host, port), family=_family(options.host)).close()
        except OSError as error:
            raise UserError(
                f"{flag(name)}: cannot listen (got {options.address(port)}: {error.strerror}); give a free port, or 0"
            ) from error


@contextmanager
def held(options: Options) -> Iterator[tuple[int, int]]:
    """Holds the ports of gRPC and REST within the block, and yields them: processes with SO_REUSEPORT listen there.

    The kernel deals new connections to the sockets that listen; these do not.
    """
    with ExitStack() as stack:
        grpc, rest = (
            stack.enter_context(_bound(options.host, getattr(options, name))).getsockname()[1] for name in _PORTS
        )
        yield grpc, rest


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(_family(host))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # Only for the call: connections of an earlier server may still linger, but another server must not take the port.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return bound


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
