"""Access control: on this machine without a token, from others only with the token."""

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sangam.schemas.errors import UserError

TOKEN_VARIABLE = "SANGAM_UI_TOKEN"
COOKIE = "sangam_ui"
TOKEN_FIELD = "token"
_LEAST_CHARACTERS = 16
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d+)?")


def is_loopback(host: str) -> bool:
    """Returns whether an address to listen on is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """Returns the token of the user; None without one.

    Raises:
        UserError: the file cannot be read, or the token is too short to be secure.
    """
    place, token = f"${TOKEN_VARIABLE}", environment.get(TOKEN_VARIABLE)
    if file is not None:
        try:
            place, token = "--token-file", file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--token-file: cannot be read (got {file}: {error}); give a file with a token") from None
    if token is not None and len(token) < _LEAST_CHARACTERS:
        raise UserError(
            f"{place}: is too short (got {len(token)} characters); give at least {_LEAST_CHARACTERS}, for example from "
            "`openssl rand -hex 32`"
        )
    return token


@dataclass(frozen=True)
class Access:
    """The access rule of a server.

    Attributes:
        token: required token; None: no token is required.
        any_host: whether to answer requests with any `Host`. If False, only names of this machine are allowed, against
            DNS rebinding: another site's page could read ours under a name that resolves to this machine.
    """

    token: str | None
    any_host: bool

    @property
    def cookie(self) -> str:
        """Value of the browser's cookie after a request with the token: an HMAC, not the token itself."""
        return hmac.new((self.token or "").encode(), b"sangam ui", sha256).hexdigest()

    def knows_host(self, header: str) -> bool:
        """Returns whether a request is for this server, by its header `Host`."""
        found = _HOST.fullmatch(header.lower())
        return self.any_host or (found is not None and is_loopback(found[1] or found[2]))

    def is_token(self, given: str | None) -> bool:
        """Returns whether a token is right."""
        return self.token is not None and given is not None and _is_same(given, self.token)

    def allows(self, *, authorization: str | None, cookie: str | None) -> bool:
        """Returns whether a request is authorized, by its headers `Authorization` and `Cookie`."""
        if self.token is None:
            return True
        kind, _, bearer = (authorization or "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(bearer.strip()):
            return True
        return cookie is not None and _is_same(cookie, self.cookie)


def _is_same(given: str, known: str) -> bool:
    # Constant time, against timing attacks.
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())
