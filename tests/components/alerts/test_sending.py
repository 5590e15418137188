"""Alerts over real sockets: signed, tried again, within their time, and without a word of the address or the key."""

import datetime
import hashlib
import hmac
import json
import logging
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sangam.components.alerts import Event, send, target_of
from sangam.components.alerts.event import MAX_REASON
from sangam.components.alerts.payloads import as_message
from sangam.components.alerts.sending import signature, verify
from sangam.schemas.errors import UserError
from sangam.schemas.parts.importing import import_parts
from sangam.schemas.parts.judging import AlertTarget
from sangam.schemas.parts.kinds import is_ours, kinds_of
from sangam.schemas.spec.alerts import Alerts
from tests.errors import mentions, tells
from tests.fakes.webhook import HANG, webhook
from tests.paths import REPOSITORY

import_parts(["tests.components.sample_parts", "tests.components.wrong_parts"])

KEY = "0123456789abcdef-key"
ALERTS = Alerts(timeout_s=5)
QUICK = (0.01, 0.01)


def event(**fields: Any) -> Event:
    known = {
        "kind": "failed",
        "pipeline": "short_video",
        "step": "trainer",
        "date": "2024-03-07",
        "run": "r1",
        "reason": "the loss is no number",
        "root": "/data/runs",
        "page": "/data/runs/runs/r1/report.html",
        "command": "sangam why /data/runs/runs/r1",
        "live": "20240306001",
        "serving": "/data/runs/serving/short_video",
        "host": "box-7",
        "sent_at": datetime.datetime(2024, 3, 8, 2, 0, 1, tzinfo=datetime.UTC),
    }
    return Event.model_validate(known | fields)


def environ(url: str) -> dict[str, str]:
    return {"SANGAM_ALERT_URL": url, "SANGAM_ALERT_KEY": KEY}


def test_the_body_says_what_happened_and_its_signature_holds() -> None:
    with webhook() as hook:
        assert send(ALERTS, event(), environ(hook.url)) is None
    [got] = hook.received
    assert json.loads(got.body) == {
        "version": 1,
        "id": event().id,
        "kind": "failed",
        "pipeline": "short_video",
        "step": "trainer",
        "date": "2024-03-07",
        "run": "r1",
        "reason": "the loss is no number",
        "root": "/data/runs",
        "page": "/data/runs/runs/r1/report.html",
        "command": "sangam why /data/runs/runs/r1",
        "live": "20240306001",
        "serving": "/data/runs/serving/short_video",
        "host": "box-7",
        "sent_at": "2024-03-08T02:00:01Z",
    }
    assert got.headers["Content-Type"] == "application/json"
    timestamp = got.headers["X-Sangam-Timestamp"]
    assert abs(time.time() - int(timestamp)) < 300
    # Computed here by itself, not by the sender's own function.
    expected = hmac.new(KEY.encode(), f"{timestamp}.".encode() + got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-Sangam-Signature"] == f"sha256={expected}"


def test_slack_gets_a_message_in_blocks_without_a_key_and_no_text_of_logs_is_its_markup() -> None:
    with webhook() as hook:
        told = event(reason="<!channel> & ``` " + "&" * 3000)
        assert send(Alerts(format="slack", timeout_s=5), told, {"SANGAM_ALERT_URL": hook.url}) is None
    [got] = hook.received
    assert "X-Sangam-Signature" not in got.headers
    message = json.loads(got.body)
    assert message["text"] == "short_video 2024-03-07: failed in trainer (box-7)"
    header, reason, facts, command = message["blocks"]
    assert header == {
        "type": "header",
        "text": {"type": "plain_text", "text": "short_video 2024-03-07: failed in trainer"},
    }
    assert reason["text"]["text"].startswith("```&lt;!channel&gt; &amp; ''' &amp;")
    assert reason["text"]["text"].count("```") == 2
    assert len(reason["text"]["text"]) <= 3000
    assert {"type": "mrkdwn", "text": "*Live now*\n`version 20240306001 in /data/runs/serving/short_video`"} in facts[
        "fields"
    ]
    assert len(facts["fields"]) <= 10
    assert command["text"]["text"] == "Type\n```sangam why /data/runs/runs/r1```"


def test_pagerduty_gets_an_event_whose_dedup_key_is_the_id() -> None:
    page = "https://sangam.example/runs/r1"
    with webhook([202]) as hook:
        assert send(Alerts(format="pagerduty", timeout_s=5), event(page=page), environ(hook.url)) is None
    [got] = hook.received
    assert "X-Sangam-Signature" not in got.headers
    assert json.loads(got.body) == {
        "routing_key": KEY,
        "event_action": "trigger",
        "dedup_key": event().id,
        "client": "sangam",
        "payload": {
            "summary": "short_video 2024-03-07: failed in trainer: the loss is no number",
            "source": "box-7",
            "severity": "error",
            "timestamp": "2024-03-08T02:00:01+00:00",
            "component": "trainer",
            "group": "short_video",
            "class": "failed",
            "custom_details": {
                "reason": "the loss is no number",
                "run": "r1",
                "date": "2024-03-07",
                "root": "/data/runs",
                "page": page,
                "command": "sangam why /data/runs/runs/r1",
                "live": "version 20240306001 in /data/runs/serving/short_video",
            },
        },
        "links": [{"href": page, "text": "the run"}],
    }


def test_a_form_of_others_makes_the_body_and_its_headers() -> None:
    with webhook() as hook:
        alerts = Alerts.model_validate({"format": {"kind": "chat", "room": "ml"}, "timeout_s": 5})
        assert send(alerts, event(), environ(hook.url)) is None
    [got] = hook.received
    assert json.loads(got.body) == {"room": "ml", "text": "short_video failed: the loss is no number"}
    assert got.headers["Authorization"] == f"Bearer {KEY}"
    assert got.headers["Content-Type"] == "application/json"
    assert "X-Sangam-Signature" not in got.headers


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("raise", "KeyError: 'no (key)' (got this from `payload` of alert_target 'wrong')"),
        ("body", "`payload` of alert_target 'wrong' returned what JSON has not (got Out of range float"),
        ("header", "`headers` of alert_target 'wrong' returned what is no header (got dict of 1)"),
    ],
)
def test_a_mistake_in_a_form_of_others_is_told_with_its_line_and_without_the_key(way: str, told: str) -> None:
    with webhook() as hook:
        alerts = Alerts.model_validate({"format": {"kind": "wrong", "way": way}, "timeout_s": 5})
        problem = send(alerts, event(), environ(hook.url))
    assert hook.received == []
    assert problem is not None
    assert mentions(problem, "wrong_parts.py: ... " + told), problem
    assert KEY not in problem


