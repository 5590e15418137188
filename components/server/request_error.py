"""The error of a refused request, with its gRPC and HTTP codes."""

from typing import TypeAlias

import grpc

Code: TypeAlias = grpc.StatusCode

HTTP_STATUS = {
    Code.INVALID_ARGUMENT: 400,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.INTERNAL: 500,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}
"""The codes that this server uses."""


_MAX_CHARACTERS = 1500


class RequestError(Exception):
    """A request was refused.

    Attributes:
        code: gRPC code.
        text: `<place>: <what is wrong> (got <value>); <what is allowed>`, for the client.
        http_status: HTTP status; by default the one of the code.
    """

    def __init__(self, code: Code, text: str, http_status: int | None = None):
        # Names and values of a request may be as long as the request; trailers of gRPC have 8 kB.
        text = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
        super().__init__(text)
        self.code, self.text = code, text
        self.http_status = http_status or HTTP_STATUS[code]


def invalid(text: str) -> RequestError:
    """Returns the error of a request that is invalid whatever the server's state."""
    return RequestError(Code.INVALID_ARGUMENT, text)
