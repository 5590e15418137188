"""What a server takes on, and what it refuses to."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from sangam.components.load.generator import Load, run
from sangam.components.server.admission import Admission, Ticket
from sangam.components.server.deadlines import HEADER
from sangam.schemas.errors import UserError
from tests.components.server.sample_models import NAME, candidates, scores
from tests.components.server.server_process import TIMEOUT_S, Running, refusal, running, wait_until
from tests.errors import tells

pytestmark = pytest.mark.slow

LIMITS = ("--threads", "1", "--max-queued", "1", "--max-rows", "50", "--max-message-bytes", "100000")


@pytest.fixture(scope="module")
def strict(models: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that runs one request at a time, has room for one more, and may be changed."""
    scratch = tmp_path_factory.mktemp("strict")
    with running(models[2], scratch, *LIMITS, "--rest-timeout-s", "0.3", "--allow-updates") as found:
        yield found


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], Any]], "Future[Any]"]]:
    """Calls in threads of their own."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def _slow(server: Running, seconds: float, timeout_s: float = 60) -> Any:
    return server.client.predict("slow", {"seconds": np.array([seconds], np.float32)}, timeout_s)


def _occupy(server: Running, in_background: Any, seconds: float) -> "Future[Any]":
    answer: Future[Any] = in_background(lambda: _slow(server, seconds))
    wait_until(lambda: server.metric("sangam_requests_in_flight") == 1, "a request runs")
    return answer


def test_more_rows_than_allowed(strict: Running) -> None:
    assert strict.client.predict("rank", candidates(50), 60)["like"].shape == (50, 1)
    code, text = refusal(lambda: strict.client.predict("rank", candidates(51), 60))
    assert code == "INVALID_ARGUMENT"
    assert tells(text, "inputs", "(got 51) ... 50 ... --max-rows")
    assert strict.post({"instances": [{"b64": ""}] * 51}).status_code == 400


def test_a_larger_message_than_allowed(strict: Running) -> None:
    large = {"examples": np.array([b"x" * 100_000], dtype=object)}
    code, text = refusal(lambda: strict.client.predict("", large, 60))
    assert code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in text
    answer = strict.post(b'{"instances": ["' + b"x" * 100_000 + b'"]}')
    assert answer.status_code == 413
    assert tells(answer.json()["error"], "body", "(got more than 100000 bytes)")


def test_one_request_waits_and_the_next_is_refused(strict: Running, in_background: Any) -> None:
    first = _occupy(strict, in_background, 5.0)
    second = in_background(lambda: strict.client.predict("rank", candidates(3), 60))
    wait_until(lambda: strict.metric("sangam_requests_waiting") == 1, "a request waits")
    code, text = refusal(lambda: strict.client.predict("rank", candidates(3), 60))
    assert code == "RESOURCE_EXHAUSTED"
    assert tells(text, "server", "(got 1 requests running and 1 waiting)")
    assert strict.post({"instances": []}).status_code == 429
    assert strict.get("/healthz").status_code == 200
    np.testing.assert_array_equal(first.result()["like"], [[2.0]])
    np.testing.assert_array_equal(second.result()["like"], scores(2, 3))


def test_a_deadline_ends_the_wait(strict: Running, in_background: Any) -> None:
    first = _occupy(strict, in_background, 4.0)
    assert refusal(lambda: strict.client.predict("rank", candidates(3), 0.2))[0] == "DEADLINE_EXCEEDED"
    # The client knows first.
    wait_until(lambda: strict.metric("sangam_requests_waiting") == 0, "nothing waits")
    assert strict.post({"instances": []}).status_code == 504
    np.testing.assert_array_equal(first.result()["like"], [[2.0]])
    wait_until(lambda: strict.metric("sangam_requests_waiting") == 0, "nothing waits")
    np.testing.assert_array_equal(strict.client.predict("rank", candidates(3), 60)["like"], scores(2, 3))


def test_a_header_of_rest_is_its_deadline(server: Running, in_background: Any) -> None:
    path = f"{server.rest}/v1/models/{NAME}:predict"
    for wrong in ("0", "-1", "1.5", "soon", "9" * 10):
        answer = httpx.post(path, json={"instances": []}, headers={HEADER: wrong}, timeout=TIMEOUT_S)
        assert answer.status_code == 400
        assert tells(answer.json()["error"], HEADER, f"(got '{wrong}')")
    both = [in_background(lambda: _slow(server, 4.0)) for _ in range(2)]
    wait_until(lambda: server.metric("sangam_requests_in_flight") == 2, "both slots are taken")
    # With the server's own limit, --rest-timeout-s, it would wait for a slot and be answered.
    assert httpx.post(path, json={"instances": []}, headers={HEADER: "1"}, timeout=TIMEOUT_S).status_code == 504
    for answer in both:
        answer.result()


def test_a_load_is_shed_while_the_server_is_busy_and_answered_when_it_is_not(
    strict: Running, in_background: Any
) -> None:
    load = Load(strict.grpc, rate=100, seconds=0.2, deadline_s=0.2, connections=2, candidates=7, evenly=True)
    load_s, computed = 4.0, strict.metric("sangam_requests_per_call_sum")
    first = _occupy(strict, in_background, load_s)
    busy = run(load)
    assert (busy.sent, busy.answered, busy.shed, busy.failed) == (19, 0, 19, 0)
    assert busy.p99_ms is None
    first.result()
    assert strict.metric("sangam_requests_per_call_sum") == computed + 1
    rows = strict.metric("sangam_candidates_sum", signature="rank")
    for address in (strict.grpc, strict.rest):
        idle = run(replace(load, address=address, rate=20, seconds=1, deadline_s=20, once=("user",)))
        assert (idle.sent, idle.answered, sum(idle.codes.values())) == (19, idle.codes["OK"], 19)
        rows += 7 * idle.answered
        assert strict.metric("sangam_candidates_sum", signature="rank") == rows
        assert idle.candidates_per_s == 7 * idle.answered
        assert idle.p99_ms is not None


def test_a_load_names_what_is_wrong_with_its_address(strict: Running) -> None:
    load = Load(strict.grpc, rate=10, seconds=1, deadline_s=1, connections=1)
    rest = strict.rest.removeprefix("http://")
    for address in ("127.0.0.1:9", "http://127.0.0.1:9", rest, f"http://{strict.grpc}"):
        with pytest.raises(UserError) as refused:
            run(replace(load, address=address))
        assert tells(str(refused.value), "ADDRESS", f"(got {address}")
    for wrong, place in (({"name": "other"}, "ADDRESS"), ({"once": ("nothing",)}, "--once")):
        with pytest.raises(UserError) as refused:
            run(replace(load, **wrong))
        assert tells(str(refused.value), place, "(got")


def test_a_call_without_a_deadline_waits_for_its_place(in_background: Any) -> None:
    admission = Admission(max_running=1, max_waiting=1)

    # What grpc says is left to a call that has no deadline.
    running = Ticket()
    assert admission.enter(running, None)
    answer = in_background(lambda: admission.enter(Ticket(), time.monotonic() + 9.3e9))
    wait_until(lambda: answer.done() or admission.num_waiting == 1, "the call waits")
    admission.leave(running)
    assert answer.result(60)


def test_requests_that_wait_are_joined_and_none_suffers_for_another(server: Running) -> None:
    before = {what: server.metric(f"sangam_requests_per_call_{what}") for what in ("count", "sum")}
    with ThreadPoolExecutor(8) as pool:
        # The second slot stays taken: with two free at once, it is chance which requests are joined.
        slow = [pool.submit(_slow, server, seconds) for seconds in (4.0, 6.0)]
        wait_until(lambda: server.metric("sangam_requests_in_flight") == 2, "both slots are taken")
        ranked = {size: pool.submit(server.client.predict, "rank", candidates(size), 60) for size in (1, 5, 40)}
        broken, sound = (
            pool.submit(server.client.predict, "", {"examples": np.array(examples, dtype=object)}, 60)
            for examples in ([b"not an example"], [b"", b""])
        )
        wrong = pool.submit(server.client.predict, "rank", {**candidates(3), "price": np.zeros(2, np.float32)}, 60)
        wait_until(lambda: server.metric("sangam_requests_waiting") == 6, "the others wait")
        assert all(answer.result()["like"] == 1.0 for answer in slow)
    for size, answer in ranked.items():
        np.testing.assert_array_equal(answer.result()["like"], scores(1, size))
    np.testing.assert_array_equal(sound.result()["like"], [[1.0], [1.0]])
    assert refusal(broken.result)[0] == "INVALID_ARGUMENT"
    assert refusal(wrong.result)[0] == "INVALID_ARGUMENT"
    # One call of each slow one, one of three that are ranked, and one of two with examples, which fails, so two more.
    after = {what: server.metric(f"sangam_requests_per_call_{what}") for what in before}
    assert (after["count"] - before["count"], after["sum"] - before["sum"]) == (6, 9)


def test_many_clients_at_once_are_never_mixed(server: Running) -> None:
    def ask(number: int) -> None:
        posts = [f"{'x' * number}" for _ in range(number)]
        expected = np.full([number, 1], 1.0 + number, np.float32)
        for _ in range(30):
            found = server.client.predict("rank", candidates(number, posts), 60)["like"]
            np.testing.assert_array_equal(found, expected)

    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(ask, number) for number in range(1, 13)]
    assert server.process.poll() is None, server.log.read_text()
    for answer in answers:
        answer.result()


def test_updates_change_the_model_where_they_are_allowed(strict: Running) -> None:
    before = strict.client.predict("rank", candidates(1), 60)["like"]
    update = {"keys": np.array([1]), "rows": np.array([[8.0]], np.float32)}
    assert strict.client.predict("upsert", update, 60)["num_rows"] == 1
    np.testing.assert_array_equal(strict.client.predict("rank", candidates(1), 60)["like"], before + 6)
