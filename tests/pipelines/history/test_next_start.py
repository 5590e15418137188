"""The next start of a daily run, in the words of systemd and cron."""

import datetime
from pathlib import Path

import pytest

from sangam.pipelines.history.next_start import cron_time, systemd_time
from sangam.pipelines.schedule.units import cron_text

ROOT = Path("/data/my 50% runs")
COMMAND = ["/opt/sangam", "schedule", "run", "/s.yaml", "--data", "/logs", "--root", str(ROOT)]
NOW = datetime.datetime(2024, 3, 8, 9, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@pytest.mark.parametrize(("local", "day"), [("09:01", 8), ("09:00", 9), ("02:30", 9)])
def test_the_line_that_is_printed_for_cron_is_found_again(local: str, day: int) -> None:
    table = "MAILTO=ops\n0 9 * * * /opt/sangam schedule run /s.yaml --root /other\n" + cron_text(
        "feed", "x", COMMAND, local
    )
    hours, minutes = map(int, local.split(":"))
    expected = NOW.replace(day=day, hour=hours, minute=minutes)
    assert cron_time(table, ROOT, NOW) == expected
    assert cron_time(table, Path("/nowhere"), NOW) is None
    assert cron_time("30 2 * * * 'unclosed schedule run", ROOT, NOW) is None


def test_the_time_that_systemd_prints_is_read() -> None:
    assert systemd_time("Sat 2024-03-09 02:30:00 UTC") == datetime.datetime(2024, 3, 9, 2, 30, tzinfo=datetime.UTC)
    assert systemd_time("n/a") is None
    assert systemd_time("") is None
