"""Segments as numbered folders: what exists, what is the newest, what may go."""

import datetime
import shutil
from pathlib import Path

import pytest

from sangam.schemas.contracts import segments
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

_NOW = datetime.datetime.now(datetime.UTC)
_LATER = _NOW + datetime.timedelta(days=1)


def _seal(folder: Path, number: int, last_event: int | None = 5) -> segments.Segment:
    (segments.begin(folder, number) / segments.EXAMPLES_FILE).write_bytes(b"rows")
    return segments.seal(
        folder, number, rows=1, first_event=last_event, last_event=last_event, positions={}, counts={"examples": 1}
    )


def test_a_segment_exists_once_it_is_sealed_and_the_newest_one_is_found_from_any_known_one(tmp_path: Path) -> None:
    assert (segments.newest(tmp_path / "none"), list(segments.numbers(tmp_path / "none"))) == (0, [])
    for number in range(1, 13):
        _seal(tmp_path, number)
    segments.begin(tmp_path, 13)
    assert [segments.newest(tmp_path, known) for known in (0, 1, 12, 99)] == [12] * 4
    assert list(segments.numbers(tmp_path)) == list(range(1, 13))


def test_old_segments_go_up_to_the_first_that_must_stay_with_what_a_killed_removal_left(tmp_path: Path) -> None:
    for number in range(1, 6):
        _seal(tmp_path, number)
    (segments.path_of(tmp_path, 1) / segments.SEGMENT_FILE).unlink()
    assert segments.remove_before(tmp_path, 4, created_before=_NOW - datetime.timedelta(days=1)) == [1]
    assert segments.remove_before(tmp_path, 4, created_before=_LATER) == [2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000004", "000000000005"]


def test_an_event_after_its_segment_was_made_counts_as_that_time(tmp_path: Path) -> None:
    segment = _seal(tmp_path, 1, int(_LATER.timestamp()))
    assert segment.newest_event == int(segment.created.timestamp())
    assert _seal(tmp_path, 2, 7).newest_event == 7
    assert _seal(tmp_path, 3, None).newest_event is None


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_files_that_are_not_those_that_were_sealed_are_refused(tmp_path: Path, damage: str) -> None:
    segment = _seal(tmp_path, 1)
    file = segments.examples_file(tmp_path, 1)
    if damage == "changed":
        file.write_bytes(b"rowz")
    else:
        file.unlink()
    value = f"got 4 bytes, sha256 {segments.record_of(file).sha256}" if damage == "changed" else "No such file"
    with pytest.raises(UserError, match=place_and_value(str(file), value)):
        segments.refuse_damaged(tmp_path, segment)


def test_a_sealed_segment_is_not_written_again(tmp_path: Path) -> None:
    _seal(tmp_path, 1)
    with pytest.raises(ValueError, match="segment 1 is sealed"):
        segments.begin(tmp_path, 1)
    shutil.rmtree(segments.path_of(tmp_path, 1))
    assert list(segments.begin(tmp_path, 1).iterdir()) == []
