"""The target of alerts: URL and key from the environment, checked before a run starts."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sangam.schemas.errors import UserError
from sangam.schemas.spec.alerts import Alerts, Generic

MIN_KEY_LENGTH = 16


@dataclass(frozen=True)
class Target:
    """A webhook.

    Attributes:
        url: never shown, as it may contain a secret, like those of chat services.
        key: key for signatures, or of the receiver's interface; empty if it takes none.
        shown: scheme, host and port, for messages.
        is_loopback: whether it is on this machine.
        is_signed: whether bodies are signed with the key.
    """

    url: str = field(repr=False)
    key: str = field(repr=False)
    shown: str
    is_loopback: bool
    is_signed: bool = True


def target_of(alerts: Alerts, environ: Mapping[str, str]) -> Target:
    """Returns the target.

    Raises:
        UserError: for a variable that is not set, an invalid or unencrypted URL, or a key that is too short. Neither
            value is shown.
    """
    url = _variable(alerts, "url_env", environ)
    if not alerts.format.reads_key:
        return _target(alerts, url, "")
    key = _variable(alerts, "key_env", environ)
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
            "remove them: often it is the newline at the end of a file"
        )
    return value


def _target(alerts: Alerts, url: str, key: str) -> Target:
    allowed = "a URL such as https://alerts.example/sangam; http is only for this machine (localhost, 127.0.0.1)"
    variable = f"alerts.url_env: the value of {alerts.url_env}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UserError(f"{variable} is not a URL (not shown); {allowed}") from None
    if parts.scheme not in ("http", "https") or not host or any(char.isspace() for char in url):
        raise UserError(f"{variable} is not an http or https URL (not shown); {allowed}")
    shown = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    is_loopback = is_this_machine(host)
    if parts.scheme == "http" and not is_loopback:
        raise UserError(f"{variable} is not encrypted (got {shown}); {allowed}")
    return Target(url=url, key=key, shown=shown, is_loopback=is_loopback, is_signed=isinstance(alerts.format, Generic))


def is_this_machine(host: str) -> bool:
    """Returns whether a host of a URL is this machine, which no proxy leads to."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
