"""What others do wrong fills no disk."""

import logging
import time

import pytest

from sangam.schemas.host.limited_log import LimitedLog


def test_a_kind_of_failure_is_logged_once_in_ten_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log = LimitedLog(logging.getLogger("test"))
    for _ in range(500):
        log.warning("code=INVALID_ARGUMENT", "name: \x1b[31m\n" + "x" * 100_000)
    log.warning("code=NOT_FOUND", "model")
    now += 10
    log.warning("code=INVALID_ARGUMENT", "again")
    first, other, again = caplog.messages
    assert first.startswith(r"code=INVALID_ARGUMENT: name: \x1b[31m\nxxx")
    assert len(first) < 400
    assert other == "code=NOT_FOUND: model"
    assert again == "code=INVALID_ARGUMENT others=499: again"


def test_an_error_of_the_server_is_logged_with_the_end_of_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def deeper(number: int) -> None:
        deeper(number + 1)

    log = LimitedLog(logging.getLogger("test"))
    for _ in range(3):
        try:
            deeper(0)
        except RecursionError as error:
            log.error("api=rest method=Predict failed", error)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "RecursionError: maximum recursion depth exceeded" in record.message
    assert len(record.message) < 9000
