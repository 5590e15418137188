"""Which day a run is for."""

import datetime
from pathlib import Path

import pytest

from sangam.components.kfp_entrypoint.date import resolve
from sangam.components.kfp_entrypoint.notes import Notes
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

NOW = datetime.datetime(2024, 3, 9, 0, 10, tzinfo=datetime.UTC)
RAW = "{{$.pipeline_job_create_time_utc}}"


def date(given: str = "", noted: str = "", created: str = RAW, now: datetime.datetime = NOW) -> str:
    """Resolves."""
    return resolve(given=given, noted=noted, created=created, now=now)


def test_a_given_date_is_the_date() -> None:
    assert date(given="2024-03-07", noted="2024-03-01", created="2024-02-01T00:00:00Z") == "2024-03-07"


def test_without_a_date_it_is_the_day_before_the_run_was_created() -> None:
    assert date(created="2024-03-08T23:50:00Z") == "2024-03-07"


def test_the_day_before_is_that_of_utc() -> None:
    assert date(created="2024-03-09T01:00:00+02:00") == date(created="2024-03-08 23:50:00") == "2024-03-07"
    eastern = datetime.timezone(datetime.timedelta(hours=-5))
    assert date(now=datetime.datetime(2024, 3, 8, 22, 0, tzinfo=eastern)) == "2024-03-08"


@pytest.mark.parametrize("created", [RAW, ""])
def test_a_backend_that_does_not_tell_leaves_the_clock(created: str) -> None:
    assert date(created=created) == "2024-03-08"


def test_a_time_in_a_form_that_nobody_knows_is_no_reason_to_take_the_clock() -> None:
    with pytest.raises(UserError, match=place_and_value("sangam_created", "(got 'soon')")):
        date(created="soon")


def test_a_try_after_midnight_keeps_the_day_of_the_first() -> None:
    assert date(noted="2024-03-07") == "2024-03-07"


def test_no_date_is_a_mistake() -> None:
    with pytest.raises(UserError, match=place_and_value("date", "(got '7 March') ... yesterday")):
        date(given="7 March")


def test_notes_are_kept_for_the_next_try(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "run" / ".sangam")
    assert notes.date() == ""
    assert notes.fix_date("2024-03-07") == "2024-03-07"
    assert notes.fix_date("2024-03-08") == "2024-03-07"
    assert Notes(notes.folder).date() == "2024-03-07"
    assert [notes.count_try("trainer"), notes.count_try("trainer"), notes.count_try("pusher")] == [1, 2, 1]
    assert [notes.is_first_alert("trainer"), notes.is_first_alert("trainer")] == [True, False]
