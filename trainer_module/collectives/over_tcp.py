"""Messages between ranks of any machines over TCP: a connection for each two ranks, then `native/sockets.cc`.

Ranks find each other by texts in their job's folder, which others cannot read. With the secrets there both ends of a
connection prove that they are of the job (HMAC-SHA256 over a number of each); what follows is neither encrypted nor
authenticated.
"""

import ctypes
import functools
import hashlib
import hmac
import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sangam.schemas.contracts.training_job import RANK_ADDRESS
from sangam.schemas.errors import UserError
from sangam.trainer_module.collectives.in_order import InOrder
from sangam.trainer_module.native.library import functions

_LOOPBACK = "127.0.0.1"
_MEET_S, _GREET_S, _AGAIN_S = 120.0, 5.0, 0.2
_LOST_S = 20
"""Seconds without an answer of the other machine's kernel after which a connection is lost."""
_NONCE_BYTES, _MAC_BYTES, _RANK_BYTES = 32, 32, 4


class Tcp(InOrder):
    """Communication between ranks of any machines."""

    are_apart = True

    def __init__(self, *, rank: int, local_rank: int, texts: Callable[[str], list[str]]):
        """Connects to the other ranks. All ranks together.

        Args:
            rank: rank of this process.
            local_rank: its number on its machine.
            texts: returns every rank's text, given this rank's, which others cannot read.

        Raises:
            UserError: this machine cannot listen, or another rank cannot be reached.
        """
        address = os.environ.get(RANK_ADDRESS, _LOOPBACK)
        try:
            listener = socket.create_server((address, 0), backlog=128)
        except OSError as error:
            raise UserError(
                f"training.sync.transport: rank {rank} cannot listen (got {address}: {error}); declare this machine's "
                "interface as cluster.launcher.network_interface"
            ) from error
        with listener:
            said = [text.split() for text in texts(f"{address} {listener.getsockname()[1]} {secrets.token_hex(32)}")]
            key = hashlib.sha256(" ".join(secret for _, _, secret in said).encode()).digest()
            addresses = [(host, int(port)) for host, port, _ in said]
            made = _met(listener, key, rank, addresses)
        super().__init__(len(said))
        self.local_rank = local_rank
        files = (ctypes.c_int * len(said))(
            *(made[other].detach() if other in made else -1 for other in range(len(said)))
        )
        if functions().sangam_connect(rank, len(said), files):
            raise UserError(f"training.sync.transport: rank {rank} cannot start a thread (got tcp); raise its limits")

    def send_sum(self, tensor: tf.Tensor, *, name: str) -> Callable[[], tf.Tensor]:
        """See `Transport`.

        More than two ranks add a slice each and send it to all: 2 (n - 1) / n of the vector through each machine's
        network and two trips, however many ranks there are (Thakur et al., 2005: reduce-scatter and all-gather).
        """
        if self._ranks == 2:
            return super().send_sum(tensor, name=name)
        ends = tf.range(1, self._ranks + 1, dtype=tf.int64) * tf.size(tensor, tf.int64) // self._ranks
        slices = tf.cast(ends - tf.concat([[0], ends[:-1]], 0), tf.int32)
        number = self._post(tensor, slices, name=name)
        return lambda: tf.ensure_shape(self._whole(self._total(number, name=name), name="sums"), tensor.shape)


def _met(listener: socket.socket, key: bytes, rank: int, addresses: list[tuple[str, int]]) -> dict[int, socket.socket]:
    """Returns a connection to each other rank: this one connects to those before it, and those after it do to this one.

    Who cannot be reached is tried again: if that rank is lost, its launcher ends this one too.
    """
    until = time.monotonic() + _MEET_S
    found: dict[int, socket.socket] = {}
    for other in range(rank):
        found[other] = _tried_until(until, functools.partial(_connected, addresses[other], key, rank, other), [other])
    while missing := [other for other in range(rank + 1, len(addresses)) if other not in found]:
        other, connection = _tried_until(until, functools.partial(_accepted, listener, key, rank), missing)
        if other in missing:
            found[other] = connection
        else:
            connection.close()
    return found


def _tried_until(until: float, attempt: Callable[[], Any], wanted: list[int]) -> Any:
    """Returns what an attempt gives; at the end tells why each failed: who refused this rank may be gone by then."""
    reasons: dict[str, None] = {}
    while True:
        try:
            return attempt()
        except OSError as error:
            reasons[str(error)] = None
            if time.monotonic() > until:
                raise UserError(
                    f"training.sync.transport: ranks {', '.join(map(str, wanted))} cannot be reached by tcp within "
                    f"{_MEET_S:.0f} s (got: {', '.join(reasons)}); let the hosts of a job reach each other at any port"
                ) from error
            time.sleep(_AGAIN_S)


def _connected(address: tuple[str, int], key: bytes, rank: int, other: int) -> socket.socket:
    """Returns a connection to a rank that has proved itself.

    Raises:
        OSError: there is none.
    """
    connection = socket.create_connection(address, timeout=_GREET_S)
    try:
        own = secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(rank.to_bytes(_RANK_BYTES, "big") + own)
        answer = _read(connection, _NONCE_BYTES + _MAC_BYTES)
        nonces = own + answer[:_NONCE_BYTES]
        _refuse_unproved(answer[_NONCE_BYTES:], _proof(key, b"accepts", other, rank, nonces))
        connection.sendall(_proof(key, b"connects", rank, other, nonces))
    except OSError:
        connection.close()
        raise
    return _settled(connection)


def _accepted(listener: socket.socket, key: bytes, rank: int) -> tuple[int, socket.socket]:
    """Returns the next rank that connects and has proved itself.

    Raises:
        OSError: none came, or something else.
    """
    listener.settimeout(_GREET_S)
    connection, _ = listener.accept()
    try:
        connection.settimeout(_GREET_S)
        greeting = _read(connection, _RANK_BYTES + _NONCE_BYTES)
        other, own = int.from_bytes(greeting[:_RANK_BYTES], "big"), secrets.token_bytes(_NONCE_BYTES)
        nonces = greeting[_RANK_BYTES:] + own
        connection.sendall(own + _proof(key, b"accepts", rank, other, nonces))
        _refuse_unproved(_read(connection, _MAC_BYTES), _proof(key, b"connects", other, rank, nonces))
    except OSError:
        connection.close()
        raise
    return other, _settled(connection)


def _proof(key: bytes, role: bytes, own: int, other: int, nonces: bytes) -> bytes:
    return hmac.digest(key, b"%s %d %d " % (role, own, other) + nonces, "sha256")


def _refuse_unproved(got: bytes, wanted: bytes) -> None:
    if not hmac.compare_digest(got, wanted):
        raise ConnectionRefusedError("the other end is no rank of this job")


def _read(connection: socket.socket, size: int) -> bytes:
    until, got = time.monotonic() + _GREET_S, b""
    while len(got) < size:
        piece = connection.recv(size - len(got))
        if not piece or time.monotonic() > until:
            raise ConnectionError("the other end said nothing")
        got += piece
    return got


def _settled(connection: socket.socket) -> socket.socket:
    """Returns a connection that sends at once, and fails soon after the other machine is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _LOST_S // 4),
        (socket.TCP_KEEPINTVL, _LOST_S // 4),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, _LOST_S * 1000),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection
