"""The world of the closed loop: known probabilities, an oracle, a clock, bugs whose causes are named; a short loop."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.loop import books, policies
from bench.loop.books import Kill
from bench.loop.bugs import BUGS, Bug
from bench.loop.clock import Clock
from bench.loop.tables import Features
from bench.loop.traffic import Answer
from bench.loop.world import HOUR_S, Size, World, examined, expected_clicks
from tests.paths import REPOSITORY

START_S = 1_772_323_200
SIZE = Size(users=50, posts=200, requests=10, candidates=12, shown=4)


def world(seed: int = 1) -> World:
    return World(SIZE, seed, START_S)


def test_no_order_gets_more_clicks_than_the_oracle() -> None:
    probabilities = np.array([0.1, 0.4, 0.2, 0.3])
    assert expected_clicks(probabilities, np.array([1, 3, 2, 0]), 2) == 0.4 + 0.9 * 0.3
    of, draws = world(), np.random.default_rng(2)
    for _ in range(50):
        true = of.request(START_S + 60).probabilities
        best = expected_clicks(true, np.argsort(-true), SIZE.shown)
        others = [expected_clicks(true, draws.permutation(len(true)), SIZE.shown) for _ in range(50)]
        assert max(others) <= best
        # The mean over all orders needs no drawing: each candidate is as likely in each slot.
        assert np.mean(others) == pytest.approx(true.mean() * examined(SIZE.shown).sum(), rel=0.2)


def test_users_click_as_often_as_the_probabilities_say() -> None:
    of, probabilities = world(), np.array([0.5, 0.3, 0.1, 0.05])
    clicks = Counter(slot for _ in range(20_000) for slot in of.clicks(probabilities).tolist())
    found = np.array([clicks[slot] for slot in range(4)]) / 20_000
    np.testing.assert_allclose(found, probabilities * examined(4), atol=0.015)  # Four standard deviations.


def test_tastes_and_trends_move_and_stay_as_strong_and_new_posts_come() -> None:
    of = world()
    posts, before = of.living(), of.users.factors
    first = np.array([of.probabilities(user, posts[:20], START_S) for user in range(50)])
    num_posts = len(of.posts.id)
    for _ in range(24):
        of.next_hour()
    assert len(of.posts.id) == num_posts + 24 * 12  # 6 % an hour.
    assert set(of.living()) >= set(range(num_posts, len(of.posts.id) - 12))
    correlation = np.corrcoef(before.ravel(), of.users.factors.ravel())[0, 1]
    assert correlation == pytest.approx(np.exp(-SIZE.drift), abs=0.15)
    later = np.array([of.probabilities(user, of.living()[:20], of.hour_s) for user in range(50)])
    assert later.mean() == pytest.approx(first.mean(), rel=0.5)


def test_equal_seeds_make_equal_worlds() -> None:
    first, second = world(3), world(3)
    for of in (first, second):
        of.next_hour()
    a, b = first.request(START_S + HOUR_S), second.request(START_S + HOUR_S)
    assert (a.user, a.posts.tolist(), a.probabilities.tolist()) == (b.user, b.posts.tolist(), b.probabilities.tolist())


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.change], ids=lambda bug: bug.name)
def test_the_cause_of_a_bug_is_the_one_that_skew_names(bug: Bug, tmp_path: Path) -> None:
    from sangam.components.skew.comparing import Offline, compare

    assert bug.change
    of = world()
    features = Features(tmp_path, of)
    features.publish()
    features.served.views[:] = np.random.default_rng(4).integers(50, 900, len(features.served.views))
    features.served.clicks[:] = np.random.default_rng(5).integers(0, 50, len(features.served.clicks))
    right, wrong = [], []
    for number in range(40):
        inputs = features.inputs(of.request(START_S + 60), START_S + 60)
        right += _rows(inputs, number)
        wrong += _rows(bug.change(inputs), number)
    found = compare(_table(wrong), Offline(_table(right), {}), ("request_id", "post_id"), {"language": b"unknown"})
    named = {each.column: each.cause.kind for each in found.columns if each.different and each.cause}
    assert named == dict.fromkeys(bug.columns, bug.cause)


def _rows(inputs: dict[str, list[Any]], number: int) -> list[dict[str, Any]]:
    columns = ("post_id", "language", "topic", "duration_s", "posted_at", "views", "clicks")
    size = len(inputs["post_id"])
    of = {name: inputs[name] * (size if len(inputs[name]) == 1 else 1) for name in columns}
    return [{"request_id": f"r{number}", **{name: of[name][place] for name in columns}} for place in range(size)]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    texts = {"request_id", "language", "topic"}
    return pa.table({name: [row[name].encode() if name in texts else row[name] for row in rows] for name in rows[0]})


def answer(request_id: str, *, real_s: float = 10.0, clicked: int = 1) -> Answer:
    """Returns an answer of server 0 in its second process, with two of three candidates shown."""
    return Answer(
        request_id=request_id,
        at_s=START_S + 90.0,
        real_s=real_s,
        server=0,
        served=2,
        is_explored=False,
        has_bug=False,
        inputs={},
        probabilities=np.array([0.5, 0.2, 0.1]),
        order=np.array([1, 0, 2]),
        popularity=np.array([0, 1, 2]),
        posts=np.array([7, 8, 9]),
        clicked=np.array([7, 8, 9])[:clicked],
    )


def test_a_request_that_no_log_has_is_lost_with_the_server_that_was_killed_then_or_the_books_are_wrong() -> None:
    answers, logged = (
        [answer("a"), answer("b"), answer("c", real_s=19.9)],
        {"a": ("2026-03-01", 3), "d": ("2026-03-01", 3)},
    )
    killed, other = Kill("server", START_S, 20.0, 0, 2), Kill("server", START_S, 10.1, 0, 1)
    with pytest.raises(AssertionError, match="request b is in no log"):
        books.of_log(answers, ["d"], logged, [killed, other])
    told = books.of_log([answers[0], answers[2]], ["d"], logged, [killed, other])
    assert (told["sent"], told["logged"], told["lost with a killed server"], told["logged without an answer"]) == (
        3,
        2,
        1,
        1,
    )
    with pytest.raises(AssertionError, match="never sent"):
        books.of_log([answers[0]], [], logged, [])


def test_an_example_or_a_click_that_is_lost_or_doubled_is_found() -> None:
    day = "2026-03-01"
    expected = books.of_days([answer("a"), answer("b", clicked=2)], {"a": (day, 3), "b": (day, 3)}, 2)
    assert expected == {day: Counter(rows=6, shown=4, clicks=3)}
    for rows, clicks in ((6, 3), (9, 3), (3, 3), (6, 2), (6, 4)):
        joined = {"shown": {"actions joined": 4}, "clicks": {"actions joined": clicks}}
        split = {"written": rows, "dropped": {}, "joined": joined}
        run = {
            "days": {"train": [day], "eval": []},
            "splits": {"train": split, "eval": {**split, "written": 0, "joined": {}}},
        }
        if (rows, clicks) == (6, 3):
            assert books.compared([run], expected) == {day: {"rows": 6, "shown": 4, "clicks": 3}}
        else:
            with pytest.raises(AssertionError, match="were joined"):
                books.compared([run], expected)


def test_rates_are_those_of_the_same_requests() -> None:
    found = policies.rates([answer("a")], 2, {"frozen": {"a": np.array([0.1, 0.2, 0.3])}})
    first, second = 0.5, 0.9
    assert found == {
        "2026-03-01": {
            "random": pytest.approx((0.8 / 3) * (1 + second) / 2),
            "popularity": pytest.approx((0.1 + second * 0.2) / 2),
            "frozen": pytest.approx((0.1 + second * 0.2) / 2),
            "served": pytest.approx((0.2 + second * first) / 2),
            "oracle": pytest.approx((first + second * 0.2) / 2),
        }
    }


_LOOK = """
import datetime, json, threading, time
began = time.monotonic()
threading.Event().wait(0.2)
threading.Lock().acquire(timeout=1)
waited = threading.Condition()
with waited: waited.wait(0.2)
print(json.dumps([time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic() - began]))
"""


def test_processes_read_the_moved_clock_and_wait_by_their_own(tmp_path: Path) -> None:
    clock = Clock(tmp_path, START_S)
    assert clock.now() == pytest.approx(START_S, abs=5)
    clock.move_to(START_S + 7200)
    clock.move_to(START_S)  # Never back.
    done = subprocess.run(
        [sys.executable, "-c", _LOOK], env=clock.environment, check=True, capture_output=True, text=True, timeout=60
    )
    by_time, by_datetime, waited_s = json.loads(done.stdout)
    for told in (by_time, by_datetime):
        assert START_S + 7200 <= told <= clock.now()
    assert 0.4 <= waited_s < 30
    assert abs(time.time() - START_S) > 86_400  # This process reads the machine's.
    assert "LD_PRELOAD" not in os.environ or "clock.so" not in os.environ["LD_PRELOAD"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.e2e
def test_a_short_loop_learns_from_what_it_has_served_and_names_a_bug_before_the_push(tmp_path: Path) -> None:
    """Two days at random, of which the second has a bug: refused, mended, pushed, served."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.loop", str(tmp_path / "loop"), "--short"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    report = json.loads((tmp_path / "loop" / "loop.json").read_text())
    assert [run["code"] for run in report["runs"]] == [3, 0]
    requests = report["requests"]
    assert requests["sent"] == requests["logged"] + requests["lost with a killed server"] == 70
    [bug] = report["bugs"]
    assert (bug["named by"], bug["its day's run was refused"]) == ("the run of 2026-03-02", True)
    assert report["last versions"] == [20260302001]
