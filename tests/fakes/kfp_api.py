"""A small server that speaks the REST API of Kubeflow Pipelines v2beta1 over real sockets, as strictly as the real one,
and fails as it is told to."""

import email
import email.policy
import json
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.kfp_store import Record, Refused, Store, known

Query = dict[str, str]
Handler = Callable[[Store, list[str], Query, Any], Record]

_LIST = {"page_token", "page_size", "sort_by", "filter", "namespace"}
_ROUTES: list[tuple[str, str, set[str], Handler]] = [
    ("GET", r"healthz", set(), lambda s, p, q, b: s.health()),
    ("GET", r"pipelines/names/([^/]+)", {"namespace"}, lambda s, p, q, b: s.pipeline_named(p[0])),
    ("POST", r"pipelines", set(), lambda s, p, q, b: s.create_pipeline(b)),
    (
        "POST",
        r"pipelines/upload_version",
        {"name", "pipelineid", "description"},
        lambda s, p, q, b: s.upload_version(q["pipelineid"], q["name"], q.get("description", ""), b),
    ),
    (
        "GET",
        r"pipelines/([^/]+)/versions",
        _LIST - {"namespace"},
        lambda s, p, q, b: _listed(
            s, [v for v in s.versions.values() if v["pipeline_id"] == p[0]], q, "pipeline_version"
        ),
    ),
    ("GET", r"pipelines/([^/]+)/versions/([^/]+)", set(), lambda s, p, q, b: s.get(s.versions, p[1])),
    ("GET", r"experiments", _LIST, lambda s, p, q, b: _listed(s, list(s.experiments.values()), q, "experiment")),
    ("POST", r"experiments", set(), lambda s, p, q, b: s.create_experiment(b)),
    (
        "GET",
        r"recurringruns",
        _LIST | {"experiment_id"},
        lambda s, p, q, b: _listed(s, _of_experiment(s.recurring, q), q, "recurring_run"),
    ),
    ("POST", r"recurringruns", set(), lambda s, p, q, b: s.create_recurring(b)),
    ("POST", r"recurringruns/([^/:]+):enable", set(), lambda s, p, q, b: s.set_enabled(p[0], True)),
    ("POST", r"recurringruns/([^/:]+):disable", set(), lambda s, p, q, b: s.set_enabled(p[0], False)),
    ("DELETE", r"recurringruns/([^/:]+)", set(), lambda s, p, q, b: s.delete_recurring(p[0])),
    (
        "GET",
        r"runs",
        _LIST | {"experiment_id"},
        lambda s, p, q, b: _runs(s, q),
    ),
    ("POST", r"runs", {"experiment_id"}, lambda s, p, q, b: s.create_run(b)),
    ("GET", r"runs/([^/:]+)", {"experiment_id"}, lambda s, p, q, b: s.look_at(p[0])),
    ("POST", r"runs/([^/:]+):terminate", {"experiment_id"}, lambda s, p, q, b: s.terminate(p[0])),
]
_PLURALS = {
    "pipeline_version": "pipeline_versions",
    "experiment": "experiments",
    "recurring_run": "recurringRuns",  # Spelled so in the proto too.
    "run": "runs",
}


@dataclass
class Fault:
    """What goes wrong, the next `times` that a request is made.

    Attributes:
        method: of the requests.
        path: pattern that is found in their paths.
        status: answered; None: the connection is dropped.
        is_handled: whether the server first does what it was asked to.
        gate: what it waits for before that, at most a minute.
        handled: set after that.
        headers: of the answer.
        body: of the answer, as it is.
    """

    method: str
    path: str
    status: int | None = 500
    is_handled: bool = False
    gate: threading.Event | None = None
    handled: threading.Event = field(default_factory=threading.Event)
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error":"Internal error","code":13,"message":"the database is away"}'


