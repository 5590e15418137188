"""Requests to a server's REST interface."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from sangam.components.load.offering import OK, TOO_LATE
from sangam.components.load.signature import Arrays
from sangam.components.server.deadlines import HEADER
from sangam.schemas.contracts.export import RANK
from sangam.schemas.errors import UserError

_START_S = 10.0
_CODES = {200: OK, 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: TOO_LATE}
"""Statuses of HTTP as codes of gRPC."""


class RestServer:
    """A server's REST interface, with open connections."""

    def __init__(self, session: aiohttp.ClientSession, address: str, name: str):
        self._session, self._path = session, f"{address}/v1/models/{name}"

    async def metadata(self) -> Any:
        """Returns the model's signatures.

        Raises:
            UserError: the server does not tell them.
        """
        async with self._session.get(f"{self._path}/metadata") as answer:
            text = await answer.text()
        if answer.status != 200:
            raise UserError(f"ADDRESS: {self._path} tells no signatures (got {answer.status}: {text.strip()[:200]})")
        return json.loads(text)["metadata"]["signature_def"]

    def message(self, arrays: Arrays) -> bytes:
        """Returns the body of a request."""
        columns = {name: _jsonable(array.tolist()) for name, array in arrays.items()}
        return json.dumps({"signature_name": RANK, "inputs": columns}).encode()

    async def send(self, message: bytes, timeout_s: float) -> str:
        """Sends a request; returns the code of its answer."""
        headers = {HEADER: str(max(1, int(timeout_s * 1e3))), "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.post(
                f"{self._path}:predict", data=message, headers=headers, timeout=timeout
            ) as answer:
                await answer.read()
                return _CODES.get(answer.status, f"HTTP {answer.status}")
        except TimeoutError:
            return TOO_LATE
        except aiohttp.ClientError:
            return "UNAVAILABLE"


@asynccontextmanager
async def connect(address: str, name: str, connections: int) -> AsyncIterator[RestServer]:
    """Connects to http://host:port; at most so many connections are open, and a request waits for a free one.

    Raises:
        UserError: nothing answers there.
    """
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=_START_S), trust_env=False
    ) as session:
        try:
            name = name or await _name(session, address)
            yield RestServer(session, address, name)
        except (aiohttp.ClientError, TimeoutError) as error:
            told = str(error).partition("\n")[0][:200] or type(error).__name__
            raise UserError(
                f"ADDRESS: no server of REST answers there (got {address}: {told}); give "
                "http://host:port of REST, or host:port of gRPC"
            ) from None


async def _name(session: aiohttp.ClientSession, address: str) -> str:
    """Returns the name of the served model, as this server tells it."""
    async with session.get(f"{address}/readyz") as answer:
        words = (await answer.text()).split()
    if answer.status != 200 or len(words) != 3 or words[0] != "ready":
        told = " ".join(words)[:200]
        raise UserError(f"ADDRESS: serves no model (got {answer.status}: {told}); wait for one, or give --name")
    return words[1]


def _jsonable(values: Any) -> Any:
    if isinstance(values, list):
        return [_jsonable(value) for value in values]
    return values.decode(errors="surrogateescape") if isinstance(values, bytes) else values
