"""A record of the log is one record, whatever its values have."""

import json
import logging
import re
import sys

import pytest
from hypothesis import example, given, settings

from sangam.schemas.errors import UserError
from sangam.schemas.host.plain_text import LOG_FORM, JsonFormatter, PlainFormatter, log_to_stderr
from tests.errors import place_and_value
from tests.nasty_texts import texts


@settings(max_examples=60, deadline=None)
@given(text=texts)
@example(text="x\n2026-01-01 00:00:00,000 INFO sangam.components.server forged")
@example(text="\x1b[2K\rforged")
def test_no_value_forges_a_record_or_controls_the_terminal(text: str) -> None:
    record = logging.LogRecord("sangam.components.server", logging.INFO, "", 0, "event=refused what=%s", (text,), None)
    lines = PlainFormatter(LOG_FORM).format(record).split("\n")
    assert " INFO sangam.components.server event=refused what=" in lines[0]
    assert all(line.startswith("  ") for line in lines[1:])
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\n".join(lines))
    "\n".join(lines).encode()


@settings(max_examples=30, deadline=None)
@given(text=texts)
@example(text="x\n{} \x1b[2K")
def test_as_json_a_record_is_one_line_with_its_time_and_traceback(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        record = logging.LogRecord("sangam.x", logging.ERROR, "", 0, "event=lost what=%s", (text,), sys.exc_info())
    record.created = 1709863200.5
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    fields = json.loads(line)
    assert (fields["at"], fields["level"], fields["logger"]) == ("2024-03-08T02:00:00.500Z", "ERROR", "sangam.x")
    assert fields["message"] == f"event=lost what={text}"
    assert "Traceback" in fields["traceback"]


def test_another_format_of_logs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANGAM_LOG_FORMAT", "xml")
    with pytest.raises(UserError, match=place_and_value("SANGAM_LOG_FORMAT", "(got xml)")):
        log_to_stderr()