class KfpServer(ThreadingHTTPServer):
    """The server; entered, it listens on a free port."""

    daemon_threads = True

    def __init__(self, store: Store, api: str = "v2beta1", token: str | None = None):
        super().__init__(("127.0.0.1", 0), _Requests)
        self.store, self.api, self.token = store, api, token
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.forbidden: str | None = None
        self.after: Callable[[str], None] = lambda request: None
        """Called with `METHOD path` when a request was handled."""
        self.one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that have gone."""

    def count(self, request: str) -> int:
        """Returns how many requests there were whose `METHOD path` matches."""
        return sum(bool(re.search(request, made)) for made in self.requests)

    def fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                return fault
        return None


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: in two, the client's delayed acknowledgement costs 40 ms a request.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: KfpServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the terminal clean."""

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        request = f"{self.command} {unquote(parts.path)}"
        server = self.server
        server.requests.append(request)
        fault = server.fault(self.command, parts.path)
        if fault and fault.gate:
            fault.gate.wait(60)
        if fault is None or fault.is_handled:
            with server.one_at_a_time:
                status, document = self._handle(parts.path, dict(parse_qsl(parts.query)), content)
            server.after(request)
            if fault:
                fault.handled.set()
        if fault is None:
            self._send(status, json.dumps(document), {"Content-Type": "application/json"})
        elif fault.status is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self._send(fault.status, fault.body, {"Content-Type": "application/json", **fault.headers})

    def _handle(self, path: str, query: Query, content: bytes) -> tuple[int, Record]:
        server = self.server
        if server.token is not None and self.headers.get("Authorization") != f"Bearer {server.token}":
            return 401, {"error": "Unauthenticated", "code": 16, "message": "Request header error: there is no user"}
        if server.token is not None:
            server.tokens.append(server.token)
        if server.forbidden and re.search(server.forbidden, f"{self.command} {path}"):
            return 403, {"error": "PermissionDenied", "code": 7, "message": "User 'eve' is not authorized"}
        found = re.fullmatch(rf"/apis/{server.api}/(.*)", path)
        for method, pattern, allowed, handle in _ROUTES:
            matched = re.fullmatch(pattern, found[1]) if found else None
            if matched and method == self.command:
                try:
                    known(query, allowed)
                    body = self._body(content)
                    done = handle(server.store, [unquote(part) for part in matched.groups()], query, body)
                except Refused as refused:
                    code = 13 if refused.status >= 500 else 3
                    return refused.status, {"error": refused.message, "code": code, "message": refused.message}
                return 200, {key: value for key, value in done.items() if not key.startswith("_")}
        return 404, {"error": "Not Found", "code": 5, "message": "Not Found"}

    def _body(self, content: bytes) -> Any:
        kind = self.headers.get("Content-Type", "")
        if not content:
            return None
        if kind == "application/json":
            return json.loads(content)
        head = f"Content-Type: {kind}\r\n\r\n".encode()
        message = email.message_from_bytes(head + content, policy=email.policy.HTTP)
        for part in message.iter_parts():
            if part.get_param("name", header="content-disposition") == "uploadfile":
                return part.get_payload(decode=True).decode()
        raise Refused(400, "Failed to read pipeline from file")

    def _send(self, status: int, text: str, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())
            self.wfile.flush()
        except OSError:  # The client has not waited for it.
            self.close_connection = True


def _listed(store: Store, found: list[Record], query: Query, kind: str) -> Record:
    page = store.page(found, query, f"{kind}_id")
    records = [{key: value for key, value in record.items() if key[0] != "_"} for record in page.pop("records")]
    return {_PLURALS[kind]: records, **page}


def _runs(store: Store, query: Query) -> Record:
    store.report()
    return _listed(store, _of_experiment(store.runs, query), query, "run")


def _of_experiment(records: dict[str, Record], query: Query) -> list[Record]:
    wanted = query.get("experiment_id")
    return [record for record in records.values() if wanted in (None, record["experiment_id"])]
