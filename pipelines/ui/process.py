"""The server process: listens, prints its address, serves until a signal."""

import asyncio
import json
import logging
import secrets
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sangam.pipelines.console import say
from sangam.pipelines.ui.access import TOKEN_FIELD, Access, is_loopback
from sangam.pipelines.ui.application import application
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

_BACKLOG = 128
_GRACE_S = 0.2
"""Time for open requests at the end: event streams never end by themselves. aiohttp waits for ever if it is 0."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Options:
    """The settings of the server.

    Attributes:
        root: root of the runs.
        host: address to listen on.
        port: port to listen on; 0: any free one.
        token: required token; None: none on loopback, a new random one elsewhere.
        as_json: whether to print JSON.
    """

    root: Path
    host: str
    port: int
    token: str | None = None
    as_json: bool = False


def serve(options: Options) -> int:
    """Serves until SIGINT, SIGTERM or SIGHUP; returns the exit code.

    Raises:
        UserError: the root is not a folder, or the address cannot be bound.
    """
    if not options.root.is_dir():
        what = "is no folder" if options.root.exists() else "no such folder"
        raise UserError(f"ROOT: {what} (got {options.root}); give the --root of `sangam run`")
    own = is_loopback(options.host)
    access = Access(options.token or (None if own else secrets.token_urlsafe(32)), any_host=not own)
    listener = _listen(options.host, options.port)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # Do not log malformed requests.
    asyncio.run(_serve(application(Root(str(options.root.resolve())), access), listener, options, access))
    return ExitCode.DONE


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        told = getattr(error, "strerror", None) or error
        raise UserError(
            f"--port: cannot listen (got {_address(host, port)}: {told}); give another --port, or 0 for any free one, "
            "and a --host of this machine"
        ) from None


async def _serve(app: web.Application, listener: socket.socket, options: Options, access: Access) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        # Print only generated tokens: the user knows a given one, and it must not get into logs.
        made = access.token if options.token is None else None
        _announce(options, f"http://{_address(options.host, listener.getsockname()[1])}/", made)
        await stopped.wait()
    finally:
        await runner.cleanup()


def _announce(options: Options, address: str, token: str | None) -> None:
    if options.as_json:
        print(json.dumps({"root": str(options.root), "address": address, "token": token}), flush=True)
        return
    say(f"{options.root} is shown at {address}{f'?{TOKEN_FIELD}={token}' if token else ''}")
    say("Ctrl-C ends it")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
