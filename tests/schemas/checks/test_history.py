"""Features of earlier days: what they allow, and what has no days or not all rows of them."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import changed, loaded, write

_RATE = {"kind": "rate", "task": "like", "by": {"user_id": "string"}, "days": 30, "smoothing": 20}
_COUNT = {"kind": "count", "by": {"user_id": "string", "friend": "string"}, "log": True}
_BOTH: dict[str, Any] = {"features.user_like_rate": _RATE, "features.user_friend_count": _COUNT}
_SPLITS = {"kind": "splits", "format": "parquet", "splits": {"train": "train/*", "eval": "test/*"}}


def test_a_spec_with_both_kinds_is_valid_and_transforms_its_examples_ahead(tmp_path: Path) -> None:
    assert loaded(tmp_path, _BOTH).transforms_ahead
    assert loaded(tmp_path, {**_BOTH, "input": {"transform": "ahead"}}).transforms_ahead
    assert not loaded(tmp_path).transforms_ahead
    assert loaded(tmp_path, {**_BOTH, "event_time": "at", "online": {}}).online is not None


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"data": _SPLITS}, "features.user_like_rate", "(got data of kind splits)"),
        ({"tasks.like.keep_negatives": 0.5}, "tasks.like.keep_negatives", "(got 0.5 with user_friend_count"),
        ({"input": {"transform": "in_pool"}}, "input.transform", "(got 'in_pool' with user_friend_count"),
        ({"features.user_like_rate.task": "lik"}, "features.user_like_rate.task", "(got 'lik') ... like"),
        ({"features.user_like_rate.prior": 1.5}, "features.user_like_rate.prior", "(got 1.5)"),
        ({"features.user_like_rate.clip": [2, 1]}, "features.user_like_rate.clip", "(got [2.0, 1.0])"),
        ({"features.user_like_rate.smoothing": 0}, "features.user_like_rate.smoothing", "(got 0)"),
        ({"features.user_like_rate.days": 0}, "features.user_like_rate.days", "(got 0)"),
        ({"features.user_like_rate.by": {}}, "features.user_like_rate.by", "(got a mapping of none)"),
        ({"features.user_like_rate.by": {"user_id": "int"}}, "features.user_like_rate", "column 'user_id' as int"),
        ({"features.user_like_rate.by": {"like": "int"}}, "features.user_like_rate", "(got 'like')"),
        (
            {"features.user_like_rate.task": "stars", "features.user_like_rate.log": True},
            "features.user_like_rate.log",
            "(got clip None)",
        ),
        ({"features.user_friend_count.task": "like"}, "features.user_friend_count.task", "(got 'like')"),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(_BOTH | changes)))
    assert tells(str(caught.value), place, value), str(caught.value)
