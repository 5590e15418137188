"""The joiner where clocks are wrong: nothing stops, no label that may still change is final, all is counted."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.stream.arrivals import Arrival, Folder
from sangam.components.stream.reading import Content, FileReader
from tests.components.stream.streaming import AT, WINDOW_S, Stream

pytestmark = pytest.mark.slow

_DAY_S, _DECADES_S = 86_400, 75 * 365 * 86_400


@pytest.mark.parametrize("ahead_s", [600, _DAY_S, _DECADES_S])
@pytest.mark.parametrize("log", ["shown", "likes"])
def test_one_clock_ahead_stops_nothing_and_makes_no_label_wrong(tmp_path: Path, log: str, ahead_s: int) -> None:
    stream = Stream(tmp_path)
    wrong = [(1000, AT + ahead_s)]
    stream.arrive(shown=[(n, AT - 3 + n) for n in range(3)] + (wrong if log == "shown" else []))
    stream.arrive(likes=[(0, AT), *(wrong if log == "likes" else [])])
    stream.start()
    stream.step()  # It reads again what no segment has.
    stream.step(60)
    assert stream.labels() == {}  # Windows are open, although nothing arrives.
    stream.arrive(likes=[(1, AT + 60)])
    for minute in range(1, 13):
        stream.step(300)
        stream.arrive(shown=[(100 + minute, int(stream.clock.now))])
    assert {n: labels for n, labels in stream.labels().items() if n < 100} == {0: [1], 1: [1], 2: [0]}
    assert stream.joiner.watermark == stream.clock.now - 10
    what = "rows" if log == "shown" else "rows of likes"
    assert stream.joiner.counts[f"{what} ahead of their arrival"] >= 1
    assert 1000 not in stream.finish()
    [letter] = stream.letters()
    assert (letter["source"], letter["rows"]) == (("", [3]) if log == "shown" else ("likes", [1]))


def test_a_time_ahead_counts_as_its_arrival_where_this_is_declared(tmp_path: Path) -> None:
    stream = Stream(tmp_path, ahead="clip")
    stream.arrive(shown=[(0, AT - 5), (1, AT + _DAY_S)])
    stream.clock.now += 5
    stream.arrive(likes=[(0, AT + _DECADES_S), (1, AT + 4), (2, AT + 4)])
    assert stream.finish() == {0: [1], 1: [1]}
    assert stream.joiner.counts["rows clipped to their arrival"] == 1
    assert stream.joiner.counts["rows of likes clipped to their arrival"] == 1


def test_quiet_ends_windows_by_this_machines_clock_only(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT - WINDOW_S - 5), (1, AT)])
    stream.step(29)
    assert stream.labels() == {}
    stream.step(1)
    assert stream.labels() == {0: [0]}
    stream.arrive(likes=[(1, AT + 25)])
    stream.step(WINDOW_S + 10 - 31)
    assert stream.labels() == {0: [0]}
    stream.step(1)
    assert stream.labels() == {0: [0], 1: [1]}


@pytest.mark.parametrize("count", [100, 300])
def test_a_hundredth_of_a_files_clocks_moves_the_watermark_no_further_than_the_others(
    tmp_path: Path, count: int
) -> None:
    """Within the bounds of the arrival: logs of yesterday that are read today."""
    stream = Stream(tmp_path, lateness_s=0)
    stream.clock.now += _DAY_S
    wrong = [(count + n, AT + 40_000) for n in range(count // 100)]
    stream.arrive(shown=[*((n, AT + n) for n in range(count - len(wrong))), *wrong])
    assert stream.joiner.watermark == AT + count - len(wrong) - 1


def test_times_of_another_unit_make_the_file_a_dead_letter_as_they_make_the_daily_run_fail(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    wrong = [(n, (AT - 5) * 1000) for n in range(4)]
    stream.arrive(shown=wrong, likes=wrong)
    assert [letter["source"] for letter in stream.letters()] == ["", "likes"]
    assert all("milliseconds" in letter["reason"] for letter in stream.letters())
    assert stream.joiner.counts["files that cannot be read"] == 2


def test_rows_that_arrive_while_others_are_read_are_not_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow pass over a backlog, with clocks that are ahead: evidence of the time when it began, not when it ended."""
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT)])
    stream.clock.now = AT + WINDOW_S
    opened = FileReader.open

    def slowly(self: FileReader, arrival: Arrival) -> Content:
        if not (meanwhile := stream.path("likes", "meanwhile.parquet")).exists():
            stream.write(meanwhile, [(0, AT + WINDOW_S - 5)])
            stream.clock.now += 200
        return opened(self, arrival)

    monkeypatch.setattr(FileReader, "open", slowly)
    stream.arrive(shown=[(1, AT + WINDOW_S + 60)], likes=[(1, AT + WINDOW_S + 60)])
    monkeypatch.undo()
    assert stream.finish() == {0: [1], 1: [1]}


def test_a_process_that_stops_for_a_while_does_not_take_its_absence_for_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT)])
    stream.clock.now = AT + WINDOW_S
    complete = Folder.complete

    def then_stop(self: Folder, known: Any) -> list[Arrival]:
        found = complete(self, known)
        if not stream.path("likes", "meanwhile.parquet").exists():
            stream.clock.now += 100
            stream.write(stream.path("likes", "meanwhile.parquet"), [(0, AT + WINDOW_S)])
        return found

    monkeypatch.setattr(Folder, "complete", then_stop)
    stream.step()
    stream.step()
    assert stream.finish() == {0: [1]}


def test_it_is_not_quiet_while_a_file_is_incomplete(tmp_path: Path) -> None:
    stream = Stream(tmp_path, settle_s=20)
    stream.arrive(shown=[(0, AT)])
    stream.step(20)
    stream.clock.now = AT + WINDOW_S + 5
    stream.arrive(likes=[(0, AT + WINDOW_S)])
    stream.step(10)
    assert stream.labels() == {}
    stream.step(10)
    assert stream.finish() == {0: [1]}


def test_what_stalls_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT)])
    stream.step(WINDOW_S - 1)
    assert (stream.joiner.stalls.reason, stream.joiner.stalls.seconds) == ("", WINDOW_S - 1)
    # As if the broker were away: quiet ends nothing.
    monkeypatch.setattr(Folder, "is_behind", property(lambda _: True, lambda *_: None), raising=False)
    stream.step(200)
    assert "1 rows" in stream.joiner.stalls.reason
    monkeypatch.undo()
    stream.step(31)
    assert (stream.joiner.stalls.reason, stream.joiner.stalls.seconds) == ("", 0.0)


def test_a_state_of_a_clock_that_was_ahead_says_so(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT)])
    stream.clock.now += 30 * _DAY_S
    stream.finish()
    stream.arrive(shown=[(1, AT + 29 * _DAY_S)], day="2024-03-29")
    stream.finish()
    stream.clock.now -= 29 * _DAY_S
    stream.start()
    stream.arrive(shown=[(2, int(stream.clock.now))])
    stream.step(100)
    assert "clock" in stream.joiner.stalls.reason
