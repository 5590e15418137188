"""Where alerts go: address and key from the environment, checked before a run starts."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from schemas.errors import UserError
from schemas.spec.alerts import Alerts

MIN_KEY_LENGTH = 16


@dataclass(frozen=True)
class Target:
    """A webhook.

    Attributes:
        url: address; it may hold a secret, as those of chat services do, and is never shown.
        key: that bodies are signed with.
        shown: scheme, host and port.
        is_loopback: on this machine.
    """

    url: str = field(repr=False)
    key: str = field(repr=False)
    shown: str
    is_loopback: bool


def target_of(alerts: Alerts, environ: Mapping[str, str]) -> Target:
    """Returns where alerts go.

    Raises:
        UserError: a variable that is not set, no address of https, or a key that is too short. Neither value is shown.
    """
    url, key = (_variable(alerts, name, environ) for name in ("url_env", "key_env"))
    if len(key) < MIN_KEY_LENGTH:
        raise UserError(
            f"alerts.key_env: the key in {alerts.key_env} is too short (got {len(key)} characters); "
            f"at least {MIN_KEY_LENGTH}, for example from `openssl rand -hex 32`"
        )
    return _target(alerts, url, key)


def _variable(alerts: Alerts, setting: str, environ: Mapping[str, str]) -> str:
    name: str = getattr(alerts, setting)
    value = environ.get(name, "")
    if not value:
        got = "is empty" if name in environ else "is not set"
        raise UserError(
            f"alerts.{setting}: the environment variable {name} {got}; "
            "set it, or remove `alerts` from the spec to run without"
        )
    if value != value.strip() or not value.isprintable():
        raise UserError(
            f"alerts.{setting}: the value of {name} has white space around it or control characters (not shown); "
            "often the newline at the end of a file: take it away"
        )
    return value


def _target(alerts: Alerts, url: str, key: str) -> Target:
    allowed = "an address such as https://alerts.example/sangam; http is for this machine alone (localhost, 127.0.0.1)"
    place = f"alerts.url_env: the value of {alerts.url_env}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UserError(f"{place} is no address (not shown); {allowed}") from None
    if parts.scheme not in ("http", "https") or not host or any(char.isspace() for char in url):
        raise UserError(f"{place} is no address of the web (not shown); {allowed}")
    shown = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    is_loopback = _is_loopback(host)
    if parts.scheme == "http" and not is_loopback:
        raise UserError(f"{place} is not encrypted (got {shown}); {allowed}")
    return Target(url=url, key=key, shown=shown, is_loopback=is_loopback)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