def test_every_form_of_the_product_has_its_message() -> None:
    ours = [kind for kind in kinds_of(AlertTarget).values() if is_ours(kind)]
    assert len(ours) == 3
    assert all(as_message.dispatch(kind) is not as_message.dispatch(AlertTarget) for kind in ours)


@pytest.mark.parametrize("first", [500, 503, 429, 408])
def test_a_receiver_in_trouble_is_tried_again_with_the_same_event(first: int) -> None:
    with webhook([first, 200]) as hook:
        assert send(ALERTS, event(), environ(hook.url), waits_s=QUICK) is None
    assert len(hook.received) == 2
    assert hook.received[0].body == hook.received[1].body


@pytest.mark.parametrize(
    ("status", "tries", "text"),
    [
        (500, "3 times", "status 500"),
        (404, "once", "status 404"),
        (401, "once", "status 401"),
        (307, "once", "status 307: redirects"),
    ],
)
def test_what_is_not_taken_is_told_and_logged(
    status: int, tries: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with webhook([status]) as hook:
        problem = send(ALERTS, event(), environ(hook.url), waits_s=QUICK)
        shown = hook.url.removesuffix("/hooks/s3cret-path")
    assert problem
    assert tells(problem, "alerts", f"{shown} ... (tried {tries}, got: {text}")
    assert {got.path for got in hook.received} == {"/hooks/s3cret-path"}
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "event=alert_not_sent kind=failed" in record.getMessage()
    assert text in record.getMessage()


@pytest.mark.parametrize("answer", [200, 500])
def test_neither_key_nor_path_of_the_address_is_logged(answer: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with webhook([answer]) as hook:
        send(ALERTS, event(), environ(hook.url), waits_s=QUICK)
    assert caplog.text
    assert "s3cret" not in caplog.text
    assert KEY not in caplog.text
    assert "s3cret" not in repr(target_of(ALERTS, environ(hook.url)))


def test_a_receiver_that_drips_byte_after_byte_does_not_hold_the_run() -> None:
    with webhook([HANG]) as hook:
        problem = send(Alerts(timeout_s=1), event(), environ(hook.url), waits_s=())
    assert problem
    # It would drip for minutes.
    assert "(tried once, got: no answer within 1 s" in problem


def test_a_refused_connection_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    problem = send(ALERTS, event(), environ(f"http://127.0.0.1:{port}/x"), waits_s=QUICK)
    assert problem
    assert tells(problem, "alerts", f"http://127.0.0.1:{port} ... (tried 3 times, got: ConnectError: ")


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    with webhook(tls=_own_certificate(tmp_path)) as hook:
        problem = send(ALERTS, event(), environ(hook.url), waits_s=())
    assert problem
    assert "CERTIFICATE_VERIFY_FAILED" in problem
    assert not hook.received


def test_only_what_is_asked_for_is_sent_and_a_test_always() -> None:
    only = Alerts(on=("refused",), timeout_s=5)
    with webhook() as hook:
        for kind in ("failed", "refused", "test"):
            assert send(only, event(kind=kind), environ(hook.url)) is None
    assert [json.loads(got.body)["kind"] for got in hook.received] == ["refused", "test"]


def test_a_missing_variable_is_told_and_nothing_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    problem = send(ALERTS, event(), {"SANGAM_ALERT_KEY": KEY})
    assert problem is not None
    assert tells(problem, "alerts.url_env", "SANGAM_ALERT_URL is not set")
    assert "event=alert_not_sent" in caplog.text


URL = "https://alerts.example/s3cret"
WRONG = [
    ({"SANGAM_ALERT_URL": URL}, "alerts.key_env", "SANGAM_ALERT_KEY is not set"),
    ({"SANGAM_ALERT_URL": ""}, "alerts.url_env", "SANGAM_ALERT_URL is empty"),
    (environ(URL) | {"SANGAM_ALERT_KEY": "s3cret"}, "alerts.key_env", "(got 6 characters) ... 16"),
    (environ(URL) | {"SANGAM_ALERT_KEY": KEY + "s3cret\n"}, "alerts.key_env", "white space ... (not shown)"),
    (environ("http://alerts.example/s3cret"), "alerts.url_env", "(got http://alerts.example) ... https"),
    (environ("http://127.0.0.1.example:80/"), "alerts.url_env", "(got http://127.0.0.1.example:80)"),
    (environ("http://localhost@alerts.example/s3cret"), "alerts.url_env", "(got http://alerts.example)"),
    (environ("ftp://s3cret.example/"), "alerts.url_env", "(not shown)"),
    (environ("s3cret"), "alerts.url_env", "(not shown)"),
    (environ("https:///s3cret"), "alerts.url_env", "(not shown)"),
    (environ("https://a.example/s3cret x"), "alerts.url_env", "(not shown)"),
    (environ("https://a.example:s3cret/"), "alerts.url_env", "(not shown)"),
    (environ("https://[s3cret/"), "alerts.url_env", "(not shown)"),
]


@pytest.mark.parametrize(("variables", "place", "value"), WRONG)
def test_a_wrong_environment_is_found_before_a_run_and_not_shown(
    variables: dict[str, str], place: str, value: str
) -> None:
    with pytest.raises(UserError) as caught:
        target_of(ALERTS, variables)
    assert tells(str(caught.value), place, value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://a.example/x", "http://localhost:8/x", "http://127.0.0.9/", "http://[::1]:9/"])
def test_encrypted_addresses_and_those_of_this_machine_are_allowed(url: str) -> None:
    assert url.startswith(target_of(ALERTS, environ(url)).shown)


def test_a_long_reason_is_cut_and_says_so() -> None:
    long = event(reason="x" * 100_000).reason
    assert len(long) == MAX_REASON
    assert mentions(long.splitlines()[-1], "cut ... 100000")
    assert event(reason="x" * MAX_REASON).reason == "x" * MAX_REASON


def test_the_same_thing_told_again_has_the_same_id() -> None:
    assert event(reason="again", sent_at="2025-01-01T00:00:00Z").id == event().id
    others: list[dict[str, Any]] = [
        {"kind": "refused"},
        {"step": "pusher"},
        {"date": None},
        {"run": "r2"},
        {"pipeline": "other"},
        {"root": "/"},
    ]
    assert len({event(**other).id for other in others} | {event().id}) == 7
    # The same silence, found by two runs.
    assert event(kind="not_pushed").id == event(kind="not_pushed", run="r2").id


def test_a_receiver_takes_only_fresh_bodies_signed_with_its_key() -> None:
    body = json.dumps(event().document()).encode()
    given = signature(KEY, "1000", body)
    assert verify(KEY, "1000", given, body, now=1000)
    assert verify(KEY, "1000", given, body, now=1300)
    assert not verify(KEY, "1000", given, body, now=1301)
    assert not verify(KEY, "1000", given, body, now=699)
    assert not verify("another-key-of-16", "1000", given, body, now=1000)
    assert not verify(KEY, "1001", given, body, now=1000)
    assert not verify(KEY, "1000", given, body + b" ", now=1000)
    assert not verify(KEY, "1000", "", body, now=1000)
    for timestamp in ("", "-1000", "1e3", " 1000", "²", "1" * 100):
        assert not verify(KEY, timestamp, signature(KEY, timestamp, body), body, now=1000)


@pytest.mark.processes
def test_alerts_load_without_tensorflow() -> None:
    program = (
        "import sys, sangam.components.alerts, sangam.components.record.outcome, sangam.components.record.store\n"
        "print({'tensorflow', 'tfx', 'apache_beam', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def _own_certificate(folder: Path) -> ssl.SSLContext:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
