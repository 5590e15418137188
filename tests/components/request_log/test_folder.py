"""The folder of a log: what a request becomes, when files are sealed, and how much stays."""

import datetime
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.readers import formats
from sangam.components.request_log.folder import Folder
from sangam.components.request_log.queue import RequestQueue
from sangam.schemas.contracts.request_log import OPEN_FOLDER
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import ServedLogs
from tests.components.request_log.sample_requests import READ, Clock, plan, request, rows_of, sealed, write
from tests.errors import place_and_value
from tests.small_disk import fill, small_disk

NOON = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.UTC).timestamp()


def test_each_logged_candidate_is_a_row_with_what_the_model_read(tmp_path: Path) -> None:
    of = plan()
    made = [request(of, number, NOON + number, 1 + number) for number in range(4)]
    folder = write(tmp_path, of, [served for served, _ in made])
    as_texts = [
        {name: value.decode() if isinstance(value, bytes) else value for name, value in row.items()}
        for row in rows_of(tmp_path)
    ]
    for row in as_texts:
        for name in ("price", "shadow_score_like"):
            row[name] = None if row[name] != row[name] else row[name]
        row["tags"] = [tag.decode() for tag in row["tags"]]
    assert as_texts == [row for _, rows in made for row in rows]
    assert folder.counts["files"] == 1
    [file] = tmp_path.glob("20*/*/*.parquet")
    table = pq.read_table(file).to_pydict()
    assert [len(each) for each in table["user"]] == [1] * 4  # The context once, candidates as lists.
    assert [len(each) for each in table["price"]] == [1, 2, 3, 4]
    assert table["served_delta"] == [3] * 4
    logs = ServedLogs(kind="served", log=".", train_days=1).parts
    with file.open("rb") as opened:
        assert formats.inspect(logs, opened, str(file), READ).num_rows == 10


def test_the_share_is_chosen_by_the_id_alone_and_candidates_by_their_places(tmp_path: Path) -> None:
    ids = [f"request-{number}" for number in range(10_000)]
    chosen = {share: {each for each in ids if plan(share=share).chooses(each)} for share in (0.1, 0.2, 1.0)}
    assert len(chosen[1.0]) == 10_000
    assert abs(len(chosen[0.1]) - 1000) < 150  # Five standard deviations.
    assert chosen[0.1] < chosen[0.2]
    of = plan(candidates=3)
    served, rows = request(of, 1, NOON, 9)
    write(tmp_path, of, [served])
    places = of.places("r1", 9)
    assert places is not None
    assert of.places("r1", 3) is None
    found = [(row["price"], row["served_position"]) for row in rows_of(tmp_path)]
    assert len(found) == 3
    for (price, position), place in zip(found, places, strict=True):
        assert position == rows[place]["served_position"]
        assert price == rows[place]["price"] or rows[place]["price"] is None
    counts = [0] * 9
    for each in ids[:3000]:
        for place in of.places(each, 9).tolist():  # type: ignore[union-attr]
            counts[place] += 1
    assert all(abs(count - 1000) < 130 for count in counts)


def test_hashed_columns_join_with_themselves_and_dropped_ones_have_no_values(tmp_path: Path) -> None:
    of = plan(redact={"user": "hash", "tags": "hash", "hour": "hash", "price": "drop"})
    write(tmp_path, of, [request(of, number, NOON, 2)[0] for number in (1, 1, 2)])
    rows = rows_of(tmp_path)
    users = [row["user"] for row in rows]
    assert users[0] == users[3] != users[4]
    assert not any(b"u" in user for user in users)
    assert rows[0]["tags"][0] == rows[2]["tags"][0]
    assert rows[1]["tags"] == []
    assert rows[0]["hour"] == rows[2]["hour"] not in (1, rows[4]["hour"])
    assert {row["price"] for row in rows} == {None}


def test_requests_of_two_days_that_are_written_at_once_are_in_files_of_their_own(tmp_path: Path) -> None:
    of, midnight = plan(), NOON + 43_200
    queue = RequestQueue(Folder(tmp_path, b"", Clock(midnight)), has_key=False)
    for number, late_s in enumerate((-0.2, -0.1, 0.1, 0.2, -0.05)):  # Threads may hand over a late one.
        queue.offer(request(of, number, midnight + late_s, 2)[0])
    queue.stop(60)
    assert sealed(tmp_path) == ["2024-03-01/23/000001", "2024-03-02/00/000002"]


def test_files_are_sealed_by_the_hour_by_size_and_by_age(tmp_path: Path) -> None:
    of = plan(file_every_s=1000)
    times = [NOON, NOON + 999, NOON + 1001, NOON + 1002, NOON + 3600]
    write(tmp_path / "ages", of, [request(of, 1, at, 2)[0] for at in times])
    hours = "2024-03-01/{}/00000{}".format
    assert sealed(tmp_path / "ages") == [hours(12, 1), hours(12, 2), hours(13, 3)]
    small = plan(file_size="1B")
    write(tmp_path / "sizes", small, [request(small, 1, NOON, 2)[0] for _ in range(3)])
    assert sealed(tmp_path / "sizes") == [hours(12, number) for number in (1, 2, 3)]
    assert [row["request_id"] for row in rows_of(tmp_path / "sizes")] == ["r1"] * 6


def test_the_oldest_files_go_beyond_the_declared_days_and_size(tmp_path: Path) -> None:
    day_s = 86_400
    of = plan(keep_days=2)
    folder = write(tmp_path / "days", of, [request(of, 1, NOON + day * day_s, 2)[0] for day in range(4)])
    assert [file.split("/")[0] for file in sealed(tmp_path / "days")] == [f"2024-03-0{n}" for n in (2, 3, 4)]
    assert folder.counts["removed"] == 1
    few = plan(max_size="10kB")
    write(tmp_path / "sizes", few, [request(few, 1, NOON + hour * 3600, 2)[0] for hour in range(6)])
    one = next((tmp_path / "sizes").glob("20*/*/*")).stat().st_size
    # The last file is sealed after the last look.
    assert len(sealed(tmp_path / "sizes")) == 10_000 // one + 1


