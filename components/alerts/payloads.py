"""The body of an alert in the form that its receiver takes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from sangam.components.alerts.event import Event
from sangam.components.alerts.target import Target
from sangam.schemas.errors import UserError
from sangam.schemas.parts.calls import first_line, refused, told
from sangam.schemas.parts.judging import AlertTarget
from sangam.schemas.spec.alerts import Alerts, Generic, PagerDuty, Slack

_SEVERITIES = {
    "failed": "error",
    "refused": "warning",
    "warning": "warning",
    "promoted": "info",
    "dropped": "warning",
    "not_pushed": "error",
    "test": "info",
}
_MAX_SUMMARY = 1024
_MAX_HEADER, _MAX_SECTION, _MAX_FIELD = 150, 3000, 1900


@dataclass(frozen=True)
class Message:
    """What is sent: the JSON, and headers beside those of every alert."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def message_of(alerts: Alerts, event: Event, target: Target) -> Message:
    """Returns what is sent.

    Raises:
        UserError: a form of others is wrong; without the key.
    """
    return as_message(alerts.format, event, target.key)


@singledispatch
def as_message(form: AlertTarget, event: Event, key: str) -> Message:
    """Returns an event in a form; see `message_of`."""
    try:
        document = told(form, form.payload, event.document(), key)
        headers = told(form, form.headers, key)
        return Message(_json(form, document), _headers(form, headers))
    except UserError as error:
        raise UserError(str(error).replace(key, "(key)") if key else str(error)) from None


@as_message.register
def _generic(form: Generic, event: Event, key: str) -> Message:
    del form, key
    return Message(json.dumps(event.document()).encode())


@as_message.register
def _slack(form: Slack, event: Event, key: str) -> Message:
    del form, key
    return Message(json.dumps(slack(event)).encode())


@as_message.register
def _pagerduty(form: PagerDuty, event: Event, key: str) -> Message:
    del form
    return Message(json.dumps(pagerduty(event, key)).encode())


def _json(form: AlertTarget, document: Any) -> bytes:
    try:
        return json.dumps(document, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise refused(form, f"returned what JSON has not (got {first_line(error)})", "dicts, lists and texts") from None


def _headers(form: AlertTarget, headers: Any) -> dict[str, str]:
    found = dict(headers) if isinstance(headers, Mapping) else {}
    texts = [text for pair in found.items() for text in pair]
    is_sound = all(isinstance(text, str) and text and text.isascii() and text.isprintable() for text in texts)
    if not isinstance(headers, Mapping) or not is_sound:
        what = f"returned what is no header (got {type(headers).__name__} of {len(found)})"
        raise refused(form, what, "texts by name, each of printable ASCII in one line", "headers")
    return found


def slack(event: Event) -> dict[str, Any]:
    """Returns a message for an incoming webhook of Slack, in its blocks and within their limits."""
    facts = {
        "Host": event.host,
        "Root": event.root,
        "Run": event.run,
        "Page": event.page,
        "Live now": event.live_text,
        "Id": event.id,
    }
    fields = [{"type": "mrkdwn", "text": f"*{name}*\n{_fact(value)}"} for name, value in facts.items() if value]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": event.title[:_MAX_HEADER]}},
        _section(_code(event.reason)),
        {"type": "section", "fields": fields},
    ]
    if event.command:
        blocks.append(_section(f"Type\n{_code(event.command)}"))
    return {"text": _escaped(f"{event.title} ({event.host})", _MAX_SECTION), "blocks": blocks}


def _fact(value: str) -> str:
    """Returns a value as code, in which no _ or * is markup; an address as a link."""
    if value.startswith("http"):
        return _escaped(value, _MAX_FIELD)
    return f"`{_escaped(value.replace('`', chr(39)), _MAX_FIELD)}`"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _code(text: str) -> str:
    """Returns a text as a block of code: three backticks in it would end the block."""
    return f"```{_escaped(text.replace('```', chr(39) * 3), _MAX_SECTION - 20)}```"


def _escaped(text: str, most: int) -> str:
    """Returns a text without Slack's own markup, with at most so many characters."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if len(escaped) <= most:
        return escaped
    return _escaped(text[: len(text) - max(1, (len(escaped) - most) // 5)], most)


def pagerduty(event: Event, routing_key: str) -> dict[str, Any]:
    """Returns an event of PagerDuty's Events API v2; alerts of the same id join one incident."""
    details = {
        "reason": event.reason,
        "run": event.run,
        "date": event.date,
        "root": event.root,
        "page": event.page,
        "command": event.command,
        "live": event.live_text,
    }
    first = next(iter(event.reason.splitlines()), "")
    document: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": event.id,
        "client": "sangam",
        "payload": {
            "summary": f"{event.title}: {first}"[:_MAX_SUMMARY],
            "source": event.host,
            "severity": _SEVERITIES[event.kind],
            "timestamp": event.sent_at.isoformat(),
            "component": event.step or "run",
            "group": event.pipeline,
            "class": event.kind,
            "custom_details": {name: value for name, value in details.items() if value},
        },
    }
    if event.page and event.page.startswith("http"):
        document["links"] = [{"href": event.page, "text": "the run"}]
    return document
