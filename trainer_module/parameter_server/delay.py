"""Delayed calls, for measurements on a machine without a slow network."""

import time
from typing import Any

import grpc

from sangam.schemas.errors import UserError

VARIABLE = "SANGAM_PARAMETER_SERVER_DELAY_MS"
"""A server's environment variable: `20` delays every call by 20 ms; `exchange:20` only calls of that method."""


class Delayed(grpc.GenericRpcHandler):
    """Delays another handler; waiting blocks a thread but uses no CPU."""

    def __init__(self, handler: grpc.GenericRpcHandler, declared: str):
        """Parses the delay.

        Args:
            handler: the handler that answers.
            declared: value of `VARIABLE`.

        Raises:
            UserError: the delay is not a number.
        """
        self._handler = handler
        self._method, _, milliseconds = declared.rpartition(":")
        try:
            self._delay_s = float(milliseconds) / 1e3
        except ValueError as error:
            raise UserError(f"{VARIABLE}: not milliseconds (got {declared!r}); use 20 or exchange:20") from error

    def service(self, handler_call_details: Any) -> Any:
        """Returns the handler of a method."""
        handler = self._handler.service(handler_call_details)
        method = handler_call_details.method.rpartition("/")[2]
        if handler is None or self._method not in ("", method):
            return handler

        def answer(request: bytes, context: grpc.ServicerContext) -> Any:
            time.sleep(self._delay_s)
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer)
