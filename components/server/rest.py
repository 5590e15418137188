"""The REST interface of TensorFlow Serving, and the pages for probes and Prometheus; runs in its own thread."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

from aiohttp import web
from google.protobuf import json_format
from pydantic_core import from_json

from sangam.components.request_log.served import is_id
from sangam.components.server import deadlines, json_values
from sangam.components.server.connections import ClientGone, Connection, Connections
from sangam.components.server.predictor import Observation, Predictor, Target
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.room import json_bytes
from sangam.components.server.served_log import new_id
from sangam.components.server.statuses import metadata, model_status
from sangam.schemas.contracts.request_log import REQUEST_ID_KEY

_API = "rest"
_MODEL = r"/v1/models/{name:[^/:]+}"
_VERSION = _MODEL + r"/versions/{version:\d{1,18}}"
_START_TIMEOUT_S = 30
_ABORT_S = 1.0
_BACKLOG = 1024
_SPARE_REQUESTS = 64
"""Complete requests in addition to running and waiting ones, each with a body in memory."""
_MAX_ARRIVING_BODIES = 8
"""Bodies of the largest size whose memory all incomplete bodies together may take."""


class RestServer:
    """The REST server; it listens once it is constructed.

    Attributes:
        port: port that it listens on.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        host: str,
        port: int,
        num_requests: int,
        timeout_s: float,
        max_connections: int,
        metrics_page: Callable[[], bytes],
        shares_port: bool = False,
    ):
        """Listens on host and port, 0 for any port; a request may take `timeout_s` to arrive and get a slot.

        `metrics_page` returns what Prometheus scrapes. `shares_port`: as in `GrpcServer`.

        Raises:
            OSError: if it cannot listen there.
        """
        self._predictor, self._timeout_s = predictor, timeout_s
        self._metrics_page = metrics_page
        self._is_draining = False
        self._num_arrived, self._max_arrived = 0, num_requests + _SPARE_REQUESTS
        self._connections = Connections(
            max_open=max_connections,
            max_body_bytes=predictor.max_bytes,
            max_bytes=predictor.max_bytes * _MAX_ARRIVING_BODIES,
            timeout_s=timeout_s,
            metrics=predictor.metrics,
            log=predictor.log,
        )
        self._workers = futures.ThreadPoolExecutor(num_requests + 2, thread_name_prefix="rest")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rest", daemon=True)
        self._thread.start()
        self._runner = web.AppRunner(self._application(), access_log=None, handle_signals=False, shutdown_timeout=0)
        listening = asyncio.run_coroutine_threadsafe(self._listen(host, port, shares_port), self._loop)
        self.port: int = listening.result(_START_TIMEOUT_S)

    def set_draining(self) -> None:
        """Makes /readyz report that the server is stopping."""
        self._is_draining = True

    def stop(self, grace_s: float) -> None:
        """Accepts no new request, and waits for the running ones until the grace period ends."""
        stopping = asyncio.run_coroutine_threadsafe(self._stop(grace_s), self._loop)
        futures.wait([stopping], grace_s + _ABORT_S)

    async def _listen(self, host: str, port: int, shares_port: bool) -> int:
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        self._listener = await self._loop.create_server(
            lambda: Connection(self._connections, server, self._loop),
            host,
            port,
            backlog=_BACKLOG,
            reuse_port=shares_port,
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def _stop(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        self._listener.close()
        while self._num_arrived and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=self._predictor.max_bytes, middlewares=[self._guard])
        routes = application.router
        for path in (_MODEL, _VERSION):
            routes.add_post(path + ":predict", self._predict)
            routes.add_post(path + "{method::(classify|regress)}", self._not_offered)
            routes.add_get(path, self._status)
            routes.add_get(path + "/metadata", self._metadata)
        routes.add_get("/healthz", self._healthz)
        routes.add_get("/readyz", self._readyz)
        routes.add_get("/metrics", self._metrics)
        routes.add_get("/deltas", self._deltas)
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.body_exists:
            self._connections.arrived(request.protocol)
        try:
            return await handler(request)
        except web.HTTPException as error:  # Raised by aiohttp: no such path, wrong method.
            text = f"{request.method} {request.path}: {error.reason}; see /v1/models/{self._predictor.name}"
            return _json({"error": text}, error.status)
        finally:
            self._connections.answered(request.protocol)

    async def _predict(self, request: web.Request) -> web.Response:
        if self._predictor.log_of_requests is not None:
            request[REQUEST_ID_KEY] = request.headers.get(REQUEST_ID_KEY) or new_id()
        answer = await self._answer(
            request, "Predict", lambda body, observed, deadline: self._run(request, body, observed, deadline)
        )
        if REQUEST_ID_KEY in request and is_id(request[REQUEST_ID_KEY]):
            answer.headers[REQUEST_ID_KEY] = request[REQUEST_ID_KEY]
        return answer

    async def _status(self, request: web.Request) -> web.Response:
        name, version = _target(request)
        return await self._answer(
            request, "GetModelStatus", lambda *_: _message(model_status(self._predictor, name, version))
        )

    async def _metadata(self, request: web.Request) -> web.Response:
        return await self._answer(request, "GetModelMetadata", lambda *_: self._describe(*_target(request)))

    async def _not_offered(self, request: web.Request) -> web.Response:
        def refuse(*_: Any) -> bytes:
            raise RequestError(Code.UNIMPLEMENTED, f"{request.path}: not offered by this server; :predict is")

        return await self._answer(request, request.match_info["method"].lstrip(":").title(), refuse)

    async def _healthz(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:  # noqa: ARG002
        if self._is_draining:
            return web.Response(text="stopping\n", status=503)
        try:
            version = self._predictor.versions.ready().version
        except RequestError as refused:
            return web.Response(text=f"{refused.text}\n", status=503)
        return web.Response(text=f"ready {self._predictor.name} {version}\n")

    async def _metrics(self, request: web.Request) -> web.Response:  # noqa: ARG002
        page = await self._loop.run_in_executor(self._workers, self._metrics_page)
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _deltas(self, request: web.Request) -> web.Response:  # noqa: ARG002
        following = self._predictor.versions.deltas()
        return _json({"version": None} if following is None else following.document(), 200)

    async def _answer(
        self, request: web.Request, method: str, work: Callable[[bytes, Observation, float], bytes]
    ) -> web.Response:
        """Handles the request in a worker thread once its body has arrived; errors are JSON too."""
        arrived = time.monotonic()
        deadline = arrived + self._timeout_s
        refused: RequestError | None = None
        body, room = b"", self._predictor.room
        try:
            deadline = arrived + deadlines.timeout_s(request.headers.get(deadlines.HEADER), self._timeout_s)
            body = await self._read(request, arrived + self._timeout_s)
            room.take(len(body))
        except RequestError as error:
            refused = error
        except ClientGone:
            return web.Response()

        def observed_work() -> bytes:
            with self._predictor.observe(_API, method) as observed:
                if refused is not None:
                    raise refused
                return work(body, observed, deadline)

        try:
            if refused is not None:  # Without a worker thread, which other requests need.
                return _response(observed_work(), 200)
            self._num_arrived += 1
            try:
                return _response(await self._loop.run_in_executor(self._workers, observed_work), 200)
            finally:
                self._num_arrived -= 1
                room.give(len(body))
        except RequestError as error:
            return _json({"error": error.text}, error.http_status)

    async def _read(self, request: web.Request, deadline: float) -> bytes:
        if self._is_draining:
            raise RequestError(Code.UNAVAILABLE, "server: is stopping; use another replica")
        body = await self._connections.body(request, deadline)
        if self._num_arrived >= self._max_arrived:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED, f"server: busy (got {self._num_arrived} requests); try again later"
            )
        return body

    def _run(self, request: web.Request, raw: bytes, observed: Observation, deadline: float) -> bytes:
        self._predictor.refuse_if_full()
        num_bytes = json_bytes(raw) - len(raw)
        self._predictor.room.take(num_bytes)
        try:
            return self._predicted(request, _parse(raw), observed, deadline)
        except RequestError as error:
            error.__context__ = None
            raise error.with_traceback(None) from None  # Frames hold the values.
        finally:
            self._predictor.room.give(num_bytes)

    def _predicted(self, request: web.Request, body: dict[str, Any], observed: Observation, deadline: float) -> bytes:
        name, version = _target(request)
        observed.request_id = request.get(REQUEST_ID_KEY, "")
        answer = self._predictor.predict(
            Target(name, version, body.get("signature_name", "")),
            lambda signature: json_values.read_request(signature, body),
            deadline=deadline,
            observed=observed,
        )
        outputs = dict(sorted(answer.outputs.items()))
        if "instances" in body:
            return _encode({"predictions": json_values.rows(outputs)})
        columns = {name: json_values.value_of(name, array) for name, array in outputs.items()}
        return _encode({"outputs": next(iter(columns.values())) if len(columns) == 1 else columns})

    def _describe(self, name: str, version: int | None) -> bytes:
        self._predictor.check_name(name)
        model = self._predictor.versions.ready(version)
        spec = {"name": name, "signature_name": "", "version": str(model.version)}
        signature_def = json_format.MessageToDict(
            metadata(model), including_default_value_fields=True, preserving_proto_field_name=True
        )
        return _encode({"model_spec": spec, "metadata": {"signature_def": signature_def}})


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        # It nests lists up to 200 deep, and refuses half a surrogate pair, which no string in UTF-8 has.
        body = from_json(raw)
    except ValueError as error:
        raise invalid(f"body: is not JSON (got {error}); give an object, nested 200 deep at most") from None
    if not isinstance(body, dict) or ("instances" in body) == ("inputs" in body):
        got = sorted(body) if isinstance(body, dict) else type(body).__name__
        raise invalid(f"body: needs either instances or inputs (got {got}); rows or columns")
    if not isinstance(body.get("signature_name", ""), str):
        raise invalid(f"signature_name: is not a string (got {body['signature_name']!r}); give a signature's name")
    return body


def _target(request: web.Request) -> tuple[str, int | None]:
    version = request.match_info.get("version")
    return request.match_info["name"], None if version is None else int(version)


def _message(message: Any) -> bytes:
    return _encode(
        json_format.MessageToDict(message, including_default_value_fields=True, preserving_proto_field_name=True)
    )


def _encode(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _json(document: Any, status: int) -> web.Response:
    return _response(_encode(document), status)


def _response(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
