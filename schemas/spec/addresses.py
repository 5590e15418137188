"""Addresses of servers."""

import re
from typing import Annotated

from pydantic import AfterValidator

_HOST_PORT = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?:[0-9]{1,5}"


def is_host_port(text: str) -> str:
    """Returns the text.

    Raises:
        ValueError: it is not host:port.
    """
    if not re.fullmatch(_HOST_PORT, text) or not 0 < int(text.rpartition(":")[2]) < 65536:
        raise ValueError("must be host:port, as in 'localhost:50000'")
    return text


HostPort = Annotated[str, AfterValidator(is_host_port)]
