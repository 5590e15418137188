"""The connection to a server of Kubeflow Pipelines, from the options of a command."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from sangam.pipelines.deploy.api import Api


@dataclass(frozen=True)
class Connection:
    """Server, credentials and namespace: the options as the user gave them."""

    host: str
    namespace: str = ""
    token_env: str | None = None
    token_file: Path | None = None
    ca_cert: Path | None = None


@contextmanager
def connect(connection: Connection) -> Iterator["Api"]:
    """Yields the API of a server that has answered.

    Raises:
        UserError: an option is wrong, or there is no such server.
    """
    # Imported here, so that `sangam --help` stays fast.
    from sangam.pipelines.deploy.api import Api
    from sangam.pipelines.deploy.names import check_text
    from sangam.pipelines.deploy.transport import Credentials, Transport

    host = check_host(connection.host)
    if connection.namespace:
        check_text("--namespace", connection.namespace)
    if connection.token_env is not None and connection.token_file is not None:
        raise UserError("--token-env: does not go with --token-file (got both); give one of them")
    if connection.ca_cert is not None and not host.startswith("https:"):
        raise UserError(
            f"--ca-cert: has no effect with {host} (got {connection.ca_cert}); use https://, or leave it out"
        )
    credentials = Credentials(connection.token_env, connection.token_file)
    transport = Transport(host, credentials, dict(os.environ), connection.ca_cert, sleep=time.sleep)
    try:
        api = Api(transport, connection.namespace, time.sleep)
        api.check()
        yield api
    finally:
        transport.close()


def check_host(host: str) -> str:
    """Returns the address without a trailing slash.

    Raises:
        UserError: it is not an address, or contains a password, which would be printed with it.
    """
    try:
        parts = urlsplit(host)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port)
    except ValueError:
        is_address = False
    if is_address and (parts.username or parts.password):
        raise UserError("--host: contains a user or password; leave them out, and give a token with --token-env")
    if not is_address or parts.query or parts.fragment or any(character.isspace() for character in host):
        raise UserError(
            f"--host: is not an address (got {host!r}); for example http://localhost:8888 or https://NAME/path"
        )
    return host.rstrip("/")
