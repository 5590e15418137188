"""A version in the shadow of the served one: it scores a share of the requests for the log, and hurts none."""

import datetime
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from sangam.components.registry.shadow import Decision, promote
from sangam.components.registry.versions import CARD_FILE, SHADOW
from sangam.components.request_log.served import Served, is_in_share, plan_of
from sangam.components.server.client import connect
from sangam.components.server.deltas import State
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import LoadedModel
from sangam.components.server.shadow import Limits, Scorer
from sangam.components.server.shadow_metrics import ShadowMetrics
from sangam.components.server.shadow_versions import is_level
from sangam.components.server.versions import Versions
from sangam.schemas.contracts import deltas
from sangam.schemas.spec.serving import InShadow, RequestLog
from tests.components.request_log.sample_requests import rows_of
from tests.components.server.logged_models import DESCRIPTION, GROUP, READ, put_logged
from tests.components.server.sample_models import NAME, Failing, OtherColumns, Waiting, candidates, scores
from tests.components.server.server_process import TIMEOUT_S, Running, b64, running, wait_until
from tests.trainer_module.serving.sample_deltas import publish

pytestmark = pytest.mark.processes

POSTS = ["a", "bb", "ccc", "dddd"]
HALF = InShadow(share=0.5)


def scored_by(server: Running, version: int | None, processes: int = 1) -> None:
    """Waits until every process has a version, or none, score requests."""
    wanted = [f'version="{version}"'] * processes if version else []

    def is_so() -> bool:
        page = server.get("/metrics").text.splitlines()
        lines = [line for line in page if line.startswith("sangam_shadow_version{")]
        return len(lines) == len(wanted) and all(text in line for text, line in zip(wanted, lines, strict=True))

    wait_until(is_so, f"{version} scores requests in {processes} processes")


def ask(server: Running, request_id: str) -> dict[str, float]:
    """Sends a request for `rank` over a new connection; returns the score of each post."""
    with connect(server.grpc, NAME) as client:
        request = client.request("rank", candidates(len(POSTS), POSTS))
        answer = client.send_as(request, TIMEOUT_S, request_id)[0]
    return dict(zip(POSTS, answer.outputs["like"].float_val, strict=True))


def ask_rest(server: Running, request_id: str) -> None:
    body = {"inputs": {"examples": [b64(b""), b64(b"")]}}
    headers = {"x-request-id": request_id}
    response = httpx.post(f"{server.rest}/v1/models/{NAME}:predict", json=body, headers=headers, timeout=TIMEOUT_S)
    assert response.status_code == 200, response.text


def logged(server: Running, log: Path, number: int) -> list[dict[str, Any]]:
    """Ends a server, and returns the rows of its log, of so many requests."""
    wait_until(lambda: server.metric("sangam_request_log_written_total") == number, f"{number} requests are written")
    server.process.terminate()
    server.process.wait(TIMEOUT_S)
    return rows_of(log, READ)


def test_all_processes_score_the_same_share_as_the_version_answers_once_it_is_promoted(
    models: dict[int, Path], scratch: Path
) -> None:
    versions, log = scratch / "versions", scratch / "log"
    put_logged(models[1], versions, 1, RequestLog(share=1.0, candidates=3))
    waiting = put_logged(models[2], versions / SHADOW, 2, RequestLog(share=1.0, candidates=3), HALF)
    ids = [f"r{number}" for number in range(12)]
    with running(versions, scratch, "--log", str(log), "--processes", "2", "--threads", "1") as server:
        scored_by(server, 2, processes=2)
        assert server.client.status()[2].startswith("START")
        with ThreadPoolExecutor(4) as callers:
            answers = list(callers.map(lambda request_id: ask(server, request_id), ids * 2))
            list(callers.map(lambda request_id: ask_rest(server, f"{request_id}-rest"), ids * 2))
        assert answers == [{post: 1.0 + len(post) for post in POSTS}] * len(answers)
        num_chosen = sum(
            is_in_share(each, 0.5) for request_id in ids * 2 for each in (request_id, f"{request_id}-rest")
        )
        wait_until(lambda: server.metric("sangam_shadow_seconds_count") == num_chosen, "the share is scored")
        (waiting / CARD_FILE).write_text("# Two\n")
        now = datetime.datetime.now(datetime.UTC)
        promote(versions, Decision(version="2", live="1", verdict="promoted", because="it is better", at=now))
        wait_until(lambda: server.metric("sangam_version_served", version="2") == 2, "both serve it")
        answered = ask(server, "promoted")
        scored_by(server, None)
        assert server.metric("sangam_shadow_dropped_total") == 0
        assert server.log.read_text().count("version=2 replaces=1 verified=true") == 2
        assert server.log.read_text().count("warmup_requests=0") == 2  # Loaded once, in the shadow.
        rows = logged(server, log, 4 * len(ids) + 1)
    assert answered == {post: 2.0 + len(post) for post in POSTS}
    of_first = [row for row in rows if row["served_version"] == 1]
    assert len(of_first) == 2 * len(ids) * (3 + 2)
    seen = set()
    for row in of_first:
        post, is_chosen = row["post id"].decode(), is_in_share(row["request_id"], 0.5)
        seen.add(is_chosen)
        assert row["served_score_like"] == 1.0 + len(post)
        assert row["shadow_version"] == (2 if is_chosen else None)
        expected = answered.get(post, 2.0)  # An example without a post has the version's number.
        assert row["shadow_score_like"] == (expected if is_chosen else None)
    assert seen == {True, False}
    assert {row["shadow_version"] for row in rows if row["request_id"] == "promoted"} == {None}


