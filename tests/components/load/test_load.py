"""Times, requests and counts of a load, without a server of ours."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.components.load.arrivals import arrivals
from sangam.components.load.generator import Load
from sangam.components.load.offering import Sent, offer
from sangam.components.load.recorded import read_requests
from sangam.components.load.results import result_of
from sangam.components.load.signature import Input, check_once, inputs_of, random_request, resized
from sangam.schemas.errors import UserError
from tests.errors import tells

INPUTS = {
    "post": Input(np.object_, is_list=False),
    "price": Input(np.float32, is_list=False),
    "topics": Input(np.int64, is_list=True),
    "topics_length": Input(np.int64, is_list=False),
    "user": Input(np.object_, is_list=False),
}
METADATA: dict[str, Any] = {
    "signature_def": {
        "rank": {
            "inputs": {
                "user": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}]}},
                "post": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}]}},
                "price": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}]}},
                "topics": {"dtype": "DT_INT64", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "-1"}]}},
                "topics_length": {"dtype": "DT_INT64", "tensor_shape": {"dim": [{"size": "-1"}]}},
            }
        }
    }
}


class SlowServer:
    """Answers each request after a tenth of a second."""

    def message(self, arrays: Any) -> bytes:
        raise NotImplementedError

    async def send(self, message: bytes, timeout_s: float) -> str:
        await asyncio.sleep(min(0.1, timeout_s))
        return "OK" if timeout_s > 0.1 else message.decode()


def test_arrivals_are_a_poisson_process_or_even() -> None:
    assert list(arrivals(4, 1, seed=1, evenly=True)) == [0.25, 0.5, 0.75]
    times = np.array(list(arrivals(1000, 10, seed=1)))
    assert np.all(np.diff(times) >= 0)
    assert 0 < times[0] < times[-1] < 10
    gaps = np.diff(times)
    # Of an exponential distribution mean and deviation are equal; both within five standard errors.
    assert abs(gaps.mean() * 1000 - 1) < 0.05
    assert abs(gaps.std() * 1000 - 1) < 0.07
    assert list(arrivals(1000, 10, seed=1)) == list(times)


def test_requests_are_sent_at_their_time_although_none_is_answered_yet() -> None:
    sent = asyncio.run(offer(SlowServer(), [b"LATE"], [0.0, 0.01, 0.02, 0.03], 10.0))
    assert [each.code for each in sent] == ["OK"] * 4
    # One after the other they would take 0.4 s.
    assert all(0.1 <= each.seconds < 0.37 for each in sent)


def test_a_wait_before_sending_counts_and_shortens_the_time_that_is_left() -> None:
    # The last two were due before they can be sent.
    sent = asyncio.run(offer(SlowServer(), [b"LATE"], [0.0, -0.15, -0.3], 0.2))
    assert {each.code for each in sent} == {"OK", "LATE", "NOT_SENT"}
    by_code = {each.code: each for each in sent}
    assert by_code["LATE"].seconds >= 0.2
    assert by_code["NOT_SENT"].late_s >= 0.3


def test_an_outcome_counts_each_request_once() -> None:
    sent = [Sent("OK", seconds / 1000, 0.001) for seconds in range(1, 101)]
    sent += [
        Sent("RESOURCE_EXHAUSTED", 0.5, 0.001),
        Sent("DEADLINE_EXCEEDED", 0.5, 0.001),
        Sent("INTERNAL", 0.5, 0.001),
    ]
    found = result_of(sent, seconds=2.0, candidates=20)
    assert (found.sent, found.answered, found.shed, found.failed) == (103, 100, 2, 1)
    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms) == pytest.approx((51, 91, 100, 100))
    assert found.candidates_per_s == 1000
    nothing = result_of([], seconds=2.0, candidates=20)
    assert (nothing.sent, nothing.p99_ms, nothing.late_p99_ms) == (0, None, None)


def test_random_requests_are_of_the_signature() -> None:
    assert inputs_of(METADATA) == INPUTS
    arrays = random_request(INPUTS, once=("user", "topics"), candidates=5, seed=3)
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {"post": (5,), "price": (5,), "topics": (1, 8), "topics_length": (1,), "user": (1,)}
    assert {name: array.dtype for name, array in arrays.items()} == {name: each.dtype for name, each in INPUTS.items()}
    assert arrays["topics_length"] == [8]
    assert all(value.startswith(b"post_") for value in arrays["post"])
    check_once(INPUTS, ("user",))
    with pytest.raises(UserError) as refused:
        check_once(INPUTS, ("usr",))
    assert tells(str(refused.value), "--once", "(got usr) ... post, price, topics, user")


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"signature_def": {"serving_default": {}}},
        {"signature_def": {"rank": {"inputs": {"x": {"dtype": "DT_HALF"}}}}},
    ],
)
def test_a_model_for_which_no_requests_can_be_made(metadata: Any) -> None:
    with pytest.raises(UserError) as refused:
        inputs_of(metadata)
    assert tells(str(refused.value), "ADDRESS", "(got")


def test_rows_of_a_request_are_drawn_for_more_candidates() -> None:
    request = {"post": np.array([b"a", b"b"], object), "user": np.array([b"u", b"v"], object), "price": np.ones(1)}
    found = resized(request, once=("user",), candidates=50, seed=1)
    assert {name: len(array) for name, array in found.items()} == {"post": 50, "user": 1, "price": 1}
    assert set(found["post"]) == {b"a", b"b"}
    alone = resized({name: array[:1] for name, array in request.items()}, once=("user",), candidates=3, seed=1)
    assert {name: len(array) for name, array in alone.items()} == {"post": 3, "user": 1, "price": 3}


def test_requests_of_a_file(tmp_path: Path) -> None:
    columns = {"post": ["a", "b"], "price": [1, 2.5], "topics": [[7, 8]], "topics_length": [2], "user": ["u"]}
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps({"inputs": columns}) + "\n" + json.dumps({"inputs": columns | {"price": [3]}}) + "\n")
    first, second = read_requests(path, INPUTS)
    assert {name: array.tolist() for name, array in first.items()} == columns
    assert first["price"].dtype == np.float32
    assert second["price"].tolist() == [3]
    for wrong, shown in (
        ("{", "(got JSONDecodeError"),
        (json.dumps({"instances": []}), "(got KeyError"),
        (json.dumps({"inputs": columns | {"price": [[1]]}}), "(got ... shape [1, 1]"),
        (json.dumps({"inputs": columns | {"price": [1, 2, 3]}}), "(got [2, 3]"),
        (json.dumps({"inputs": columns | {"more": [1]}}), "(got more"),
    ):
        path.write_text(json.dumps({"inputs": columns}) + "\n" + wrong)
        with pytest.raises(UserError) as refused:
            read_requests(path, INPUTS)
        assert tells(str(refused.value), f"{path}:2", shown)
    for file in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(UserError) as refused:
            read_requests(file, INPUTS)
        assert tells(str(refused.value), "--requests", f"(got {file})")


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "ftp://127.0.0.1:1", "a b:1", "http://"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UserError) as refused:
        Load(address, rate=1, seconds=1, deadline_s=1, connections=1)
    assert tells(str(refused.value), "ADDRESS", f"(got {address})")
