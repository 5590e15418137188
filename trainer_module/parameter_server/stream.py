"""Messages over a TCP connection."""

import contextlib
import math
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sangam.trainer_module.parameter_server.wire import (
    HEAD,
    Caller,
    Head,
    arrays_in,
    encode,
    head_of,
    room,
)

PATIENCE_S = 5.0
"""Seconds after which the caller of a call under way is told that it is, or, if it waits for other ranks, asked to call
again."""
LOST_AFTER_S = 30.0
"""Seconds without a word after which the other side is taken for lost, besides those of patience."""
ARRIVAL_S = 300.0
"""Time limit of a message: the dense state of a large model takes minutes on a slow network."""
_CONNECT_S = 10.0
_KEEP_ALIVE_S, _PROBES = 10, 2
_LAST_WORDS_S = 2.0
_MOST_PARTS = 512
"""Below the kernel's limit of buffers in one call."""


class Stream:
    """A connection whose messages are sent whole, and read by one thread at a time."""

    def __init__(self, connection: socket.socket):
        """Takes a connection.

        Args:
            connection: a connected TCP socket.
        """
        self._socket = connection
        self._head = bytearray(HEAD.size)
        self._sending = threading.Lock()
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A host that is gone ends the connection, also while nothing is sent.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _time(PATIENCE_S + LOST_AFTER_S))

    def limit(self, seconds: float) -> None:
        """Sets how long `head` waits for a message."""
        # Of the kernel: with Python's own time limits every call would take another one, to poll.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(seconds))

    def send(self, kind: int, caller: Caller, arrays: Sequence[NDArray[Any]] = ()) -> None:
        """Sends a message.

        Raises:
            OSError: the connection is broken, or the other side does not read.
        """
        parts = encode(kind, caller, arrays)
        with self._sending:
            while parts:
                sent = self._socket.sendmsg(parts[:_MOST_PARTS])
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.pop(0))
                if sent:
                    parts[0] = memoryview(parts[0])[sent:]

    def hint(self, kind: int, caller: Caller) -> bool:
        """Sends a message without arrays, unless that would take time; returns whether it is sent."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            (message,) = encode(kind, caller, ())
            sent = self._socket.send(message, socket.MSG_DONTWAIT)
            if sent < len(message):
                self.close()  # Half a message cannot be followed by another.
            return sent == len(message)
        except OSError:
            return False
        finally:
            self._sending.release()

    def head(self) -> Head | None:
        """Waits for a message, and returns its head; None: the other side has closed the connection.

        Raises:
            BlockingIOError: nothing came within the limit.
            OSError: the connection is broken.
            MessageError: it is no message of this version.
        """
        if not self._fill(memoryview(self._head), is_first=True):
            return None
        return head_of(self._head)

    def arrays(self, head: Head) -> list[NDArray[Any]]:
        """Reads the arrays of a message.

        Raises:
            OSError: the connection is broken, or the message takes too long.
            MessageError: the message is invalid; it was read to its end.
        """
        body = room(head.length)
        self._fill(body.data)
        return arrays_in(head.number, body)

    def _fill(self, left: memoryview, *, is_first: bool = False) -> bool:
        """Reads so many bytes; returns False if the connection was closed before the first one of a message."""
        size, given_up = len(left), math.inf
        while left:
            is_begun = not is_first or len(left) < size
            try:
                got = self._socket.recv_into(left, 0, socket.MSG_WAITALL)
            except BlockingIOError as error:
                raise TimeoutError("a message stopped half-way") if is_begun else error from error
            if not got:
                if is_begun:
                    raise ConnectionError("the connection ended within a message")
                return False
            left = left[got:]
            if left:
                given_up = min(given_up, time.monotonic() + ARRIVAL_S)
                if time.monotonic() > given_up:
                    raise TimeoutError(f"a message took longer than {ARRIVAL_S:.0f} s")
        return True

    def drain(self) -> None:
        """Ends this side, and drops what still comes for a moment: otherwise the other side may lose the last message.

        Raises:
            OSError: the connection is broken, or silent.
        """
        self._socket.shutdown(socket.SHUT_WR)
        self.limit(_LAST_WORDS_S)
        dropped, given_up = bytearray(1 << 16), time.monotonic() + _LAST_WORDS_S
        while self._socket.recv_into(dropped) and time.monotonic() < given_up:
            pass

    def close(self) -> None:
        """Closes the connection; a thread that reads from it gets an error, or None."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def connect(address: str) -> Stream:
    """Returns a connection to host:port.

    Raises:
        OSError: there is none.
    """
    return Stream(socket.create_connection(host_and_port(address), _CONNECT_S))


def host_and_port(address: str) -> tuple[str, int]:
    """Returns the parts of host:port; an IPv6 host may stand in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _time(seconds: float) -> bytes:
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
