"""Rank 0's decisions, with a clock that the test turns."""

import time
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.trainer_module.online.director import Director, Skipped
from sangam.trainer_module.online.turns import DENSE, NOTHING, ROWS, Turn
from tests.errors import place_and_value
from tests.trainer_module.online.streams import online_job
from tests.trainer_module.sample_job import declared

pytestmark = pytest.mark.slow

_HOUR_S = 3600


class Clock:
    """A clock; every look at it takes no time but a wait ends at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.6  # More than the director waits: it answers at once.
        return self.now


def _seal(folder: Path, number: int, last_event: int) -> None:
    (segments.begin(folder, number) / segments.EXAMPLES_FILE).write_bytes(b"")
    segments.seal(folder, number, rows=10, first_event=last_event, last_event=last_event, positions={}, counts={})


def _director(tmp_path: Path, **settings: Any) -> tuple[Director, Clock, TrainJob]:
    made = online_job(tmp_path, declared(), base=tmp_path, **settings)
    clock = Clock()
    return Director(made, 0, deltas=0, full_at=0, clock=clock), clock, made


def test_a_delta_goes_out_when_it_is_due_and_something_was_learned(tmp_path: Path) -> None:
    director, clock, _ = _director(tmp_path, sync={"rows_every_s": 10, "dense_every_s": 60})
    clock.now = 100.0
    assert director.turn() == Turn()  # Nothing was learned.
    _seal(tmp_path / "examples", 1, 0)
    turn = director.turn()
    assert (turn.segment, turn.publish) == (1, DENSE)
    director.done(turn)
    clock.now += 11
    assert director.turn().publish == NOTHING
    _seal(tmp_path / "examples", 2, 0)
    turn = director.turn()
    assert (turn.segment, turn.publish) == (2, ROWS)
    director.done(turn)
    assert (director.last, director.deltas) == (2, 2)


def test_nothing_goes_out_while_it_is_held_and_all_of_it_later(tmp_path: Path) -> None:
    director, clock, _ = _director(tmp_path, sync={"rows_every_s": 1, "dense_every_s": 1})
    director.held = "auc is too low"
    _seal(tmp_path / "examples", 1, 0)
    clock.now = 100.0
    turn = director.turn()
    assert (turn.segment, turn.publish) == (1, NOTHING)
    director.done(turn)
    director.held = ""
    assert director.turn().publish == DENSE


def test_every_so_many_deltas_a_full_version_follows_with_the_dense_weights(tmp_path: Path) -> None:
    director, clock, _ = _director(
        tmp_path, sync={"rows_every_s": 1, "dense_every_s": 1e6, "full_every": 2}, checkpoint_every_s=1e6
    )
    turns = []
    for number in (1, 2, 3, 4):
        _seal(tmp_path / "examples", number, 0)
        clock.now += 5
        turns.append(director.turn())
        director.done(turns[-1])
    assert [(turn.publish, turn.full) for turn in turns] == [(ROWS, False), (DENSE, True)] * 2
    assert [turn.save for turn in turns] == [False, True] * 2  # Deltas before a full version may be removed.
    assert director.full_at == 4


def test_a_stop_publishes_and_saves_what_is_left(tmp_path: Path) -> None:
    director, _, made = _director(tmp_path, sync={"rows_every_s": 1e6, "dense_every_s": 1e6}, checkpoint_every_s=1e6)
    _seal(tmp_path / "examples", 1, 0)
    turn = director.turn()
    assert turn == Turn(segment=1)
    director.done(turn)
    made.stop_file.touch()
    turn = director.turn()
    assert (turn.segment, turn.publish, turn.save, turn.stop) == (0, DENSE, True, True)
    director.done(turn)
    assert (director.turn().publish, director.turn().save) == (NOTHING, False)


@pytest.mark.parametrize(("lag", "first", "skipped"), [("wait", 1, 0), ({"skip_to_s": 2 * _HOUR_S}, 3, 20)])
def test_segments_that_are_too_old_are_left_out_and_counted_where_the_policy_says_so(
    tmp_path: Path, lag: Any, first: int, skipped: int
) -> None:
    director, _, _ = _director(tmp_path, lag=lag)
    for number in range(1, 6):
        _seal(tmp_path / "examples", number, number * _HOUR_S)
    turn = director.turn()
    assert (turn.segment, director.skipped.rows) == (first, skipped)


def test_a_segment_that_is_gone_is_an_error_unless_the_policy_leaves_it_out(tmp_path: Path) -> None:
    made: dict[str, Director] = {}
    for name, lag in (("waits", "wait"), ("skips", {"skip_to_s": _HOUR_S})):
        made[name], _, _ = _director(tmp_path / name, lag=lag)
        for number in (3, 4):
            _seal(tmp_path / name / "examples", number, number)
    path = tmp_path / "waits" / "examples" / "000000000001"
    with pytest.raises(UserError, match=place_and_value(str(path), "got 3 as the next segment")):
        made["waits"].turn()
    assert (made["skips"].turn().segment, made["skips"].skipped) == (3, Skipped(segments=2, rows=0))


def test_one_wrong_clock_leaves_nothing_out(tmp_path: Path) -> None:
    director, _, _ = _director(tmp_path, lag={"skip_to_s": _HOUR_S})
    now = int(time.time())
    _seal(tmp_path / "examples", 1, now)
    _seal(tmp_path / "examples", 2, now + 365 * 86_400)
    assert (director.turn().segment, director.skipped.segments) == (1, 0)
