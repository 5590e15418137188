"""The joiner on topics of a real broker: the examples of the batch joiner, each once, whoever is killed."""

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.errors import UserError
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import run_executor, write_days
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs, properties_of, write_logs
from tests.components.request_log.sample_requests import CANDIDATES, INPUTS, SERVED, made
from tests.components.stream.sample_stream import arrive, as_texts, examples_of, files_below, job_of
from tests.components.stream.sample_topics import PARTITIONS, Writer, kafka_job, rows_of, serve, topics_of
from tests.errors import place_and_value
from tests.kafka.broker import Broker, running

pytestmark = pytest.mark.slow

_DAY_S = 86_400
_LATE = 3 * _DAY_S


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[str, Any]], list[str]]:
    """The rows of all logs, and what ingestion makes of them."""
    root = tmp_path_factory.mktemp("batch") / "logs"
    write_logs(root)
    examples = run_executor(properties_of(logs(), root), root.parent / "out")
    return rows_of(root), as_texts([row for split in ("train", "eval") for row in read_examples(examples.uri, split)])


def _joiner(job: JoiningJob) -> Any:
    from sangam.components.stream.joiner import Joiner

    return Joiner(job)


def _step_until(joiner: Any, condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, joiner.source()
        joiner.step(is_last=True)


def _messages(joiner: Any) -> int:
    return joiner.source()["counts"].get("messages", 0)


def _read_all(joiner: Any, messages: int) -> None:
    """Steps until so many messages have landed, and are read."""
    _step_until(joiner, lambda: _messages(joiner) >= messages and not joiner.source()["behind"])
    joiner.step(is_last=True)


class _Killed(BaseException):
    """Ends a joiner wherever it is, as SIGKILL does: what is on the disk by then is all there is."""


class _Disk:
    """A disk on which, at some write or rename, the joiner is killed: before it is done, or right after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: random.Random):
        self._chance, self.kills = chance, 0
        self._left = chance.randint(1, 25)
        for name in ("fsync", "replace", "unlink"):
            monkeypatch.setattr(os, name, self._dying(getattr(os, name)))

    def _dying(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            is_last = self._left == 0
            if is_last:
                self.kills, self._left = self.kills + 1, self._chance.randint(2, 25)
                if self._chance.random() < 0.5:
                    raise _Killed
            result = function(*arguments, **named)
            if is_last:
                raise _Killed
            return result

        return dying


@pytest.mark.long
def test_examples_are_those_of_the_batch_joiner_over_kills_of_the_joiner_at_any_write_and_of_the_broker(
    broker: Broker,
    batch: tuple[list[tuple[str, Any]], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, expected = batch
    chance = random.Random(0)
    rows = chance.sample(rows, len(rows))
    topics = topics_of(broker, "batch")
    writer, job = Writer(broker, topics, 0), kafka_job(tmp_path, broker, topics, lateness_s=_LATE, segment_rows=7)
    disk, joiner, written, poison = _Disk(monkeypatch, chance), _started(job), 0, 0
    killed_at = chance.randrange(40, 150)
    while written < len(rows):
        part = rows[written : written + chance.randint(1, 30)]
        writer.write([*part, (part[0][0], b"{")])
        poison += 1
        if written <= killed_at < written + len(part):
            broker.kill()
            broker.start()
        written += len(part)
        writer.flush()
        for _ in range(chance.randint(1, 6)):
            joiner = _stepped(joiner, job)
    settled = kafka_job(tmp_path, broker, topics, lateness_s=_LATE, segment_rows=7, idle_s=0.001)
    joiner.close()
    joiner = _started(settled)
    deadline = time.monotonic() + 60
    while joiner.counts["examples"] < len(expected) or joiner.source()["behind"]:
        assert time.monotonic() < deadline, joiner.source()
        joiner = _stepped(joiner, settled)
    assert as_texts(examples_of(job)) == expected
    assert joiner.source()["counts"] == {"messages": len(rows) + poison, "dead letters": poison}
    assert (len({(each["topic"], each["partition"], each["offset"]) for each in _letters(job)})) == poison
    assert len(_letters(job)) == poison
    assert disk.kills >= 3
    joiner.close()


def _stepped(joiner: Any, job: JoiningJob) -> Any:
    """Takes a step; returns the joiner, or the one that is started after it was killed."""
    try:
        joiner.step(is_last=True)
    except _Killed:
        joiner.close()
        return _started(job)
    return joiner


def _started(job: JoiningJob) -> Any:
    """Returns a joiner, which may have been killed several times while it started."""
    while True:
        with contextlib.suppress(_Killed):
            return _joiner(job)


def _letters(job: JoiningJob) -> list[dict[str, Any]]:
    files = sorted(Path(job.dead_letters).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _positions(job: JoiningJob) -> Any:
    folder = Path(job.segments)
    return segments.read(folder, segments.newest(folder)).positions


def _shown(number: int, at: int, **more: Any) -> tuple[str, dict[str, Any]]:
    return "", {"row": f"r{number}", "post": number, "at": at, "hour": number, **more}


def test_a_dead_letter_is_there_once_when_it_lands_later_than_before_a_kill(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.stream import topics as module

    def killed(*_: Any) -> Any:
        raise _Killed

    topics = topics_of(broker, "later")
    writer, job = Writer(broker, topics), kafka_job(tmp_path, broker, topics)
    writer.write([_shown(0, MIDNIGHT[DAYS[1]]), ("", b"{")], partition=0)
    writer.flush()
    with monkeypatch.context() as patch:
        patch.setattr(module, "land", killed)
        with pytest.raises(_Killed):
            _read_all(joiner := _joiner(job), 2)
    joiner.close()
    assert len(_letters(job)) == 1
    monkeypatch.setattr(module, "_MOST_MESSAGES", 1)
    _read_all(joiner := _joiner(job), 2)
    joiner.close()
    assert [each["offset"] for each in _letters(job)] == [1]
    assert [path.name for path in Path(job.dead_letters).iterdir()] == ["landed-000000000002.jsonl"]


def test_poison_is_a_dead_letter_with_its_place_and_the_stream_goes_on(broker: Broker, tmp_path: Path) -> None:
    topics = topics_of(broker, "poison", max_message_bytes="3000000")
    writer, job = Writer(broker, topics), kafka_job(tmp_path, broker, topics, idle_s=0.3)
    at = MIDNIGHT[DAYS[1]]
    good = [_shown(n, at + n) for n in range(6)]
    large = b'{"row": "' + b"x" * 1_500_000
    writer.write([*good[:3], ("", b"{"), _shown(7, at, like=1), good[3]], partition=0)
    writer.write([("likes", {"row": "r1", "post": 1, "time": at * 1000, "what": "like", "day": 0})], partition=2)
    writer.flush()
    joiner = _joiner(job)
    _read_all(joiner, 7)
    joiner.close()
    joiner = _joiner(job)
    writer.write([("", large), ("", b"\xff{"), *good[4:]], partition=1)
    writer.flush()
    _read_all(joiner, 11)
    _step_until(joiner, lambda: joiner.counts["examples"] == 6)
    assert sorted(row["hour"] for row in examples_of(job)) == [[n] for n in range(6)]
    found = {(each["topic"], each["partition"], each["offset"]): each for each in _letters(job)}
    shown, likes = topics[""], topics["likes"]
    assert sorted(found) == [(likes, 2, 0), (shown, 0, 3), (shown, 0, 4), (shown, 1, 0), (shown, 1, 1)]
    assert found[shown, 0, 3]["text"] == "{"
    assert (found[shown, 1, 0]["bytes"], len(found[shown, 1, 0]["text"])) == (len(large), 65_536)
    assert found[shown, 1, 1]["base64"] == "/3s="
    assert "like" in found[shown, 0, 4]["reason"]
    assert joiner.source()["counts"] == {"messages": 11, "dead letters": 5}
    # Nothing comes of the last poison, and yet it is passed.
    writer.write([("", b"null")], partition=2)
    writer.flush()
    _step_until(joiner, lambda: _positions(job)[shown] == {"0": 6, "1": 4, "2": 1})
    assert _positions(job)[likes] == {"0": 0, "1": 0, "2": 1}
    joiner.close()


def test_a_partition_that_is_behind_holds_the_windows_of_the_others(
    broker: Broker, batch: tuple[list[tuple[str, Any]], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of it is there when the joiner starts, and lands a few messages at a time, of one topic after the other: rows
    # come long before or long after their actions.
    monkeypatch.setattr("sangam.components.stream.topics._MOST_MESSAGES", 5)
    rows, expected = batch
    topics = topics_of(broker, "behind")
    writer = Writer(broker, topics)
    for source in ("", "items", "likes"):
        times = {"": "at", "likes": "time", "items": "updated"}
        of_source = sorted((row for row in rows if row[0] == source), key=lambda row: row[1][times[row[0]]])
        writer.write(of_source, partition=1)
    writer.flush()
    job = kafka_job(tmp_path, broker, topics, lateness_s=0, idle_s=1.0)
    joiner = _joiner(job)
    _step_until(joiner, lambda: joiner.counts["examples"] >= len(expected))
    assert as_texts(examples_of(job)) == expected
    assert joiner.counts["rows late"] == 0
    # What nothing waits for is not kept: of the last day's actions and two days of versions something still may be.
    landed = len(list((tmp_path / "landed").iterdir()))
    assert landed < len(rows) / 5
    joiner.close()
    assert as_texts(examples_of(job)) == expected


def test_messages_that_were_deleted_unread_are_counted_and_told_and_the_stream_goes_on(
    broker: Broker, tmp_path: Path
) -> None:
    topics = topics_of(broker, "deleted")
    writer, job = Writer(broker, topics), kafka_job(tmp_path, broker, topics, idle_s=0.3)
    at = MIDNIGHT[DAYS[1]]
    writer.write([_shown(n, at + n) for n in range(2)], partition=0)
    writer.flush()
    joiner = _joiner(job)
    _read_all(joiner, 2)
    joiner.close()
    writer.write([_shown(n, at + n) for n in range(2, 8)], partition=0)
    writer.flush()
    admin = broker.admin()
    [deleted] = admin.delete_records([TopicPartition(topics[""], 0, 5)]).values()
    assert deleted.result(timeout=30).low_watermark == 5
    joiner = _joiner(job)
    _read_all(joiner, 5)
    _step_until(joiner, lambda: joiner.counts["examples"] == 5)
    assert [row["hour"] for row in examples_of(job)] == [[0], [1], [5], [6], [7]]
    [letter] = _letters(job)
    assert (letter["topic"], letter["partition"], letter["offset"], letter["until"]) == (topics[""], 0, 2, 5)
    assert joiner.source()["counts"]["messages deleted before they were read"] == 3
    joiner.close()


def test_a_message_of_an_old_day_is_a_late_row_and_one_of_a_learned_day_is_left_out(
    broker: Broker, tmp_path: Path
) -> None:
    topics = topics_of(broker, "old")
    job = kafka_job(tmp_path, broker, topics, idle_s=0.3, lateness_s=0, first_day=DAYS[0])
    writer = Writer(broker, topics)
    first, newest = MIDNIGHT[DAYS[0]], MIDNIGHT[DAYS[0]] + 20 * 86_400
    writer.write([_shown(0, newest)], partition=0)
    writer.flush()
    joiner = _joiner(job)
    _step_until(joiner, lambda: joiner.counts["examples"] == 1)
    writer.write([_shown(1, first), _shown(2, first - 1)], partition=1)
    writer.flush()
    _step_until(joiner, lambda: joiner.counts["examples"] == 2)
    _read_all(joiner, 3)
    assert [row["at"] for row in examples_of(job)] == [[newest], [first]]
    assert joiner.counts["rows late"] == 1
    assert joiner.source()["counts"]["messages of days that the base has learned from"] == 1
    joiner.close()


def test_positions_are_those_that_nothing_waits_for_and_a_lost_disk_begins_at_the_committed_ones(
    broker: Broker, tmp_path: Path
) -> None:
    topics = topics_of(broker, "positions")
    job = kafka_job(tmp_path / "one", broker, topics, lateness_s=0, idle_s=600.0)
    writer = Writer(broker, topics)
    at = MIDNIGHT[DAYS[1]]
    like = {"row": "r0", "post": 0, "time": at + 60, "what": "like", "day": 1.0}
    writer.write([_shown(0, at), ("likes", like), _shown(1, at + 3600), _shown(2, at + 3601)], partition=0)
    writer.flush()
    joiner = _joiner(job)
    _step_until(joiner, lambda: joiner.counts["examples"] == 1)
    # All came in one landing, of which rows 1 and 2 wait: it may be read again from its beginning.
    assert _positions(job)[topics[""]] == {str(n): 0 for n in range(PARTITIONS)}
    writer.write([_shown(3, at + 3 * 3600)], partition=0)
    writer.flush()
    _step_until(joiner, lambda: joiner.counts["examples"] == 3)
    assert _positions(job) == {
        topics[""]: {"0": 3, "1": 0, "2": 0},
        topics["likes"]: {"0": 1, "1": 0, "2": 0},
        topics["items"]: {"0": 0, "1": 0, "2": 0},
    }
    joiner.close()
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "sangam-tests"})
    places = [TopicPartition(t, int(p), offset) for t, of in _positions(job).items() for p, offset in of.items()]
    reader.commit(offsets=places, asynchronous=False)
    reader.close()
    again = kafka_job(tmp_path / "two", broker, topics, lateness_s=0, idle_s=0.3)
    joiner = _joiner(again)
    _step_until(joiner, lambda: joiner.counts["examples"] == 1)
    assert [row["hour"] for row in examples_of(again)] == [[3]]
    joiner.close()


@pytest.mark.long
def test_new_partitions_are_read_and_an_unknown_topic_is_a_mistake(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sangam.components.stream.partitions._LOOK_EVERY_S", 0.2)
    monkeypatch.setattr("sangam.components.stream.partitions.UNKNOWN_TOPIC_S", 0.5)
    topics = topics_of(broker, "grows")
    job = kafka_job(tmp_path, broker, topics, idle_s=0.3)
    joiner = _joiner(job)
    _step_until(joiner, lambda: not joiner.source()["behind"])
    admin = broker.admin()
    [made] = admin.create_partitions([NewPartitions(topics[""], PARTITIONS + 1)]).values()
    made.result(timeout=30)
    _step_until(joiner, lambda: len(admin.list_topics(topics[""], timeout=60).topics[topics[""]].partitions) == 4)
    writer = Writer(broker, topics)
    writer.write([_shown(0, MIDNIGHT[DAYS[1]])], partition=PARTITIONS)
    writer.flush()
    _step_until(joiner, lambda: joiner.counts["examples"] == 1)
    joiner.close()
    joiner = _joiner(kafka_job(tmp_path / "other", broker, topics | {"likes": "nobody-made-it"}))
    with pytest.raises(UserError, match=place_and_value("--topic", "(got nobody-made-it)")):
        _step_until(joiner, lambda: False)
    assert "nobody-made-it" not in admin.list_topics(timeout=60).topics
    joiner.close()


@pytest.mark.long
def test_a_broker_that_is_away_is_waited_for_and_told_once(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = topics_of(broker, "away")
    writer, job = Writer(broker, topics), kafka_job(tmp_path, broker, topics, idle_s=0.3)
    writer.write([_shown(0, MIDNIGHT[DAYS[1]])], partition=0)
    writer.flush()
    broker.kill()
    began = time.time()
    with caplog.at_level("INFO", "sangam.components.stream"):
        joiner = _joiner(job)
        _step_until(joiner, lambda: time.time() > began + 3)
        assert began <= joiner.source()["away_since"] <= began + 3
        broker.start()
        _step_until(joiner, lambda: joiner.counts["examples"] == 1, 60)
        assert joiner.source()["away_since"] is None
    assert [record.levelname for record in caplog.records if broker.address in record.message] == ["ERROR", "INFO"]
    joiner.close()


def test_requests_that_a_server_sends_become_examples_of_their_candidates(broker: Broker, tmp_path: Path) -> None:
    days = {day: made(day) for day in DAYS}
    for folder, of_day in (("candidates", 1), ("clicks", 2)):
        write_days(tmp_path / folder, "parquet", {day: each[of_day] for day, each in days.items()})
    offline = job_of(tmp_path / "offline", CANDIDATES, INPUTS, lateness_s=_LATE, idle_s=1e-9)
    arrive(tmp_path, offline, [name for name in files_below(tmp_path) if name.endswith(".parquet")])
    joiner = _joiner(offline)
    while joiner.step(is_last=True):
        pass
    expected = as_texts(examples_of(offline))
    kafka = serve(broker, days.values())
    job = job_of(tmp_path / "online", SERVED.parts, INPUTS, lateness_s=_LATE, idle_s=1e-9)
    job = job.model_copy(update={"kafka": kafka, "data_root": str(tmp_path / "online" / "landed")})
    with contextlib.closing(_joiner(job)) as streaming:
        _step_until(streaming, lambda: len(examples_of(job)) >= len(expected))
    assert as_texts(examples_of(job)) == expected
