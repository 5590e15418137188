"""A small Kubernetes API server for tests: real HTTP, watches, a Role that is obeyed, and faults.

It stores objects; `tests.fakes.kubernetes_controllers` acts on them as a cluster's controllers do.
"""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.fakes.kubernetes_store import NAMESPACE, Object, StatusError, Store, has_labels

TOKEN = "token-of-the-step"


@dataclass
class Fault:
    """What goes wrong with the next requests of a kind.

    Attributes:
        verb: of the request.
        resource: its plural.
        code: of the answer; 0: the connection is closed without one.
        times: how often.
        headers: of the answer.
        is_done: whether the request has had its effect all the same.
        delay_s: before anything.
    """

    verb: str
    resource: str
    code: int = 0
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    is_done: bool = False
    delay_s: float = 0.0


class KubernetesApi:
    """The server. Requests are authorized by a Role file, and what was used of it is noted."""

    def __init__(self, role: Path):
        self.store = Store()
        self.faults: list[Fault] = []
        self.used: set[tuple[str, str, str]] = set()
        self.requests: list[tuple[str, str]] = []
        self.rules = granted(role)
        self.epoch = 0
        self.is_stopped = False
        api = self

        class Handler(_Handler):
            pass

        Handler.api = api
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self.is_stopped = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def write_kubeconfig(self, path: Path, token: str = TOKEN) -> Path:
        """Writes how to reach it."""
        host, port = self._server.server_address[:2]
        cluster = {"name": "c", "cluster": {"server": f"http://{host!s}:{port}"}}
        user = {"name": "u", "user": {"token": token}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
        config = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        return path

    def cut(self) -> None:
        """Cuts all streams off in the middle of a line."""
        with self.store.changed:
            self.epoch += 1
            self.store.changed.notify_all()

    def fault(self, verb: str, resource: str) -> Fault | None:
        """Returns what goes wrong with a request, and takes note that it has."""
        with self.store.changed:
            self.requests.append((verb, resource))
            for fault in self.faults:
                if (fault.verb, fault.resource) == (verb, resource) and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def authorize(self, token: str, group: str, verb: str, resource: str) -> None:
        if token != f"Bearer {TOKEN}":
            raise StatusError(401, "Unauthorized", "Unauthorized")
        if (group, resource, verb) not in self.rules:
            message = f'User "step" cannot {verb} resource "{resource}" in API group "{group}"'
            raise StatusError(403, "Forbidden", message)
        self.used.add((group, resource, verb))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every answer comes 40 ms late
    api: KubernetesApi

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self, verb: str) -> None:
        parts = urlsplit(self.path)
        names = parts.path.strip("/").split("/")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        group, rest = ("", names[2:]) if names[0] == "api" else (names[1], names[3:])
        assert rest[:2] == ["namespaces", NAMESPACE], parts.path
        plural, name, sub = (*rest[2:], "", "")[:3]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        if verb == "get" and not name:
            verb = "watch" if query.get("watch") == "true" else "list"
        resource = f"{plural}/{sub}" if sub else plural
        fault = self.api.fault(verb, resource)
        try:
            if fault is not None:
                time.sleep(fault.delay_s)
                if fault.is_done:
                    self._answer(verb, plural, name, query, body)
                if fault.code:
                    raise StatusError(fault.code, "Fault", "a fault of the test")
                if not fault.delay_s:
                    self.close_connection = True
                    self.connection.close()
                    return
            self.api.authorize(self.headers.get("Authorization", ""), group, verb, resource)
            if resource == "pods/log":
                self._stream(self._log_lines(name, query))
            elif verb == "watch":
                self._stream(self._changes(plural, query))
            else:
                self._send(200, self._answer(verb, plural, name, query, body))
        except StatusError as error:
            self._send(error.code, error.body(), fault.headers if fault else {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def do_PATCH(self) -> None:
        self._serve("patch")

    def _answer(self, verb: str, plural: str, name: str, query: dict[str, str], body: Object) -> Object:
        store = self.api.store
        if verb == "create":
            return store.create(plural, body)
        if verb == "patch":
            return store.merge(plural, name, body)
        if verb == "delete":
            store.delete(plural, name)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if verb == "get":
            if (found := store.get(plural, name)) is None:
                raise StatusError(404, "NotFound", f'{plural} "{name}" not found')
            return found
        with store.changed:
            items = [each for each in store.list(plural, labels_of(query)) if has_fields(each, query)]
            return {"kind": "List", "metadata": {"resourceVersion": str(store.version)}, "items": items}

    def _changes(self, plural: str, query: dict[str, str]) -> Iterator[str]:
        store, labels, version = self.api.store, labels_of(query), int(query.get("resourceVersion") or 0)
        until = time.monotonic() + float(query.get("timeoutSeconds") or 30)
        while time.monotonic() < until:
            with store.changed:
                if version < store.oldest:
                    gone = StatusError(410, "Expired", "too old resource version")
                    yield json.dumps({"type": "ERROR", "object": gone.body()})
                    return
                new = [each for each in store.history if each[0] > version]
                if not new:
                    store.changed.wait(0.2)
            for number, kind, event, changed in new:
                version = number
                if kind == plural and has_labels(changed, labels):
                    yield json.dumps({"type": event, "object": changed})
            if not new:
                yield ""

    def _log_lines(self, pod: str, query: dict[str, str]) -> Iterator[str]:
        store, sent = self.api.store, 0
        if store.get("pods", pod) is None:
            raise StatusError(404, "NotFound", f'pods "{pod}" not found')
        while True:
            with store.changed:
                found = store.get("pods", pod)
                is_over = found is None or found.get("status", {}).get("phase") in ("Succeeded", "Failed")
                new, sent = store.logs[pod][sent:], len(store.logs[pod])
                if not (new or is_over):
                    store.changed.wait(0.2)
            for moment, line in new:
                yield f"{moment} {line}" if query.get("timestamps") == "true" else line
            if is_over or query.get("follow") != "true":
                return
            yield ""

    def _stream(self, lines: Iterator[str]) -> None:
        epoch = self.api.epoch
        first = next(lines, None)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in itertools.chain([] if first is None else [first], lines):
            if self.api.epoch != epoch:
                self._chunk('{"type": "MODI')
                self.close_connection = True
                self.connection.close()
                return
            if line:
                self._chunk(f"{line}\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, code: int, body: Object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def granted(role: Path) -> set[tuple[str, str, str]]:
    """Returns group, resource and verb of all that a Role file allows."""
    [found] = [each for each in yaml.safe_load_all(role.read_text()) if each and each["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def labels_of(query: dict[str, str]) -> dict[str, str]:
    pairs = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    return {key: value for key, value in pairs}


def has_fields(found: Object, query: dict[str, str]) -> bool:
    pairs = [pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair]
    return all(found.get("involvedObject", {}).get("name") == value for _, value in pairs)
