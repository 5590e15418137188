"""How the processes of one server ask each other: a word to a Unix socket; the answer is all that comes back."""

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

STATE, LISTEN, METRICS, DRIFT = "state", "listen", "metrics", "drift"
"""Words to a process: what it serves; that it shall listen for requests, and since when it does; its metrics; what it
has counted of requests."""
_MAX_WORD_BYTES = 16
_TIMEOUT_S = 1.0
_MAX_PATH = 100
"""Characters of a socket's path: the kernel takes 107."""


class Control:
    """Answers words at a socket, in threads of its own, for as long as the process lives."""

    def __init__(self, file: Path, answers: Mapping[str, Callable[[], bytes]]):
        """Listens at once.

        Args:
            file: socket, which does not exist yet.
            answers: returns the answer to each word.
        """

        class Handler(socketserver.StreamRequestHandler):
            timeout = _TIMEOUT_S

            def handle(self) -> None:
                with suppress(OSError):  # Who asked has given up.
                    self.wfile.write(answers[self.rfile.readline(_MAX_WORD_BYTES).decode().strip()]())

        self._server = socketserver.ThreadingUnixStreamServer(str(file), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="control", daemon=True).start()


def ask(file: Path, word: str, timeout_s: float = _TIMEOUT_S) -> bytes | None:
    """Returns the answer of the process at a socket; None if it does not answer in time, or has ended."""
    answer = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(file))
            connection.sendall(f"{word}\n".encode())
            while part := connection.recv(2**16):
                answer += part
    except OSError:
        return None
    return bytes(answer) or None


def is_too_long(folder: Path) -> bool:
    """Returns whether sockets cannot lie in a folder, as their paths would be too long."""
    return len(str(folder)) > _MAX_PATH
