"""The log of requests as the one source of training: daily runs, deltas between them, and the gate of skew."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sangam.schemas.contracts import segments
from tests.components.examples.sample_files import read_file
from tests.e2e.served_world import CANDIDATES, NAME, PER_DAY, Feed, Row
from tests.e2e.user_run import sangam, start, summary_of, wait_until
from tests.errors import mentions
from tests.kafka.broker import Broker, running

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_REFUSED, _STOPPED = 3, 143
BEFORE, LIVE, WRONG = 20, 30, 5
"""Requests before the first delta, in all, and with a fault."""


def _run(feed: Feed, date: str) -> tuple[Any, dict[str, Any]]:
    folders = ["--data", str(feed.logs), "--root", str(feed.root)]
    done = sangam("run", str(feed.spec), "--date", date, *folders)
    return done, summary_of(done.stdout)


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        rest: address of its REST interface.
    """

    rest: str

    def delta(self) -> int:
        """Returns the number of the last delta that it has applied."""
        return int(httpx.get(f"{self.rest}/deltas").json()["delta"])


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    return Feed(tmp_path_factory.mktemp("feed"))


@pytest.fixture(scope="module")
def first(feed: Feed) -> tuple[Any, dict[str, Any]]:
    """The run that has learned from the days before this one."""
    done, summary = _run(feed, feed.date)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, summary


@contextmanager
def _served(feed: Feed, log: str) -> Iterator[Server]:
    """Starts a server that logs requests to a place."""
    addresses, output = feed.directory / "addresses.json", feed.directory / "serve.txt"
    addresses.unlink(missing_ok=True)
    options = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(addresses), "--poll-s", "0.2"]
    process = start(["serve", str(feed.root / "serving" / NAME), *options, "--log", log], output)
    try:
        wait_until(lambda: addresses.exists() or process.poll() is not None, "the server is ready")
        assert addresses.exists(), output.read_text()
        yield Server(f"http://{json.loads(addresses.read_text())['rest']}")
    finally:
        process.terminate()
        assert process.wait(60) == 0


@contextmanager
def _learning(feed: Feed, version: str, *source: str) -> Iterator[Callable[[], int]]:
    """Starts online training; yields what returns the number of examples that it has learned from."""
    output = feed.directory / "online.txt"
    state = feed.root / "online" / NAME / "training" / version / "logs" / "online.json"
    online = start(["online", str(feed.spec), "--root", str(feed.root), *source], output)

    def learned() -> int:
        assert online.poll() is None, output.read_text()
        return int(json.loads(state.read_text())["examples"]) if state.exists() else 0

    try:
        yield learned
    finally:
        online.terminate()
        code = online.wait(150)
    assert code == _STOPPED, output.read_text()


def _logged(feed: Feed, ids: str) -> dict[str, dict[str, Any]]:
    """Returns the sealed requests whose ids begin so, by id; each is there once."""
    rows = [row for file in (feed.logs / "requests").glob("*/*/*.parquet") for row in pq.read_table(file).to_pylist()]
    found = {row["request_id"]: row for row in rows if row["request_id"].startswith(ids)}
    assert len(found) == sum(row["request_id"].startswith(ids) for row in rows)
    return found


def _learned(feed: Feed) -> Counter[tuple[str, int, int]]:
    """Returns request, post and label of every joined example."""
    folder = feed.root / "online" / NAME / "examples"
    rows = [
        row for number in segments.numbers(folder) for row in read_file(str(segments.examples_file(folder, number)))
    ]
    return Counter((row["request_id"][0].decode(), row["post"][0], row["click"][0]) for row in rows)


@pytest.fixture(scope="module")
def applied(feed: Feed, first: tuple[Any, dict[str, Any]]) -> int:
    """The first delta of requests that a server has applied; it was asked before and after that, and sent cents."""
    with _served(feed, str(feed.logs / "requests")) as server:
        feed.use(server.rest, [f"live-{number}" for number in range(BEFORE)])
        assert feed.write_ahead("wrong-0", seconds=3000) == CANDIDATES
        with _learning(feed, first[1]["pushed"]["version"], "--source", str(feed.logs)) as learned:
            # The base was judged on the last day, and has not learned from it.
            wait_until(lambda: learned() == (PER_DAY + BEFORE) * CANDIDATES, "what was served is learned")
            wait_until(lambda: server.delta() > 0, "the server has what was learned")
            delta = server.delta()
            feed.use(server.rest, [f"live-{number}" for number in range(BEFORE, LIVE)])
            wait_until(lambda: learned() == (PER_DAY + LIVE) * CANDIDATES, "what was served with a delta is learned")
        feed.use(server.rest, [f"cents-{number}" for number in range(WRONG)], price_unit=100)
    return delta


