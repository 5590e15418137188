"""Bounds the gRPC calls of the server: those without a message, and the memory that messages take."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from sangam.components.server.predictor import Predictor
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.room import request_bytes, worst_message_bytes
from sangam.schemas.host.grpc_calls import BoundedCalls

PREDICT = "Predict"
_SMALL_BYTES = 64 * 2**10
"""Maximum size of messages that may be parsed at the same time; their parsed size is not measured."""


class Arrivals(BoundedCalls):
    """Refuses messages that there is no memory for; reports invalid ones as the client's mistake."""

    def __init__(self, predictor: Predictor, *, max_waiting: int, timeout_s: float):
        """Takes the limits of `BoundedCalls`."""
        super().__init__(max_waiting=max_waiting, timeout_s=timeout_s, dropped=self._drop)
        self._predictor = predictor
        # One thread: malloc keeps freed memory for each thread.
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="grpc-parser")

    def answer(self, handler: Any, method: str, raw: bytes, context: Any) -> Any:
        """Returns the answer of a unary method, whose message holds its memory until then."""
        room = self._predictor.room
        try:
            if method == PREDICT:
                self._predictor.refuse_if_full()
            request, num_bytes = self._parsed(handler, method, raw, context)
        except RequestError as error:
            room.trim_after(worst_message_bytes(raw))
            self._refused(method, context, error)
        try:
            return handler.unary_unary(request, context)
        except Exception as error:  # noqa: BLE001 Raised again.
            # Its frames hold the message.
            error.__context__ = None
            raise error.with_traceback(None) from None
        finally:
            del request
            room.give(num_bytes)

    def _parsed(self, handler: Any, method: str, raw: bytes, context: Any) -> tuple[Any, int]:
        """Returns a message and the memory that is taken for it."""
        if len(raw) > _SMALL_BYTES:
            return self._parser.submit(self._measured, handler, method, raw, context).result()
        num_bytes = worst_message_bytes(raw)
        self._predictor.room.take(num_bytes)
        try:
            return self.decoded(handler, method, raw, context), num_bytes
        except BaseException:
            self._predictor.room.give(num_bytes)
            raise

    def _measured(self, handler: Any, method: str, raw: bytes, context: Any) -> tuple[Any, int]:
        request = self.decoded(handler, method, raw, context)
        num_bytes = worst_message_bytes(raw)
        if method == PREDICT:
            request.DiscardUnknownFields()
            num_bytes = request_bytes(request, raw)
        try:
            self._predictor.room.take(num_bytes)
        except RequestError:
            del request  # Before the next one is parsed.
            raise
        return request, num_bytes

    def refuse(self, method: str, context: Any, text: str) -> NoReturn:
        """Ends a call whose message is invalid."""
        self._refused(method, context, invalid(text))

    def _refused(self, method: str, context: Any, error: RequestError) -> NoReturn:
        try:
            with self._predictor.observe("grpc", method):
                raise error
        except RequestError as refused:
            context.abort(refused.code, refused.text)
        raise AssertionError("unreachable")

    def _drop(self) -> None:
        self._predictor.metrics.requests.labels("grpc", "", "", Code.CANCELLED.name).inc()
