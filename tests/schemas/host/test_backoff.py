"""Waits between tries."""

import datetime

import pytest

from sangam.schemas.host.backoff import Backoff, retry_after_s

NOW = datetime.datetime(2024, 3, 7, 12, tzinfo=datetime.UTC)


def test_waits_grow_up_to_the_longest() -> None:
    assert Backoff(0.5, max_s=15.0).waits_s(7) == (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0)
    assert Backoff(1.0, factor=4.0).waits_s(3) == (1.0, 4.0, 16.0)
    assert Backoff(1.0, max_s=60.0).wait_s(100_000) == 60.0
    assert Backoff(1.0).waits_s(0) == ()


def test_a_server_that_asks_is_obeyed_up_to_the_longest() -> None:
    backoff = Backoff(1.0, max_s=60.0, jitter=0.25)
    assert [backoff.wait_s(3, asked) for asked in (0.0, 17.0, 86_400.0)] == [0.0, 17.0, 60.0]


def test_chance_is_a_part_of_the_wait() -> None:
    waits = {Backoff(8.0, jitter=0.25).wait_s(0) for _ in range(200)}
    assert len(waits) > 100
    assert all(6.0 <= wait <= 10.0 for wait in waits)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("17", 17.0),
        ("soon", None),
        ("Thu, 07 Mar 2024 12:00:30 GMT", 30.0),
        ("Thu, 07 Mar 2024 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_in_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds
