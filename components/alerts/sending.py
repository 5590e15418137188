"""Sends an alert. A failure to send it never changes how the run ends."""

import datetime
import hashlib
import hmac
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sangam.components.alerts.event import Event, event_of, silence_of
from sangam.components.alerts.payloads import Message, message_of
from sangam.components.alerts.target import Target, target_of
from sangam.components.record.run import RunRecord
from sangam.components.record.store import stored
from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff
from sangam.schemas.spec.alerts import Alerts, OptionalKind

_LOG = logging.getLogger(__name__)

SIGNATURE_HEADER = "X-Sangam-Signature"
TIMESTAMP_HEADER = "X-Sangam-Timestamp"
MAX_AGE_S = 300
_SCHEME = "sha256="

WAITS_S = Backoff(1.0, factor=4.0).waits_s(2)
"""Pauses between the three tries."""
_TRY_AGAIN = frozenset({408, 425, 429})
"""Status codes to retry, besides those from 500."""


@dataclass(frozen=True)
class _Answer:
    """The result of one try; `problem` is empty if the receiver has accepted the alert."""

    problem: str
    is_final: bool = False


def send_all(alerts: Alerts, record: RunRecord, environ: Mapping[str, str]) -> list[str]:
    """Sends the alerts of a run that has ended: on its end, and on days without a push. It raises no exception.

    Returns:
        Why alerts could not be sent.
    """
    problems = []
    if event := event_of(record, alerts):
        problems.append(send(alerts, event, environ))
    try:
        now = datetime.datetime.now(datetime.UTC)
        silence = silence_of(alerts, stored(record).root, record.name, now, record.run)
    except (OSError, ValueError, UserError) as error:
        _LOG.error("event=alert_not_sent kind=not_pushed problem=%r", str(error))
        return [*filter(None, problems), f"alerts.not_pushed_for_days: {error}"]
    if silence:
        problems.append(send(alerts, silence, environ))
    return [*filter(None, problems)]


def send(alerts: Alerts, event: Event, environ: Mapping[str, str], *, waits_s: Sequence[float] = WAITS_S) -> str | None:
    """Sends an event to the webhook of the spec, unless its kind can be left out by `on` and is.

    It raises no exception, and takes at most `timeout_s` for each try, and the pauses between them.

    Args:
        alerts: the spec's section.
        event: event to send.
        environ: environment variables with the URL and the key.
        waits_s: pauses between the tries.

    Returns:
        Why it could not be sent, which is also logged; None if it was sent or need not be.
    """
    if event.kind in get_args(OptionalKind) and event.kind not in alerts.on:
        return None
    try:
        target = target_of(alerts, environ)
        problem = _deliver(target, message_of(alerts, event, target), alerts.timeout_s, waits_s)
    except UserError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - an alert never changes how a run ends
        # The type alone: the text might contain the URL.
        problem = f"alerts: {type(error).__name__} while sending"
    if problem:
        _LOG.error("event=alert_not_sent kind=%s id=%s problem=%r", event.kind, event.id, problem)
        return problem
    _LOG.info("event=alert_sent kind=%s id=%s to=%s", event.kind, event.id, target.shown)
    return None


def _deliver(target: Target, message: Message, timeout_s: float, waits_s: Sequence[float]) -> str:
    tries = 0
    for wait_s in (*waits_s, None):
        tries += 1
        answer = _within(timeout_s, target, message)
        if not answer.problem:
            return ""
        if answer.is_final or wait_s is None:
            break
        time.sleep(wait_s)
    times = f"{tries} times" if tries > 1 else "once"
    return f"alerts: {target.shown} has not accepted the alert (tried {times}, got: {answer.problem})"


def _within(timeout_s: float, target: Target, message: Message) -> _Answer:
    """Tries once, within the timeout: HTTP clients restart theirs with every packet, and name look-ups have none."""
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    tries = threading.Thread(target=lambda: answers.put(_post(target, message, timeout_s)), name="alert", daemon=True)
    tries.start()
    try:
        return answers.get(timeout=timeout_s)
    except queue.Empty:
        return _Answer(f"no answer within {timeout_s:g} s")


def _post(target: Target, message: Message, timeout_s: float) -> _Answer:
    import httpx

    for name in ("httpx", "httpcore"):
        # Their log records contain the whole URL.
        logging.getLogger(name).setLevel(logging.WARNING)
    headers = {"Content-Type": "application/json", "User-Agent": "sangam", **message.headers}
    if target.is_signed:
        timestamp = str(int(time.time()))
        headers |= {TIMESTAMP_HEADER: timestamp, SIGNATURE_HEADER: signature(target.key, timestamp, message.body)}
    try:
        # A proxy of the environment is not used for this machine. The response's body is not needed.
        with (
            httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=not target.is_loopback) as client,
            client.stream("POST", target.url, content=message.body, headers=headers) as response,
        ):
            return _judged(response.status_code)
    except httpx.TimeoutException:
        return _Answer(f"no answer within {timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        text = str(error).replace(target.url, target.shown)
        text = text.replace(target.key, "(key)") if target.key else text
        return _Answer(f"{type(error).__name__}: {text}")


def _judged(status: int) -> _Answer:
    if 200 <= status < 300:
        return _Answer("")
    if 300 <= status < 400:
        return _Answer(f"status {status}: redirects are not followed, give the final URL", is_final=True)
    return _Answer(f"status {status}", is_final=status < 500 and status not in _TRY_AGAIN)


def signature(key: str, timestamp: str, body: bytes) -> str:
    """Returns the value of SIGNATURE_HEADER: HMAC-SHA256 over `<timestamp>.<body>`."""
    return _SCHEME + hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(key: str, timestamp: str, given: str, body: bytes, *, now: float, max_age_s: int = MAX_AGE_S) -> bool:
    """Returns whether a body was signed with this key recently.

    Args:
        key: the shared key.
        timestamp: value of TIMESTAMP_HEADER, seconds since 1970.
        given: value of SIGNATURE_HEADER.
        body: the bytes received.
        now: seconds since 1970.
        max_age_s: largest difference from `now`. Within it, the body's `id` identifies repeated alerts.
    """
    # Only digits: int() accepts more.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    expected = signature(key, timestamp, body).encode()
    return hmac.compare_digest(expected, given.encode()) and abs(now - int(timestamp)) <= max_age_s
