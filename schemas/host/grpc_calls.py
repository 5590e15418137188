"""Bounds the open calls of a gRPC server: clients may open calls and send nothing, and each occupies a thread."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

_SWEEP_S = 0.5
_PATIENCE_S = 1.0
"""Minimum seconds that a call may wait for its message: a burst of legitimate calls takes time."""
_WATCH_S = 600.0
"""Time limit of a call that waits for news without a thread, such as a health check's Watch; clients open it again."""
_MAX_WATCHES = 512


class BoundedCalls(grpc.ServerInterceptor):
    """Passes each method its messages when they arrive, and ends calls whose messages do not.

    It handles every method as a stream of requests: grpc starts the handler of another kind only once the message has
    arrived, and a call without one would occupy a thread without limit. A stream occupies its thread until it ends, so
    its whole time counts as waiting.
    """

    def __init__(self, *, max_waiting: int, timeout_s: float, dropped: Callable[[], None] = lambda: None):
        """Creates the interceptor.

        Args:
            max_waiting: number of calls that may wait for longer than a moment; fewer than the server has threads.
            timeout_s: time limit of waiting.
            dropped: called for each call that is ended.
        """
        self._max_waiting, self._timeout_s, self._dropped = max_waiting, timeout_s, dropped
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, Any]] = {}
        self._watches: dict[int, tuple[float, Any]] = {}
        self._is_sweeping = False

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Returns the handler of a method."""
        handler = continuation(details)
        if handler is None:
            return None
        method = details.method.rpartition("/")[2]
        if handler.unary_unary:
            return grpc.stream_unary_rpc_method_handler(self._unary(handler, method), None, handler.response_serializer)
        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(
                self._stream_unary(handler, method), None, handler.response_serializer
            )
        behavior = handler.unary_stream or handler.stream_stream
        is_watch = bool(handler.unary_stream) and getattr(behavior, "experimental_non_blocking", False)
        made = self._watch(handler, method) if is_watch else self._stream(handler, method)
        return grpc.stream_stream_rpc_method_handler(made, None, handler.response_serializer)

    def answer(self, handler: Any, method: str, raw: bytes, context: Any) -> Any:
        """Returns the answer of a unary method."""
        return handler.unary_unary(self.decoded(handler, method, raw, context), context)

    def decoded(self, handler: Any, method: str, raw: bytes, context: Any) -> Any:
        """Returns a message; an invalid one is the client's mistake, which grpc would report as the server's."""
        try:
            return handler.request_deserializer(raw) if handler.request_deserializer else raw
        except DecodeError as error:
            text = f"message: is not a {method} request (got {len(raw)} bytes: {error})"
            self.refuse(method, context, f"{text}; send the message of the service's definition")

    def refuse(self, method: str, context: Any, text: str) -> NoReturn:
        """Ends a call whose message is invalid."""
        del method
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        raise AssertionError("unreachable")

    def _unary(self, handler: Any, method: str) -> Callable[[Iterator[bytes], Any], Any]:
        return lambda messages, context: self.answer(handler, method, self._first(messages, context), context)

    def _stream_unary(self, handler: Any, method: str) -> Callable[[Iterator[bytes], Any], Any]:
        def call(messages: Iterator[bytes], context: Any) -> Any:
            with self._counted(context):
                return handler.stream_unary(self._requests(handler, method, messages, context), context)

        return call

    def _stream(self, handler: Any, method: str) -> Callable[[Iterator[bytes], Any], Iterator[Any]]:
        def call(messages: Iterator[bytes], context: Any) -> Iterator[Any]:
            with self._counted(context):
                requests = self._requests(handler, method, messages, context)
                if handler.stream_stream:
                    yield from handler.stream_stream(requests, context)
                else:
                    yield from handler.unary_stream(next(requests), context)

        return call

    def _watch(self, handler: Any, method: str) -> Any:
        def call(messages: Iterator[bytes], context: Any, send_response_callback: Any) -> None:
            request = self.decoded(handler, method, self._first(messages, context), context)
            with self._lock:
                self._watches[id(context)] = time.monotonic(), context
            if not context.add_callback(lambda: self._forget(self._watches, context)):
                self._forget(self._watches, context)
                return
            self._start_to_sweep()
            handler.unary_stream(request, context, send_response_callback)

        call.experimental_non_blocking = True  # type: ignore[attr-defined] # Read by grpc: needs no thread afterwards.
        return call

    def _requests(self, handler: Any, method: str, messages: Iterator[bytes], context: Any) -> Iterator[Any]:
        return (self.decoded(handler, method, raw, context) for raw in messages)

    def _first(self, messages: Iterator[bytes], context: Any) -> bytes:
        with self._counted(context):
            return next(messages, b"")

    @contextmanager
    def _counted(self, context: Any) -> Iterator[None]:
        with self._lock:
            self._waiting[id(context)] = time.monotonic(), context
        self._start_to_sweep()
        try:
            yield
        finally:
            self._forget(self._waiting, context)

    def _forget(self, calls: dict[int, tuple[float, Any]], context: Any) -> None:
        with self._lock:
            calls.pop(id(context), None)

    def _start_to_sweep(self) -> None:
        if self._is_sweeping:
            return
        with self._lock:
            is_first, self._is_sweeping = not self._is_sweeping, True
        if is_first:
            threading.Thread(target=self._sweep, name="grpc-calls", daemon=True).start()

    def _sweep(self) -> None:
        while True:
            time.sleep(_SWEEP_S)
            with self._lock:
                self._is_sweeping = bool(self._waiting or self._watches)
                if not self._is_sweeping:
                    return
                ended = [
                    *_overdue(self._waiting, self._max_waiting, _PATIENCE_S, self._timeout_s),
                    *_overdue(self._watches, _MAX_WATCHES, 0.0, _WATCH_S),
                ]
            for context in ended:
                self._dropped()
                context.cancel()


def _overdue(calls: dict[int, tuple[float, Any]], most: int, patience_s: float, limit_s: float) -> list[Any]:
    """Returns the calls that are older than the limit, and the oldest of those that are too many."""
    now, num_over = time.monotonic(), len(calls) - most
    return [
        context
        for index, (since, context) in enumerate(calls.values())
        if now - since > (patience_s if index < num_over else limit_s)
    ]