def test_a_version_that_cannot_score_or_goes_away_hurts_no_request(models: dict[int, Path], scratch: Path) -> None:
    versions, log, every = scratch / "versions", scratch / "log", RequestLog(share=1.0)
    put_logged(models[1], versions, 1, every)
    damaged = put_logged(models[2], versions / SHADOW, 2, every, HALF)
    (damaged / "variables/variables.index").write_bytes(b"")
    go_on = scratch / "go_on"
    for number, other in enumerate([OtherColumns(3.0), Failing(4.0), Waiting(5.0, go_on)], start=3):
        other.save(scratch / str(number))
    told = iter(range(100))

    def is_answered(server: Running) -> bool:
        return ask(server, f"r{next(told)}") == {post: 1.0 + len(post) for post in POSTS}

    def refused(server: Running, number: int, reason: str, text: str) -> None:
        is_told = {"reason": reason, "version": str(number)}
        wait_until(lambda: server.metric("sangam_shadow_refused", **is_told) == 1, f"{number} is refused")
        assert server.client.status()[number].startswith("END")
        assert text in server.client.status()[number]
        assert is_answered(server)

    with running(versions, scratch, "--log", str(log)) as server:
        refused(server, 2, "damaged", "variables.index")
        put_logged(scratch / "3", versions / SHADOW, 3, every, HALF)
        refused(
            server, 3, "cannot_score", "rank reads what requests to version 1 lack, or have of another type (got age)"
        )
        assert 2 not in server.client.status()
        put_logged(models[2], versions / SHADOW, 4, every)
        refused(server, 4, "no_share", "serving.shadow")
        put_logged(scratch / "4", versions / SHADOW, 5, every, InShadow(share=1.0))
        scored_by(server, 5)
        assert server.metric("sangam_shadow_refused") == 0
        assert is_answered(server)
        wait_until(lambda: server.metric("sangam_shadow_dropped_total", reason="error") == 1, "it fails")
        assert "shadow=5 failed error=RequestError" in server.log.read_text()

        go_on.touch()  # It is warmed up.
        slow = put_logged(scratch / "5", versions / SHADOW, 6, every, InShadow(share=1.0))
        scored_by(server, 6)
        go_on.unlink()
        assert all(is_answered(server) for _ in range(3))
        assert server.metric("sangam_shadow_seconds_count") == 0
        go_on.touch()

        def num_old() -> int:
            return int(server.metric("sangam_shadow_dropped_total", reason="old"))

        wait_until(
            lambda: server.metric("sangam_shadow_seconds_count") + num_old() == 3, "it scores all that are young"
        )
        num_scored = 3 - num_old()  # On a busy machine the last ones may be old before the first is scored.

        slow.rename(scratch / "gone")
        scored_by(server, 5)
        rows = logged(server, log, next(told))
    found = {row["request_id"]: row["shadow_version"] for row in rows}
    assert num_scored >= 1
    assert found == {f"r{number}": 6 if 4 <= number < 4 + num_scored else None for number in range(7)}


