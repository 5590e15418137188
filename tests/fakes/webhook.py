"""A receiver of alerts on this machine, told what to answer."""

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANG = -1
"""As an answer: none, for half a minute."""


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Webhook:
    """What has come so far; `answers` are given in this order, the last one for ever."""

    answers: list[int]
    received: list[Received] = field(default_factory=list)
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def webhook(answers: Sequence[int] = (200,), tls: ssl.SSLContext | None = None) -> Iterator[Webhook]:
    """Runs a receiver."""
    hook = Webhook(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.received.append(Received(self.path, dict(self.headers), body))
            status = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
            if status == HANG:
                self._drip()
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _drip(self) -> None:
            """Sends a byte of a header now and then, so that no wait for a packet ever gets too long."""
            end = time.monotonic() + 300
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                while time.monotonic() < end and not hook.ended.wait(0.1):
                    self.wfile.write(b"x")

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    hook.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/hooks/s3cret-path"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hook
    finally:
        hook.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
