"""Binds the processes of a one-machine training to loopback: `python -m sangam.trainer_module.launch.loopback`.

TensorFlow has no setting for it, so `loopback.c` replaces bind() in child processes. `native.compiler` compiles it.
"""

import contextlib
import ipaddress
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from sangam.schemas.errors import UserError
from sangam.trainer_module.native.compiler import C, compiled

_LOG = logging.getLogger(__name__)
_SOURCE = Path(__file__).with_suffix(".c")
_PRELOAD = "LD_PRELOAD"


def library() -> Path:
    """Returns the compiled library.

    Raises:
        UserError: the library is missing and cannot be compiled.
    """
    arguments = ["-O2", str(_SOURCE), "-ldl"]
    return compiled("sangam-loopback", C, [_SOURCE.read_bytes()], lambda output: ["-o", str(output), *arguments])


def keep_children_on_loopback() -> None:
    """Makes child processes listen on 127.0.0.1, even if they bind another address."""
    try:
        os.environ.update(on_loopback())
    except UserError as error:
        # The port check reports the effect.
        _LOG.warning("%s", error)


def on_loopback() -> dict[str, str]:
    """Returns the environment of a process that listens on 127.0.0.1, even if it binds another address.

    Raises:
        UserError: the library is missing and cannot be compiled.
    """
    # Spaces separate the list and cannot be quoted; the port check would detect a failure.
    own = [str(library()), *filter(None, [os.environ.get(_PRELOAD)])]
    return {_PRELOAD: ":".join(own)}


def open_ports(pids: Iterable[int]) -> list[str]:
    """Returns the addresses on which processes listen for other machines: host:port."""
    addresses = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            for connection in psutil.Process(pid).net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN and not _is_loopback(connection.laddr.ip):
                    addresses.append(f"{connection.laddr.ip}:{connection.laddr.port}")
    return sorted(addresses)


def _is_loopback(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


if __name__ == "__main__":
    print(library())