def test_requests_are_learned_from_once_and_the_next_ones_are_scored_with_the_delta(feed: Feed, applied: int) -> None:
    requests = _logged(feed, "live-")
    assert requests.keys() == {f"live-{number}" for number in range(LIVE)}
    deltas = [requests[f"live-{number}"]["served_delta"] for number in range(LIVE)]
    assert deltas[:BEFORE] == [0] * BEFORE
    assert min(deltas[BEFORE:]) >= applied
    requests |= _logged(feed, feed.date)
    served = [(name, post) for name, row in requests.items() for post in row["post"]]
    learned = {key: number for key, number in _learned(feed).items() if not key[0].startswith("topic-")}
    assert learned == Counter((name, post, int((name, post) in feed.clicks)) for name, post in served)
    counts = json.loads((feed.root / "online" / NAME / "joining" / "status.json").read_text())["counts"]
    assert counts["rows ahead of their arrival"] == CANDIDATES
    assert counts["rows"] - counts["examples"] == CANDIDATES


def test_requests_in_a_topic_are_learned_from_once_and_the_next_ones_are_scored_with_the_delta(
    feed: Feed, first: tuple[Any, dict[str, Any]], applied: int
) -> None:
    with running(feed.directory / "broker") as broker:
        broker.create_topic("requests", 2)
        broker.create_topic("clicks")
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})

        def click(rows: Sequence[Row]) -> None:
            for row in rows:
                producer.produce("clicks", value=json.dumps(row).encode())
            assert producer.flush(60) == 0

        source = ["--source", f"kafka://{broker.address}", "--topic", "requests", "--topic", "clicks=clicks"]
        with (
            _served(feed, f"kafka://{broker.address}/requests") as server,
            _learning(feed, first[1]["pushed"]["version"], *source) as learned,
        ):
            wait_until(lambda: server.delta() >= applied, "the server has the deltas so far")
            examples, delta = learned(), server.delta()
            feed.use(server.rest, [f"topic-{number}" for number in range(5)], arrive=click)
            wait_until(lambda: learned() == examples + 5 * CANDIDATES, "what was served is learned")
            wait_until(lambda: server.delta() > delta, "the server has what was learned")
            feed.use(server.rest, [f"topic-{number}" for number in range(5, 10)], arrive=click)
            wait_until(lambda: learned() == examples + 10 * CANDIDATES, "what was served with a delta is learned")
        sent = _messages(broker, "requests", 10)
    assert sorted(each["request_id"] for each in sent) == sorted(f"topic-{number}" for number in range(10))
    assert all((each["served_delta"] > delta) == (int(each["request_id"][6:]) >= 5) for each in sent)
    served = [(each["request_id"], post) for each in sent for post in each["post"]]
    found = {key: number for key, number in _learned(feed).items() if key[0].startswith("topic-")}
    assert found == Counter((name, post, int((name, post) in feed.clicks)) for name, post in served)


def _messages(broker: Broker, topic: str, number: int) -> list[dict[str, Any]]:
    """Returns the messages of a topic, and fails if there are more or fewer."""
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    partitions = [TopicPartition(topic, each, 0) for each in range(2)]
    assert sum(reader.get_watermark_offsets(each, timeout=60)[1] for each in partitions) == number
    reader.assign(partitions)
    found = reader.consume(number, timeout=60)
    reader.close()
    return [json.loads(message.value()) for message in found]


def test_a_run_passes_on_its_own_path_and_is_refused_while_a_server_is_sent_something_else(
    feed: Feed, first: tuple[Any, dict[str, Any]], applied: int
) -> None:
    assert applied
    passed = first[1]["serving"]
    [check] = [check for check in passed["checks"] if check["name"] == "skew of features"]
    assert (check["passed"], passed["feature_skew"]["rows"]) == (True, PER_DAY * CANDIDATES)
    assert [(each["column"], each["different"]) for each in passed["feature_skew"]["columns"]] == [
        ("price", 0),
        ("topic", 0),
    ]
    card = Path(first[1]["pushed"]["path"], "MODEL_CARD.md").read_text()
    assert check["reason"] in card
    date = max(row["served_at"] for row in _logged(feed, "cents-").values()).date()
    done, summary = _run(feed, str(date))
    assert done.returncode == _REFUSED, done.stdout + done.stderr
    told = "'price' differs from the logs ... likely cause: unit (100 times ... request_id cents-"
    assert mentions(done.stdout, f"fail ... skew of features: {told}")
    assert "not blessed: refused by the serving check" in done.stdout
    found = {check["name"]: check for check in summary["serving"]["checks"]}
    assert mentions(found["skew of features"]["reason"], told)
    price, topic = summary["serving"]["feature_skew"]["columns"]
    assert (price["different"], price["cause"]["kind"], topic["different"]) == (WRONG * CANDIDATES, "unit", 0)
    # Of equal features: what the version has scored before its first delta, it scores again.
    [task] = summary["serving"]["score_skew"]["tasks"]
    assert (task["compared"], task["different"]) == (BEFORE * CANDIDATES, 0)
    page = Path(summary["path"], "report.html").read_text()
    assert mentions(page, "not pushed: ... skew of features ... price ... likely cause: unit (100 times")
    assert summary["pushed"] is None
