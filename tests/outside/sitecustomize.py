"""Python runs this at the start of every process with this folder on its PYTHONPATH, and here it writes down whom that
process asks for beyond this machine, one line each, into the file that SANGAM_TEST_OUTSIDE names."""

import os
import sys
from typing import Any

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0", "::ffff:127.")


def _names(name: str, args: tuple[Any, ...]) -> str:
    """Returns what lies beyond this machine in an event; empty for all other events."""
    match name:
        case "socket.connect" | "socket.sendto":
            address = args[1]
            # The address of a Unix socket is a text.
            return "" if not isinstance(address, tuple) or _is_here(address[0]) else str(address)
        case "socket.getaddrinfo" | "socket.gethostbyname":
            return "" if _is_here(args[0]) else str(args[0])
        case "urllib.Request":
            return str(args[0])
        case "subprocess.Popen" if "prism" in os.path.basename(str(args[0])):
            return str(args[0])
    return ""


def _is_here(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    return name.startswith(_LOOPBACK) or name == _HOST


def _watch(name: str, args: tuple[Any, ...]) -> None:
    if name.startswith(("socket.", "urllib.", "subprocess.")) and (asked := _names(name, args)):
        with open(os.environ["SANGAM_TEST_OUTSIDE"], "a", encoding="utf-8") as file:
            file.write(f"{name} {asked} by {sys.argv[:4]}\n")


if "SANGAM_TEST_OUTSIDE" in os.environ:
    _HOST = os.uname().nodename
    sys.addaudithook(_watch)