def test_a_server_whose_clock_is_ahead_removes_nothing_of_others(tmp_path: Path) -> None:
    of, now, years = plan(keep_days=2), datetime.datetime.now(datetime.UTC).timestamp(), 70 * 365 * 86_400
    write(tmp_path, of, [request(of, 1, now, 1)[0]])
    write(tmp_path, of, [request(of, 2, now + years + after_s, 1)[0] for after_s in (0, 31)])
    assert sorted({row["request_id"] for row in rows_of(tmp_path)}) == ["r1", "r2"]


def test_several_servers_write_into_one_folder(tmp_path: Path) -> None:
    of, clock = plan(), Clock(NOON)
    folders = [Folder(tmp_path, b"", clock) for _ in range(3)]
    for number, folder in enumerate(folders):
        folder.write(of, [request(of, number, NOON, 1)[0]])
        clock.now += 31
        folder.look_after()  # None takes what another has open.
    assert not sealed(tmp_path)
    for folder in folders:
        folder.close()
    assert sorted(row["request_id"] for row in rows_of(tmp_path)) == ["r0", "r1", "r2"]
    assert [folder.counts["recovered"] for folder in folders] == [0, 0, 0]


def test_what_does_not_fit_the_queue_is_dropped_and_counted(tmp_path: Path) -> None:
    of = plan()
    size = request(of, 1, NOON, 5)[0].num_bytes
    queue = RequestQueue(Folder(tmp_path, b"", Clock(NOON)), max_bytes=2 * size)
    queue.stop(60)  # Nothing is taken from the queue any more.
    for _ in range(3):
        queue.offer(request(of, 1, NOON, 5)[0])
    assert queue.all_counts() == {"chosen": 3, "dropped queue": 1, "waiting": 2}


def test_hashes_need_a_key(tmp_path: Path) -> None:
    of = plan(redact={"user": "hash"})
    queue = RequestQueue(Folder(tmp_path, b"", Clock(NOON)))
    queue.offer(request(of, 1, NOON, 5)[0])
    queue.stop(60)
    assert queue.all_counts() == {"chosen": 1, "dropped key": 1}


@pytest.mark.parametrize(("number", "value"), [(4, "got 2 values for 4 candidates"), (10**6, "1000000")])
def test_a_file_that_says_other_than_it_has_is_refused(tmp_path: Path, number: int, value: str) -> None:
    of = plan()
    write(tmp_path, of, [request(of, 1, NOON, 2)[0]])
    [file] = tmp_path.glob("20*/*/*")
    table = pq.read_table(file)
    at = table.schema.get_field_index("served_candidates")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array([number], pa.int32())), file)
    with pytest.raises(UserError, match=place_and_value(str(file), value)):
        rows_of(tmp_path, [Column("price", "float")])


def test_a_disk_that_is_full_or_read_only_drops_and_counts_and_nothing_half_written_is_taken(tmp_path: Path) -> None:
    of, clock = plan(), Clock(NOON)
    with small_disk(tmp_path / "disk", "16k") as disk:
        queue, number = RequestQueue(folder := Folder(disk, b"", clock)), 0
        while not queue.all_counts()["dropped disk"]:
            queue.offer(request(of, number, NOON, 50)[0])
            number += 1
            settled(queue, number)
        counts = queue.all_counts()
        assert counts["written"] >= 1
        assert counts["chosen"] == counts["written"] + counts["dropped disk"]
        filler = fill(disk)
        queue.stop(60)  # A file cannot be sealed now.
        assert (folder.counts["files"], list(disk.glob("20*/*/*"))) == (0, [])
        filler.unlink()
        moved = tmp_path / "moved"  # To a disk with room: another server's folder.
        shutil.copytree(disk, moved)
        Folder(moved, b"", clock).look_after()
        rows = rows_of(moved)
        assert len({row["request_id"] for row in rows}) == counts["written"]
        assert len(rows) == 50 * counts["written"]
    (tmp_path / "read_only" / OPEN_FOLDER).mkdir(parents=True)
    folder = Folder(tmp_path / "read_only", b"", clock)
    with small_disk(tmp_path / "read_only" / OPEN_FOLDER, "64k", is_read_only=True):
        queue = RequestQueue(folder)
        queue.offer(request(of, 1, NOON, 1)[0])
        queue.stop(60)
        assert queue.all_counts() == {"chosen": 1, "dropped disk": 1}


def test_a_folder_that_is_removed_is_made_again_and_what_was_in_it_is_counted(tmp_path: Path) -> None:
    of, log = plan(), tmp_path / "log"
    folder = Folder(log, b"", Clock(NOON))
    for number in range(2):
        folder.write(of, [request(of, number, NOON, 1)[0]])
    shutil.rmtree(log)
    folder.write(of, [request(of, 2, NOON, 1)[0]])
    folder.close()
    assert [row["request_id"] for row in rows_of(log)] == ["r2"]
    assert (folder.counts["lost"], folder.counts["files"]) == (2, 1)


def settled(queue: RequestQueue, number: int) -> None:
    """Waits until so many requests are written or dropped."""
    deadline = time.monotonic() + 60
    while (
        queue.all_counts()["waiting"] or sum(queue.all_counts()[each] for each in ("written", "dropped disk")) < number
    ):
        assert time.monotonic() < deadline, queue.all_counts()
        time.sleep(0.01)
