"""Which messages become rows, and what is told of those that do not."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from sangam.components.stream.messages import MAX_BYTES, Message, Sorter
from sangam.schemas.contracts.joining_job import JoiningJob, Kafka
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.online import Joining
from tests.components.logs.sample_sources import DAYS, INPUTS, MIDNIGHT, logs
from tests.errors import tells

pytestmark = pytest.mark.slow

_AT = MIDNIGHT[DAYS[1]] + 3600
_ROW = {"row": "a", "post": 1, "at": _AT, "hour": 1}
_LIKE = {"row": "a", "post": 1, "time": _AT, "what": "like", "day": 0.5}
_ITEM = {"id": 1, "updated": _AT, "price": 2.5, "labels": ["x", "y"]}


def _sorter(source: str, inputs: Inputs = INPUTS, wall: Callable[[], float] = time.time, **settings: Any) -> Sorter:
    topics = {"": "shown", "likes": "liked", "items": "things"}
    job = JoiningJob(
        logs=logs(),
        inputs=inputs,
        settings=Joining.model_validate(settings),
        data_root="",
        first_day=DAYS[0],
        segments="",
        dead_letters="",
        status_file="",
        kafka=Kafka(servers="", group="", topics=topics),
    )
    return Sorter(job, source, wall)


def _messages(*values: Any, logged_at: int = _AT) -> list[Message]:
    return [
        Message("t", 0, n, each if isinstance(each, bytes) or each is None else json.dumps(each).encode(), logged_at)
        for n, each in enumerate(values)
    ]


def test_rows_have_the_columns_that_are_read_of_files_and_the_day_of_their_time() -> None:
    late = _ROW | {"at": MIDNIGHT[DAYS[2]], "unread": {"a": [1]}, "hour": None}
    found = _sorter("").sort(_messages(_ROW, late, logged_at=MIDNIGHT[DAYS[2]]))
    assert found.batch.to_pylist() == [
        {"post": 1, "row": b"a", "at": _AT, "hour": 1},
        {"post": 1, "row": b"a", "at": MIDNIGHT[DAYS[2]], "hour": None},
    ]
    assert (found.days - found.days[0]).tolist() == [0, 1]
    assert (found.times.tolist(), found.places.tolist(), found.poison) == ([_AT, MIDNIGHT[DAYS[2]]], [0, 1], {})


@pytest.mark.parametrize(
    ("source", "poison", "place", "value"),
    [
        ("", b"{", "shown", "(got Expecting"),
        ("", b"\xff\xfe", "shown", "(got "),
        ("", b"[" * 100_000, "shown", "is not JSON"),
        ("", [1], "shown", "(got list)"),
        ("", None, "shown", "(got null)"),
        ("", {**_ROW, "at": None}, "shown: column 'at'", "(got None)"),
        ("", {**_ROW, "at": "noon"}, "shown: column 'at'", "(got 'noon')"),
        ("", {**_ROW, "at": _AT * 1000}, "shown: column 'at'", f"(got {_AT * 1000})"),
        ("", {**_ROW, "at": -1}, "shown: column 'at'", "(got -1)"),
        ("", {**_ROW, "hour": 1.5}, "shown: column 'hour'", "(got 1.5)"),
        ("", {**_ROW, "hour": [1]}, "shown: column 'hour'", "(got [1])"),
        ("", {**_ROW, "hour": 2**70}, "shown: column 'hour'", f"(got {2**70})"),
        ("", {**_ROW, "row": 7.5}, "shown: column 'row'", "(got 7.5)"),
        ("", {**_ROW, "row": "\ud800"}, "shown: column 'row'", "(got '\\ud800')"),
        ("", {**_ROW, "like": 1}, "shown: column 'like'", "'likes'"),
        ("", b" " * (MAX_BYTES + 1), "shown", f"(got {MAX_BYTES + 1} bytes)"),
        ("likes", {**_LIKE, "time": None}, "liked: column 'time'", "(got None)"),
        ("likes", {**_LIKE, "day": "much"}, "liked: column 'day'", "(got 'much')"),
        ("items", {**_ITEM, "labels": "x"}, "things: column 'labels'", "(got 'x')"),
    ],
)
def test_a_message_that_can_be_no_row_is_told_with_its_reason_and_the_others_stay(
    source: str, poison: Any, place: str, value: str
) -> None:
    good = {"": _ROW, "likes": _LIKE, "items": _ITEM}[source]
    found = _sorter(source).sort(_messages(good, poison, good))
    assert found.places.tolist() == [0, 2]
    [(number, reason)] = found.poison.items()
    assert number == 1
    assert tells(reason, place, value)
    assert found.batch.num_rows == 2


def test_what_would_make_ingestion_refuse_a_file_is_found_among_many() -> None:
    # A label of 2 is neither yes nor no. Only actions that are taken are asked.
    inputs = Inputs.model_validate_json(
        """{"features": {"hour": {"kind": "numeric", "normalize": "zscore", "type": "int"}}, "event_time": "at",
        "tasks": {"like": {"kind": "binary"}, "seen": {"kind": "binary"}}}"""
    )
    wrong = {5, 6, 40}
    found = _sorter("", inputs).sort(_messages(*({**_ROW, "seen": 2 if n in wrong else n % 2} for n in range(64))))
    assert found.poison.keys() == wrong
    assert all(tells(reason, "shown: column 'seen'", "(got 2)") for reason in found.poison.values())
    assert found.places.tolist() == [n for n in range(64) if n not in wrong]


@pytest.mark.parametrize(("ahead", "places", "poison"), [("drop", [0, 2], [1, 3]), ("clip", [0, 1, 2, 3], [])])
def test_a_time_is_bounded_by_the_arrival_which_a_wrong_clock_of_the_producer_does_not_move(
    ahead: str, places: list[int], poison: list[int]
) -> None:
    now, decades = _AT + 60, _AT + 75 * 365 * 86_400
    rows = [{**_ROW, "at": at} for at in (_AT + 300, _AT + 301, now + 300, decades)]
    sorter = _sorter("", wall=lambda: now, ahead=ahead)
    found = sorter.sort([*_messages(*rows[:2]), *_messages(*rows[2:], logged_at=decades)])
    assert (found.places.tolist(), list(found.poison)) == (places, poison)
    if ahead == "clip":
        assert (found.times.tolist(), found.num_clipped) == ([_AT + 300, _AT, now + 300, now], 2)


def test_a_message_without_a_value_in_the_topic_of_a_table_is_counted_and_no_poison() -> None:
    found = _sorter("items").sort(_messages(_ITEM, None))
    assert (found.places.tolist(), found.poison, found.num_empty) == ([0], {}, 1)


def test_no_messages_are_no_rows() -> None:
    assert _sorter("likes").sort([]).batch.num_rows == 0


def test_candidates_of_a_served_request_are_rows_and_one_that_is_wrong_is_a_letter_of_all() -> None:
    served = {"sangam_request_log": 1, "request_id": "r", "served_candidates": 2, "at": _AT, "row": ["a"], "hour": [1]}
    good, wrong = served | {"post": [1, 2]}, served | {"post": [1, "x"]}
    uneven, other = served | {"post": [1, 2, 3]}, served | {"sangam_request_log": 2}
    found = _sorter("").sort(_messages(good, wrong, uneven, other, served | {"served_candidates": 10**8}))
    assert found.batch.to_pylist() == [{"post": post, "row": b"a", "at": _AT, "hour": 1} for post in (1, 2)]
    assert found.places.tolist() == [0, 0]
    assert sorted(found.poison) == [1, 2, 3, 4]
    assert tells(found.poison[2], "column 'post'", "got 3 values for 2 candidates")
    assert tells(found.poison[3], "shown", "got 2")
