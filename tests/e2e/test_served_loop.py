"""The log of requests as the one source of training: daily runs, deltas between them, and the gate of skew."""

import datetime
import json
import shutil
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

from sangam.components.registry import shadow
from sangam.components.registry.blessed import read_all, record
from sangam.components.steps.pusher import directory, manifest
from sangam.components.steps.pusher.manifest import Provenance
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec.serving import InShadow
from sangam.trainer_module.checkpoint.folder import published
from tests.components.examples.sample_files import read_file
from tests.e2e.served_world import CANDIDATES, NAME, PER_DAY, SPEC, Feed, Row
from tests.e2e.user_run import sangam, start, summary_of, wait_until
from tests.errors import mentions
from tests.kafka.broker import Broker, running
from tests.trainer_module.sample_job import read_dense, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_REFUSED, _STOPPED = 3, 143
BEFORE, LIVE, WRONG = 20, 30, 5
"""Requests before the first delta, in all, and with a fault."""
_SHARE = 1e-9
"""Of the requests that are scored in the shadow: none, as their rows would come later than `lateness_s`."""
_IN_SHADOW = {
    "push": {"kind": "directory", "path": f"serving/{NAME}", "after": "shadow"},
    "serving": {**SPEC["serving"], "shadow": {"share": _SHARE}},
}


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

    def served(self) -> dict[str, Any]:
        """Returns which version and delta it serves."""
        told: dict[str, Any] = httpx.get(f"{self.rest}/deltas").json()
        return told

    def delta(self) -> int:
        """Returns the number of the last delta that it has applied."""
        return int(self.served()["delta"])

    def scores_in_shadow(self, version: str) -> bool:
        """Returns whether a version scores requests in the shadow of the served one."""
        lines = httpx.get(f"{self.rest}/metrics").text.splitlines()
        return any(line.startswith("sangam_shadow_version{") and f'"{version}"' in line for line in lines)


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


def _state(feed: Feed, version: str) -> dict[str, Any]:
    """Returns what the training of a version says of itself."""
    file = feed.root / "online" / NAME / "training" / version / "logs" / "online.json"
    state: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return state


def _learned_bytes(feed: Feed, version: str) -> tuple[str, list[bytes]]:
    """Returns the step and the bytes of all rows and weights of a training's last checkpoint."""
    checkpoint = published(feed.root / "online" / NAME / "training" / version / "checkpoints")[-1]
    arrays = [*read_rows(checkpoint, "adagrad_4"), *dict(sorted(read_dense(checkpoint).items())).values()]
    return checkpoint.name, [array.tobytes() for array in arrays]


def _push_into_shadow(feed: Feed, version: str) -> str:
    """Pushes the model of a version once more, into its shadow; returns the version there."""
    target, again = feed.root / "serving" / NAME, feed.directory / "again"
    shutil.copytree(target / version, again)
    described = manifest.read_manifest("manifest.json", (again / manifest.FILE_NAME).read_bytes())
    for name in (manifest.FILE_NAME, manifest.CARD_FILE):
        (again / name).unlink()
    fields = {name: getattr(described, name) for name in Provenance.model_fields}
    now = datetime.datetime.now(datetime.UTC)
    pushed = directory.push(
        model=again,
        target=target,
        day=f"{now:%Y%m%d}",
        provenance=Provenance.model_validate(fields | {"shadow": InShadow(share=_SHARE)}),
        card=lambda _: "# Card\n",
        now=now,
        after_hours=20,
    )
    assert pushed.shadow_of == version
    [blessed] = read_all(Root(str(feed.root)).blessed(NAME))
    changes = {"pushed": f"serving/{NAME}/{pushed.version}", "blessed_at": now}
    record(Root(str(feed.root)).blessed(NAME), blessed.model_copy(update=changes))
    return pushed.version


@contextmanager
def _learning(feed: Feed, version: str, *source: str) -> Iterator[Callable[[], int]]:
    """Starts online training; yields what returns the number of examples that it has learned from."""
    output = feed.directory / "online.txt"
    spec = feed.directory / "online.yaml"
    spec.write_text(json.dumps(SPEC | _IN_SHADOW))
    online = start(["online", str(spec), "--root", str(feed.root), *source], output)

    def learned() -> int:
        assert online.poll() is None, output.read_text()
        return _state(feed, version).get("examples", 0)

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


