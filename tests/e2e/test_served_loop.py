"""The log of requests as the one source of training: daily runs, deltas between them, and the gate of skew."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from sangam.schemas.contracts import segments
from tests.components.examples.sample_files import read_file
from tests.e2e.served_world import CANDIDATES, NAME, PER_DAY, Feed, day_of
from tests.e2e.user_run import sangam, start, summary_of, wait_until
from tests.errors import mentions

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_REFUSED, _STOPPED = 3, 143
BEFORE, LIVE, WRONG = 20, 30, 5
"""Requests before the first delta, in all, and with a fault."""


def _run(feed: Feed, date: str) -> tuple[Any, dict[str, Any]]:
    folders = ["--data", str(feed.logs), "--root", str(feed.root)]
    done = sangam("run", str(feed.spec), "--date", date, *folders)
    return done, summary_of(done.stdout)


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
def _served(feed: Feed) -> Iterator[str]:
    """Starts a server that logs; yields the address of its REST interface."""
    addresses, log = feed.directory / "addresses.json", feed.directory / "serve.txt"
    options = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(addresses), "--poll-s", "0.2"]
    versions = str(feed.root / "serving" / NAME)
    server = start(["serve", versions, *options, "--log", str(feed.logs / "requests")], log)
    try:
        wait_until(lambda: addresses.exists() or server.poll() is not None, "the server is ready")
        assert addresses.exists(), log.read_text()
        yield f"http://{json.loads(addresses.read_text())['rest']}"
    finally:
        server.terminate()
        assert server.wait(60) == 0


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


def test_requests_are_learned_from_once_and_the_next_ones_are_scored_with_the_delta(
    feed: Feed, first: tuple[Any, dict[str, Any]]
) -> None:
    version = first[1]["pushed"]["version"]
    online_log = feed.directory / "online.txt"
    state = feed.root / "online" / NAME / "training" / version / "logs" / "online.json"
    counts_file = feed.root / "online" / NAME / "joining" / "status.json"
    source = ["--source", str(feed.logs), "--root", str(feed.root)]
    with _served(feed) as rest:
        online = start(["online", str(feed.spec), *source], online_log)

        def learned() -> int:
            assert online.poll() is None, online_log.read_text()
            return int(json.loads(state.read_text())["examples"]) if state.exists() else 0

        def delta() -> int:
            return int(httpx.get(f"{rest}/deltas").json()["delta"] or 0)

        try:
            # The base was judged on the last day, and has not learned from it.
            feed.use(rest, [f"live-{number}" for number in range(BEFORE)])
            wrong = feed.write_ahead("wrong-0", seconds=3000)
            wait_until(lambda: learned() == (PER_DAY + BEFORE) * CANDIDATES, "what was served is learned")
            wait_until(lambda: delta() > 0, "the server has what was learned")
            applied = delta()
            feed.use(rest, [f"live-{number}" for number in range(BEFORE, LIVE)])
            wait_until(lambda: learned() == (PER_DAY + LIVE) * CANDIDATES, "what was served with a delta is learned")
        finally:
            online.terminate()
            code = online.wait(150)
        assert code == _STOPPED, online_log.read_text()
        # A caller that sends cents, found by the next test.
        feed.use(rest, [f"cents-{number}" for number in range(WRONG)], price_unit=100)
    requests = _logged(feed, "live-")
    assert requests.keys() == {f"live-{number}" for number in range(LIVE)}
    deltas = [requests[f"live-{number}"]["served_delta"] for number in range(LIVE)]
    assert deltas[:BEFORE] == [0] * BEFORE
    assert min(deltas[BEFORE:]) >= applied
    requests |= _logged(feed, feed.date)
    served = [(name, post) for name, row in requests.items() for post in row["post"]]
    assert _learned(feed) == Counter((name, post, int((name, post) in feed.clicks)) for name, post in served)
    counts = json.loads(counts_file.read_text())["counts"]
    assert counts["rows ahead of their arrival"] == wrong == CANDIDATES
    assert counts["rows"] == counts["examples"] + wrong == len(served) + wrong


def test_a_run_passes_on_its_own_path_and_is_refused_while_a_server_is_sent_something_else(
    feed: Feed, first: tuple[Any, dict[str, Any]]
) -> None:
    passed = first[1]["serving"]
    [check] = [check for check in passed["checks"] if check["name"] == "skew of features"]
    assert (check["passed"], passed["feature_skew"]["rows"]) == (True, PER_DAY * CANDIDATES)
    assert [(each["column"], each["different"]) for each in passed["feature_skew"]["columns"]] == [
        ("price", 0),
        ("topic", 0),
    ]
    card = Path(first[1]["pushed"]["path"], "MODEL_CARD.md").read_text()
    assert check["reason"] in card
    done, summary = _run(feed, day_of(time.time()))
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
