"""The deadlines of REST requests; a gRPC request has its own."""

from sangam.components.server.request_error import invalid

HEADER = "x-envoy-expected-rq-timeout-ms"
"""Milliseconds that the client waits for the answer. Envoy, and meshes made of it, set it by themselves."""


def timeout_s(header: str | None, longest_s: float) -> float:
    """Returns the time that a request has, from its header on.

    Raises:
        RequestError: the header is no number of milliseconds.
    """
    if header is None:
        return longest_s
    if not (header.isascii() and header.isdigit() and len(header) <= 9 and int(header)):
        raise invalid(f"{HEADER}: is no time (got '{header[:20]}'); give whole milliseconds, 1 or more")
    return min(int(header) / 1e3, longest_s)
