"""Requests to a server, and their errors."""

from collections.abc import Callable

from sangam.components.steps.infra_validator.rows import Tensors

Ask = Callable[[str, Tensors], Tensors]
"""Calls a signature with its inputs and returns its outputs; raises RequestFailed or Unfit."""


class RequestFailed(Exception):
    """The server answered with an error; it still runs.

    Attributes:
        code: gRPC code, for example INVALID_ARGUMENT.
        text: message of the server.
    """

    def __init__(self, code: str, text: str):
        super().__init__(f"{code}: {in_short(text)}")
        self.code = code
        self.text = text


def in_short(text: str, limit: int = 200) -> str:
    """Returns a text as one line, truncated to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
