"""The joiner where files grow, move, are replaced, damaged or of a day to come: each row once, or counted."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.stream.state import State
from sangam.schemas.contracts import segments
from sangam.schemas.errors import UserError
from tests.components.logs.sample_logs import SUFFIX
from tests.components.logs.sample_sources import DAYS
from tests.components.stream.streaming import AT, Stream
from tests.errors import place_and_value

pytestmark = pytest.mark.slow

_OLD, _MORE = [(n, AT - 50 + n) for n in range(5)], [(n, AT - 50 + n) for n in range(5, 9)]
_LIKED = [(n, AT) for n in (1, 6)]
_EACH_ONCE = {n: [int(n in (1, 6))] for n in range(9)}


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("form", ["parquet", "csv", "tfrecord"])
def test_a_file_that_grows_is_read_on(tmp_path: Path, form: str, is_killed: bool) -> None:
    stream = Stream(tmp_path, form)
    shown, likes = stream.path("shown", f"a.{SUFFIX[form]}"), stream.path("likes", f"a.{SUFFIX[form]}")
    stream.write(shown, _OLD)
    stream.write(likes, _LIKED[:1])
    stream.step()
    stream.write(shown, [*_OLD, *_MORE])
    stream.write(likes, _LIKED)
    if is_killed:
        stream.start()
    stream.step()
    if is_killed:
        stream.start()
    os.utime(shown)  # Touched, with no new row.
    stream.step()
    assert stream.finish() == _EACH_ONCE
    assert (stream.joiner.counts["rows"], stream.joiner.counts["rows of likes"]) == (9, 2)
    assert stream.letters() == []


def test_a_line_that_is_not_written_to_its_end_is_waited_for(tmp_path: Path) -> None:
    stream = Stream(tmp_path, "csv")
    path = stream.path("shown", "a.csv")
    stream.write(path, [*_OLD, *_MORE])
    stream.write(stream.path("likes", "a.csv"), _LIKED)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    stream.step(1)
    assert stream.joiner.counts["rows"] == 0
    path.write_bytes(whole)
    stream.step(1)
    stream.write(path.with_name("b.csv"), [(20, AT)])
    path.with_name("b.csv").write_bytes(path.with_name("b.csv").read_bytes().rstrip())
    stream.step(1)
    assert stream.joiner.counts["rows"] == 9
    stream.step(30)
    assert stream.finish() == _EACH_ONCE | {20: [0]}


def test_a_file_that_is_written_to_all_the_time_is_read_now_and_then(tmp_path: Path) -> None:
    stream = Stream(tmp_path, "csv", settle_s=5.0)
    path = stream.path("shown", "a.csv")
    for seconds in range(64):
        stream.write(path, [(n, AT + n) for n in range(seconds + 1)])
        stream.step(1)
    assert stream.joiner.counts["rows"] in (60, 61, 62)
    stream.step(5)
    assert stream.finish() == {n: [0] for n in range(64)}


@pytest.mark.parametrize(
    "how",
    [
        "renamed",
        "renamed and grown",
        "rotated",
        "copied",
        "copied early",
        "copied, grown",
        "linked",
        "a hard link, grown",
    ],
)
def test_a_row_is_read_once_whatever_its_file_is_called(tmp_path: Path, how: str) -> None:
    stream = Stream(tmp_path, "csv")
    path, other = stream.path("shown", "a.csv"), stream.path("shown", "b.csv")
    stream.write(stream.path("likes", "a.csv"), _LIKED)
    stream.write(path, _OLD)
    stream.step()
    match how:
        case "copied" | "copied, grown":
            shutil.copyfile(path, other)
        case "copied early":
            shutil.copyfile(path, path.with_name("_a.csv"))
            stream.write(path, [*_OLD, *_MORE])
            stream.step()
            path.with_name("_a.csv").rename(other)
        case "linked":
            other.symlink_to(path)
        case "a hard link, grown":
            os.link(path, other)
        case _:
            path.rename(other)
    stream.step()
    if how in ("renamed and grown", "copied, grown", "a hard link, grown"):
        stream.write(other, [*_OLD, *_MORE])
    elif how != "copied early":
        stream.write(path if how == "rotated" else path.with_name("c.csv"), _MORE)
    stream.start()  # Rows wait in a file that now has another name.
    stream.step()
    assert stream.finish() == _EACH_ONCE
    is_counted = how in ("copied", "copied early")
    assert stream.joiner.counts["rows of files with the content of another"] == (5 if is_counted else 0)
    assert [letter["name"] for letter in stream.letters()] == ([f"shown/{DAYS[1]}/b.csv"] if is_counted else [])


@pytest.mark.parametrize("rows", [_OLD[1:], _OLD[:3], [(n, AT) for n in range(30, 40)]])
def test_rows_that_replace_others_are_counted_and_not_read(tmp_path: Path, rows: list[tuple[int, int]]) -> None:
    stream = Stream(tmp_path)
    path = stream.path("shown", "a.parquet")
    stream.write(path, _OLD)
    stream.finish()
    stream.write(path, rows)
    stream.step()
    assert stream.finish() == {n: [0] for n, _ in _OLD}
    assert stream.joiner.counts["rows of files changed after reading"] == len(rows)
    [letter] = stream.letters()
    assert "5 rows" in letter["reason"]
    stream.write(path, [*rows, (50, AT)])
    stream.step()
    assert stream.finish()[50] == [0]


def test_a_file_of_a_day_to_come_is_read_on_that_day_and_stops_no_other(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=[(0, AT)])
    stream.arrive(shown=[(1, AT + 10 * 86_400)], day="2024-03-10")
    stream.arrive(shown=[(2, AT)])
    assert stream.finish() == {0: [0], 2: [0]}
    [letter] = stream.letters()
    assert "2024-03-10" in letter["reason"]
    stream.step(10 * 86_400)
    assert stream.finish() == {0: [0], 1: [0], 2: [0]}
    assert stream.letters() == []
    stream.arrive(shown=[(3, AT - 86_400)], day=DAYS[0])  # More than a week before the newest.
    assert stream.finish()[3] == [0]


def _not_utf8(path: Path) -> None:
    table = pa.table({"row": ["r0"], "post": [1], "at": [AT], "hour": [0], "co_umn": [1]})
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes().replace(b"co_umn", b"co\xffumn"))


_DAMAGE: dict[str, Callable[[Path], object]] = {
    "a column name that is not UTF-8": _not_utf8,
    "empty": lambda path: path.write_bytes(b""),
    "another format": lambda path: path.write_bytes(b"PAR1 no parquet"),
    "a truncated footer": lambda path: path.write_bytes(b"PAR1" + b"\x00" * 40 + b"\xff\xff\xff\x7fPAR1"),
    "compressed": lambda path: path.write_bytes(gzip.compress(b"row,post")),
}


@pytest.mark.parametrize("damage", _DAMAGE)
def test_every_error_of_a_file_is_its_dead_letter_until_it_is_repaired(tmp_path: Path, damage: str) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=_OLD)
    path = stream.path("shown", "damaged.parquet")
    _DAMAGE[damage](path)
    stream.step()
    stream.start()
    stream.step()
    assert [letter["name"] for letter in stream.letters()] == [f"shown/{DAYS[1]}/damaged.parquet"]
    path.unlink()
    stream.write(path, _MORE)
    stream.step()
    assert stream.finish().keys() == _EACH_ONCE.keys()
    assert stream.letters() == []


def test_any_error_of_a_reader_and_any_name_is_a_dead_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(tmp_path)

    def fails(*_: object) -> None:
        raise RuntimeError("of some library")

    with monkeypatch.context() as patch:
        patch.setattr("sangam.components.logs.readers.parquet.inspect", fails)
        stream.arrive(shown=_OLD)
    odd = os.fsencode(stream.path("shown", "")) + b"/\xff.parquet"
    with open(odd, "wb") as file:
        file.write(b"x")
    stream.step()
    assert ["of some library" in letter["reason"] for letter in stream.letters()] == [False, True]


def test_files_of_a_table_are_dead_letters_that_name_its_format(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    log = Path(stream.job.data_root, "shown", "_delta_log", "00000000000000000000.json")
    log.parent.mkdir(parents=True)
    log.write_text("{}")
    stream.arrive(shown=[(0, AT)])
    [letter] = stream.letters()
    assert "is a Delta Lake table" in letter["reason"]
    assert stream.finish() == {}


@pytest.mark.parametrize("what", ["joiner.json", "files-000000000001.jsonl"])
def test_a_state_that_was_changed_is_refused_although_it_parses(tmp_path: Path, what: str) -> None:
    stream = Stream(tmp_path)
    stream.arrive(shown=_OLD)
    stream.finish()
    folder = Path(stream.job.segments)
    path = folder / what if what.startswith("files") else segments.path_of(folder, segments.newest(folder)) / what
    text = path.read_text()
    path.write_text(text.replace('"rows":5', '"rows":4'))
    assert path.read_text() != text
    with pytest.raises(UserError, match=place_and_value(str(path), "(got ")):
        stream.start()
    path.write_text(text + ("" if what == "joiner.json" else "of a segment that was not sealed"))
    stream.start()
    assert stream.finish().keys() == dict(_OLD).keys()


def test_the_state_grows_with_what_is_new_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(tmp_path)
    for number in range(40):
        stream.write(stream.path("shown", f"{number:03d}.parquet"), [(number, AT - 4000 + number)])
    stream.step()
    stream.start()
    stream.step()
    stream.step(60)
    folder = Path(stream.job.segments)
    state = segments.path_of(folder, segments.newest(folder)) / "joiner.json"
    assert State.model_validate_json(state.read_bytes()).files == ()
    assert state.stat().st_size < 1000
    looked: list[str] = []
    stat = os.stat
    monkeypatch.setattr("sangam.components.stream.arrivals._LOOKED_AT", 4)

    def look(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
        looked.append(str(path))
        return stat(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", look)
        patch.setattr(os, "listdir", lambda path: pytest.fail(f"{path} is listed again"))
        patch.setattr("sangam.components.stream.watching._RACE_NS", -(10**18))
        stream.joiner.step()
    assert sum(path.endswith(".parquet") for path in looked) <= 4
    assert stream.labels() == {number: [0] for number in range(40)}
