"""Ends calls whose message does not arrive: a client may open them and send nothing, and each occupies a thread."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from components.server.predictor import Predictor
from components.server.request_error import Code, RequestError, invalid

_SWEEP_S = 0.5
_PATIENCE_S = 1.0
"""Minimum seconds that a call may wait for its message: a burst of legitimate calls takes time."""


class Arrivals(grpc.ServerInterceptor):
    """Passes each unary method its message when it arrives, and ends calls whose message does not.

    It handles them as streams of requests, as grpc calls no handler of a unary method before its message has arrived.
    An invalid message is reported as the client's mistake; grpc itself would report it as the server's.
    """

    def __init__(self, predictor: Predictor, *, max_waiting: int, timeout_s: float):
        """Takes the number of calls that may wait for longer than a moment, and their timeout."""
        self._predictor, self._max_waiting, self._timeout_s = predictor, max_waiting, timeout_s
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, Any]] = {}

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Returns the handler of a method."""
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.rpartition("/")[2]

        def call(messages: Iterator[bytes], context: Any) -> Any:
            raw = self._first(messages, context)
            try:
                request = handler.request_deserializer(raw)
            except DecodeError as error:
                self._refuse(method, context, f"message: is not a {method} request (got {len(raw)} bytes: {error})")
            return handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(call, None, handler.response_serializer)

    def start(self) -> None:
        """Starts the thread that ends calls."""
        threading.Thread(target=self._sweep, name="grpc-arrivals", daemon=True).start()

    def _first(self, messages: Iterator[bytes], context: Any) -> bytes:
        with self._lock:
            self._waiting[id(context)] = time.monotonic(), context
        try:
            return next(messages, b"")
        finally:
            with self._lock:
                self._waiting.pop(id(context), None)

    def _refuse(self, method: str, context: Any, text: str) -> None:
        try:
            with self._predictor.observe("grpc", method):
                raise invalid(f"{text}; send the message of the service's definition")
        except RequestError as refused:
            context.abort(refused.code, refused.text)

    def _sweep(self) -> None:
        while True:
            time.sleep(_SWEEP_S)
            now = time.monotonic()
            with self._lock:
                waiting = list(self._waiting.values())
            num_over = len(waiting) - self._max_waiting
            for index, (since, context) in enumerate(waiting):
                if now - since > (_PATIENCE_S if index < num_over else self._timeout_s):
                    self._predictor.metrics.requests.labels("grpc", "", "", Code.CANCELLED.name).inc()
                    context.cancel()