def test_without_a_log_nothing_is_scored_and_the_server_says_so_once(
    models: dict[int, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_logged(models[1], tmp_path, 1, RequestLog(share=1.0))
    put_logged(models[2], tmp_path / SHADOW, 2, RequestLog(share=1.0), HALF)
    versions = Versions(name=NAME, folder=tmp_path, poll_s=0.01, metrics=Metrics(), changed=lambda: None)
    with caplog.at_level("WARNING", logger="sangam.components.server"):
        versions.start()
        wait_until(lambda: "version=2 in the shadow scores nothing" in caplog.text, "it is told")
        time.sleep(0.1)
        versions.stop()
    assert caplog.text.count("scores nothing") == 1
    assert versions.states().keys() == {1}


@pytest.fixture(scope="module")
def model(models: dict[int, Path]) -> LoadedModel:
    """The version that scores, in this process."""
    return LoadedModel(models[2], 2)


class Scoring:
    """A scorer of its own, what it has logged, and its metrics."""

    def __init__(self, has_room: Callable[[], bool], limits: Limits):
        self.registry, self.logged = CollectorRegistry(), list[Served]()
        self.scorer = Scorer(self.logged.append, has_room, ShadowMetrics(self.registry), limits)

    def dropped(self, reason: str) -> float:
        return self.registry.get_sample_value("sangam_shadow_dropped_total", {"reason": reason}) or 0.0


def served(request_id: str = "r") -> Served:
    now = datetime.datetime(2024, 3, 7, tzinfo=datetime.UTC).timestamp()
    plan = plan_of(RequestLog(share=1.0), DESCRIPTION, 1)
    assert plan is not None
    return Served(plan, request_id, now, None, candidates(2), 2, {"like": scores(1, 2)})


def test_a_request_is_scored_at_the_lowest_priority_while_a_slot_is_free(model: LoadedModel) -> None:
    is_free = threading.Event()
    scoring = Scoring(is_free.is_set, Limits())
    scoring.scorer.use(model, 1.0)
    assert scoring.scorer.offer(served(), "rank")
    time.sleep(0.2)
    assert scoring.logged == []
    is_free.set()
    wait_until(lambda: len(scoring.logged) == 1, "it is scored")
    [found] = scoring.logged
    assert found.shadow_version == 2
    np.testing.assert_array_equal(found.shadow_scores["like"], scores(2, 2)[:, 0])
    np.testing.assert_array_equal(found.scores["like"], scores(1, 2))
    [number] = [each.native_id for each in threading.enumerate() if each.name == "shadow" and each.native_id]
    assert os.getpriority(os.PRIO_PROCESS, number) == 19
    scoring.scorer.stop(TIMEOUT_S)


@pytest.mark.parametrize("limit", ["requests", "num_bytes"])
def test_what_does_not_fit_is_left_to_the_caller_and_what_waits_at_the_end_is_logged(
    model: LoadedModel, limit: str
) -> None:
    limits = Limits(requests=2) if limit == "requests" else Limits(num_bytes=2 * served().num_bytes)
    scoring = Scoring(lambda: False, limits)
    scoring.scorer.use(model, 1.0)
    assert [scoring.scorer.offer(served(), "rank") for _ in range(3)] == [True, True, False]
    scoring.scorer.stop(TIMEOUT_S)
    assert [each.shadow_version for each in scoring.logged] == [None, None]
    assert (scoring.dropped("queue"), scoring.dropped("stopped")) == (1, 2)
    assert not scoring.scorer.offer(served(), "rank")


def test_requests_that_waited_too_long_or_whose_version_went_away_are_logged_without(model: LoadedModel) -> None:
    scoring = Scoring(lambda: False, Limits(age_s=0.0))
    scoring.scorer.use(model, 1.0)
    assert scoring.scorer.offer(served("old"), "rank")
    wait_until(lambda: scoring.dropped("old") == 1, "it is too old")
    scoring.scorer.stop(TIMEOUT_S)
    other = Scoring(lambda: False, Limits())
    other.scorer.use(model, 1.0)
    assert other.scorer.offer(served("gone"), "rank")
    other.scorer.use(None)
    wait_until(lambda: other.dropped("gone") == 1, "its version went away")
    other.scorer.stop(TIMEOUT_S)
    assert [(each.request_id, each.shadow_version) for each in scoring.logged + other.logged] == [
        ("old", None),
        ("gone", None),
    ]


def test_a_smaller_share_is_part_of_a_larger_one(model: LoadedModel) -> None:
    ids = [f"request-{number}" for number in range(2000)]
    chosen = {share: {each for each in ids if is_in_share(each, share)} for share in (0.1, 0.2, 1.0)}
    assert chosen[0.1] < chosen[0.2] < chosen[1.0] == set(ids)
    scoring = Scoring(lambda: False, Limits(requests=2000))
    scoring.scorer.use(model, 0.2)
    assert {each for each in ids if scoring.scorer.offer(served(each), "rank")} == chosen[0.2]
    scoring.scorer.stop(TIMEOUT_S)


def _publish(versions: Path, lineage: int, number: int, tells: float, newest_event: int) -> None:
    """Publishes a delta after which a version tells another number."""
    rows = {GROUP: (np.array([1], np.int64), np.array([[tells]], np.float32))}
    publish(versions, number, rows, lineage=str(lineage), newest_event=newest_event)


def test_a_version_that_learns_in_the_shadow_scores_while_it_is_as_fresh_and_is_promoted_with_its_deltas(
    models: dict[int, Path], scratch: Path
) -> None:
    versions, log, hour = scratch / "versions", scratch / "log", 3600
    put_logged(models[1], versions, 1, RequestLog(share=1.0))
    put_logged(models[2], versions / SHADOW, 2, RequestLog(share=1.0), InShadow(share=1.0))
    deltas.lineage_folder(versions, "2").mkdir(parents=True)  # Its training has begun.
    _publish(versions, 1, 1, tells=1.25, newest_event=hour)
    with running(versions, scratch, "--log", str(log), "--poll-s", "0.1") as server:
        wait_until(lambda: "version=2 in_shadow=true" in server.log.read_text(), "it is loaded")
        assert server.client.status()[2].startswith("LOADING")
        assert ask(server, "behind") == {post: 1.25 + len(post) for post in POSTS}
        _publish(versions, 2, 1, tells=2.5, newest_event=hour)
        scored_by(server, 2)
        assert server.metric("sangam_shadow_delta", version="2") == 1
        ask(server, "level")
        wait_until(lambda: server.metric("sangam_shadow_seconds_count") == 1, "it is scored")
        _publish(versions, 1, 2, tells=1.75, newest_event=2 * hour + 1)
        scored_by(server, None)
        _publish(versions, 2, 2, tells=2.75, newest_event=2 * hour + 1)
        scored_by(server, 2)
        now = datetime.datetime.now(datetime.UTC)
        promote(versions, Decision(version="2", live="1", verdict="promoted", because="it is better", at=now))
        wait_until(lambda: server.metric("sangam_version_served", version="2") == 1, "it is served")
        assert ask(server, "promoted") == {post: 2.75 + len(post) for post in POSTS}
        assert "warmup_requests=0" in server.log.read_text()  # Loaded once, in the shadow.
        _publish(versions, 2, 3, tells=3.0, newest_event=3 * hour)
        wait_until(lambda: server.get("/deltas").json()["delta"] == 3, "deltas go on")
        assert server.log.read_text().count("version=2 lineage=2 delta=") == 3  # Each was applied once.
        rows = logged(server, log, 3)
    found = {row["request_id"]: row["shadow_score_like"] for row in rows if row["post id"] == b"a"}
    assert found == {"behind": None, "level": 3.5, "promoted": None}


@pytest.mark.parametrize(
    ("shadow", "served", "was", "expected"),
    [
        (None, None, False, True),  # Nobody learns.
        (None, (0, None), False, True),  # The served one has not learned since its push.
        (None, (1, 100), False, False),
        ((1, 99), (1, 100), False, False),
        ((1, 100), (1, 100), False, True),
        ((1, 100), (1, 3700), True, True),
        ((1, 100), (1, 3701), True, False),
        ((1, 100), (9, None), True, True),  # A full version: what it has learned is not known.
        ((1, 100), (9, None), False, False),
    ],
)
def test_what_is_compared_has_learned_the_same(shadow: Any, served: Any, was: bool, expected: bool) -> None:
    def state(given: Any) -> State:
        number, newest_event = given or (0, None)
        return State(deltas.Lineage(lineage="1", number=number, sha256=""), newest_event)

    assert is_level(state(shadow), state(served) if served else None, was=was) is expected
