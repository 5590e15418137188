"""What is said to a client whose request is not answered, in the codes of gRPC and of HTTP."""

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
"""The codes that this server answers with."""


class Refused(Exception):
    """A request that gets no answer.

    Attributes:
        code: of gRPC.
        text: `<place>: <what is wrong> (got <value>); <what is allowed>`, for the client.
        http_status: where it is not the code's own.
    """

    def __init__(self, code: Code, text: str, http_status: int | None = None):
        super().__init__(text)
        self.code, self.text = code, text
        self.http_status = http_status or HTTP_STATUS[code]


def invalid(text: str) -> Refused:
    """Returns the refusal of a request that cannot be right, whatever the server's state."""
    return Refused(Code.INVALID_ARGUMENT, text)
