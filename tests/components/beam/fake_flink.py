"""A stand-in of Flink's REST service: takes a jar and a job, which runs until it is cancelled."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JOB = "0123456789abcdef0123456789abcdef"


@dataclass
class FakeFlink:
    """What was asked of it, and how it answers.

    Attributes:
        asked: method and path of each request that changes something.
        refusal: the body of a refused submission; empty: it is taken.
        state: of the job.
    """

    address: str = ""
    asked: list[str] = field(default_factory=list)
    refusal: str = ""
    state: str = "RUNNING"

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        """Returns the status and the body of an answer."""
        if method != "GET":
            self.asked.append(f"{method} {path}")
        match method, path.partition("?")[0].removeprefix("/v1/").split("/"):
            case "POST", ["jars", "upload"]:
                return 200, {"filename": "/tmp/web/x_beam.jar", "status": "success"}
            case "POST", ["jars", _, "run"]:
                return (400, {"errors": [self.refusal]}) if self.refusal else (200, {"jobid": JOB})
            case "DELETE", ["jars", _]:
                return 200, {}
            case "PATCH", ["jobs", job] if job == JOB and path.endswith("?mode=cancel"):
                self.state = "CANCELED"
                return 202, {}
            case "GET", ["jobs", job] if job == JOB:
                return 200, {"jid": JOB, "state": self.state}
            case "GET", ["jobs", job, "execution-result"] if job == JOB:
                return 200, {"status": {"id": "IN_PROGRESS" if self.state == "RUNNING" else "COMPLETED"}}
            case "GET", ["jobs", job, "exceptions"] if job == JOB:
                return 200, {"all-exceptions": []}
            case _:
                return 404, {"errors": [f"no such path: {path}"]}


@contextmanager
def fake_flink() -> Iterator[FakeFlink]:
    """Serves on loopback."""
    fake = FakeFlink()

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = fake.answer(self.command, self.path)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = do

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    fake.address = f"localhost:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