@dataclass(frozen=True)
class Applied:
    """What became of a version that learned in the shadow of one that was served.

    Attributes:
        delta: the served version's first delta that a server has applied.
        promoted: the version that was made live.
        promoted_delta: its last delta then.
    """

    delta: int
    promoted: str
    promoted_delta: int


@pytest.fixture(scope="module")
def applied(feed: Feed, first: tuple[Any, dict[str, Any]]) -> Applied:
    """A server was asked before and after a delta, and sent cents; then the version in the shadow was promoted."""
    live = first[1]["pushed"]["version"]
    waiting = _push_into_shadow(feed, live)
    with _served(feed, str(feed.logs / "requests")) as server:
        feed.use(server.rest, [f"live-{number}" for number in range(BEFORE)])
        assert feed.write_ahead("wrong-0", seconds=3000) == CANDIDATES
        with _learning(feed, live, "--source", str(feed.logs)) as learned:
            # The base was judged on the last day, and has not learned from it.
            wait_until(lambda: learned() == (PER_DAY + BEFORE) * CANDIDATES, "what was served is learned")
            wait_until(lambda: server.delta() > 0, "the server has what was learned")
            delta = server.delta()
            wait_until(lambda: server.scores_in_shadow(waiting), "the version in the shadow is as fresh")
            feed.use(server.rest, [f"live-{number}" for number in range(BEFORE, LIVE)])
            for version in (live, waiting):
                wait_until(
                    lambda version=version: _state(feed, version).get("examples") == (PER_DAY + LIVE) * CANDIDATES,
                    "what was served with a delta is learned",
                )
            now = datetime.datetime.now(datetime.UTC)
            decision = shadow.Decision(version=waiting, live=live, verdict="promoted", because="as good", at=now)
            shadow.promote(feed.root / "serving" / NAME, decision)
            said = feed.directory / "online.txt"
            wait_until(lambda: f"training version {waiting} on" in said.read_text(), "its training goes on")
            wait_until(lambda: server.served()["lineage"] == waiting, "it is served")
            wait_until(lambda: server.delta() == _state(feed, waiting)["delta"] > 0, "with its deltas")
        feed.use(server.rest, [f"cents-{number}" for number in range(WRONG)], price_unit=100)
    return Applied(delta, waiting, _state(feed, waiting)["delta"])


def test_a_version_that_learned_in_the_shadow_is_the_one_that_was_live_byte_by_byte(
    feed: Feed, first: tuple[Any, dict[str, Any]], applied: Applied
) -> None:
    assert _learned_bytes(feed, applied.promoted) == _learned_bytes(feed, first[1]["pushed"]["version"])
    assert _state(feed, applied.promoted)["examples"] >= (PER_DAY + LIVE) * CANDIDATES


def test_requests_are_learned_from_once_and_the_next_ones_are_scored_with_the_delta(
    feed: Feed, applied: Applied
) -> None:
    requests = _logged(feed, "live-")
    assert requests.keys() == {f"live-{number}" for number in range(LIVE)}
    deltas = [requests[f"live-{number}"]["served_delta"] for number in range(LIVE)]
    assert deltas[:BEFORE] == [0] * BEFORE
    assert min(deltas[BEFORE:]) >= applied.delta
    requests |= _logged(feed, feed.date)
    served = [(name, post) for name, row in requests.items() for post in row["post"]]
    learned = {key: number for key, number in _learned(feed).items() if not key[0].startswith("topic-")}
    assert learned == Counter((name, post, int((name, post) in feed.clicks)) for name, post in served)
    counts = json.loads((feed.root / "online" / NAME / "joining" / "status.json").read_text())["counts"]
    assert counts["rows ahead of their arrival"] == CANDIDATES
    assert counts["rows"] - counts["examples"] == CANDIDATES


def test_requests_in_a_topic_are_learned_from_once_and_the_next_ones_are_scored_with_the_delta(
    feed: Feed, first: tuple[Any, dict[str, Any]], applied: Applied
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
            _learning(feed, applied.promoted, *source) as learned,
        ):
            wait_until(lambda: server.delta() >= applied.promoted_delta, "the server has the deltas so far")
            wait_until(lambda: learned() > 0, "training goes on")
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
    feed: Feed, first: tuple[Any, dict[str, Any]], applied: Applied
) -> None:
    assert applied.delta
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
