"""A record of the log is one record, whatever its values have."""

import logging
import re

from hypothesis import example, given, settings

from sangam.schemas.host.plain_text import LOG_FORM, PlainFormatter
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
