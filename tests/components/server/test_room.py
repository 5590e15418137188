"""The memory that requests may take."""

import json
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from sangam.components.server.request_error import RequestError
from sangam.components.server.room import Room, json_bytes
from tests.errors import tells

REPEATED = 300
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(document=documents)
@example(document=[])
@example(document={})
@example(document={"a": 1})
@example(document=[[1]])
@example(document=2**70)
@example(document=1.5)
@example(document="abc")
def test_the_estimate_is_not_below_what_the_values_take(document: object) -> None:
    raw = b"[" + b",".join([json.dumps(document, ensure_ascii=False).encode()] * REPEATED) + b"]"
    tracemalloc.start()
    try:
        values = from_json(raw)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(values) == REPEATED
    assert taken <= json_bytes(raw) + 2000


def test_requests_share_the_room() -> None:
    room = Room(100)
    room.take(60)
    with pytest.raises(RequestError) as refused:
        room.take(41)
    assert (refused.value.http_status, refused.value.code.name) == (429, "RESOURCE_EXHAUSTED")
    assert tells(refused.value.text, "server", "(got requests of 60 bytes")
    room.take(40)
    room.give(60)
    room.take(60)
    with pytest.raises(RequestError) as refused:
        room.take(101)
    assert refused.value.http_status == 413
